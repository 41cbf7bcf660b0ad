//! What a scope refuses while it finishes and afterwards, and what it hands back (L10, L12).
//!
//! Not here: what a moved-out handle refuses (`moving.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{
    Error, ManagedScope, ManagedSequence, Manager, Outcome, Rejected, ResourceKind, ScopeRef, ScopeState,
    Tensor, hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Count, Latch, OnDrop, Order, assert_given_back, case, poll_once, receive, work,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("scopes/the_state_flips_before_the_first_entry", &["L10"], the_state_flips_first),
    case("scopes/nothing_enters_a_scope_that_finishes", &["L10"], nothing_enters_while_finishing),
    case("scopes/nothing_enters_a_finished_scope", &["L10", "L3"], nothing_enters_afterwards),
    case("scopes/a_refused_hook_is_handed_back", &["L10"], a_refused_hook_is_handed_back),
    case("scopes/a_refused_value_is_handed_back", &["L10"], a_refused_value_is_handed_back),
    case("scopes/register_on_refuses_strangers", &["L12", "L10"], register_on_refuses_strangers),
];

/// A finish that waits for executions has begun: no entry has run, and none is taken any more.
fn the_state_flips_first(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let (noted, watched) = (order.clone(), ScopeRef::clone(&scope));
    let hook = hook::each("each", move |context| {
        assert_eq!((context.outcome(), watched.state()), (Some(Outcome::Completed), ScopeState::Finishing));
        noted.note("each");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("once")).unwrap();
    probe.hold();
    work(&scope);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!((scope.state(), order.seen().len()), (ScopeState::Finishing, 0));
    let refused = scope.register(order.once("late")).unwrap_err();
    assert!(matches!(refused.error, Error::ScopeFinishing { .. }));
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!(order.seen(), ["each", "once"]);
    assert_eq!(report.hooks.len(), 2, "a refused hook has no row");
    assert_given_back(&manager);
}

/// A scope that is in the middle of its finish, which another thread is at.
struct Stopped<'a> {
    scope: &'a ManagedScope,
    latch: Latch,
    reached: mpsc::Receiver<()>,
}

impl<'a> Stopped<'a> {
    fn new(scope: &'a ManagedScope) -> Self {
        let latch = Latch::default();
        let (sender, reached) = mpsc::channel();
        let wait = latch.clone();
        let hook = hook::once("stops", move |_| {
            sender.send(())?;
            wait.wait();
            Ok(())
        });
        scope.register(hook).unwrap();
        Stopped { scope, latch, reached }
    }

    /// Runs `meanwhile` while the finish is inside its hook.
    fn run(self, meanwhile: impl FnOnce()) -> tenure_core::ScopeReport {
        std::thread::scope(|threads| {
            let finish = threads.spawn(|| self.scope.finish_blocking());
            receive(&self.reached);
            // Opened on every exit, so that a failed assertion ends the case.
            let _open = OnDrop(|| self.latch.open());
            meanwhile();
            self.latch.open();
            finish.join().unwrap().unwrap()
        })
    }
}

/// Every way to add to a scope, with the answer.
fn every_entry(
    manager: &Manager,
    scope: &ManagedScope,
    sequence: &ManagedSequence,
    tensor: &Tensor<u32>,
) -> Vec<(&'static str, Error)> {
    let other = manager.tensor::<u32>(64).unwrap();
    vec![
        ("register", scope.register(hook::once("late", |_| Ok(()))).unwrap_err().error),
        ("register each", scope.register(hook::each("late", |_| Ok(()))).unwrap_err().error),
        ("register after", scope.register(hook::after_release("late", |_| Ok(()))).unwrap_err().error),
        ("register_on", scope.register_on(scope, hook::once("late", |_| Ok(()))).unwrap_err().error),
        ("adopt", scope.adopt("late", (), |(), _| Ok(())).unwrap_err().error),
        ("scope", scope.scope("late").unwrap_err()),
        ("sequence", scope.sequence().unwrap_err()),
        ("named", scope.named("late").unwrap_err()),
        ("replace", scope.replace("kept").unwrap_err()),
        ("tensor", scope.tensor::<u32>(64).unwrap_err()),
        ("tensor_from", scope.tensor_from("late", &[1_u32]).unwrap_err()),
        ("evaluate", scope.evaluate([op::fill(&other, 1)]).unwrap_err()),
        ("evaluate again", sequence.evaluate().unwrap_err()),
        ("move_out", scope.move_out().unwrap_err()),
        ("promote", tensor.promote().unwrap_err()),
    ]
}

/// While another thread runs its cleanup, a scope takes no hook, value, child, sequence, tensor or execution; reading
/// what it has goes on.
fn nothing_enters_while_finishing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("kept").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    sequence.record(op::fill(&tensor, 2)).unwrap();
    let inner = scope.scope("inner").unwrap();
    let local = inner.tensor::<u32>(64).unwrap();
    let stopped = Stopped::new(&scope);
    let report = stopped.run(|| {
        let before = probe.calls(CallKind::Submit | CallKind::OpenScope);
        for (way, error) in every_entry(&manager, &scope, &sequence, &local) {
            let named = matches!(&error, Error::ScopeFinishing { scope } if &**scope == "s");
            assert!(named, "{way}: {error}");
        }
        assert_eq!(probe.calls(CallKind::Submit | CallKind::OpenScope), before);
        assert_eq!(tensor.read().unwrap(), [1; 64]);
        assert_eq!(scope.find("kept").unwrap().name(), "kept", "a refused replace destroys nothing");
        assert_eq!((scope.named_sequences().len(), scope.live_bytes()), (1, 256));
    });
    assert_eq!((report.hooks.len(), report.executions), (1, 0));
    drop((sequence, tensor, local, inner));
    assert_given_back(&manager);
}

