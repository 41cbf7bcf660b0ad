//! Deadlines: hooks that outlive theirs, finishes whose waiting is over, and results that nobody waits for.
//!
//! The timeline thread asks here; the hook goes on elsewhere, the scope without it (L16).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::execution::ExecutionCell;
use crate::engine::hook_run::HookRun;
use crate::engine::quarantine::Quarantine;
use crate::engine::scopes::ScopeCell;
use crate::engine::wakers::wake_each;
use crate::error::Error;
use crate::event::HookEnd;
use crate::report::{CleanupErrorKind, DetachedHook};

/// A hook that runs with a deadline.
pub(crate) struct RunningHook {
    /// Its place among the registrations.
    pub place: usize,
    pub execution: Option<Arc<ExecutionCell>>,
    pub started: Instant,
    pub deadline: Instant,
    /// The time that it was given.
    pub after: Duration,
    /// The cleanup thread that runs it.
    pub generation: u64,
}

impl ScopeCell {
    /// Called by the supervisor when a deadline of this scope may be over. Returns when to look again.
    pub(crate) fn check_deadlines(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let mut inner = self.inner.lock();
        let wakers = inner.wakers.take();
        let overdue = match &inner.running_hook {
            Some(hook) if hook.deadline <= now => inner.running_hook.take(),
            _ => None,
        };
        let finish = inner.finish.deadline.filter(|at| *at > now && !inner.has_finished());
        let Some(hook) = overdue else {
            let running = inner.running_hook.as_ref().map(|hook| hook.deadline);
            drop(inner);
            wake_each(wakers);
            return finish.into_iter().chain(running).min();
        };
        inner.registrations.count_run(hook.place, hook.started.elapsed(), true);
        let label = inner.registrations.at(hook.place).label.clone();
        let late = Arc::new(Error::TimedOut { what: format!("hook `{label}`").into(), after: hook.after });
        let error = self.cleanup_error(CleanupErrorKind::TimedOut, &label, hook.execution.as_deref(), late);
        let surplus = inner.add_error(error);
        let quarantine = inner.quarantine.get_or_insert_with(|| Arc::new(Quarantine::default())).clone();
        quarantine.hook_left();
        self.engine.detached_hook(self.detached(label));
        let parked = inner.parked.take();
        let phase = inner.phase;
        if parked.is_none() {
            // Its thread is inside the hook: the role goes to the thread that replaces it.
            inner.runner = None;
        }
        drop(inner);
        drop(surplus);
        self.emit_hook(hook.place, hook.execution.as_deref(), HookEnd::TimedOut);
        match parked {
            Some(run) => self.engine.outlive_elsewhere(self, *run),
            None => self.engine.replace_cleanup_thread(hook.generation),
        }
        self.push_to_cleanup_thread(phase);
        wake_each(wakers);
        finish
    }

    /// The scope was dropped: its errors have no other reader.
    pub(crate) fn set_unattended(&self) {
        self.inner.lock().finish.unattended = true;
    }

    /// The error of a scope whose result has no other reader; once.
    pub(crate) fn take_unattended_error(&self) -> Option<Error> {
        let mut inner = self.inner.lock();
        let error = inner.result.clone()?.err()?;
        std::mem::take(&mut inner.finish.unattended).then_some(error)
    }

    fn detached(&self, hook: Arc<str>) -> DetachedHook {
        DetachedHook { hook, scope: self.label.clone() }
    }

    /// A hook that outlived its deadline has come back.
    pub(crate) fn hook_came_back(self: &Arc<Self>, place: usize) {
        let (quarantine, label) = {
            let inner = self.inner.lock();
            (inner.quarantine.clone(), inner.registrations.at(place).label.clone())
        };
        let quarantine = quarantine.expect("a revoked hook has a quarantine");
        quarantine.hook_returned(&self.engine, &self.detached(label));
    }

    /// Polls a hook that outlived its deadline to its end, on this detached thread.
    pub(crate) fn outlive(self: &Arc<Self>, mut run: HookRun) {
        let place = run.place;
        let end = std::future::poll_fn(|context| run.poll(context));
        // The result came too late: it was recorded as timed out.
        let _late = self.engine.block_on(end, None);
        self.hook_came_back(place);
    }
}
