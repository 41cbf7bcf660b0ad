//! Cases about who owns what and for how long (L1 to L6).
//!
//! Not here: who gives memory back to the driver and when (`memory.rs`).

use tenure_core::{Error, Execution, ManagedScope, ManagedSequence, Manager, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::instrument::{CallKind, ObjectKind};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("ownership/last_drop_retires", &["L1", "L2", "L4"], last_drop_retires),
    case("ownership/every_drop_order_with_work_in_flight", &["L4", "L6", "L18"], every_drop_order),
    case("ownership/clones_are_one_hold", &["L1", "L2"], clones_are_one_hold),
    case("ownership/handles_are_valid_for_ever", &["L1", "L3", "L6"], handles_are_valid_for_ever),
    case("ownership/a_scope_ends_its_tensors", &["L2", "L3"], a_scope_ends_its_tensors),
    case("ownership/promoted_to_the_parent", &["L2"], promoted_to_the_parent),
    case("ownership/promoted_to_the_manager", &["L2"], promoted_to_the_manager),
    case("ownership/destroyed_twice_is_ok", &["L2"], destroyed_twice_is_ok),
    case("ownership/stale_says_where", &["L3"], stale_says_where),
    case("ownership/a_recording_is_a_handle", &["L5"], a_recording_is_a_handle),
    case("ownership/destroy_overrides_a_recording", &["L5", "L4"], destroy_overrides_a_recording),
    case("ownership/finish_overrides_a_recording_elsewhere", &["L5"], finish_overrides_a_recording),
    case("ownership/views_are_handles", &["L1", "L4"], views_are_handles),
    case("ownership/a_use_in_flight_defers_the_free", &["L4"], a_use_in_flight_defers_the_free),
    case("ownership/dropping_calls_no_wait", &["L4"], dropping_calls_no_wait),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// The last handle goes while the device works: the tensor is retired at once, its memory comes back after.
fn last_drop_retires(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    drop(tensor);
    assert_eq!(manager.memory().live.bytes, 1 << 20, "the running recording is a handle");
    probe.release_all();
    execution.wait().unwrap();
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 1 << 20));
}

/// What the drop-order case drops.
enum Held {
    Tensor(Tensor<u32>),
    Sequence(ManagedSequence),
    Execution(Execution),
    Scope(ManagedScope),
    Manager(Manager),
}

fn hold_all(bed: &Bed) -> (Vec<Option<Held>>, crate::instrument::Probe) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    let held = [
        Held::Tensor(tensor),
        Held::Sequence(sequence),
        Held::Execution(execution),
        Held::Scope(scope),
        Held::Manager(manager),
    ];
    (held.map(Some).into(), probe)
}

/// All 120 orders of dropping tensor, sequence, execution, scope and manager, with work in flight: no drop waits for the
/// device, nothing is freed before it is done, everything after.
fn every_drop_order(bed: &Bed) {
    let mut orders = Vec::new();
    permute(&mut vec![0, 1, 2, 3, 4], 0, &mut orders);
    assert_eq!(orders.len(), 120);
    for order in orders {
        let (mut held, probe) = hold_all(bed);
        {
            let _no_waits = probe.forbid_here(CallKind::WaitAny | CallKind::Free | CallKind::Shutdown);
            for at in order {
                match held[at].take().unwrap() {
                    Held::Tensor(tensor) => drop(tensor),
                    Held::Sequence(sequence) => drop(sequence),
                    Held::Execution(execution) => drop(execution),
                    Held::Scope(scope) => drop(scope),
                    Held::Manager(manager) => drop(manager),
                }
            }
        }
        assert_eq!(probe.lifetimes(ObjectKind::Block).given_back, 0, "still in flight");
        probe.release_all();
        // The bed waits for the shutdown, and balances every kind.
    }
}

fn permute(items: &mut Vec<usize>, from: usize, orders: &mut Vec<Vec<usize>>) {
    if from == items.len() {
        orders.push(items.clone());
        return;
    }
    for at in from..items.len() {
        items.swap(from, at);
        permute(items, from + 1, orders);
        items.swap(from, at);
    }
}

/// Clones count together: the tensor lives until the last.
fn clones_are_one_hold(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let tensor = manager.tensor_from("data", &[1_u32; 4]).unwrap();
    let clones: Vec<_> = (0..10).map(|_| tensor.clone()).collect();
    drop(tensor);
    for clone in clones {
        assert_eq!(clone.read().unwrap(), [1; 4]);
    }
    assert_eq!(manager.memory().tensors, 0);
}

/// A handle keeps answering after scope and manager are gone: its facts, and `Stale` for the rest.
fn handles_are_valid_for_ever(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let sequence = scope.named("q").unwrap();
    let scope_ref = (*scope).clone();
    let execution = sequence.evaluate().unwrap();
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
    drop((scope, manager));
    assert_eq!((tensor.len(), tensor.label(), tensor.is_live()), (4, "tensor", false));
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    assert!(matches!(scope_ref.manager(), Err(Error::Closed { .. })));
    assert!(matches!(scope_ref.sequence(), Err(Error::Closed { .. } | Error::ScopeFinished { .. })));
    execution.wait().unwrap();
}

/// Finishing retires local tensors under their handles, and names the scope.
fn a_scope_ends_its_tensors(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("job").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let kept = manager.tensor::<u32>(4).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, 16));
    let error = tensor.read().unwrap_err();
    assert!(error.to_string().contains("scope `job` has finished"), "{error}");
    assert!(kept.is_live());
}

