//! Case C7: whatever ends a scope, its hooks run, each as often as it should, and the memory goes back.
//!
//! Not here: hooks that fail among others (`hooks.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::mpsc;

use tenure_core::{Error, ManagedScope, Manager, Outcome, RunError, ScopeReport, hook, op};

use super::support::{Count, MIB, WATCHDOG, assert_given_back, case, untrimmed};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("field/c07_a_finished", EVERY_END, c07_a_finished),
    case("field/c07_b_body_fails", EVERY_END, c07_b_body_fails),
    case("field/c07_c_body_panics", EVERY_END, c07_c_body_panics),
    case("field/c07_d_aborted", EVERY_END, c07_d_aborted),
    case("field/c07_e_dropped", EVERY_END, c07_e_dropped),
    case("field/c07_f_early_return", EVERY_END, c07_f_early_return),
];

const EVERY_END: &[&str] = &["L11", "L13", "L16", "L17", "L19"];

/// What the scopes of C7 register, whatever their end.
struct Ends {
    each: Count,
    once: Count,
    /// How the scope ended, told by its last hook, which trims.
    outcomes: (mpsc::Sender<Option<Outcome>>, mpsc::Receiver<Option<Outcome>>),
}

/// Executions of a scope of C7.
const EXECUTIONS: u64 = 3;

impl Ends {
    fn new() -> Self {
        Ends { each: Count::default(), once: Count::default(), outcomes: mpsc::channel() }
    }

    /// Registers the hooks and does some work.
    fn work(&self, scope: &ManagedScope) -> Result<(), Error> {
        scope.register(self.each.each("each"))?;
        scope.register(self.once.once("once"))?;
        let outcomes = self.outcomes.0.clone();
        scope.register(hook::after_release("trim", move |context| {
            context.manager()?.trim()?;
            outcomes.send(context.outcome())?;
            Ok(())
        }))?;
        let tensor = scope.tensor::<u8>(MIB)?;
        for _ in 0..EXECUTIONS {
            scope.evaluate([op::fill(tensor.view(0..64)?, 1)])?;
        }
        Ok(())
    }

    /// As [`Ends::work`], with a hook that fails besides.
    fn work_badly(&self, scope: &ManagedScope) -> Result<(), Error> {
        scope.register(hook::once("bad", |_| Err("a hook's error".into())))?;
        self.work(scope)
    }

    /// Everything ran once, and the memory was given back before the scope had ended.
    fn check(&self, manager: &Manager, outcome: Outcome) {
        assert_eq!(self.outcomes.1.recv_timeout(WATCHDOG), Ok(Some(outcome)));
        assert!(self.outcomes.1.try_recv().is_err(), "the last hook runs once");
        assert_eq!((self.each.get(), self.once.get()), (EXECUTIONS, 1));
        let memory = manager.memory();
        assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 0));
        assert_given_back(manager);
    }
}

/// The orderly end (AUTOMATIC1111/stable-diffusion-webui#318, for all of C7).
fn c07_a_finished(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    let scope = manager.scope("s").unwrap();
    ends.work(&scope).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions), (Outcome::Completed, EXECUTIONS));
    ends.check(&manager, Outcome::Completed);
}

/// The body returns an error: the caller sees it as it is, a hook's error is beside it.
fn c07_b_body_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    let result = manager.run("s", |scope| -> Result<(), String> {
        ends.work_badly(scope).map_err(|error| error.to_string())?;
        Err("the body's error".to_owned())
    });
    let RunError::Body { error, report } = result.unwrap_err() else { panic!("the body failed") };
    assert_eq!(error, "the body's error");
    let report = report.unwrap();
    assert_eq!((report.outcome, report.error_count), (Outcome::Failed, 1));
    assert_eq!(report.errors[0].source.to_string(), "a hook's error");
    ends.check(&manager, Outcome::Failed);
}

/// The body panics: the panic goes on with its payload, a hook's error is kept by the manager.
fn c07_c_body_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("s", |scope| -> Result<(), Error> {
            ends.work_badly(scope)?;
            panic_any(7_u32)
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&7_u32));
    assert_eq!(manager.take_errors().len(), 1);
    ends.check(&manager, Outcome::Panicked);
}

/// The scope is cancelled.
fn c07_d_aborted(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    let scope = manager.scope("s").unwrap();
    ends.work(&scope).unwrap();
    scope.cancel();
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    ends.check(&manager, Outcome::Cancelled);
}

/// The scope is dropped without a finish, and a hook fails where nobody waits.
fn c07_e_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    let scope = manager.scope("s").unwrap();
    ends.work(&scope).unwrap();
    drop(scope);
    ends.check(&manager, Outcome::Abandoned);
}

/// A function that owns the scope returns early with `?`: the caller gets that error.
fn c07_f_early_return(bed: &Bed) {
    fn body(manager: &Manager, ends: &Ends) -> Result<ScopeReport, Error> {
        let scope = manager.scope("s")?;
        ends.work(&scope)?;
        scope.find("no such sequence")?;
        scope.finish_blocking()
    }
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let ends = Ends::new();
    assert!(matches!(body(&manager, &ends), Err(Error::UnknownName { .. })));
    ends.check(&manager, Outcome::Abandoned);
}
