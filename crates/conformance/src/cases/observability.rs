//! Cases about what can be seen: events, reports, leaks by name (L27, L28).
//!
//! The texts of events stand here once, for every backend: that is the rule. Not here: memory figures (`memory.rs`).

use tenure_core::{
    Error, EventKind, EventStream, Manager, ManagerOptions, Outcome, ScopeOptions, TensorOptions, TrimPolicy,
    hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::instrument::CallKind;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("observability/a_leak_has_a_name", &["L28"], a_leak_has_a_name),
    case("observability/a_leak_names_its_keepers", &["L28", "L5"], a_leak_names_its_keepers),
    case(
        "observability/unfinished_scopes_and_their_hooks_are_named",
        &["L28", "L17"],
        unfinished_scopes_are_named,
    ),
    case("observability/a_clean_close_is_clean", &["L28"], a_clean_close_is_clean),
    case("observability/events_of_a_life", &["L27"], events_of_a_life),
    case("observability/events_of_nested_scopes", &["L27", "L10"], events_of_nested_scopes),
    case("observability/events_of_a_deferred_free", &["L27", "L4"], events_of_a_deferred_free),
    case("observability/events_of_a_cancelled_scope", &["L27", "L16"], events_of_a_cancelled_scope),
    case("observability/events_of_hooks_that_fail", &["L27", "L13"], events_of_hooks_that_fail),
    case("observability/events_of_an_abandoned_scope", &["L27", "L17"], events_of_an_abandoned_scope),
    case("observability/events_of_a_loss", &["L27", "L23"], events_of_a_loss),
    Case {
        id: "observability/events_of_a_failed_execution",
        rules: &["L27", "L13"],
        requires: &[Requirement::HostKernels],
        run: events_of_a_failed_execution,
    },
    case("observability/driver_events_are_a_stream_of_their_own", &["L27"], driver_events_are_their_own),
    case("observability/a_log_begins_when_it_is_made", &["L27"], a_log_begins_when_it_is_made),
    case("observability/two_logs_see_the_same", &["L27"], two_logs_see_the_same),
    case("observability/events_carry_creation_sites", &["L27"], events_carry_creation_sites),
    case("observability/driver_memory_can_be_asked_for", &["L19"], driver_memory_can_be_asked_for),
    case("observability/reports_read_well", &["L16", "L28"], reports_read_well),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

fn labelled(label: &str, len: u64) -> TensorOptions {
    TensorOptions::builder().shape([len]).label(label).build()
}

/// The close report names a tensor that was still held.
fn a_leak_has_a_name(bed: &Bed) {
    let manager = bed.open().manager;
    let held = manager.tensor_from("weights", &[0u32; 4]).unwrap();
    let report = manager.close().unwrap();
    assert_eq!(report.leaks.len(), 1);
    assert_eq!(&*report.leaks[0].tensor, "weights");
    assert_eq!(report.leaks[0].handles, 1);
    assert!(!held.is_live());
}

/// A leak says which sequences keep it, in which scopes, how many handles there are, and where it was made.
fn a_leak_names_its_keepers(bed: &Bed) {
    let manager = bed.open().manager;
    let scope = manager.scope("chain").unwrap();
    let line = line!() + 1;
    let weights = manager.tensor_with::<u8>(labelled("weights", 64 << 20)).unwrap();
    let other = manager.tensor_with::<u8>(labelled("other", 1)).unwrap();
    let blur = scope.named("blur").unwrap();
    blur.record(op::fill(&weights, 1)).unwrap().record(op::fill(&weights, 2)).unwrap();
    let copies = [weights.clone(), weights.clone()];
    drop(weights);
    let report = manager.close().unwrap();
    let leak = &report.leaks[0];
    assert_eq!(leak.handles, 2, "the recording's own hold is named by its sequence");
    assert_eq!(leak.site.line(), line);
    let text = leak.to_string();
    assert!(text.starts_with("tensor `weights` (64 MiB, made at "), "{text}");
    assert!(text.contains("kept by sequence `blur` of scope `chain`"), "{text}");
    assert_eq!(&*report.leaks[1].tensor, "other");
    assert!(report.leaks[1].kept_by.is_empty());
    assert!(report.to_string().contains("still held: tensor `weights`"));
    drop((copies, other));
}

/// The close report names scopes that nobody finished, with the hooks that closing ran for them.
fn unfinished_scopes_are_named(bed: &Bed) {
    let manager = bed.open().manager;
    let scope = manager.scope("outer").unwrap();
    let child = scope.scope("inner").unwrap();
    child.register(hook::once("flush", |_| Ok(()))).unwrap();
    std::mem::forget(child);
    std::mem::forget(scope);
    let report = manager.close().unwrap();
    let names: Vec<_> = report.unfinished_scopes.iter().map(|scope| &*scope.scope).collect();
    assert_eq!(names, ["outer", "inner"]);
    let hooks: Vec<_> = report.unfinished_scopes[1].hooks.iter().map(|hook| &**hook).collect();
    assert_eq!(hooks, ["flush"]);
    assert!(report.unfinished_scopes[1].site.file().ends_with("observability.rs"));
    assert!(!report.is_clean());
}

/// After an orderly life the report has nothing to say.
fn a_clean_close_is_clean(bed: &Bed) {
    let manager = bed.open().manager;
    manager
        .run("s", |scope| {
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([op::fill(&tensor, 1)])?.wait()
        })
        .unwrap();
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.memory.allocations, report.memory.frees);
}

