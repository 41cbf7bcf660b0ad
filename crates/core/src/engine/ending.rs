//! The steps of finishing that call no user code: what failed, what goes, and the end itself.
//!
//! When they come is decided in `engine/finish.rs`.

use std::sync::Arc;

use crate::engine::execution::ExecutionCell;
use crate::engine::scopes::{Phase, ScopeCell, ScopeInner};
use crate::engine::wakers::wake_each;
use crate::error::{CleanupFailure, Error};
use crate::event::EventKind;
use crate::report::{CleanupError, CleanupErrorKind, MAX_REPORTED_ERRORS, Outcome, ScopeReport};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use crate::tensor::TensorHandle;

impl ScopeCell {
    /// Adds failed executions that nobody has looked at, each before what came after it (L13).
    pub(crate) fn report_failures(&self, inner: &mut ScopeInner, failures: &[(usize, Arc<ExecutionCell>)]) {
        let mut later = std::mem::take(&mut inner.errors).into_iter().enumerate().peekable();
        let mut errors = Vec::new();
        for (position, execution) in failures {
            while let Some((_, error)) = later.next_if(|(at, _)| at < position) {
                errors.push(error);
            }
            if let Some(error) = execution.unseen_failure() {
                inner.error_count += 1;
                errors.push(CleanupError {
                    kind: CleanupErrorKind::Execution,
                    hook: None,
                    scope: self.label.clone(),
                    sequence: Some(execution.sequence.name.clone()),
                    execution: Some(execution.number),
                    source: Arc::new(error),
                });
            }
        }
        errors.extend(later.map(|(_, error)| error));
        inner.errors = errors;
    }

    /// A child that this scope finished: its errors are not lost.
    pub(crate) fn child_finished(&self, result: Result<ScopeReport, Error>) {
        let Err(Error::Cleanup(failure)) = result else { return };
        let mut inner = self.inner.lock();
        for error in std::iter::once(&failure.primary).chain(&failure.others) {
            if error.kind == CleanupErrorKind::DeviceLost {
                self.record_loss(&mut inner);
            } else {
                // A clone shares its source: dropping it runs no destructor.
                let _surplus = inner.add_error(error.clone());
            }
        }
        let shown = 1 + failure.others.len() as u64;
        inner.error_count += failure.report.error_count.saturating_sub(shown);
    }

    pub(crate) fn release_tensors(self: &Arc<Self>, tensors: Vec<Arc<TensorHandle>>) {
        let mut count = 0;
        let mut bytes = 0;
        for handle in &tensors {
            let tensor = &handle.cell;
            if self.engine.end_local_tensor(tensor, self) {
                count += 1;
                bytes += tensor.bytes;
            }
        }
        let mut inner = self.inner.lock();
        inner.finish.released_tensors += count;
        inner.finish.released_bytes += bytes;
    }

    /// The scope leaves its parent or the manager, its arena goes back, and the policy trims (L21).
    pub(crate) fn let_go(self: &Arc<Self>, entry: Option<u64>) {
        // Closing waits: the scope is no root any more, and not yet done with the driver.
        let _pass = self.engine.gate.enter();
        self.release_arena();
        let last_root = self.engine.remove_scope(self, entry);
        let trimmed = self.engine.after_finish(last_root).bytes;
        if trimmed > 0 {
            self.inner.lock().finish.trimmed = Some(trimmed);
        }
    }

    /// The end: the report, and everybody who waits.
    pub(crate) fn end(self: &Arc<Self>, mut inner: MutexGuard<'_, ScopeInner>) {
        if self.engine.is_lost() {
            self.record_loss(&mut inner);
        }
        let outcome = self.outcome(&inner).unwrap_or(Outcome::Completed);
        let late = inner.running > 0;
        let report = ScopeReport {
            scope: self.label.clone(),
            outcome,
            executions: self.submitted.load(Ordering::Relaxed),
            hooks: inner.registrations.report(),
            released_tensors: inner.finish.released_tensors,
            released_bytes: inner.finish.released_bytes,
            trimmed_bytes: inner.finish.trimmed.unwrap_or(0),
            peak_bytes: inner.peak_bytes,
            errors: inner.errors.iter().take(MAX_REPORTED_ERRORS).cloned().collect(),
            error_count: inner.error_count,
            duration: self.opened.elapsed(),
        };
        let result = match inner.errors.split_first() {
            None => Ok(report),
            Some((primary, others)) => Err(Error::Cleanup(Arc::new(CleanupFailure {
                primary: primary.clone(),
                others: others.iter().take(MAX_REPORTED_ERRORS - 1).cloned().collect(),
                report,
            }))),
        };
        inner.phase = Phase::Finished(outcome);
        self.finished.store(true, Ordering::Release);
        inner.result = Some(result);
        inner.runner = None;
        let parent = if inner.finish.below_parent { self.parent.lock().take() } else { None };
        // What hooks captured goes with their last run. Late executions still need theirs.
        let spent = if late {
            inner.registrations.retire_all_but_execution_hooks()
        } else {
            // Whoever comes back from a hook that outlived its deadline asks for the hook.
            let keep = inner.quarantine.is_some();
            inner.registrations.retire(keep)
        };
        let wakers = inner.wakers.take();
        drop(inner);
        drop(spent);
        // A long chain of scopes must not be dropped by recursion.
        drop(parent);
        self.engine.emit(Some(self), None, || EventKind::ScopeFinished(outcome));
        wake_each(wakers);
    }
}
