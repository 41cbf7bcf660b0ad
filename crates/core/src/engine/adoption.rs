//! Memory of the host engine in tensors: taking it in, and giving it back by the engine's own callback (L4, L6).
//!
//! Not here: when the device has finished with it (`engine/timeline.rs`), which is as for any tensor.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use crate::backend::BlockRequest;
use crate::engine::Engine;
use crate::engine::driver::NativeBlock;
use crate::engine::making::TensorRequest;
use crate::engine::quiet::quietly;
use crate::engine::scopes::ScopeCell;
use crate::engine::tensors::Memory;
use crate::error::{BackendError, BackendErrorKind, Error};
use crate::manager::Manager;
use crate::report::Usage;
use crate::scope_ref::ScopeRef;
use crate::tensor::{Element, Tensor, TensorOptions, TensorRef, element_type};

/// Tells the host engine that its memory is its own again.
type ReleaseCallback = Box<dyn FnOnce() + Send>;

/// Memory of the host engine, as long as a tensor or the device has it.
pub(crate) struct AdoptedMemory {
    pub native: Arc<NativeBlock>,
    pub bytes: u64,
    release: ReleaseCallback,
}

impl Engine {
    /// Makes a tensor of memory of the host engine. `release` is called once, also on an error.
    ///
    /// # Safety
    /// As [`Manager::adopt_tensor`].
    unsafe fn adopt_memory(
        self: &Arc<Self>,
        foreign: Box<dyn Any + Send>,
        request: TensorRequest,
        release: ReleaseCallback,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<TensorRef, Error> {
        let taken = self.enter().and_then(|pass| {
            let bytes = self.check_request(&request, scope)?;
            let asked = BlockRequest { bytes, label: request.label.as_str() };
            // SAFETY: by the caller's contract the memory is valid and nobody else's until the callback is called, which
            // is after the block was released.
            let native = unsafe { self.driver.adopt(foreign, &asked) };
            Ok((pass, native.map_err(|error| self.backend_error(error))?, bytes))
        });
        let (_pass, native, bytes) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                // No lock is held, and this thread is outside the gate (L15).
                self.call_release(release);
                return Err(error);
            }
        };
        self.count_adopted(|adopted| *adopted = *adopted + Usage { bytes, blocks: 1 });
        let adopted = AdoptedMemory { native: Arc::new(native), bytes, release };
        self.install_tensor(request, bytes, Some(Memory::Adopted(adopted)), scope)
    }

    /// Gives memory back to the host engine. The device has finished with it, and no lock is held.
    pub(crate) fn release_adopted(&self, adopted: AdoptedMemory) {
        let AdoptedMemory { native, bytes, release } = adopted;
        let native = Arc::into_inner(native).expect("memory that a tensor gave up has no other owner");
        match self.driver_pass() {
            Some(_pass) if !(self.is_lost() && self.capabilities.abandons_on_loss) => {
                // SAFETY: its tensor has ended and its frontier has retired, so the device has finished with every
                // submission that named it (L4), and recordings that name it are stale and refused.
                if let Err(error) = unsafe { self.driver.release(native) } {
                    self.note_backend_error(&error);
                    self.record_teardown_error(Error::Backend(error));
                }
            }
            // L23: what the driver had of it went with the device.
            _ => std::mem::forget(native),
        }
        self.count_adopted(|adopted| {
            *adopted = Usage { bytes: adopted.bytes - bytes, blocks: adopted.blocks - 1 };
        });
        self.call_release(release);
    }

    fn count_adopted(&self, change: impl FnOnce(&mut Usage)) {
        change(&mut self.pool.lock().adopted);
    }

    fn call_release(&self, release: ReleaseCallback) {
        if quietly(release).is_none() {
            let text = "the release callback of adopted memory panicked";
            let error = BackendError::new(BackendErrorKind::Driver, "release", text);
            self.record_teardown_error(Error::Backend(error));
        }
    }
}

impl Manager {
    /// Makes a tensor of memory that the host engine owns, without a copy: a `wgpu::Buffer`, a buffer of Vulkan, a device
    /// pointer. `F` is what the backend calls its [`Foreign`](crate::Backend::Foreign) memory. The tensor is as any other
    /// of the manager, but for where its bytes are counted: [`MemoryReport::adopted`](crate::MemoryReport::adopted), no budget.
    ///
    /// `release` is called exactly once: when the tensor's life has ended and the device has finished with the memory, or
    /// right away if this returns an error. It runs on the cleanup thread (at the latest when the manager closes), under
    /// no lock of tenure's.
    ///
    /// # Safety
    /// Until `release` is called `foreign` stays valid, and nobody uses the memory but through the tensor; or the engine
    /// orders its own uses against those of tenure: its work is complete before it is submitted here, and begins after
    /// [`Execution::wait`](crate::Execution::wait).
    ///
    /// # Errors
    /// As [`Manager::tensor`] but for memory; [`Error::Backend`] with `Unsupported` if the backend's type is another than
    /// `F`, or the memory is too small or not fit.
    #[track_caller]
    pub unsafe fn adopt_tensor<T: Element, F: Send + 'static>(
        &self,
        foreign: F,
        options: TensorOptions,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Tensor<T>, Error> {
        let request = request::<T>(options, Location::caller());
        // SAFETY: the caller's contract is this method's.
        let handle =
            unsafe { self.engine().adopt_memory(Box::new(foreign), request, Box::new(release), None) };
        handle.map(Tensor::new)
    }
}

impl ScopeRef {
    /// As [`Manager::adopt_tensor`], local to this scope: the tensor's life ends when the scope finishes (L2).
    ///
    /// # Safety
    /// As [`Manager::adopt_tensor`].
    ///
    /// # Errors
    /// As [`Manager::adopt_tensor`], and [`Error::ScopeFinishing`].
    #[track_caller]
    pub unsafe fn adopt_tensor<T: Element, F: Send + 'static>(
        &self,
        foreign: F,
        options: TensorOptions,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Tensor<T>, Error> {
        let request = request::<T>(options, Location::caller());
        let scope = &self.cell;
        // SAFETY: the caller's contract is this method's.
        let handle =
            unsafe { scope.engine.adopt_memory(Box::new(foreign), request, Box::new(release), Some(scope)) };
        handle.map(Tensor::new)
    }
}

fn request<T: Element>(options: TensorOptions, site: crate::error::Site) -> TensorRequest {
    TensorRequest { label: options.label, shape: options.shape, element: element_type::<T>(), site }
}
