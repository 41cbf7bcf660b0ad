//! Cases about memory of a host engine: tensors without a copy, released exactly once, after the device and before the
//! manager has closed; and tensors shown to the engine (L2, L4, L6, L15, L19, L23).
//!
//! Not here: how such memory is made (`engine_memory.rs`), and embedding in an engine's device, which is each backend's.

use std::sync::mpsc;
use std::time::Duration;

use tenure_core::{BackendErrorKind, Error, Manager, ManagerOptions, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::engine_memory::{Adoption, Lent, adopt_nonsense};
use crate::instrument::{CallKind, ObjectKind};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("adoption/work_goes_to_the_engines_memory", &["L6", "L19"], work_goes_to_the_engines_memory),
    case("adoption/it_is_no_memory_of_ours", &["L19", "L22"], it_is_no_memory_of_ours),
    case("adoption/released_after_the_device", &["L4", "L6"], released_after_the_device),
    case("adoption/a_recording_keeps_it", &["L5", "L4"], a_recording_keeps_it),
    case("adoption/released_when_its_scope_finishes", &["L2"], released_when_its_scope_finishes),
    case("adoption/released_before_the_manager_has_closed", &["L6"], released_before_the_manager_has_closed),
    case("adoption/a_refusal_releases", &["L6", "L13"], a_refusal_releases),
    case("adoption/the_callback_may_call_anything", &["L15"], the_callback_may_call_anything),
    case("adoption/a_callback_that_panics_is_told", &["L13"], a_callback_that_panics_is_told),
    case("adoption/without_threads_poll_releases", &["L6"], without_threads_poll_releases),
    case("adoption/released_when_the_device_is_lost", &["L23", "L6"], released_when_the_device_is_lost),
    case("adoption/copies_between_ours_and_theirs", &["L4", "L6"], copies_between_ours_and_theirs),
    case("adoption/an_engine_sees_a_tensor", &["L1", "L6"], an_engine_sees_a_tensor),
    case("adoption/what_an_engine_looks_at_stays", &["L4", "L15"], what_an_engine_looks_at_stays),
    Case {
        id: "adoption/another_backends_memory_is_refused",
        rules: &["L6"],
        requires: &[],
        run: another_backends_memory_is_refused,
    },
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[Requirement::EngineMemory], run }
}

/// Far above what a callback takes: it only keeps a suite from hanging.
const PATIENCE: Duration = Duration::from_secs(20);

const CONTENTS: [u32; 6] = [1, 2, 3, 5, 7, 11];

fn adopt(bed: &Bed, manager: &Manager) -> (Tensor<u32>, Lent) {
    let (tensor, lent) = bed.engine_memory().adopt(Adoption::new(manager, "engine's", &CONTENTS));
    (tensor.expect("it is adopted"), lent)
}

/// The tensor has what the engine had in the memory, and the engine finds there what the device and the host wrote.
fn work_goes_to_the_engines_memory(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (tensor, lent) = adopt(bed, &manager);
    assert_eq!(tensor.read().unwrap(), CONTENTS);
    let scope = manager.scope("s").unwrap();
    scope.evaluate([op::fill(tensor.view(1..3).unwrap(), 9)]).unwrap().wait().unwrap();
    tensor.view(5..6).unwrap().write(&[13]).unwrap();
    assert_eq!(tensor.read().unwrap(), [1, 9, 9, 5, 7, 13]);
    assert_eq!(lent.releases(), 0);
    drop(tensor);
    assert_eq!(lent.wait().unwrap(), [1, 9, 9, 5, 7, 13]);
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
    assert_eq!((lent.releases(), probe.lifetimes(ObjectKind::Adopted).made), (1, 1));
}

/// Adopted bytes are counted beside `reserved`, take none of the budget, and are never freed to the driver by tenure.
fn it_is_no_memory_of_ours(bed: &Bed) {
    let options = ManagerOptions::builder().budget(1).build();
    let Rig { manager, probe } = bed.open_with(options);
    let (tensor, lent) = adopt(bed, &manager);
    let memory = manager.memory();
    assert_eq!((memory.adopted.bytes, memory.adopted.blocks), (24, 1));
    assert_eq!((memory.reserved.bytes, memory.live.bytes, memory.tensors), (0, 0, 1));
    let Err(Error::OutOfMemory(refusal)) = manager.tensor::<u32>(1) else { panic!("beyond the budget") };
    assert!(refusal.largest.is_empty(), "it holds nothing of the budget: {refusal}");
    drop(tensor);
    lent.wait();
    let report = manager.close().unwrap();
    assert_eq!((report.memory.adopted.bytes, report.memory.adopted.blocks), (0, 0));
    assert_eq!(probe.calls(CallKind::Allocate | CallKind::Free), 0);
    assert_eq!((probe.calls(CallKind::Adopt), probe.calls(CallKind::Release)), (1, 1));
}

