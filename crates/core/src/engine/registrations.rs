//! The hooks that a scope has accepted: their bodies, the figures of their runs, and which run when.
//!
//! All of it stands under the scope's lock, so that accepting a hook takes no memory but room for it here. Not here: one
//! run of a hook (`engine/hook_run.rs`), and when hooks run and in which order (`engine/finish.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::cleanup::{Hook, HookBody, HookClass, HookId, Period};
use crate::engine::quiet::quietly;
use crate::report::HookReport;

/// All hooks of a scope. A hook is known by its place, in the order of registration.
#[derive(Default)]
pub(crate) struct Registrations {
    /// In place where there is only one, as in most scopes that have any.
    all: SmallVec<[Registration; 1]>,
    /// The figures of those that have run or were skipped, by place: apart, since registering makes none.
    figures: SmallVec<[Figures; 1]>,
    /// By key, and then by period.
    keys: BTreeMap<Arc<str>, [Option<HookId>; 3]>,
    /// The places of the execution hooks.
    execution: Vec<usize>,
    /// The places of the `AfterRelease` hooks that have not run.
    after_release: Vec<usize>,
}

/// A hook that a scope has accepted. Small: a scope may have very many.
pub(crate) struct Registration {
    pub label: Arc<str>,
    period: Period,
    pub class: HookClass,
    body: Body,
    rare: Option<Box<Rare>>,
}

/// What few hooks have.
struct Rare {
    key: Option<Arc<str>>,
    deadline: Option<Duration>,
}

enum Body {
    /// Ready for a run.
    Here(HookBody),
    /// A run has it, or has used it up.
    Out,
    /// There are no more runs.
    Retired,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    runs: u64,
    failed: u64,
    skipped: u64,
    total: Duration,
    longest: Duration,
}

impl Registrations {
    /// The hook that has this key in this period (L12).
    pub(crate) fn of_key(&self, period: Period, key: &Arc<str>) -> Option<HookId> {
        self.keys.get(key)?[period as usize]
    }

    /// Accepts a hook. Returns its place.
    #[inline]
    pub(crate) fn push(&mut self, id: HookId, hook: Hook) -> usize {
        let place = self.all.len();
        match hook.period {
            Period::Scope => {}
            Period::Execution => self.execution.push(place),
            Period::AfterRelease => self.after_release.push(place),
        }
        if let Some(key) = &hook.key {
            self.keys.entry(key.clone()).or_default()[hook.period as usize] = Some(id);
        }
        let rare = hook.key.is_some() || hook.deadline.is_some();
        self.all.push(Registration {
            label: hook.label,
            period: hook.period,
            class: hook.class,
            body: Body::Here(hook.body),
            rare: rare.then(|| Box::new(Rare { key: hook.key, deadline: hook.deadline })),
        });
        place
    }

    pub(crate) fn at(&self, place: usize) -> &Registration {
        &self.all[place]
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> &mut Registration {
        &mut self.all[place]
    }

    pub(crate) fn labels(&self) -> Vec<Arc<str>> {
        self.all.iter().map(|registration| registration.label.clone()).collect()
    }

    /// How many execution hooks there are: an execution runs those that there were when it was submitted.
    pub(crate) fn execution_hooks(&self) -> usize {
        self.execution.len()
    }

    /// The place of an execution hook, by its number among them.
    pub(crate) fn execution_hook(&self, number: usize) -> usize {
        self.execution[number]
    }

    /// The `AfterRelease` hook that is next, the last one first.
    pub(crate) fn pop_after_release(&mut self) -> Option<usize> {
        self.after_release.pop()
    }

    /// It runs later.
    pub(crate) fn push_after_release(&mut self, place: usize) {
        self.after_release.push(place);
    }

    fn figures_at(&mut self, place: usize) -> &mut Figures {
        while self.figures.len() <= place {
            self.figures.push(Figures::default());
        }
        &mut self.figures[place]
    }

    pub(crate) fn count_skip(&mut self, place: usize) {
        self.figures_at(place).skipped += 1;
    }

    pub(crate) fn count_run(&mut self, place: usize, took: Duration, failed: bool) {
        let figures = self.figures_at(place);
        figures.runs += 1;
        figures.failed += u64::from(failed);
        figures.total += took;
        figures.longest = figures.longest.max(took);
    }

    /// One row a registration.
    pub(crate) fn report(&self) -> Vec<HookReport> {
        let figures = |place| self.figures.get(place).copied().unwrap_or_default();
        self.all.iter().enumerate().map(|(place, registration)| registration.report(figures(place))).collect()
    }

    /// The hook at `place` is ready for its next run. The body comes back if there is none.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn put_back(&mut self, place: usize, body: HookBody) -> Option<HookBody> {
        match self.all.get_mut(place) {
            Some(registration) => registration.put_back(body),
            None => Some(body),
        }
    }

