//! The backend behind one object-safe trait: the place where the engine stops being generic.
//!
//! [`Typed`] carries a [`Backend`] and downcasts what it made itself. All unsafe SPI methods are called from
//! here. Not here: any decision about when to call them.

use std::any::Any;
use std::time::Duration;

use smallvec::SmallVec;

use crate::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, Scope, Sequence, Submission,
    TimelinePoint, WaitStatus,
};
use crate::error::{BackendError, BackendErrorKind};
use crate::kernel::{Access, KernelSource};
use crate::operation::{Binding, BlockRange, Operation, ReadCell};
use std::sync::Arc;

/// A native block of whatever backend.
pub(crate) struct NativeBlock(Box<dyn Any + Send + Sync>);

#[cfg(test)]
impl NativeBlock {
    /// A block of no backend, for bookkeeping's own tests.
    pub(crate) fn of_nothing() -> Self {
        NativeBlock(Box::new(()))
    }
}

/// A native kernel of whatever backend.
pub(crate) struct NativeKernel(Box<dyn Any + Send + Sync>);

/// A native arena of whatever backend.
pub(crate) struct NativeScope(Box<dyn Any + Send>);

/// A native recording of whatever backend.
pub(crate) struct NativeSequence(Box<dyn Any + Send>);

/// A range of a native block; `None` for an empty tensor.
#[derive(Clone, Copy)]
pub(crate) struct NativeRange<'a> {
    pub block: Option<&'a NativeBlock>,
    pub offset: u64,
    pub bytes: u64,
}

