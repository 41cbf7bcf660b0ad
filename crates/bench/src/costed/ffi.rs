//! The calls of the decorator: each does what the backend's own of the same name does.
//!
//! The safety of all of them is the same: the contract of a method is that of the method of the same name that it calls, on
//! the same objects, once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure::backend::{BlockRequest, Scope, Sequence, Submission, WaitStatus};
use tenure::operation::{Binding, BlockRange, Operation};
use tenure::{
    Backend, BackendError, BackendInfo, Capabilities, DriverMemory, KernelSource, QueueId, TimelinePoint,
};

use super::{Costed, timed};

/// The backend's arena.
pub struct CostedScope<B: Backend>(B::Scope);

/// The backend's recording.
pub struct CostedSequence<B: Backend>(B::Sequence);

impl<B: Backend> Backend for Costed<B> {
    type Block = B::Block;
    type Kernel = B::Kernel;
    type Scope = CostedScope<B>;
    type Sequence = CostedSequence<B>;
    type Foreign = B::Foreign;

    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<B::Block, BackendError> {
        timed(&self.tally.allocating, self.costs.allocate, || self.inner.allocate(request))
    }

    unsafe fn free(&self, block: B::Block) -> Result<(), BackendError> {
        self.tally.frees.fetch_add(1, Ordering::Relaxed);
        timed(&self.tally.giving_back, self.costs.free, || {
            // SAFETY: the caller keeps the contract of this method.
            unsafe { self.inner.free(block) }
        })
    }

    unsafe fn adopt(
        &self,
        foreign: B::Foreign,
        request: &BlockRequest<'_>,
    ) -> Result<B::Block, BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.adopt(foreign, request) }
    }

    unsafe fn release(&self, block: B::Block) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.release(block) }
    }

    unsafe fn write_block(&self, block: &B::Block, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.write_block(block, offset, bytes) }
    }

    unsafe fn read_block(&self, block: &B::Block, offset: u64, bytes: &mut [u8]) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.read_block(block, offset, bytes) }
    }

    fn compile(&self, source: &KernelSource) -> Result<B::Kernel, BackendError> {
        self.inner.compile(source)
    }

    unsafe fn destroy_kernel(&self, kernel: B::Kernel) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.destroy_kernel(kernel) }
    }

    fn open_scope(&self, queue: QueueId, label: &str) -> Result<CostedScope<B>, BackendError> {
        self.inner.open_scope(queue, label).map(CostedScope)
    }

    unsafe fn close_scope(&self, scope: CostedScope<B>) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.close_scope(scope.0) }
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        self.inner.completed(queue)
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        self.inner.wait_any(targets, timeout)
    }

    fn interrupt(&self) {
        self.inner.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        self.inner.memory()
    }

    fn trim(&self) -> Result<u64, BackendError> {
        timed(&self.tally.giving_back, Duration::ZERO, || self.inner.trim())
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.inner.shutdown() }
    }
}

impl<B: Backend> Scope<Costed<B>> for CostedScope<B> {
    fn open_sequence(&mut self, label: &str) -> Result<CostedSequence<B>, BackendError> {
        self.0.open_sequence(label).map(CostedSequence)
    }

    unsafe fn recycle(&mut self, sequence: CostedSequence<B>) {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.0.recycle(sequence.0) }
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.0.reset() }
    }
}

impl<B: Backend> Sequence<Costed<B>> for CostedSequence<B> {
    unsafe fn record(&mut self, operation: &Operation<'_, Costed<B>>) -> Result<(), BackendError> {
        let bindings: Vec<Binding<'_, B>>;
        let operation: Operation<'_, B> = match operation {
            Operation::Write { target, bytes } => Operation::Write { target: range(target), bytes },
            Operation::Read { source, into } => Operation::Read { source: range(source), into },
            Operation::Copy { source, target } => {
                Operation::Copy { source: range(source), target: range(target) }
            }
            Operation::Fill { target, pattern } => Operation::Fill { target: range(target), pattern },
            Operation::Dispatch { kernel, bindings: bound, groups, parameters, label } => {
                let own =
                    bound.iter().map(|bound| Binding { range: range(&bound.range), access: bound.access });
                bindings = own.collect();
                Operation::Dispatch { kernel, bindings: &bindings, groups: *groups, parameters, label }
            }
        };
        // SAFETY: the caller keeps the contract of this method, and the operation names the same things.
        unsafe { self.0.record(&operation) }
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.0.submit(submission) }
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        self.0.collect()
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { self.0.reset() }
    }
}

fn range<'a, B: Backend>(range: &BlockRange<'a, Costed<B>>) -> BlockRange<'a, B> {
    BlockRange { block: range.block, offset: range.offset, bytes: range.bytes }
}