/// The last handle goes while the device writes the memory: it is the engine's when the device has finished, not before.
fn released_after_the_device(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for explicit in [false, true] {
        let (tensor, lent) = adopt(bed, &manager);
        let scope = manager.scope("s").unwrap();
        probe.hold();
        let execution = scope.evaluate([op::fill(&tensor, 4)]).unwrap();
        if explicit {
            tensor.destroy().unwrap();
        }
        drop(tensor);
        drop(scope);
        let _ = manager.poll().unwrap();
        assert_eq!((lent.releases(), manager.memory().adopted.blocks), (0, 1));
        probe.release_all();
        execution.wait().unwrap();
        assert_eq!(lent.wait().unwrap(), [4; 6]);
    }
    manager.close().unwrap();
}

/// What a sequence recorded holds the memory as it holds any (L5).
fn a_recording_keeps_it(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (tensor, lent) = adopt(bed, &manager);
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 6)).unwrap();
    drop(tensor);
    sequence.run().unwrap();
    assert_eq!(lent.releases(), 0);
    sequence.reset().unwrap();
    assert_eq!(lent.wait().unwrap(), [6; 6]);
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
}

/// A tensor that is local to a scope ends with it; a promoted one does not.
fn released_when_its_scope_finishes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let local = |label| {
        let adoption = Adoption { scope: Some(&scope), ..Adoption::new(&manager, label, &CONTENTS) };
        bed.engine_memory().adopt(adoption)
    };
    let (first, gone) = local("local");
    let (second, kept) = local("promoted");
    let (first, second) = (first.unwrap(), second.unwrap());
    second.promote_to_manager().unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(gone.wait().unwrap(), CONTENTS);
    assert!(matches!(first.read(), Err(Error::Stale { .. })));
    assert_eq!((second.read().unwrap(), kept.releases()), (CONTENTS.to_vec(), 0));
    drop(second);
    kept.wait();
    manager.close().unwrap();
}

/// A handle outlives the manager: the memory is the engine's again before closing returns, and the close report names it.
fn released_before_the_manager_has_closed(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (tensor, lent) = adopt(bed, &manager);
    let report = manager.close().unwrap();
    assert_eq!(lent.releases(), 1);
    assert_eq!(report.leaks.iter().map(|leak| &*leak.tensor).collect::<Vec<_>>(), ["engine's"]);
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    drop(tensor);
    assert_eq!(lent.releases(), 1);
}

/// Whatever refuses it: the engine hears of its memory at once, and once.
fn a_refusal_releases(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let too_small = Adoption { beyond: 1 << 20, ..Adoption::new(&manager, "small", &CONTENTS) };
    let (refused, lent) = bed.engine_memory().adopt(too_small);
    let Err(Error::Backend(error)) = refused else { panic!("too small: {refused:?}") };
    assert_eq!((error.kind, lent.releases()), (BackendErrorKind::Unsupported, 1));
    probe.fail_nth(CallKind::Adopt, 1, BackendErrorKind::Driver);
    let (refused, lent) = bed.engine_memory().adopt(Adoption::new(&manager, "failed", &CONTENTS));
    assert!(matches!(refused, Err(Error::Backend(_))), "{refused:?}");
    assert_eq!(lent.releases(), 1);
    let scope = manager.scope("s").unwrap();
    scope.finish_blocking().unwrap();
    let (late, lent) = bed
        .engine_memory()
        .adopt(Adoption { scope: Some(&scope), ..Adoption::new(&manager, "late", &CONTENTS) });
    assert!(matches!(late, Err(Error::ScopeFinished { .. })), "{late:?}");
    assert_eq!((lent.releases(), manager.memory().adopted.blocks), (1, 0));
    manager.close().unwrap();
}

/// From the callback every public call is legal: it makes a tensor, works on it, and adopts the next memory.
fn the_callback_may_call_anything(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (done, ended) = mpsc::channel();
    let inner = manager.clone();
    let on_release = move || {
        let scope = inner.scope("from the callback").unwrap();
        let tensor = scope.tensor_from("t", &[3_u32; 8]).unwrap();
        scope.evaluate([op::fill(&tensor, 8)]).unwrap().wait().unwrap();
        assert_eq!(tensor.read().unwrap(), [8; 8]);
        inner.trim().unwrap();
        scope.finish_blocking().unwrap();
        done.send(()).unwrap();
    };
    let adoption =
        Adoption { on_release: Box::new(on_release), ..Adoption::new(&manager, "engine's", &CONTENTS) };
    let (tensor, lent) = bed.engine_memory().adopt(adoption);
    drop(tensor.unwrap());
    lent.wait();
    ended.recv_timeout(PATIENCE).expect("the callback comes to its end");
    manager.close().unwrap();
}