/// Runs `life` and compares its contract events with the text.
fn assert_events(manager: &Manager, life: impl FnOnce(), expected: &str) {
    let log = manager.record_events();
    life();
    let actual = log.contract_text();
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(actual.trim(), expected.trim(), "the events of this life, on any backend");
}

/// Open, acquire, submit, complete, hooks, retire, reclaim, finish: in causal order.
fn events_of_a_life(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        scope.register(hook::each("each", |_| Ok(()))).unwrap();
        scope.register(hook::once("last", |_| Ok(()))).unwrap();
        scope.register(hook::after_release("after", |_| Ok(()))).unwrap();
        let tensor = scope.tensor_with::<u32>(labelled("a", 64)).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        sequence.run().unwrap();
        scope.finish_blocking().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] acquire `a` 256 bytes
        [job] submit `fill` #1
        [job] complete `fill` #1 ok
        [job] hook `each` for #1 ok
        [job] finishing
        [job] hook `last` ok
        [job] retire `a` 256 bytes
        [job] reclaim `a` 256 bytes
        [job] hook `after` ok
        [job] finished Completed",
    );
}

/// A scope that finishes finishes the scopes in it first.
fn events_of_nested_scopes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let life = || {
        let outer = manager.scope("outer").unwrap();
        outer.register(hook::once("outer hook", |_| Ok(()))).unwrap();
        let inner = outer.scope("inner").unwrap();
        inner.register(hook::once("inner hook", |_| Ok(()))).unwrap();
        let kept = inner.tensor_with::<u32>(labelled("kept", 64)).unwrap();
        kept.promote().unwrap();
        outer.finish_blocking().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[outer] open
        [outer] finishing
        [outer] hook `outer hook` ok
        [outer] retire `kept` 256 bytes
        [outer] reclaim `kept` 256 bytes
        [outer] finished Completed
        [inner] open
        [inner] acquire `kept` 256 bytes
        [inner] finishing
        [inner] hook `inner hook` ok
        [inner] finished Completed",
    );
}

/// A tensor that is destroyed under a running execution is retired at once and reclaimed after it.
fn events_of_a_deferred_free(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        let tensor = scope.tensor_with::<u32>(labelled("a", 64)).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        probe.hold();
        let execution = sequence.evaluate().unwrap();
        tensor.destroy().unwrap();
        probe.release_all();
        execution.wait().unwrap();
        assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
        scope.finish_blocking().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] acquire `a` 256 bytes
        [job] submit `fill` #1
        [job] retire `a` 256 bytes
        [job] complete `fill` #1 ok
        [job] reclaim `a` 256 bytes
        [job] finishing
        [job] finished Completed",
    );
}

