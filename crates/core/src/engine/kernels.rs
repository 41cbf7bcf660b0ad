//! Compiled kernels: one entry a kernel, shared by handles and recordings, whose native kernel goes with the
//! last of them or with the manager.

use std::sync::Arc;

use slotmap::new_key_type;

use crate::engine::Engine;
use crate::engine::driver::NativeKernel;
use crate::engine::jobs::Job;
use crate::engine::quiet::quietly;
use crate::error::{BackendError, BackendErrorKind, Error, ResourceKind};
use crate::kernel::{Access, KernelSource};
use crate::sync::Mutex;

new_key_type! {
    pub(crate) struct KernelKey;
}

pub(crate) struct KernelEntry {
    pub engine: Arc<Engine>,
    label: Arc<str>,
    bindings: Arc<[Access]>,
    key: KernelKey,
    native: Arc<Mutex<Option<Arc<NativeKernel>>>>,
}

/// What the engine keeps of a kernel, so that closing can destroy it under live handles.
pub(crate) type KernelSlot = Arc<Mutex<Option<Arc<NativeKernel>>>>;

impl KernelEntry {
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn shared_label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn bindings(&self) -> &[Access] {
        &self.bindings
    }

    /// The native kernel.
    ///
    /// # Errors
    /// `Stale` once the manager has closed.
    pub(crate) fn native(&self) -> Result<Arc<NativeKernel>, Error> {
        self.native.lock().clone().ok_or_else(|| Error::Stale {
            kind: ResourceKind::Kernel,
            label: self.label.clone(),
            why: self.engine.closed_reason(),
        })
    }
}

impl Engine {
    pub(crate) fn compile(self: &Arc<Self>, source: &KernelSource) -> Result<Arc<KernelEntry>, Error> {
        self.with_room(|| self.compile_once(source))
    }

    fn compile_once(self: &Arc<Self>, source: &KernelSource) -> Result<Arc<KernelEntry>, Error> {
        let _pass = self.enter()?;
        if let Some(lost) = self.lost_error() {
            return Err(lost);
        }
        let native = self.driver.compile(source).map_err(|error| self.backend_error(error))?;
        let native: KernelSlot = Arc::new(Mutex::new(Some(Arc::new(native))));
        let key = self.kernels.lock().insert(native.clone());
        Ok(Arc::new(KernelEntry {
            engine: self.clone(),
            label: source.shared_label(),
            bindings: source.shared_bindings(),
            key,
            native,
        }))
    }

    /// Destroys a kernel that no handle and no recording names. Runs destructors of user code: the caller
    /// holds no lock, and is the cleanup thread or a closing one (L15).
    pub(crate) fn destroy_kernel(&self, native: Arc<NativeKernel>) {
        let native = Arc::into_inner(native).expect("a kernel that nothing names has one owner");
        // Closing waits for it, on whatever thread this is.
        let Some(_pass) = self.driver_pass() else {
            std::mem::forget(native);
            return;
        };
        if self.is_lost() && self.capabilities.abandons_on_loss {
            std::mem::forget(native);
            return;
        }
        // SAFETY: recordings own an entry until their last execution retired (L5), and entries are gone or
        // the manager has closed, after which nothing is submitted.
        let answer = quietly(|| unsafe { self.driver.destroy_kernel(native) });
        match answer {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.note_backend_error(&error);
                self.record_teardown_error(Error::Backend(error));
            }
            // What the kernel captured panicked in its destructor.
            None => self.record_teardown_error(Error::Backend(BackendError::new(
                BackendErrorKind::Driver,
                "destroy_kernel",
                "what the kernel captured panicked when it was dropped",
            ))),
        }
    }
}

impl Drop for KernelEntry {
    fn drop(&mut self) {
        if self.engine.is_foreign_process() {
            return;
        }
        // Closing waits until the kernel is in the queue.
        let _pass = self.engine.gate.enter();
        let mut kernels = self.engine.kernels.lock();
        // Closing may have destroyed it already.
        let Some(native) = kernels.remove(self.key).and_then(|slot| slot.lock().take()) else { return };
        // A host kernel's captures are user code: they are dropped on the cleanup thread (L15). Pushed under the
        // lock, so that a closing manager finds the kernel either here or in the queue.
        self.engine.push_job(Job::DestroyKernel(native));
    }
}
