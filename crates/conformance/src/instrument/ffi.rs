//! The SPI, implemented by passing each call through to the inner backend between the checker's entries.
//!
//! The only file of the package with unsafe code: the inner backend's methods are unsafe, and so are these. What
//! would break the inner backend's contract is refused before, or waited for. Not here: any judgement.

#![deny(clippy::missing_trait_methods)]

use std::time::Duration;

use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, Scope, Sequence, Submission,
    TimelinePoint, WaitStatus,
};
use tenure_core::operation::{Binding, BlockRange, Operation};
use tenure_core::{BackendError, KernelSource};

use super::Instrumented;
use super::calls::CallKind;
use super::checker::Return;
use super::lifetimes::ObjectKind;
use super::native::{SequenceFacts, TrackedBlock, TrackedKernel, TrackedScope, TrackedSequence};
use super::shared::Entry;
use super::submission::{Flight, Named, RangeUse, Recorded};

impl<B: Backend> Backend for Instrumented<B> {
    type Block = TrackedBlock<B>;
    type Kernel = TrackedKernel<B>;
    type Scope = TrackedScope<B>;
    type Sequence = TrackedSequence<B>;
    type Foreign = B::Foreign;

    fn info(&self) -> BackendInfo {
        // The figures are constant, so nothing is asked of a backend that is shut down.
        let _ = self.shared.enter(CallKind::Info);
        self.info.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let _ = self.shared.enter(CallKind::Capabilities);
        self.shared.capabilities.clone()
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<TrackedBlock<B>, BackendError> {
        let kind = CallKind::Allocate;
        self.shared.enter(kind).proceed()?;
        self.shared.answer(kind, self.shared.request_block(request))?;
        let id = self.shared.next_id();
        self.shared.log(|| format!("allocate block {id} `{}`, {} bytes", request.label, request.bytes));
        let result = self.inner.allocate(request);
        let made = result.is_ok().then_some(id);
        self.shared.state.lock().checker.block_made(request, made);
        let inner = self.shared.answer(kind, result)?;
        Ok(TrackedBlock { id, inner })
    }

    unsafe fn free(&self, block: TrackedBlock<B>) -> Result<(), BackendError> {
        let TrackedBlock { id, inner } = block;
        let entry = self.shared.enter(CallKind::Free);
        if let Entry::Closed(error) = entry {
            std::mem::forget(inner);
            return Err(error);
        }
        self.shared.log(|| format!("free block {id}"));
        self.shared.give_back(ObjectKind::Block, id);
        // SAFETY: the caller's contract; where it was broken, `give_back` has waited for the device, and
        // submissions that name the block later are refused.
        let result = unsafe { self.inner.free(inner) };
        self.shared.answer_given_back(CallKind::Free, entry, result)
    }

    unsafe fn adopt(
        &self,
        foreign: B::Foreign,
        request: &BlockRequest<'_>,
    ) -> Result<TrackedBlock<B>, BackendError> {
        let kind = CallKind::Adopt;
        self.shared.enter(kind).proceed()?;
        let id = self.shared.next_id();
        self.shared.log(|| format!("adopt block {id} `{}`, {} bytes", request.label, request.bytes));
        // SAFETY: the caller's contract is this method's.
        let result = unsafe { self.inner.adopt(foreign, request) };
        let inner = self.shared.answer(kind, result)?;
        self.shared.state.lock().checker.block_is_out(ObjectKind::Adopted, request, id);
        Ok(TrackedBlock { id, inner })
    }

    unsafe fn release(&self, block: TrackedBlock<B>) -> Result<(), BackendError> {
        let TrackedBlock { id, inner } = block;
        let entry = self.shared.enter(CallKind::Release);
        if let Entry::Closed(error) = entry {
            std::mem::forget(inner);
            return Err(error);
        }
        self.shared.log(|| format!("release block {id}"));
        self.shared.give_back(ObjectKind::Adopted, id);
        // SAFETY: as in `free`.
        let result = unsafe { self.inner.release(inner) };
        self.shared.answer_given_back(CallKind::Release, entry, result)
    }

    unsafe fn write_block(
        &self,
        block: &TrackedBlock<B>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let kind = CallKind::WriteBlock;
        let range = RangeUse { block: block.id, offset, bytes: bytes.len() as u64, writes: true };
        self.shared.enter(kind).proceed()?;
        self.shared.host_access(kind, &range)?;
        // SAFETY: the range is inside the block, and the device has finished with it: the caller's contract,
        // or `host_access` has waited.
        let result = unsafe { self.inner.write_block(&block.inner, offset, bytes) };
        self.shared.answer(kind, result)
    }

    unsafe fn read_block(
        &self,
        block: &TrackedBlock<B>,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        let kind = CallKind::ReadBlock;
        let range = RangeUse { block: block.id, offset, bytes: bytes.len() as u64, writes: false };
        self.shared.enter(kind).proceed()?;
        self.shared.host_access(kind, &range)?;
        // SAFETY: the range is inside the block, and the device does not write it any more: the caller's
        // contract, or `host_access` has waited.
        let result = unsafe { self.inner.read_block(&block.inner, offset, bytes) };
        self.shared.answer(kind, result)
    }

    fn compile(&self, source: &KernelSource) -> Result<TrackedKernel<B>, BackendError> {
        let kind = CallKind::Compile;
        self.shared.enter(kind).proceed()?;
        let id = self.shared.next_id();
        self.shared.log(|| format!("compile kernel {id} `{}`", source.label()));
        let inner = self.shared.answer(kind, self.inner.compile(source))?;
        self.shared.state.lock().checker.kernel_made(id, source.label());
        Ok(TrackedKernel { id, inner })
    }

    unsafe fn destroy_kernel(&self, kernel: TrackedKernel<B>) -> Result<(), BackendError> {
        let TrackedKernel { id, inner } = kernel;
        let entry = self.shared.enter(CallKind::DestroyKernel);
        if let Entry::Closed(error) = entry {
            std::mem::forget(inner);
            return Err(error);
        }
        self.shared.log(|| format!("destroy_kernel {id}"));
        self.shared.give_back(ObjectKind::Kernel, id);
        // SAFETY: as in `free`.
        let result = unsafe { self.inner.destroy_kernel(inner) };
        self.shared.answer_given_back(CallKind::DestroyKernel, entry, result)
    }

    fn open_scope(&self, queue: QueueId, label: &str) -> Result<TrackedScope<B>, BackendError> {
        let kind = CallKind::OpenScope;
        self.shared.enter(kind).proceed()?;
        if queue.0 >= self.shared.capabilities.queues {
            let problem = format!("an arena of {queue}, there are {}", self.shared.capabilities.queues);
            return Err(self.shared.state.lock().checker.refuse(kind, problem));
        }
        let id = self.shared.next_id();
        self.shared.log(|| format!("open_scope {id} `{label}` on {queue}"));
        let inner = self.shared.answer(kind, self.inner.open_scope(queue, label))?;
        self.shared.state.lock().checker.arena_made(id, label);
        Ok(TrackedScope { id, queue, inner, shared: self.shared.clone() })
    }

    unsafe fn close_scope(&self, scope: TrackedScope<B>) -> Result<(), BackendError> {
        let TrackedScope { id, inner, .. } = scope;
        let kind = CallKind::CloseScope;
        let entry = self.shared.enter(kind);
        if let Entry::Closed(error) = entry {
            std::mem::forget(inner);
            return Err(error);
        }
        self.shared.log(|| format!("close_scope {id}"));
        let whole = {
            let mut state = self.shared.state.lock();
            let whole = state.checker.arena_is_whole(kind, id);
            state.checker.arena_given_back(id);
            whole
        };
        if !whole {
            // Its sequences may still be used: it stays open for ever, and the violation says so.
            std::mem::forget(inner);
            return entry.proceed();
        }
        // SAFETY: no sequence made from it is out.
        let result = unsafe { self.inner.close_scope(inner) };
        self.shared.answer_given_back(kind, entry, result)
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        let kind = CallKind::Completed;
        self.shared.enter(kind).proceed()?;
        let Some(before) = self.shared.reported(queue) else {
            let problem = format!("{queue}, there are {}", self.shared.capabilities.queues);
            return Err(self.shared.state.lock().checker.refuse(kind, problem));
        };
        let value = self.shared.answer(kind, self.inner.completed(queue))?;
        let reported = self.shared.state.lock().checker.completed(queue, value, before);
        self.shared.log(|| format!("completed {queue}: {reported}"));
        Ok(reported)
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        self.shared.enter(CallKind::WaitAny).proceed()?;
        self.wait(targets, timeout)
    }

    fn interrupt(&self) {
        if let Entry::Closed(_) = self.shared.enter(CallKind::Interrupt) {
            return;
        }
        self.shared.log(|| "interrupt".to_owned());
        self.shared.interrupt_gates();
        self.inner.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        self.shared.enter(CallKind::Memory).proceed()?;
        self.shared.answer(CallKind::Memory, self.inner.memory())
    }

    fn trim(&self) -> Result<u64, BackendError> {
        self.shared.enter(CallKind::Trim).proceed()?;
        self.shared.log(|| "trim".to_owned());
        self.shared.answer(CallKind::Trim, self.inner.trim())
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        let entry = self.shared.enter(CallKind::Shutdown);
        if let Entry::Closed(error) = entry {
            return Err(error);
        }
        self.shared.log(|| "shutdown".to_owned());
        self.shared.begin_shutdown();
        // SAFETY: every call from now on is refused, and what was out is in the violations; the device has
        // finished, or is lost.
        let result = unsafe { self.inner.shutdown() };
        self.shared.end_shutdown();
        self.shared.answer_given_back(CallKind::Shutdown, entry, result)
    }
}

impl<B: Backend> Scope<Instrumented<B>> for TrackedScope<B> {
    fn open_sequence(&mut self, label: &str) -> Result<TrackedSequence<B>, BackendError> {
        let kind = CallKind::OpenSequence;
        self.shared.enter(kind).proceed()?;
        let id = self.shared.next_id();
        self.shared.log(|| format!("open_sequence {id} `{label}` from arena {}", self.id));
        let inner = self.shared.answer(kind, self.inner.open_sequence(label))?;
        let facts = SequenceFacts {
            id,
            label: label.to_owned(),
            arena: self.id,
            queue: self.queue,
            recorded: Recorded::default(),
            flight: Flight::Idle,
        };
        self.shared.state.lock().checker.sequence_made(&facts);
        Ok(TrackedSequence { inner, shared: self.shared.clone(), facts })
    }