    /// No hook runs any more. With `keep` somebody still asks for labels: the hooks stay, without what they captured.
    /// What goes comes back, to be dropped without the lock.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn retire(&mut self, keep: bool) -> SpentHooks {
        self.execution.clear();
        if keep {
            return SpentHooks::bodies(self.all.iter_mut());
        }
        SpentHooks { all: std::mem::take(&mut self.all), bodies: Vec::new() }
    }

    /// No hook runs any more but those of late executions.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn retire_all_but_execution_hooks(&mut self) -> SpentHooks {
        let others = self.all.iter_mut().filter(|registration| registration.period != Period::Execution);
        SpentHooks::bodies(others)
    }
}

impl Registration {
    /// The time that one run may take.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.rare.as_ref()?.deadline
    }

    pub(crate) fn period(&self) -> Period {
        self.period
    }

    /// The body for one run; none if an earlier run has not come back.
    pub(crate) fn take_body(&mut self) -> Option<HookBody> {
        match std::mem::replace(&mut self.body, Body::Out) {
            Body::Here(body) => Some(body),
            Body::Out => None,
            Body::Retired => {
                self.body = Body::Retired;
                None
            }
        }
    }

    /// A run is over that did not use the body up. It comes back if there are no more runs.
    fn put_back(&mut self, body: HookBody) -> Option<HookBody> {
        if matches!(self.body, Body::Retired) {
            return Some(body);
        }
        self.body = Body::Here(body);
        None
    }

    fn retire(&mut self) -> Option<HookBody> {
        match std::mem::replace(&mut self.body, Body::Retired) {
            Body::Here(body) => Some(body),
            Body::Out | Body::Retired => None,
        }
    }

    fn report(&self, figures: Figures) -> HookReport {
        let Figures { runs, failed, skipped, total, longest } = figures;
        HookReport {
            label: self.label.clone(),
            key: self.rare.as_ref().and_then(|rare| rare.key.clone()),
            period: self.period,
            runs,
            failed,
            skipped,
            total,
            longest,
        }
    }
}

/// Hooks that have had their last run: what they captured goes now, not with the report. Dropped with no lock held; a
/// destructor that panics stops no other.
pub(crate) struct SpentHooks {
    all: SmallVec<[Registration; 1]>,
    bodies: Vec<HookBody>,
}

impl SpentHooks {
    fn bodies<'a>(hooks: impl Iterator<Item = &'a mut Registration>) -> Self {
        SpentHooks { all: SmallVec::new(), bodies: hooks.filter_map(Registration::retire).collect() }
    }
}

impl Drop for SpentHooks {
    fn drop(&mut self) {
        let own = self.all.iter_mut().filter_map(Registration::retire);
        for body in own.chain(self.bodies.drain(..)) {
            quietly(|| drop(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleanup::hook;

    fn each(label: &str) -> Hook {
        hook::each(label, |_| Ok(()))
    }

    #[test]
    fn a_body_is_out_while_it_runs_and_gone_after_the_last_run() {
        let mut hooks = Registrations::default();
        let place = hooks.push(HookId(1), each("hook"));
        let body = hooks.at_mut(place).take_body().unwrap();
        assert!(hooks.at_mut(place).take_body().is_none(), "a run has it");
        assert!(hooks.put_back(place, body).is_none());
        let body = hooks.at_mut(place).take_body().unwrap();
        drop(hooks.retire(true));
        let body = hooks.put_back(place, body).expect("there are no more runs");
        assert!(hooks.at_mut(place).take_body().is_none());
        drop(hooks.retire(false));
        assert!(hooks.put_back(place, body).is_some() && hooks.report().is_empty());
        assert_eq!(hooks.execution_hooks(), 0);
    }

    #[test]
    fn late_executions_keep_their_hooks() {
        let mut hooks = Registrations::default();
        let once = hooks.push(HookId(1), hook::once("once", |_| Ok(())));
        let each = hooks.push(HookId(2), each("each"));
        drop(hooks.retire_all_but_execution_hooks());
        assert!(hooks.at_mut(once).take_body().is_none());
        assert!(hooks.at_mut(each).take_body().is_some());
        assert_eq!((hooks.execution_hooks(), hooks.execution_hook(0)), (1, each));
    }

    #[test]
    fn a_key_is_one_registration_a_period() {
        let mut hooks = Registrations::default();
        let key: Arc<str> = "key".into();
        hooks.push(HookId(1), hook::once("a", |_| Ok(())).key("key"));
        assert_eq!(hooks.of_key(Period::Scope, &key), Some(HookId(1)));
        assert_eq!(hooks.of_key(Period::Execution, &key), None);
        hooks.push(HookId(2), each("b").key("key"));
        assert_eq!(hooks.of_key(Period::Scope, &key), Some(HookId(1)));
        assert_eq!(hooks.of_key(Period::Execution, &key), Some(HookId(2)));
    }

    #[test]
    fn figures_are_those_of_the_hook() {
        let mut hooks = Registrations::default();
        for id in 0..4 {
            hooks.push(HookId(id), hook::once(format!("{id}"), |_| Ok(())));
        }
        hooks.count_run(2, Duration::from_secs(2), true);
        hooks.count_skip(1);
        let rows: Vec<_> = hooks.report().iter().map(|row| (row.runs, row.failed, row.skipped)).collect();
        assert_eq!(rows, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (0, 0, 0)]);
    }
}