/// A cancelled scope completes what it submitted.
fn events_of_a_cancelled_scope(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        let tensor = scope.tensor_with::<u32>(labelled("a", 64)).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        probe.hold();
        let execution = sequence.evaluate().unwrap();
        scope.cancel();
        probe.release_all();
        // Else the timeline's thread and the finish race for who comes first.
        execution.wait().unwrap();
        scope.finish_blocking().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] acquire `a` 256 bytes
        [job] submit `fill` #1
        [job] cancelled
        [job] complete `fill` #1 ok
        [job] finishing
        [job] retire `a` 256 bytes
        [job] reclaim `a` 256 bytes
        [job] finished Cancelled",
    )
}

/// Hooks that fail and panic are events like others, and the next ones run.
fn events_of_hooks_that_fail(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        scope.register(hook::once("fine", |_| Ok(()))).unwrap();
        scope.register(hook::once("panics", |_| panic!("on purpose"))).unwrap();
        scope.register(hook::future("fails", |_| async { Err("on purpose".into()) })).unwrap();
        let _errors = scope.finish_blocking().unwrap_err();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] finishing
        [job] hook `fails` failed
        [job] hook `panics` panicked
        [job] hook `fine` ok
        [job] finished Completed",
    );
}

/// A scope that is dropped is finished all the same, with its hooks.
fn events_of_an_abandoned_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        let (told, done) = std::sync::mpsc::channel();
        scope
            .register(hook::after_release("told", move |context| {
                assert_eq!(context.outcome(), Some(Outcome::Abandoned));
                Ok(told.send(())?)
            }))
            .unwrap();
        let observer = (*scope).clone();
        drop(scope);
        done.recv().unwrap();
        // The hook is the last step but the end itself: a new finish waits for that, or finds it.
        drop(observer);
        manager.close().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] finishing
        [job] hook `told` ok
        [job] finished Abandoned
        closed",
    );
}

/// A loss ends what is pending; the scope ends as lost.
fn events_of_a_loss(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let life = || {
        let scope = manager.scope("job").unwrap();
        let tensor = scope.tensor_with::<u32>(labelled("a", 64)).unwrap();
        scope.register(hook::once("device hook", |_| Ok(())).device()).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        probe.hold();
        sequence.evaluate().unwrap();
        probe.lose_device();
        let _lost = scope.finish_blocking().unwrap_err();
    };
    let log = manager.record_events();
    life();
    let text = log.contract_text();
    // When the loss is noticed, before or after finishing began, is the device's affair.
    let lines: Vec<&str> = text.lines().filter(|line| *line != "[job] finishing").collect();
    assert_eq!(
        lines,
        [
            "[job] open",
            "[job] acquire `a` 256 bytes",
            "[job] submit `fill` #1",
            "[job] complete `fill` #1 failed",
            "[job] hook `device hook` skipped",
            "[job] retire `a` 256 bytes",
            "[job] reclaim `a` 256 bytes",
            "[job] finished DeviceLost",
            "device lost",
        ]
    );
}

/// A failed execution is an event, and its hook runs.
fn events_of_a_failed_execution(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let life = || {
        let kernel = manager.kernel(&bed.kernels().fail).unwrap();
        let scope = manager.scope("job").unwrap();
        scope.register(hook::each("each", |_| Ok(()))).unwrap();
        let tensor = scope.tensor_with::<u32>(labelled("a", 64)).unwrap();
        let sequence = scope.named("fails").unwrap();
        sequence.record(op::dispatch(&kernel).bind(&tensor)).unwrap();
        let error = sequence.run().unwrap_err();
        assert!(matches!(error, Error::Execution { execution: 1, .. }), "{error}");
        scope.finish_blocking().unwrap();
    };
    assert_events(
        &manager,
        life,
        "[job] open
        [job] acquire `a` 256 bytes
        [job] submit `fails` #1
        [job] complete `fails` #1 failed
        [job] hook `each` for #1 ok
        [job] finishing
        [job] retire `a` 256 bytes
        [job] reclaim `a` 256 bytes
        [job] finished Failed",
    );
}

