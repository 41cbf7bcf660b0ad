//! The fault plan: which calls fail, and with what.
//!
//! Not here: what a failing call does to the inner backend (`ffi.rs`).

use tenure_core::BackendErrorKind;

use super::calls::{CallKind, CallSet};

/// What is to fail. Plans add up; for one call the earliest plan that strikes decides the error.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    faults: Vec<Fault>,
    hits: u64,
    last: Option<CallKind>,
}

#[derive(Debug)]
struct Fault {
    calls: CallSet,
    when: When,
    error: BackendErrorKind,
}

#[derive(Debug)]
enum When {
    /// After so many more calls, this one included; once.
    Nth(u64),
    /// Each `period`-th call, with the calls since the last one.
    Every { period: u64, since: u64 },
}

impl FaultPlan {
    /// The `n`-th of these calls fails, counted from 1 and from now.
    pub(super) fn fail_nth(&mut self, calls: CallSet, n: u64, error: BackendErrorKind) {
        assert!(n > 0, "calls are counted from 1");
        self.add(calls, When::Nth(n), error);
    }

    /// Each `period`-th of these calls fails.
    pub(super) fn fail_every(&mut self, calls: CallSet, period: u64, error: BackendErrorKind) {
        assert!(period > 0, "a period is at least 1");
        self.add(calls, When::Every { period, since: 0 }, error);
    }

    fn add(&mut self, calls: CallSet, when: When, error: BackendErrorKind) {
        let calls = calls.and(CallSet::FALLIBLE);
        assert!(!calls.is_empty(), "none of these calls can fail");
        self.faults.push(Fault { calls, when, error });
    }

    pub(super) fn clear(&mut self) {
        self.faults.clear();
    }

    /// How many calls were made to fail.
    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    /// The call that was made to fail last.
    pub(super) fn last(&self) -> Option<CallKind> {
        self.last
    }

    /// Counts one call, and says with what it fails.
    pub(super) fn strike(&mut self, kind: CallKind) -> Option<BackendErrorKind> {
        let mut struck = None;
        self.faults.retain_mut(|fault| {
            if !fault.calls.contains(kind) {
                return true;
            }
            let (hit, keep) = match &mut fault.when {
                When::Nth(left) => {
                    *left -= 1;
                    (*left == 0, *left > 0)
                }
                When::Every { period, since } => {
                    *since += 1;
                    let hit = *since == *period;
                    if hit {
                        *since = 0;
                    }
                    (hit, true)
                }
            };
            if hit {
                struck.get_or_insert(fault.error);
            }
            keep
        });
        if struck.is_some() {
            self.hits += 1;
            self.last = Some(kind);
        }
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_once() {
        let mut plan = FaultPlan::default();
        plan.fail_nth(CallKind::Allocate.into(), 2, BackendErrorKind::Driver);
        assert_eq!(plan.strike(CallKind::Allocate), None);
        assert_eq!(plan.strike(CallKind::Free), None);
        assert_eq!(plan.strike(CallKind::Allocate), Some(BackendErrorKind::Driver));
        assert_eq!(plan.strike(CallKind::Allocate), None);
        assert_eq!((plan.hits(), plan.last()), (1, Some(CallKind::Allocate)));
    }

    #[test]
    fn any_call_of_a_set_counts() {
        let mut plan = FaultPlan::default();
        plan.fail_nth(CallSet::REPEATABLE, 3, BackendErrorKind::DeviceLost);
        assert_eq!(plan.strike(CallKind::Allocate), None);
        // Their number depends on timing.
        assert_eq!(plan.strike(CallKind::Completed), None);
        assert_eq!(plan.strike(CallKind::WaitAny), None);
        // They cannot fail.
        assert_eq!(plan.strike(CallKind::Info), None);
        assert_eq!(plan.strike(CallKind::Record), None);
        assert_eq!(plan.strike(CallKind::Submit), Some(BackendErrorKind::DeviceLost));
    }

    #[test]
    fn every_third_call_fails_until_cleared() {
        let mut plan = FaultPlan::default();
        plan.fail_every(CallKind::Allocate.into(), 3, BackendErrorKind::OutOfMemory);
        let struck = (0..9).filter(|_| plan.strike(CallKind::Allocate).is_some()).count();
        assert_eq!(struck, 3);
        plan.clear();
        assert!((0..9).all(|_| plan.strike(CallKind::Allocate).is_none()));
    }

    #[test]
    #[should_panic(expected = "none of these calls can fail")]
    fn a_plan_for_infallible_calls_is_refused() {
        FaultPlan::default().fail_nth(CallKind::Interrupt.into(), 1, BackendErrorKind::Driver);
    }
}