/// A panic in the callback is nobody's: it is kept for the close report, and nothing else suffers.
fn a_callback_that_panics_is_told(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let adoption = Adoption {
        on_release: Box::new(|| panic!("the engine stumbles")),
        ..Adoption::new(&manager, "engine's", &CONTENTS)
    };
    let (tensor, lent) = bed.engine_memory().adopt(adoption);
    drop(tensor.unwrap());
    lent.wait();
    let (other, lent) = adopt(bed, &manager);
    drop(other);
    lent.wait();
    let report = manager.close().unwrap();
    let texts: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert!(texts.len() == 1 && texts[0].contains("release callback"), "{texts:?}");
}

/// Without threads the release comes with the engine's own poll.
fn without_threads_poll_releases(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(ManagerOptions::builder().threads(false).build());
    let (tensor, lent) = adopt(bed, &manager);
    drop(tensor);
    assert_eq!(lent.releases(), 0);
    assert_eq!(manager.poll().unwrap().jobs, 1);
    assert_eq!((lent.releases(), lent.wait()), (1, Some(CONTENTS.to_vec())));
    manager.close().unwrap();
}

/// A lost device ends the tensor's use: the engine gets its memory back, once, and closing succeeds.
fn released_when_the_device_is_lost(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (tensor, lent) = adopt(bed, &manager);
    let scope = manager.scope("s").unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 4)]).unwrap();
    probe.lose_device();
    assert!(matches!(execution.wait(), Err(Error::DeviceLost { .. })));
    drop((scope, tensor));
    lent.wait();
    manager.close().unwrap();
    assert_eq!((lent.releases(), manager.memory().adopted.blocks), (1, 0));
}

/// Tensors of both kinds work together, in every direction, in one sequence.
fn copies_between_ours_and_theirs(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (theirs, lent) = adopt(bed, &manager);
    let scope = manager.scope("s").unwrap();
    let ours = scope.tensor_from("ours", &[20_u32, 21, 22]).unwrap();
    let (front, back) = (theirs.view(0..3).unwrap(), theirs.view(3..6).unwrap());
    let sequence = scope.sequence().unwrap();
    sequence.record(op::copy(&front, &back)).unwrap();
    sequence.record(op::copy(&ours, &front)).unwrap();
    sequence.record(op::copy(&back, &ours)).unwrap();
    sequence.run().unwrap();
    assert_eq!(ours.read().unwrap(), [1, 2, 3]);
    drop((theirs, front, back, sequence));
    scope.finish_blocking().unwrap();
    assert_eq!(lent.wait().unwrap(), [20, 21, 22, 1, 2, 3]);
    manager.close().unwrap();
}

/// The native block and offset of a tensor are where its elements are: small ones, large ones, and adopted ones.
fn an_engine_sees_a_tensor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let memory = bed.engine_memory();
    let tensors: Vec<Tensor<u32>> =
        (1..40_u32).map(|size| manager.tensor_from("t", &vec![size; size as usize * 37]).unwrap()).collect();
    for (size, tensor) in (1..).zip(&tensors) {
        assert_eq!(memory.look(tensor).unwrap(), vec![size; size as usize * 37]);
    }
    let (adopted, _lent) = adopt(bed, &manager);
    assert_eq!(memory.look(&adopted).unwrap(), CONTENTS);
    assert!(memory.look(&manager.tensor::<u32>(0).unwrap()).unwrap().is_empty());
    drop(adopted);
    tensors[0].destroy().unwrap();
    assert!(matches!(memory.look(&tensors[0]), Err(Error::Stale { .. })));
    drop(tensors);
    manager.close().unwrap();
}

/// While an engine looks, the memory stays: the tensor is destroyed and the manager trims meanwhile. Closing from inside
/// is refused, every other call is legal.
fn what_an_engine_looks_at_stays(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let tensor = manager.tensor_from("t", &[7_u32; 1 << 18]).unwrap();
    let looked = bed.engine_memory().look_while(&tensor, &|| {
        tensor.write(&[8; 1 << 18]).unwrap();
        tensor.destroy().unwrap();
        manager.trim().unwrap();
        assert_eq!((probe.calls(CallKind::Free), manager.memory().live.blocks), (0, 1));
        assert!(matches!(manager.close(), Err(Error::WouldDeadlock { .. })));
    });
    assert_eq!(looked.unwrap(), [8; 1 << 18]);
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0));
    manager.trim().unwrap();
    assert_eq!(probe.calls(CallKind::Free), 1);
    manager.close().unwrap();
}

/// Memory in the terms of another API is refused with the name of the right one.
fn another_backends_memory_is_refused(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let error = adopt_nonsense(&manager);
    let Error::Backend(error) = error else { panic!("{error}") };
    assert_eq!((error.kind, error.operation), (BackendErrorKind::Unsupported, "adopt"));
    assert!(error.message.contains("this backend adopts"), "{error}");
    assert_eq!(probe.calls(CallKind::Adopt), 0);
    manager.close().unwrap();
}