/// An operation in terms of native objects of whatever backend.
pub(crate) enum NativeOperation<'a> {
    Write {
        target: NativeRange<'a>,
        bytes: &'a Arc<[u8]>,
    },
    Read {
        source: NativeRange<'a>,
        into: &'a Arc<ReadCell>,
    },
    Copy {
        source: NativeRange<'a>,
        target: NativeRange<'a>,
    },
    Fill {
        target: NativeRange<'a>,
        pattern: &'a [u8],
    },
    Dispatch {
        kernel: &'a NativeKernel,
        bindings: SmallVec<[(NativeRange<'a>, Access); 4]>,
        groups: [u32; 3],
        parameters: &'a [u8],
        label: &'a str,
    },
}

/// [`Backend`] without its types. Unsafe methods have the contract of the method of the same name there.
#[allow(clippy::missing_safety_doc, reason = "the contract stands at the SPI's method of the same name")]
pub(crate) trait Driver: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn info(&self) -> BackendInfo;
    fn capabilities(&self) -> Capabilities;
    fn allocate(&self, request: &BlockRequest<'_>) -> Result<NativeBlock, BackendError>;
    unsafe fn free(&self, block: NativeBlock) -> Result<(), BackendError>;
    /// `foreign` is the backend's own type of that name; another one is refused.
    unsafe fn adopt(
        &self,
        foreign: Box<dyn Any + Send>,
        request: &BlockRequest<'_>,
    ) -> Result<NativeBlock, BackendError>;
    unsafe fn release(&self, block: NativeBlock) -> Result<(), BackendError>;
    unsafe fn write_block(&self, block: &NativeBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError>;
    unsafe fn read_block(
        &self,
        block: &NativeBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError>;
    fn compile(&self, source: &KernelSource) -> Result<NativeKernel, BackendError>;
    unsafe fn destroy_kernel(&self, kernel: NativeKernel) -> Result<(), BackendError>;
    fn open_scope(&self, queue: QueueId, label: &str) -> Result<NativeScope, BackendError>;
    unsafe fn close_scope(&self, scope: NativeScope) -> Result<(), BackendError>;
    fn completed(&self, queue: QueueId) -> Result<u64, BackendError>;
    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError>;
    fn interrupt(&self);
    fn memory(&self) -> Result<DriverMemory, BackendError>;
    fn trim(&self) -> Result<u64, BackendError>;
    unsafe fn shutdown(&self) -> Result<(), BackendError>;

    fn open_sequence(&self, scope: &mut NativeScope, label: &str) -> Result<NativeSequence, BackendError>;
    unsafe fn recycle(&self, scope: &mut NativeScope, sequence: NativeSequence);
    unsafe fn reset_scope(&self, scope: &mut NativeScope) -> Result<(), BackendError>;

    unsafe fn record(
        &self,
        sequence: &mut NativeSequence,
        operation: &NativeOperation<'_>,
    ) -> Result<(), BackendError>;
    unsafe fn submit(
        &self,
        sequence: &mut NativeSequence,
        submission: &Submission<'_>,
    ) -> Result<(), BackendError>;
    fn collect(&self, sequence: &mut NativeSequence) -> Result<(), BackendError>;
    unsafe fn reset_sequence(&self, sequence: &mut NativeSequence) -> Result<(), BackendError>;
}

/// Carries one backend.
pub(crate) struct Typed<B: Backend>(pub B);

const FOREIGN: &str = "a native object of another backend reached this driver";

impl NativeBlock {
    fn get<B: Backend>(&self) -> &B::Block {
        self.0.downcast_ref().expect(FOREIGN)
    }

    /// The block, if it is one of `B`.
    pub(crate) fn of<B: Backend>(&self) -> Option<&B::Block> {
        self.0.downcast_ref()
    }
}

impl<'a> NativeRange<'a> {
    fn typed<B: Backend>(self) -> BlockRange<'a, B> {
        BlockRange { block: self.block.map(NativeBlock::get::<B>), offset: self.offset, bytes: self.bytes }
    }
}

fn scope_of<B: Backend>(scope: &mut NativeScope) -> &mut B::Scope {
    scope.0.downcast_mut().expect(FOREIGN)
}

fn sequence_of<B: Backend>(sequence: &mut NativeSequence) -> &mut B::Sequence {
    sequence.0.downcast_mut().expect(FOREIGN)
}

impl<B: Backend> Driver for Typed<B> {
    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn info(&self) -> BackendInfo {
        self.0.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<NativeBlock, BackendError> {
        Ok(NativeBlock(Box::new(self.0.allocate(request)?)))
    }

    unsafe fn free(&self, block: NativeBlock) -> Result<(), BackendError> {
        let block = *block.0.downcast::<B::Block>().expect(FOREIGN);
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.free(block) }
    }

    unsafe fn adopt(
        &self,
        foreign: Box<dyn Any + Send>,
        request: &BlockRequest<'_>,
    ) -> Result<NativeBlock, BackendError> {
        let foreign = foreign.downcast::<B::Foreign>().map_err(|_| {
            let text = format!("this backend adopts {}", std::any::type_name::<B::Foreign>());
            BackendError::new(BackendErrorKind::Unsupported, "adopt", text)
        })?;
        // SAFETY: the caller's contract is this method's.
        let block = unsafe { self.0.adopt(*foreign, request) }?;
        Ok(NativeBlock(Box::new(block)))
    }

    unsafe fn release(&self, block: NativeBlock) -> Result<(), BackendError> {
        let block = *block.0.downcast::<B::Block>().expect(FOREIGN);
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.release(block) }
    }

    unsafe fn write_block(&self, block: &NativeBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.write_block(block.get::<B>(), offset, bytes) }
    }

    unsafe fn read_block(
        &self,
        block: &NativeBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.read_block(block.get::<B>(), offset, bytes) }
    }

    fn compile(&self, source: &KernelSource) -> Result<NativeKernel, BackendError> {
        Ok(NativeKernel(Box::new(self.0.compile(source)?)))
    }

    unsafe fn destroy_kernel(&self, kernel: NativeKernel) -> Result<(), BackendError> {
        let kernel = *kernel.0.downcast::<B::Kernel>().expect(FOREIGN);
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.destroy_kernel(kernel) }
    }

    fn open_scope(&self, queue: QueueId, label: &str) -> Result<NativeScope, BackendError> {
        Ok(NativeScope(Box::new(self.0.open_scope(queue, label)?)))
    }

    unsafe fn close_scope(&self, scope: NativeScope) -> Result<(), BackendError> {
        let scope = *scope.0.downcast::<B::Scope>().expect(FOREIGN);
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.close_scope(scope) }
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        self.0.completed(queue)
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        self.0.wait_any(targets, timeout)
    }

    fn interrupt(&self) {
        self.0.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        self.0.memory()
    }

    fn trim(&self) -> Result<u64, BackendError> {
        self.0.trim()
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { self.0.shutdown() }
    }

    fn open_sequence(&self, scope: &mut NativeScope, label: &str) -> Result<NativeSequence, BackendError> {
        Ok(NativeSequence(Box::new(scope_of::<B>(scope).open_sequence(label)?)))
    }

    unsafe fn recycle(&self, scope: &mut NativeScope, sequence: NativeSequence) {
        let sequence = *sequence.0.downcast::<B::Sequence>().expect(FOREIGN);
        // SAFETY: the caller's contract is this method's.
        unsafe { scope_of::<B>(scope).recycle(sequence) }
    }

    unsafe fn reset_scope(&self, scope: &mut NativeScope) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { scope_of::<B>(scope).reset() }
    }

    unsafe fn record(
        &self,
        sequence: &mut NativeSequence,
        operation: &NativeOperation<'_>,
    ) -> Result<(), BackendError> {
        let sequence = sequence_of::<B>(sequence);
        let typed_bindings: SmallVec<[Binding<'_, B>; 4]>;
        let operation = match operation {
            NativeOperation::Write { target, bytes } => Operation::Write { target: target.typed(), bytes },
            NativeOperation::Read { source, into } => Operation::Read { source: source.typed(), into },
            NativeOperation::Copy { source, target } => {
                Operation::Copy { source: source.typed(), target: target.typed() }
            }
            NativeOperation::Fill { target, pattern } => Operation::Fill { target: target.typed(), pattern },
            NativeOperation::Dispatch { kernel, bindings, groups, parameters, label } => {
                typed_bindings = bindings
                    .iter()
                    .map(|(range, access)| Binding { range: range.typed(), access: *access })
                    .collect();
                Operation::Dispatch {
                    kernel: kernel.0.downcast_ref().expect(FOREIGN),
                    bindings: &typed_bindings,
                    groups: *groups,
                    parameters,
                    label,
                }
            }
        };
        // SAFETY: the caller's contract is this method's.
        unsafe { sequence.record(&operation) }
    }

    unsafe fn submit(
        &self,
        sequence: &mut NativeSequence,
        submission: &Submission<'_>,
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { sequence_of::<B>(sequence).submit(submission) }
    }

    fn collect(&self, sequence: &mut NativeSequence) -> Result<(), BackendError> {
        sequence_of::<B>(sequence).collect()
    }

    unsafe fn reset_sequence(&self, sequence: &mut NativeSequence) -> Result<(), BackendError> {
        // SAFETY: the caller's contract is this method's.
        unsafe { sequence_of::<B>(sequence).reset() }
    }
}
