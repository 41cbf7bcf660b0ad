//! Scenarios of Kompute's tests (TestManager, TestSequence, TestAsyncOperations, TestMultipleAlgoExecutions,
//! TestOpTensorCreate, TestOpCopyTensor, TestOpSync, TestDestroy), restated; their faults are inverted.
//!
//! Not here: the states of a sequence in general (`sequences.rs`).

use std::time::Duration;

use tenure_core::{Dispatch, Error, ManagedScope, Manager, SequenceState, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::instrument::{CallKind, ObjectKind};
use crate::kernels::groups_for;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case(
        "kompute/one_sequence_many_operations_equals_many_evaluations",
        &["L7", "L9"],
        one_recording_equals_many,
    ),
    case("kompute/a_recording_is_cleared_by_reset", &["L5"], a_recording_is_cleared_by_reset),
    case("kompute/record_again_after_evaluating", &["L7", "L9"], record_again_after_evaluating),
    case("kompute/clear_while_running_lets_the_work_complete", &["L4", "L8"], clear_while_running),
    case("kompute/a_tiny_timeout_leaves_it_running", &["L7"], a_tiny_timeout_leaves_it_running),
    case("kompute/two_asynchronous_sequences_in_flight", &["L7"], two_in_flight),
    case("kompute/destroy_one_tensor_of_two", &["L2", "L3"], destroy_one_of_two),
    case("kompute/destroy_a_vector_of_tensors", &["L2", "L19"], destroy_a_vector),
    case("kompute/destroy_the_manager_before_everything", &["L6"], destroy_the_manager_first),
    case("kompute/destroy_a_sequence_explicitly", &["L8", "L19"], destroy_a_sequence),
    case("kompute/named_sequences_are_found_again", &["L8"], named_sequences_are_found),
    case("kompute/several_sequences_share_tensors", &["L4", "L7"], several_share_tensors),
    case("kompute/create_and_initialise", &["L19"], create_and_initialise),
    case("kompute/create_empty", &["L22"], create_empty),
    case("kompute/copy_one_to_many", &["L5"], copy_one_to_many),
    case("kompute/copy_of_other_size_is_refused", &["L22"], copy_of_other_size),
    case("kompute/copy_of_nothing_to_something_is_refused", &["L22"], copy_of_nothing),
    case("kompute/sync_to_device_and_back", &["L7"], sync_to_device_and_back),
    case("kompute/a_download_belongs_to_its_execution", &["L5", "L7"], a_download_belongs_to_its_execution),
    kernels("kompute/one_kernel_several_times", &["L9"], one_kernel_several_times),
    kernels("kompute/kernels_in_one_recording_run_in_order", &["L7"], kernels_run_in_order),
    kernels("kompute/parameters_are_those_of_the_recording", &["L9"], parameters_are_recorded),
    kernels("kompute/a_kernel_outlives_its_handle_in_a_recording", &["L5"], a_kernel_outlives_its_handle),
    kernels("kompute/linear_regression_by_gradient_steps", &["L9"], linear_regression),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

const fn kernels(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[Requirement::Kernels], run }
}

fn open(bed: &Bed) -> (Rig, ManagedScope) {
    let rig = bed.open();
    let scope = rig.manager.scope("kompute").unwrap();
    (rig, scope)
}

fn three(scope: &ManagedScope) -> Tensor<u32> {
    scope.tensor_from("three", &[1, 2, 3]).unwrap()
}

/// TestManager: three operations in one recording do what three evaluations do.
fn one_recording_equals_many(bed: &Bed) {
    let (rig, scope) = open(bed);
    let [a, b] = [three(&scope), three(&scope)];
    let recorded = scope.sequence().unwrap();
    for value in 7..10 {
        recorded.record(op::fill(a.view(0..2).unwrap(), value)).unwrap();
        scope.evaluate([op::fill(b.view(0..2).unwrap(), value)]).unwrap().wait().unwrap();
    }
    recorded.run().unwrap();
    assert_eq!(a.read().unwrap(), [9, 9, 3]);
    assert_eq!(b.read().unwrap(), [9, 9, 3]);
    assert_eq!(rig.probe.calls(CallKind::Submit), 4);
}