    unsafe fn recycle(&mut self, sequence: TrackedSequence<B>) {
        let TrackedSequence { inner, facts, .. } = sequence;
        if let Entry::Closed(_) = self.shared.enter(CallKind::Recycle) {
            std::mem::forget(inner);
            return;
        }
        self.shared.log(|| format!("recycle sequence {}", facts.id));
        if self.shared.give_sequence_back(&facts, self.id) == Return::Foreign {
            // No arena may take it: it is lost, and the violation says so.
            std::mem::forget(inner);
            return;
        }
        // SAFETY: it came from this arena, and the device has finished with it: the caller's contract, or
        // `give_sequence_back` has waited.
        unsafe { self.inner.recycle(inner) };
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        let kind = CallKind::ResetScope;
        self.shared.enter(kind).proceed()?;
        self.shared.log(|| format!("reset arena {}", self.id));
        self.shared.check_arena(kind, self.id)?;
        // SAFETY: no sequence made from it is out.
        let result = unsafe { self.inner.reset() };
        self.shared.answer(kind, result)
    }
}

impl<B: Backend> Sequence<Instrumented<B>> for TrackedSequence<B> {
    unsafe fn record(&mut self, operation: &Operation<'_, Instrumented<B>>) -> Result<(), BackendError> {
        let kind = CallKind::Record;
        let named = Named::of(operation, &self.shared.capabilities);
        let admitted = self
            .shared
            .enter(kind)
            .proceed()
            .and_then(|()| self.shared.state.lock().checker.check_record(&self.facts, &named));
        let result = match admitted {
            Ok(()) => {
                self.shared.log(|| format!("record in sequence {}", self.facts.id));
                // SAFETY: what the operation names is alive, in range and free of overlapping writes, and the
                // sequence is not with the device: `check_record` refuses the rest.
                unsafe { record_inner(&mut self.inner, operation) }
            }
            Err(error) => Err(error),
        };
        match &result {
            Ok(()) => self.facts.recorded.add(&named),
            Err(_) => self.facts.recorded.incomplete = true,
        }
        self.shared.answer(kind, result)
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        let kind = CallKind::Submit;
        self.shared.enter(kind).proceed()?;
        let point = submission.point;
        self.shared.answer(kind, self.shared.begin_submit(&self.facts, submission))?;
        self.shared.log(|| {
            let waits: Vec<String> = submission.waits.iter().map(|wait| wait.value.to_string()).collect();
            let after = if waits.is_empty() { String::new() } else { format!(" after {}", waits.join(", ")) };
            format!("submit sequence {} as point {} of {}{after}", self.facts.id, point.value, point.queue)
        });
        // SAFETY: the sequence is not with the device, what it names is alive, and points rise with no other
        // submission to the queue at the same time: `begin_submit` refuses the rest. What is given back later
        // is waited for.
        let result = unsafe { self.inner.submit(submission) };
        self.shared.end_submit(&self.facts, point, result.is_ok());
        self.shared.answer(kind, result)?;
        self.facts.recorded.submissions += 1;
        self.facts.flight = Flight::Submitted(point.value);
        Ok(())
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        let kind = CallKind::Collect;
        let entry = self.shared.enter(kind);
        if let Entry::Closed(error) = entry {
            return Err(error);
        }
        self.shared.log(|| format!("collect sequence {}", self.facts.id));
        let running = self.shared.state.lock().checker.check_collect(&self.facts);
        if running {
            self.shared.settle();
        }
        if self.facts.flight == Flight::Idle {
            return entry.proceed();
        }
        self.facts.flight = Flight::Idle;
        // Told to fail or not, the inner backend is collected from: it expects it once a submission.
        let result = self.inner.collect();
        self.shared.answer_given_back(kind, entry, result)
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        let kind = CallKind::ResetSequence;
        self.shared.enter(kind).proceed()?;
        self.shared.log(|| format!("reset sequence {}", self.facts.id));
        self.shared.state.lock().checker.check_reset(&self.facts)?;
        // SAFETY: the sequence is not with the device: `check_reset` refuses the rest.
        let result = unsafe { self.inner.reset() };
        if result.is_ok() {
            self.facts.recorded = Recorded::default();
        }
        self.shared.answer(kind, result)
    }
}

/// Records the operation in the inner sequence.
///
/// # Safety
/// As [`Sequence::record`].
unsafe fn record_inner<B: Backend>(
    sequence: &mut B::Sequence,
    operation: &Operation<'_, Instrumented<B>>,
) -> Result<(), BackendError> {
    let inner_bindings: Vec<Binding<'_, B>>;
    let inner = match operation {
        Operation::Write { target, bytes } => Operation::Write { target: inner_range(target), bytes },
        Operation::Read { source, into } => Operation::Read { source: inner_range(source), into },
        Operation::Copy { source, target } => {
            Operation::Copy { source: inner_range(source), target: inner_range(target) }
        }
        Operation::Fill { target, pattern } => Operation::Fill { target: inner_range(target), pattern },
        Operation::Dispatch { kernel, bindings, groups, parameters, label } => {
            inner_bindings = bindings
                .iter()
                .map(|binding| Binding { range: inner_range(&binding.range), access: binding.access })
                .collect();
            Operation::Dispatch {
                kernel: &kernel.inner,
                bindings: &inner_bindings,
                groups: *groups,
                parameters,
                label,
            }
        }
    };
    // SAFETY: the caller's contract is this function's.
    unsafe { sequence.record(&inner) }
}

fn inner_range<'a, B: Backend>(range: &BlockRange<'a, Instrumented<B>>) -> BlockRange<'a, B> {
    BlockRange { block: range.block.map(|block| &block.inner), offset: range.offset, bytes: range.bytes }
}
