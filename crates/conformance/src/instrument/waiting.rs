//! Waiting for points, some of which may be held back.
//!
//! Targets that are let through are waited for in the inner backend. If all are held, the thread sleeps on a
//! condition variable of the decorator's until one is released, the wait is interrupted or the time is over. A
//! release also interrupts the inner backend, so that a thread that waits there for other targets looks again.
//! Not here: closing and opening gates (`gate.rs`, `probe.rs`).

use std::time::{Duration, Instant};

use tenure_core::BackendError;
use tenure_core::backend::{Backend, TimelinePoint, WaitStatus};

use super::Instrumented;
use super::calls::CallKind;
use super::shared::Shared;

/// What to do next.
enum Next {
    /// Wait for these in the inner backend.
    Inner(Vec<TimelinePoint>),
    Return(WaitStatus),
}

impl<B: Backend> Instrumented<B> {
    pub(super) fn wait(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        // A moment beyond what the clock can say is no limit.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.shared.log(|| format!("wait_any for {} targets", targets.len()));
        match self.shared.wait_at_gates(targets, deadline)? {
            Next::Return(status) => Ok(status),
            Next::Inner(open) => {
                let until = |at: Instant| at.saturating_duration_since(Instant::now());
                // A time beyond the clock stays a time: who gives one can be interrupted.
                let left = timeout.map(|timeout| deadline.map_or(timeout, until));
                let result = self.inner.wait_any(&open, left);
                let status = self.shared.answer(CallKind::WaitAny, result)?;
                self.shared.check_lost(CallKind::WaitAny, &mut self.shared.state.lock())?;
                Ok(status)
            }
        }
    }
}

impl Shared {
    /// Blocks while all targets are held.
    fn wait_at_gates(
        &self,
        targets: &[TimelinePoint],
        deadline: Option<Instant>,
    ) -> Result<Next, BackendError> {
        let mut state = self.state.lock();
        let seen = state.interrupts.count;
        loop {
            self.check_lost(CallKind::WaitAny, &mut state)?;
            let open: Vec<TimelinePoint> = targets
                .iter()
                .copied()
                .filter(|target| {
                    let queue = state.checker.queues.get(target.queue.0 as usize);
                    queue.is_none_or(|queue| queue.gate.lets_through(target.value))
                })
                .collect();
            // With no target at all the inner backend waits for the interrupt or the time.
            if !open.is_empty() || targets.is_empty() {
                return Ok(Next::Inner(open));
            }
            if state.interrupts.count != seen || std::mem::take(&mut state.interrupts.pending) {
                return Ok(Next::Return(WaitStatus::Woken));
            }
            state.interrupts.waiting += 1;
            let timed_out = match deadline {
                None => {
                    self.gates.wait(&mut state);
                    false
                }
                Some(at) => self.gates.wait_until(&mut state, at).timed_out(),
            };
            state.interrupts.waiting -= 1;
            if state.interrupts.count != seen {
                return Ok(Next::Return(WaitStatus::Woken));
            }
            if timed_out {
                return Ok(Next::Return(WaitStatus::TimedOut));
            }
        }
    }

    /// Interrupts who waits at the gates, or who will next.
    pub(super) fn interrupt_gates(&self) {
        {
            let mut state = self.state.lock();
            state.interrupts.count += 1;
            state.interrupts.pending |= state.interrupts.waiting == 0;
        }
        self.gates.notify_all();
    }
}