/// TestSequence: a reset recording evaluates to nothing.
fn a_recording_is_cleared_by_reset(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 9)).unwrap();
    assert_eq!((sequence.state(), sequence.len()), (SequenceState::Ready, 1));
    sequence.reset().unwrap();
    assert_eq!((sequence.state(), sequence.len()), (SequenceState::Recording, 0));
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [1, 2, 3]);
}

/// TestSequence: recording goes on after an evaluation; the next one runs everything.
fn record_again_after_evaluating(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let [a, b] = [three(&scope), three(&scope)];
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&a, 4)).unwrap();
    sequence.run().unwrap();
    a.write(&[0; 3]).unwrap();
    sequence.record(op::fill(&b, 5)).unwrap();
    sequence.run().unwrap();
    assert_eq!((a.read().unwrap(), b.read().unwrap()), (vec![4; 3], vec![5; 3]));
}

/// TestSequence, inverted: clearing a running sequence breaks nothing. The submitted work completes, and nothing of it is
/// given back before.
fn clear_while_running(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 9)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    assert_eq!(scope.clear(), 1);
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).given_back, 0, "still in flight");
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).given_back, 1);
    assert_eq!(tensor.read().unwrap(), [9; 3]);
}

/// TestAsyncOperations, inverted: a wait of a nanosecond leaves the sequence running, with all that it holds.
fn a_tiny_timeout_leaves_it_running(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    rig.probe.hold();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 9)).unwrap();
    let execution = sequence.evaluate().unwrap();
    for _ in 0..3 {
        assert!(matches!(execution.wait_timeout(Duration::from_nanos(1)), Err(Error::TimedOut { .. })));
        assert_eq!(sequence.state(), SequenceState::Running);
    }
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
}

/// TestAsyncOperations: two sequences in flight at a time, awaited in either order.
fn two_in_flight(bed: &Bed) {
    let (rig, scope) = open(bed);
    let [a, b] = [three(&scope), three(&scope)];
    rig.probe.hold();
    let first = scope.evaluate([op::fill(&a, 4)]).unwrap();
    let second = scope.evaluate([op::fill(&b, 5)]).unwrap();
    rig.probe.release_all();
    pollster::block_on(async {
        second.await.unwrap();
        first.await.unwrap();
    });
    assert_eq!((a.read().unwrap(), b.read().unwrap()), (vec![4; 3], vec![5; 3]));
}

/// TestDestroy: one of two tensors is destroyed; the other works.
fn destroy_one_of_two(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let [a, b] = [three(&scope), three(&scope)];
    a.destroy().unwrap();
    assert!(!a.is_live() && b.is_live());
    assert!(matches!(scope.evaluate([op::fill(&a, 1)]), Err(Error::Stale { .. })));
    scope.evaluate([op::fill(&b, 1)]).unwrap().wait().unwrap();
}

/// TestDestroy: a vector of tensors is destroyed one by one; the manager holds none of them.
fn destroy_a_vector(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensors: Vec<_> = (0..10).map(|_| three(&scope)).collect();
    assert_eq!(rig.manager.memory().tensors, 10);
    for tensor in &tensors {
        tensor.destroy().unwrap();
    }
    let memory = rig.manager.memory();
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
    assert_eq!(scope.live_bytes(), 0);
}

/// TestDestroy: the manager goes first; what is left answers `Stale` and drops silently.
fn destroy_the_manager_first(bed: &Bed) {
    let (Rig { manager, probe }, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    manager.close().unwrap();
    assert!(probe.is_shut_down());
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    drop((manager, scope, tensor, sequence));
}

/// TestDestroy: an explicit destroy gives the native recording back; twice is Ok.
fn destroy_a_sequence(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap().run().unwrap();
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 1);
    sequence.destroy().unwrap();
    sequence.destroy().unwrap();
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
    assert!(matches!(scope.find("s"), Err(Error::UnknownName { .. })));
}

/// TestManager: a named sequence is found again, with its recording.
fn named_sequences_are_found(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let tensor = three(&scope);
    scope.named("s").unwrap().record(op::fill(&tensor, 6)).unwrap();
    scope.find("s").unwrap().run().unwrap();
    assert_eq!(tensor.read().unwrap(), [6; 3]);
    assert_eq!(scope.named_sequences().len(), 1);
}

