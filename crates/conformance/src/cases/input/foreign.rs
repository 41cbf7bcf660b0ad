//! Cases about handles of another manager: each is refused where it is named, with both managers' names (L3).
//!
//! Not here: what two managers on one device have to do with each other (`field`).

use tenure_core::{Error, ManagerOptions, Op, ResourceKind, hook, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{Count, Snapshot, assert_given_back, assert_names};
use crate::instrument::CallKind;
use crate::kernels::groups_for;

/// Two managers, each with its name.
fn two(bed: &Bed) -> [Rig; 2] {
    ["here", "there"]
        .map(|label| bed.open_with(ManagerOptions::builder().label(label).threads(false).build()))
}

#[track_caller]
fn assert_foreign(answer: Result<(), Error>, expected: ResourceKind, name: &str) {
    let error = answer.expect_err("a foreign handle is refused");
    match &error {
        Error::ForeignManager { kind, label, owner, manager } => {
            assert_eq!((*kind, &**label), (expected, name));
            assert_eq!((&**owner, &**manager), ("there", "here"));
        }
        other => panic!("the {expected} is of another manager: {other}"),
    }
    assert_names(&error, &[name, "here", "there"]);
}

/// A tensor of another manager in every operation, on either side of a copy, whole and as a view: refused, nothing is
/// recorded, and neither device hears of it.
pub(super) fn foreign_tensors_in_every_operation(bed: &Bed) {
    let [here, there] = two(bed);
    let scope = here.manager.scope("s").unwrap();
    let own = scope.tensor_from("own", &[1_u32; 64]).unwrap();
    let foreign = there.manager.tensor_from("foreign", &[2_u32; 64]).unwrap();
    let sequence = scope.named("work").unwrap();
    sequence.record(op::fill(&own, 1)).unwrap();
    let before = [Snapshot::of(&here), Snapshot::of(&there)];
    let operations: [Op; 8] = [
        op::upload(&foreign, &[0; 64]),
        op::download(&foreign).0,
        op::fill(&foreign, 0),
        op::fill(foreign.view(8..16).unwrap(), 0),
        op::copy(&foreign, &own),
        op::copy(&own, &foreign),
        op::copy(&foreign, &foreign),
        // Also where something else is wrong with it: whose it is comes first.
        op::upload(&foreign, &[0; 63]),
    ];
    for operation in operations {
        assert_foreign(sequence.record(operation.clone()).map(|_| ()), ResourceKind::Tensor, "foreign");
        assert_foreign(scope.evaluate([operation]).map(drop), ResourceKind::Tensor, "foreign");
    }
    assert_eq!((sequence.len(), scope.anonymous_sequences().len()), (1, 0));
    before[0].assert_unchanged(&here);
    before[1].assert_unchanged(&there);
    // A foreign tensor that is stale is foreign all the same.
    foreign.destroy().unwrap();
    assert_foreign(sequence.record(op::fill(&foreign, 0)).map(|_| ()), ResourceKind::Tensor, "foreign");
    sequence.run().unwrap();
    assert_eq!(own.read().unwrap(), [1; 64]);
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
    drop((own, foreign));
    assert_given_back(&here.manager);
    assert_given_back(&there.manager);
}

/// A tensor of another manager in each place of a dispatch, and a kernel of another manager.
pub(super) fn foreign_tensors_and_kernels_in_a_dispatch(bed: &Bed) {
    let [here, there] = two(bed);
    let scope = here.manager.scope("s").unwrap();
    let own = [(); 3].map(|()| scope.tensor_from("own", &[1_f32; 64]).unwrap());
    let foreign = there.manager.tensor_from("foreign", &[2_f32; 64]).unwrap();
    let kernels = [&here, &there].map(|rig| rig.manager.kernel(&bed.kernels().add).unwrap());
    let sequence = scope.sequence().unwrap();
    for place in 0..3 {
        let dispatch = own.iter().enumerate().fold(op::dispatch(&kernels[0]), |dispatch, (at, own)| {
            dispatch.bind(if at == place { &foreign } else { own })
        });
        let answer = sequence.record(dispatch.groups(groups_for(64))).map(|_| ());
        assert_foreign(answer, ResourceKind::Tensor, "foreign");
    }
    let dispatch = own.iter().fold(op::dispatch(&kernels[1]), |dispatch, own| dispatch.bind(own));
    let answer = sequence.record(dispatch.groups(groups_for(64))).map(|_| ());
    assert_foreign(answer, ResourceKind::Kernel, "add");
    assert!(sequence.is_empty());
    for rig in [&here, &there] {
        assert_eq!(rig.probe.calls(CallKind::Record | CallKind::Submit), 0);
    }
    scope.finish_blocking().unwrap();
    drop((own, foreign, kernels));
    assert_given_back(&here.manager);
    assert_given_back(&there.manager);
}

/// A scope of another manager, a sibling and a child are no ancestors: the hook is handed back, and can be registered
/// where it belongs.
pub(super) fn a_foreign_scope_is_no_ancestor(bed: &Bed) {
    let [here, there] = two(bed);
    let foreign = there.manager.scope("foreign").unwrap();
    let sibling = here.manager.scope("sibling").unwrap();
    let scope = here.manager.scope("node").unwrap();
    let child = scope.scope("child").unwrap();
    let once = Count::default();
    let mut hook = once.once("hook");
    for other in [&foreign, &sibling, &child] {
        let rejected = scope.register_on(other, hook).unwrap_err();
        match &rejected.error {
            Error::NotAnAncestor { ancestor, scope } => {
                assert_eq!((&**ancestor, &**scope), (other.label(), "node"));
            }
            error => panic!("`{}` is no ancestor: {error}", other.label()),
        }
        assert_names(&rejected.error, &[other.label(), "node"]);
        hook = rejected.value;
    }
    child.register_on(&scope, hook).unwrap();
    child.register_on(&child, hook::once("own", |_| Ok(()))).unwrap();
    for scope in [child, foreign, sibling] {
        scope.finish_blocking().unwrap();
    }
    assert_eq!(once.get(), 0);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((once.get(), report.hooks.len(), report.hooks[0].runs), (1, 1, 1));
}
