//! A backend with no device at all: its calls keep the SPI's promises and do nothing else, so that what is left is the
//! cost of core.
//!
//! Submissions have completed when `submit` returns. Not here: anything that a kernel could compute; contents of blocks
//! are not kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::backend::{BlockRequest, Scope, Sequence, Submission, WaitStatus};
use tenure_core::operation::Operation;
use tenure_core::{
    Backend, BackendError, BackendErrorKind, BackendInfo, Capabilities, DriverMemory, Error, KernelSource,
    Manager, ManagerOptions, QueueId, TimelinePoint, TrimPolicy,
};

/// The backend.
#[derive(Debug)]
pub struct NullBackend {
    timeline: Arc<Timeline>,
    sub_allocation: bool,
}

/// How far the one queue is.
#[derive(Debug, Default)]
struct Timeline {
    completed: AtomicU64,
    interrupts: Mutex<Interrupts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Interrupts {
    count: u64,
    waiting: u32,
    /// One that found nobody waiting is for the next wait.
    pending: bool,
}

/// A block of nothing.
#[derive(Debug)]
pub struct NullBlock;

/// An arena of nothing.
#[derive(Debug)]
pub struct NullScope(Arc<Timeline>);

/// A recording of nothing.
#[derive(Debug)]
pub struct NullSequence(Arc<Timeline>);

impl NullBackend {
    /// A device of nothing whose blocks may be cut into ranges, as CUDA's and Vulkan's may.
    pub fn new() -> Self {
        NullBackend { timeline: Arc::default(), sub_allocation: true }
    }

    /// One whose blocks may not, as wgpu's.
    pub fn whole_blocks() -> Self {
        NullBackend { sub_allocation: false, ..NullBackend::new() }
    }
}

impl Default for NullBackend {
    fn default() -> Self {
        NullBackend::new()
    }
}

/// A manager over [`NullBackend::new`] that trims only when asked.
///
/// # Errors
/// As [`Manager::open_with`].
pub fn manager() -> Result<Manager, Error> {
    Manager::open_with(NullBackend::new(), ManagerOptions::builder().trim(TrimPolicy::Never).build())
}

impl Timeline {
    fn wait(&self, targets: &[TimelinePoint], timeout: Option<Duration>) -> WaitStatus {
        let reached = |target: &TimelinePoint| self.completed.load(Ordering::Acquire) >= target.value;
        if targets.iter().any(reached) {
            return WaitStatus::Woken;
        }
        // Every target was submitted, and what is submitted has completed: only an interrupt is left to wait for.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut interrupts = self.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = interrupts.count;
        while interrupts.count == seen && !std::mem::take(&mut interrupts.pending) {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return WaitStatus::TimedOut;
            }
            interrupts.waiting += 1;
            interrupts = match left {
                None => self.changed.wait(interrupts).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(interrupts, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            interrupts.waiting -= 1;
        }
        WaitStatus::Woken
    }

    fn interrupt(&self) {
        let mut interrupts = self.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        interrupts.count += 1;
        interrupts.pending = interrupts.waiting == 0;
        drop(interrupts);
        self.changed.notify_all();
    }
}

impl Backend for NullBackend {
    type Block = NullBlock;
    type Kernel = ();
    type Scope = NullScope;
    type Sequence = NullSequence;
    type Foreign = ();

    fn info(&self) -> BackendInfo {
        BackendInfo { name: "null".to_owned(), device: "none".to_owned(), software: true }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 1,
            max_block_bytes: 1 << 40,
            max_binding_bytes: 1 << 40,
            max_groups: [u32::MAX; 3],
            max_blocks: 1 << 40,
            alignment: 256,
            sub_allocation: self.sub_allocation,
            reusable_recordings: true,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        }
    }

    fn allocate(&self, _request: &BlockRequest<'_>) -> Result<NullBlock, BackendError> {
        Ok(NullBlock)
    }

    unsafe fn free(&self, _block: NullBlock) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn adopt(&self, _foreign: (), _request: &BlockRequest<'_>) -> Result<NullBlock, BackendError> {
        Ok(NullBlock)
    }

    unsafe fn release(&self, _block: NullBlock) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn write_block(
        &self,
        _block: &NullBlock,
        _offset: u64,
        _bytes: &[u8],
    ) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn read_block(
        &self,
        _block: &NullBlock,
        _offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        bytes.fill(0);
        Ok(())
    }

    fn compile(&self, _source: &KernelSource) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn destroy_kernel(&self, _kernel: ()) -> Result<(), BackendError> {
        Ok(())
    }

    fn open_scope(&self, _queue: QueueId, _label: &str) -> Result<NullScope, BackendError> {
        Ok(NullScope(self.timeline.clone()))
    }

    unsafe fn close_scope(&self, _scope: NullScope) -> Result<(), BackendError> {
        Ok(())
    }

    fn completed(&self, _queue: QueueId) -> Result<u64, BackendError> {
        Ok(self.timeline.completed.load(Ordering::Acquire))
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        Ok(self.timeline.wait(targets, timeout))
    }

    fn interrupt(&self) {
        self.timeline.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        Err(BackendError::new(BackendErrorKind::Unsupported, "memory", "there is no device"))
    }

    fn trim(&self) -> Result<u64, BackendError> {
        Ok(0)
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Scope<NullBackend> for NullScope {
    fn open_sequence(&mut self, _label: &str) -> Result<NullSequence, BackendError> {
        Ok(NullSequence(self.0.clone()))
    }

    unsafe fn recycle(&mut self, sequence: NullSequence) {
        drop(sequence);
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Sequence<NullBackend> for NullSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, NullBackend>) -> Result<(), BackendError> {
        if let Operation::Read { source, into } = operation {
            into.deliver(vec![0; source.bytes as usize]);
        }
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        self.0.completed.store(submission.point.value, Ordering::Release);
        Ok(())
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::op;

    #[test]
    fn a_submission_has_completed_at_once() {
        let manager = manager().unwrap();
        let scope = manager.scope("scope").unwrap();
        let tensor = manager.tensor::<u32>(64).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        for _ in 0..3 {
            sequence.run().unwrap();
        }
        assert_eq!(tensor.read().unwrap(), [0; 64]);
        assert_eq!(scope.finish_blocking().unwrap().executions, 3);
        drop(tensor);
        assert!(manager.close().unwrap().is_clean());
    }
}
