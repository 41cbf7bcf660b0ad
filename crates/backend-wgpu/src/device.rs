//! What the backend, its arenas and its recordings share: the device, its limits, its caches and its timeline.
//!
//! Every call into wgpu that can fail goes through [`Device::checked`], which turns what wgpu would tell an error
//! handler into a result. Not here: who picks the device (`adapter.rs`), and what the SPI asks (`backend.rs`).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tenure_core::BackendError;
use wgpu::{BufferUsages, ErrorFilter};

use crate::backend::WgpuOptions;
use crate::buffer::ScratchPool;
use crate::bytes::ByteKernels;
use crate::cache::{BindGroups, Bounded};
use crate::error::caught;
use crate::kernel::{KernelKey, WgpuKernel};
use crate::staging::Staging;
use crate::timeline::{Ownership, Timeline};

/// Copies between buffers begin and end at multiples of this: WebGPU's rule.
pub(crate) const WORD: u64 = wgpu::COPY_BUFFER_ALIGNMENT;

/// The limits that matter here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bindings begin at multiples of this.
    pub binding_alignment: u64,
    /// Largest binding, a multiple of [`WORD`].
    pub max_binding: u64,
    /// Largest buffer, a multiple of the alignment that core is told.
    pub max_buffer: u64,
    /// Most workgroups in each direction.
    pub max_groups: u32,
}

impl Limits {
    /// The alignment that core is told: bindings of whole tensors need no copy then.
    pub(crate) fn alignment(&self) -> u64 {
        self.binding_alignment.max(16)
    }

    fn of(device: &wgpu::Device) -> Self {
        let limits = device.limits();
        let mut own = Limits {
            binding_alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(WORD),
            max_binding: limits.max_storage_buffer_binding_size / WORD * WORD,
            // Some drivers say that there is no limit.
            max_buffer: limits.max_buffer_size.min(1 << 48),
            max_groups: limits.max_compute_workgroups_per_dimension,
        };
        own.max_buffer -= own.max_buffer % own.alignment();
        own
    }
}

pub(crate) struct Device {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: Limits,
    pub timeline: Arc<Timeline>,
    pub staging: Arc<Staging>,
    pub scratch: ScratchPool,
    pub bind_groups: Mutex<BindGroups>,
    pub kernels: Mutex<Bounded<KernelKey, WgpuKernel>>,
    pub byte_kernels: Mutex<Option<Arc<ByteKernels>>>,
    /// The usages of blocks.
    pub usages: BufferUsages,
    ids: AtomicU64,
}

impl Device {
    pub(crate) fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        ownership: Ownership,
        options: &WgpuOptions,
    ) -> Arc<Self> {
        let limits = Limits::of(&device);
        Arc::new(Device {
            limits,
            timeline: Timeline::new(ownership),
            staging: Arc::new(Staging::new(options.staging_bytes)),
            scratch: ScratchPool::new(options.staging_bytes),
            bind_groups: Mutex::new(BindGroups::new(options.cached_bind_groups)),
            kernels: Mutex::new(Bounded::new(options.cached_kernels)),
            byte_kernels: Mutex::new(None),
            usages: options.usages | BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            ids: AtomicU64::new(0),
            device,
            queue,
        })
    }

    /// A number that nothing else of this device has.
    pub(crate) fn next_id(&self) -> u64 {
        // Relaxed: only that they differ matters.
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Calls `run`; what wgpu finds wrong meanwhile, on this thread, is its error. Loss comes first (L23).
    ///
    /// A scope for each kind stands around the call, so that neither wgpu's default handler, which panics, nor an
    /// engine's own hears of our errors.
    pub(crate) fn checked<R>(
        &self,
        operation: &'static str,
        run: impl FnOnce() -> R,
    ) -> Result<R, BackendError> {
        self.timeline.check(operation)?;
        let internal = self.device.push_error_scope(ErrorFilter::Internal);
        let validation = self.device.push_error_scope(ErrorFilter::Validation);
        let memory = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let result = run();
        // Scopes are popped in reverse. Memory explains what else is wrong, so it is told first.
        let errors = [at_once(memory.pop()), at_once(validation.pop()), at_once(internal.pop())];
        self.timeline.check(operation)?;
        match errors.into_iter().flatten().next() {
            None => Ok(result),
            Some(error) => Err(caught(operation, error)),
        }
    }

    /// Gives what is cached back to wgpu. Returns the bytes.
    pub(crate) fn trim(&self) -> u64 {
        let groups = self.bind_groups.lock().take_all();
        let kernels = self.kernels.lock().take_all();
        drop((groups, kernels));
        self.staging.trim() + self.scratch.trim()
    }
}

/// The result of a future that is ready: outside browsers a popped scope is.
fn at_once<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => None,
    }
}
