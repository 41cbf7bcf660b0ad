//! The inline backend: it runs everything on the thread that submits, before `submit` returns.
//!
//! It is the smallest backend that keeps the SPI's contract, all in safe code: a start for one's own. Not here: blocks
//! (`block.rs`) and recordings (`recording.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::backend::{BlockRequest, Condvar, WaitStatus};
use tenure_core::kernel::HostKernel;
use tenure_core::{
    Backend, BackendError, BackendErrorKind, BackendInfo, Capabilities, DriverMemory, KernelSource, QueueId,
    TimelinePoint,
};

use crate::block::{ALIGNMENT, InlineBlock};
use crate::recording::{InlineScope, InlineSequence};

const QUEUES: u32 = 2;

/// A device that is the calling thread.
#[derive(Debug, Default)]
pub struct InlineBackend {
    timelines: Arc<Timelines>,
}

/// How far each queue is, and who waits for it.
#[derive(Debug, Default)]
pub struct Timelines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    completed: [u64; QUEUES as usize],
    /// Waits return when the count has grown since they began.
    interrupts: u64,
    waiting: u32,
    /// An interrupt that found nobody waiting is for the next one.
    pending: bool,
}

impl Timelines {
    /// Everything up to `point` has completed.
    pub fn complete(&self, point: TimelinePoint) {
        self.state.lock().completed[point.queue.0 as usize] = point.value;
        self.changed.notify_all();
    }

    fn completed(&self, queue: QueueId) -> u64 {
        self.state.lock().completed[queue.0 as usize]
    }

    fn wait_any(&self, targets: &[TimelinePoint], timeout: Option<Duration>) -> WaitStatus {
        // A moment beyond what the clock can say is no limit.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        let interrupts = state.interrupts;
        loop {
            let reached =
                targets.iter().any(|target| state.completed[target.queue.0 as usize] >= target.value);
            if reached || state.interrupts != interrupts || std::mem::take(&mut state.pending) {
                return WaitStatus::Woken;
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return WaitStatus::TimedOut;
            }
            state.waiting += 1;
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => {
                    self.changed.wait_until(&mut state, at);
                }
            }
            state.waiting -= 1;
        }
    }

    fn interrupt(&self) {
        {
            let mut state = self.state.lock();
            state.interrupts += 1;
            state.pending = state.waiting == 0;
        }
        self.changed.notify_all();
    }
}

impl InlineBackend {
    /// A new device.
    pub fn new() -> Self {
        InlineBackend::default()
    }
}

impl Backend for InlineBackend {
    type Block = InlineBlock;
    type Kernel = HostKernel;
    type Scope = InlineScope;
    type Sequence = InlineSequence;
    /// Blocks are shared: an engine hands in one of its own.
    type Foreign = InlineBlock;

    fn info(&self) -> BackendInfo {
        BackendInfo { name: "inline".to_owned(), device: "the calling thread".to_owned(), software: false }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: QUEUES,
            max_block_bytes: 1 << 30,
            max_binding_bytes: 1 << 30,
            max_groups: [u32::MAX; 3],
            max_blocks: 1 << 20,
            alignment: ALIGNMENT,
            sub_allocation: false,
            reusable_recordings: true,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        }
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<InlineBlock, BackendError> {
        let bytes = usize::try_from(request.bytes).map_err(|_| {
            BackendError::new(BackendErrorKind::OutOfMemory, "allocate", "beyond the address space")
        })?;
        Ok(InlineBlock::new(bytes))
    }

    unsafe fn free(&self, block: InlineBlock) -> Result<(), BackendError> {
        drop(block);
        Ok(())
    }

    unsafe fn adopt(
        &self,
        foreign: InlineBlock,
        request: &BlockRequest<'_>,
    ) -> Result<InlineBlock, BackendError> {
        if foreign.bytes() < request.bytes {
            let text =
                format!("{} bytes for `{}`, which has {}", foreign.bytes(), request.label, request.bytes);
            return Err(BackendError::new(BackendErrorKind::Unsupported, "adopt", text));
        }
        Ok(foreign)
    }

    unsafe fn release(&self, block: InlineBlock) -> Result<(), BackendError> {
        drop(block);
        Ok(())
    }

    unsafe fn write_block(&self, block: &InlineBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        block.write(offset as usize, bytes);
        Ok(())
    }

    unsafe fn read_block(
        &self,
        block: &InlineBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        let offset = offset as usize;
        bytes.copy_from_slice(block.read(offset..offset + bytes.len()).as_slice());
        Ok(())
    }

    fn compile(&self, source: &KernelSource) -> Result<HostKernel, BackendError> {
        source.host_form().cloned().ok_or_else(|| {
            let message = format!("kernel `{}` has no host form", source.label());
            BackendError::new(BackendErrorKind::Unsupported, "compile", message)
        })
    }

    unsafe fn destroy_kernel(&self, kernel: HostKernel) -> Result<(), BackendError> {
        drop(kernel);
        Ok(())
    }

    fn open_scope(&self, _queue: QueueId, _label: &str) -> Result<InlineScope, BackendError> {
        Ok(InlineScope::new(self.timelines.clone()))
    }

    unsafe fn close_scope(&self, scope: InlineScope) -> Result<(), BackendError> {
        drop(scope);
        Ok(())
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        Ok(self.timelines.completed(queue))
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        Ok(self.timelines.wait_any(targets, timeout))
    }

    fn interrupt(&self) {
        self.timelines.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        Err(BackendError::new(BackendErrorKind::Unsupported, "memory", "the heap has no figures"))
    }

    fn trim(&self) -> Result<u64, BackendError> {
        Ok(0)
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