/// A tensor that was promoted lives as long as the parent.
fn promoted_to_the_parent(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor_from("data", &[3_u32; 4]).unwrap();
    tensor.promote().unwrap();
    assert_eq!((inner.live_bytes(), outer.live_bytes()), (0, 16));
    assert_eq!(inner.finish_blocking().unwrap().released_tensors, 0);
    assert_eq!(tensor.read().unwrap(), [3; 4]);
    assert_eq!(outer.finish_blocking().unwrap().released_tensors, 1);
    assert!(matches!(tensor.promote(), Err(Error::Stale { .. })));
}

/// A tensor that was promoted to the manager lives until its last handle goes.
fn promoted_to_the_manager(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor_from("data", &[3_u32; 4]).unwrap();
    tensor.promote_to_manager().unwrap();
    tensor.promote().unwrap();
    inner.finish_blocking().unwrap();
    outer.finish_blocking().unwrap();
    assert_eq!(tensor.read().unwrap(), [3; 4]);
    drop(tensor);
    assert_eq!(manager.memory().tensors, 0);
}

/// A second destroy, and one after the scope or manager is gone, is Ok.
fn destroyed_twice_is_ok(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    tensor.destroy().unwrap();
    tensor.destroy().unwrap();
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
    tensor.destroy().unwrap();
}

/// Every operation that names a destroyed tensor says so, with its label and the place, and submits nothing.
fn stale_says_where(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("weights", &[1_u32; 4]).unwrap();
    let other = scope.tensor::<u32>(4).unwrap();
    let view = tensor.view(0..2).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    let line = line!() + 1;
    tensor.destroy().unwrap();
    let calls = probe.calls(CallKind::Submit | CallKind::ReadBlock | CallKind::WriteBlock);
    let fresh = scope.sequence().unwrap();
    let answers = [
        tensor.read().map(drop),
        tensor.write(&[0; 4]),
        tensor.read_into(&mut [0; 4]),
        tensor.view(0..1).map(drop),
        view.read().map(drop),
        view.write(&[0; 2]),
        tensor.promote(),
        pollster::block_on(tensor.read_async()).map(drop),
        fresh.record(op::fill(&tensor, 1)).map(drop),
        fresh.record(op::copy(&other, &tensor)).map(drop),
        sequence.evaluate().map(drop),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let error = answer.expect_err("the tensor is gone");
        let text = error.to_string();
        assert!(matches!(error, Error::Stale { .. }), "call {at}: {text}");
        assert!(
            text.contains("`weights`") && text.contains(&format!("{}:{line}:", file!())),
            "call {at}: {text}"
        );
    }
    assert_eq!(probe.calls(CallKind::Submit | CallKind::ReadBlock | CallKind::WriteBlock), calls);
}

/// What a sequence recorded stays alive until it is reset.
fn a_recording_is_a_handle(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("q").unwrap();
    let tensor = manager.tensor::<u32>(4).unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    drop(tensor);
    sequence.run().unwrap();
    sequence.run().unwrap();
    assert_eq!(manager.memory().tensors, 1);
    sequence.reset().unwrap();
    assert_eq!(manager.memory().tensors, 0);
}

/// Explicit destroy wins over a recording: the memory comes back after the last execution, without a reset.
fn destroy_overrides_a_recording(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("q").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    tensor.destroy().unwrap();
    assert_eq!(manager.memory().retired.bytes, 1 << 20);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(manager.memory().retired.bytes, 0);
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    assert_eq!(sequence.len(), 1, "the recording itself is not touched");
}

/// A sequence of one scope names a tensor of another that finishes: evaluating is `Stale`.
fn finish_overrides_a_recording(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let [a, b] = [manager.scope("a").unwrap(), manager.scope("b").unwrap()];
    let tensor = a.tensor::<u32>(4).unwrap();
    let sequence = b.named("q").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    sequence.run().unwrap();
    a.finish_blocking().unwrap();
    let error = sequence.evaluate().unwrap_err();
    assert!(error.to_string().contains("scope `a` has finished"), "{error}");
}

/// A view keeps the whole tensor, and a use through it is a use of the tensor.
fn views_are_handles(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    let view = tensor.view((1 << 19)..(1 << 20)).unwrap();
    drop(tensor);
    assert_eq!(manager.memory().live.bytes, 1 << 20);
    probe.hold();
    let execution = scope.evaluate([op::fill(&view, 1)]).unwrap();
    drop(view);
    scope.clear();
    let other = manager.tensor::<u8>(1 << 20).unwrap();
    assert_eq!(manager.memory().allocations, 2, "the first block is still in use");
    probe.release_all();
    execution.wait().unwrap();
    drop(other);
}

/// A tensor that is destroyed under two executions is freed after both.
fn a_use_in_flight_defers_the_free(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    probe.hold();
    let executions = [1, 2].map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap());
    tensor.destroy().unwrap();
    probe.release_one(executions[0].point().queue);
    executions[0].wait().unwrap();
    manager.trim().unwrap();
    assert_eq!(manager.memory().retired.bytes, 1 << 20);
    probe.release_all();
    executions[1].wait().unwrap();
    assert_eq!(manager.memory().cached.bytes, 1 << 20);
}

/// No drop of a handle waits for the device or calls the driver's frees.
fn dropping_calls_no_wait(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    {
        let _no_waits = probe.forbid_here(CallKind::WaitAny | CallKind::Free | CallKind::Recycle);
        drop((execution, sequence, tensor));
    }
    probe.release_all();
    scope.finish_blocking().unwrap();
}