/// After its end a scope takes nothing either, and its sequences and tensors are stale.
fn nothing_enters_afterwards(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("kept").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    scope.finish_blocking().unwrap();
    for (way, error) in every_entry(&manager, &scope, &sequence, &tensor) {
        match way {
            "evaluate again" | "promote" => {
                let kind = if way == "promote" { ResourceKind::Tensor } else { ResourceKind::Sequence };
                let stale = matches!(&error, Error::Stale { kind: of, .. } if *of == kind);
                assert!(stale, "{way}: {error}");
                assert!(error.to_string().ends_with("scope `s` has finished"), "{way}: {error}");
            }
            _ => {
                let Error::ScopeFinished { scope, outcome } = &error else { panic!("{way}: {error}") };
                assert_eq!((&**scope, *outcome), ("s", Outcome::Completed), "{way}");
            }
        }
    }
    assert!(matches!(scope.find("kept"), Err(Error::UnknownName { .. })));
    assert_eq!((scope.live_bytes(), scope.named_sequences().len()), (0, 0));
    drop((sequence, tensor));
    assert_given_back(&manager);
}

/// A refused hook is untouched: registered with another scope it runs there. Refused for good, it is dropped with
/// what it captured when its holder drops it, and never runs.
fn a_refused_hook_is_handed_back(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (order, sentinel) = (Order::default(), Arc::new(()));
    let (scope, other) = (manager.scope("s").unwrap(), manager.scope("other").unwrap());
    let stopped = Stopped::new(&scope);
    stopped.run(|| {
        let (noted, held) = (order.clone(), sentinel.clone());
        let hook = hook::once("wanders", move |context| {
            let _ = &held;
            noted.note(format!("wanders in {}", context.scope().label()));
            Ok(())
        });
        let Rejected { value, error } = scope.register(hook.key("once")).unwrap_err();
        assert!(matches!(error, Error::ScopeFinishing { .. }));
        assert_eq!((value.label(), value.period()), ("wanders", tenure_core::Period::Scope));
        other.register(value).unwrap();

        let held = sentinel.clone();
        let never = hook::once("never", move |_| {
            let _ = &held;
            panic!("a refused hook ran")
        });
        let Rejected { value, .. } = scope.register(never).unwrap_err();
        assert_eq!(Arc::strong_count(&sentinel), 3);
        drop(value);
        assert_eq!(Arc::strong_count(&sentinel), 2);
    });
    let report = other.finish_blocking().unwrap();
    assert_eq!((report.hooks.len(), report.hooks[0].key.as_deref()), (1, Some("once")));
    assert_eq!(order.seen(), ["wanders in other"]);
    assert_eq!(Arc::strong_count(&sentinel), 1);
}

/// A refused value comes back as it was, its release does not run, and `?` keeps the reason alone.
fn a_refused_value_is_handed_back(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let drops = Count::default();
    let adopt = |scope: &ScopeRef| {
        let drops = drops.clone();
        let value = (vec![7_u8], OnDrop(move || drops.add()));
        scope.adopt("value", value, |_, _| panic!("the release of a refused value ran"))
    };
    Stopped::new(&scope).run(|| {
        let Rejected { value, error } = adopt(&scope).unwrap_err();
        assert!(matches!(error, Error::ScopeFinishing { .. }));
        assert_eq!((&value.0, drops.get()), (&vec![7], 0));
    });
    assert_eq!(drops.get(), 1);
    let through_question_mark = || -> Result<(), Error> { Ok(adopt(&scope)?) };
    assert!(matches!(through_question_mark(), Err(Error::ScopeFinished { .. })));
    assert_eq!(drops.get(), 2, "`?` drops the value");
}

/// A hook goes onto the scope itself or one above it, never onto a child, a sibling, another root or another
/// manager's scope; what is refused comes back.
fn register_on_refuses_strangers(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let foreign = bed.open().manager;
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    let node = root.scope("node").unwrap();
    let leaf = node.scope("leaf").unwrap();
    let sibling = root.scope("sibling").unwrap();
    let strangers =
        [leaf.scope("below").unwrap(), manager.scope("other").unwrap(), foreign.scope("foreign").unwrap()];
    for stranger in strangers.iter().chain([&sibling]) {
        let Rejected { value, error } = leaf.register_on(stranger, order.once("refused")).unwrap_err();
        let named = matches!(
            &error,
            Error::NotAnAncestor { ancestor, scope } if **ancestor == *stranger.label() && &**scope == "leaf"
        );
        assert!(named, "{error}");
        assert_eq!(value.label(), "refused");
    }
    leaf.register_on(&leaf, order.once("its own")).unwrap();
    leaf.register_on(&node, order.once("its parent's")).unwrap();
    leaf.register_on(&root, order.once("its root's")).unwrap();
    leaf.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["its own"]);
    // A scope that has finished is under nobody any more.
    let late = leaf.register_on(&root, order.once("late")).unwrap_err();
    assert!(matches!(late.error, Error::NotAnAncestor { .. }), "{}", late.error);
    root.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["its own", "its root's", "its parent's"]);
}