/// TestManager: several sequences use the same tensors; their order of evaluation counts.
fn several_share_tensors(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let [a, b] = [three(&scope), three(&scope)];
    let forward = scope.named("forward").unwrap();
    let back = scope.named("back").unwrap();
    forward.record(op::copy(&a, &b)).unwrap();
    back.record(op::fill(&a, 8)).unwrap().record(op::copy(&b, a.view(0..3).unwrap())).unwrap();
    forward.evaluate().unwrap();
    back.run().unwrap();
    assert_eq!((a.read().unwrap(), b.read().unwrap()), (vec![1, 2, 3], vec![1, 2, 3]));
}

/// TestOpTensorCreate: many tensors with their data.
fn create_and_initialise(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensors: Vec<_> = (0..5_u32).map(|at| scope.tensor_from("data", &[at; 9]).unwrap()).collect();
    for (at, tensor) in tensors.iter().enumerate() {
        assert_eq!(tensor.read().unwrap(), [u32::try_from(at).unwrap(); 9]);
        assert_eq!((tensor.len(), tensor.bytes(), tensor.shape()), (9, 36, &[9_u64][..]));
    }
    assert_eq!(rig.manager.memory().tensors, 5);
}

/// TestOpTensorCreate, inverted: an empty tensor is legal.
fn create_empty(bed: &Bed) {
    let (rig, scope) = open(bed);
    let empty = scope.tensor_from::<u32>("empty", &[]).unwrap();
    assert!(empty.is_empty());
    assert!(empty.read().unwrap().is_empty());
    assert_eq!(rig.probe.calls(CallKind::Allocate), 0);
}

/// TestOpCopyTensor: one source, several targets, in one recording.
fn copy_one_to_many(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let source = three(&scope);
    let targets: Vec<_> = (0..4).map(|_| scope.tensor::<u32>(3).unwrap()).collect();
    scope.evaluate(targets.iter().map(|target| op::copy(&source, target))).unwrap().wait().unwrap();
    for target in targets {
        assert_eq!(target.read().unwrap(), [1, 2, 3]);
    }
}

/// TestOpCopyTensor: sizes that differ are refused when recorded, with the figures.
fn copy_of_other_size(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let source = three(&scope);
    let target = scope.tensor::<u32>(4).unwrap();
    let sequence = scope.sequence().unwrap();
    let error = sequence.record(op::copy(&source, &target)).unwrap_err();
    assert!(matches!(error, Error::Length { expected: 4, actual: 3, .. }), "{error}");
    assert!(sequence.is_empty());
}

/// TestOpCopyTensor: a copy from an empty tensor to one that is not is refused, between empty ones it is nothing.
fn copy_of_nothing(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let [empty, other] = [scope.tensor::<u32>(0).unwrap(), scope.tensor::<u32>(0).unwrap()];
    let sequence = scope.sequence().unwrap();
    assert!(matches!(sequence.record(op::copy(&empty, three(&scope))), Err(Error::Length { .. })));
    sequence.record(op::copy(&empty, &other)).unwrap().run().unwrap();
}

/// TestOpSync: up, changed there, down.
fn sync_to_device_and_back(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let tensor = scope.tensor::<u32>(3).unwrap();
    let (download, values) = op::download(&tensor);
    assert!(matches!(values.get(), Err(Error::NotReady { .. })));
    let sequence = scope.sequence().unwrap();
    sequence.record(op::upload(&tensor, &[5, 6, 7])).unwrap();
    sequence.record(op::fill(tensor.view(1..2).unwrap(), 0)).unwrap();
    sequence.record(download).unwrap();
    sequence.run().unwrap();
    assert_eq!(values.get().unwrap(), [5, 0, 7]);
}

/// TestOpSync: what was downloaded is what that execution saw, whatever came after.
fn a_download_belongs_to_its_execution(bed: &Bed) {
    let (_rig, scope) = open(bed);
    let tensor = three(&scope);
    let (download, values) = op::download(&tensor);
    let sequence = scope.sequence().unwrap();
    sequence.record(download).unwrap().run().unwrap();
    tensor.write(&[9; 3]).unwrap();
    assert_eq!(values.get().unwrap(), [1, 2, 3]);
    sequence.run().unwrap();
    assert_eq!(values.get().unwrap(), [9; 3]);
}

