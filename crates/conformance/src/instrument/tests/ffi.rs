//! The unsafe calls of the SPI on the tiny backend, made safe: it has nothing that a wrong order could break.
//!
//! Not here: the tests.

use tenure_core::BackendError;
use tenure_core::backend::{Backend, BlockRequest, Scope, Sequence, Submission};
use tenure_core::operation::Operation;

use super::tiny::Tiny;
use crate::instrument::{Instrumented, TrackedBlock, TrackedKernel, TrackedScope, TrackedSequence};

type Answer = Result<(), BackendError>;

pub(super) fn free(backend: &Instrumented<Tiny>, block: TrackedBlock<Tiny>) -> Answer {
    // SAFETY: the tiny backend has no memory: every order of calls is defined.
    unsafe { backend.free(block) }
}

pub(super) fn adopt(
    backend: &Instrumented<Tiny>,
    request: &BlockRequest<'_>,
) -> Result<TrackedBlock<Tiny>, BackendError> {
    // SAFETY: as in `free`.
    unsafe { backend.adopt((), request) }
}

pub(super) fn release(backend: &Instrumented<Tiny>, block: TrackedBlock<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.release(block) }
}

pub(super) fn write_block(
    backend: &Instrumented<Tiny>,
    block: &TrackedBlock<Tiny>,
    offset: u64,
    bytes: &[u8],
) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.write_block(block, offset, bytes) }
}

pub(super) fn read_block(
    backend: &Instrumented<Tiny>,
    block: &TrackedBlock<Tiny>,
    offset: u64,
    bytes: &mut [u8],
) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.read_block(block, offset, bytes) }
}

pub(super) fn destroy_kernel(backend: &Instrumented<Tiny>, kernel: TrackedKernel<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.destroy_kernel(kernel) }
}

pub(super) fn close_scope(backend: &Instrumented<Tiny>, scope: TrackedScope<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.close_scope(scope) }
}

pub(super) fn shutdown(backend: &Instrumented<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { backend.shutdown() }
}

pub(super) fn recycle(scope: &mut TrackedScope<Tiny>, sequence: TrackedSequence<Tiny>) {
    // SAFETY: as in `free`.
    unsafe { scope.recycle(sequence) }
}

pub(super) fn reset_scope(scope: &mut TrackedScope<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { Scope::reset(scope) }
}

pub(super) fn record(
    sequence: &mut TrackedSequence<Tiny>,
    operation: &Operation<'_, Instrumented<Tiny>>,
) -> Answer {
    // SAFETY: as in `free`.
    unsafe { sequence.record(operation) }
}

pub(super) fn submit(sequence: &mut TrackedSequence<Tiny>, submission: &Submission<'_>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { sequence.submit(submission) }
}

pub(super) fn reset_sequence(sequence: &mut TrackedSequence<Tiny>) -> Answer {
    // SAFETY: as in `free`.
    unsafe { Sequence::reset(sequence) }
}