/// Allocations, frees, trims and encodings are driver events, and no contract event is among them.
fn driver_events_are_their_own(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().trim(TrimPolicy::Never).build());
    let log = manager.record_events();
    let scope = manager.scope("job").unwrap();
    let tensor = scope.tensor::<u8>(1 << 20).unwrap();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    scope.finish_blocking().unwrap();
    // What the backend itself had cached counts too.
    let trimmed = manager.trim().unwrap();
    let driver: Vec<_> = log
        .take()
        .into_iter()
        .filter(|event| event.kind.stream() == EventStream::Driver)
        .map(|event| event.kind)
        .collect();
    let bytes = 1 << 20;
    assert_eq!(
        driver,
        [
            EventKind::Allocate { bytes },
            EventKind::Encode { sequence: "anonymous".into(), operations: 1 },
            EventKind::Free { bytes },
            EventKind::Trim { bytes: trimmed.bytes },
        ]
    );
    assert!(trimmed.blocks == 1 && trimmed.bytes >= bytes, "{trimmed:?}");
    assert_eq!(probe.calls(CallKind::Allocate), probe.calls(CallKind::Free));
}

/// A log has what happened since it was made, and nothing after it was dropped.
fn a_log_begins_when_it_is_made(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    drop(manager.tensor::<u8>(1).unwrap());
    let log = manager.record_events();
    assert!(log.events().is_empty());
    drop(manager.tensor_with::<u8>(labelled("seen", 1)).unwrap());
    let text = log.contract_text();
    assert_eq!(text, "acquire `seen` 1 bytes\nretire `seen` 1 bytes\nreclaim `seen` 1 bytes\n");
    assert_eq!(log.take().iter().filter(|event| event.kind.stream() == EventStream::Contract).count(), 3);
    assert!(log.take().is_empty(), "taken once");
}

/// Two logs get every event each.
fn two_logs_see_the_same(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let logs = [manager.record_events(), manager.record_events()];
    manager.scope("s").unwrap().finish_blocking().unwrap();
    assert_eq!(logs[0].contract_text(), logs[1].contract_text());
    assert_eq!(logs[0].contract_text(), "[s] open\n[s] finishing\n[s] finished Completed\n");
}

/// Acquire and open carry where in the user's source the resource was made.
fn events_carry_creation_sites(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let log = manager.record_events();
    let line = line!() + 1;
    let scope = manager.scope_with(ScopeOptions::builder().label("s").build()).unwrap();
    let _tensor = scope.tensor_with::<u8>(labelled("a", 1)).unwrap();
    let sites: Vec<_> = log
        .take()
        .into_iter()
        .filter(|event| event.kind.stream() == EventStream::Contract)
        .map(|event| event.site.unwrap())
        .collect();
    assert_eq!(sites.iter().map(|site| site.line()).collect::<Vec<_>>(), [line, line + 1]);
    assert!(sites.iter().all(|site| site.file().ends_with("observability.rs")));
}

/// The driver's own figure stands beside core's, or the backend says that it has none.
fn driver_memory_can_be_asked_for(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let before = manager.driver_memory();
    let _tensor = manager.tensor::<u8>(8 << 20).unwrap();
    match (before, manager.driver_memory()) {
        (Ok(before), Ok(after)) => assert!(after.used >= before.used),
        (Err(Error::Backend(error)), Err(_)) => {
            assert_eq!(error.kind, tenure_core::BackendErrorKind::Unsupported, "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// The texts of the reports name what a reader looks for.
fn reports_read_well(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("job").unwrap();
    scope.register(hook::once("flush", |_| Err("disk full".into()))).unwrap();
    let _tensor = scope.tensor::<u8>(1 << 20).unwrap();
    let Err(Error::Cleanup(failure)) = scope.finish_blocking() else { panic!("the hook fails") };
    let text = failure.report.to_string();
    for part in [
        "scope `job`: Completed",
        "released 1 tensors, 1048576 bytes",
        "hook `flush`",
        "1 failed",
        "disk full",
    ] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    let close = manager.close().unwrap().to_string();
    assert!(
        close.starts_with("manager `manager` closed: reserved 0 = live 0 + retired 0 + cached 0 bytes"),
        "{close}"
    );
}