fn dispatch_increment(manager: &Manager, bed: &Bed, tensor: &Tensor<u32>) -> Dispatch {
    let kernel = manager.kernel(&bed.kernels().increment).unwrap();
    op::dispatch(&kernel).bind(tensor).groups(groups_for(tensor.len()))
}

/// TestMultipleAlgoExecutions: one kernel, recorded once, evaluated three times.
fn one_kernel_several_times(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(dispatch_increment(&rig.manager, bed, &tensor)).unwrap();
    for _ in 0..3 {
        sequence.run().unwrap();
    }
    assert_eq!(tensor.read().unwrap(), [4, 5, 6]);
}

/// TestMultipleAlgoExecutions: the same kernel three times in one recording.
fn kernels_run_in_order(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(dispatch_increment(&rig.manager, bed, &tensor)).unwrap();
    sequence.record(op::fill(tensor.view(0..1).unwrap(), 100)).unwrap();
    sequence.record(dispatch_increment(&rig.manager, bed, &tensor)).unwrap();
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [101, 4, 5]);
}

/// PushConstants: each dispatch has the parameters it was recorded with.
fn parameters_are_recorded(bed: &Bed) {
    let (rig, scope) = open(bed);
    let scale = rig.manager.kernel(&bed.kernels().scale).unwrap();
    let tensor = scope.tensor_from("x", &[1.0_f32; 3]).unwrap();
    let dispatch = |factor: f32| op::dispatch(&scale).bind(&tensor).groups(groups_for(3)).parameters(factor);
    let sequence = scope.named("s").unwrap();
    sequence.record(dispatch(3.0)).unwrap().record(dispatch(0.5)).unwrap();
    sequence.run().unwrap();
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [2.25; 3]);
}

/// TestManager: a kernel whose handle is gone serves the recordings that name it, and goes after them.
fn a_kernel_outlives_its_handle(bed: &Bed) {
    let (rig, scope) = open(bed);
    let tensor = three(&scope);
    let sequence = scope.named("s").unwrap();
    sequence.record(dispatch_increment(&rig.manager, bed, &tensor)).unwrap();
    assert_eq!(rig.probe.lifetimes(ObjectKind::Kernel).live(), 1);
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [2, 3, 4]);
    scope.finish_blocking().unwrap();
    rig.manager.close().unwrap();
    assert_eq!(rig.probe.lifetimes(ObjectKind::Kernel).live(), 0);
}

/// LogisticRegression's shape: parameters stay on the device over many steps, and are read at the end. Here a linear
/// fit of y = 2x by gradient steps, from the suite's kernels.
fn linear_regression(bed: &Bed) {
    let (rig, scope) = open(bed);
    let saxpy = rig.manager.kernel(&bed.kernels().saxpy).unwrap();
    let scale = rig.manager.kernel(&bed.kernels().scale).unwrap();
    let target = scope.tensor_from("target", &[2.0_f32, 4.0, 6.0]).unwrap();
    let weights = scope.tensor_from("weights", &[0.0_f32; 3]).unwrap();
    let gradient = scope.tensor::<f32>(3).unwrap();
    let groups = groups_for(3);
    let step = scope.named("step").unwrap();
    // gradient = weights - target; weights -= 0.1 * gradient
    step.record(op::copy(&weights, &gradient)).unwrap();
    step.record(op::dispatch(&saxpy).bind(&target).bind(&gradient).groups(groups).parameters(-1.0_f32))
        .unwrap();
    step.record(op::dispatch(&scale).bind(&gradient).groups(groups).parameters(0.1_f32)).unwrap();
    step.record(op::dispatch(&saxpy).bind(&gradient).bind(&weights).groups(groups).parameters(-1.0_f32))
        .unwrap();
    for _ in 0..100 {
        step.run().unwrap();
    }
    for (weight, wanted) in weights.read().unwrap().iter().zip([2.0, 4.0, 6.0]) {
        assert!((weight - wanted).abs() < 1e-3, "{weight} is not {wanted}");
    }
}
