//! Cases about trim policies: when each of them trims, how much, and what the scope's report says of it (L21).
//!
//! Not here: trimming when it is asked for (`trim.rs`).

use std::sync::Barrier;

use tenure_core::{ManagedScope, Manager, ManagerOptions, Tensor, TrimPolicy, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{LEN, MIB, assert_given_back, mebibytes, settled, untrimmed};
use crate::instrument::{CallKind, Probe};

/// Options with a policy. Without threads of tenure's, so that nothing trims beside the case.
fn with(trim: TrimPolicy) -> ManagerOptions {
    ManagerOptions::builder().trim(trim).threads(false).build()
}

/// A thousand concurrent scopes, finished by eight threads: one trim, by the one that finishes last.
pub(super) fn a_thousand_scopes_trim_once(bed: &Bed) {
    const SCOPES: usize = 1000;
    const THREADS: usize = 8;
    let Rig { manager, probe } = bed.open();
    let scopes: Vec<(ManagedScope, Tensor<u8>)> = (0..SCOPES)
        .map(|_| {
            let scope = manager.scope("s").unwrap();
            let tensor = scope.tensor(4096).unwrap();
            (scope, tensor)
        })
        .collect();
    drop(manager.tensor::<u8>(MIB).unwrap());
    let start = Barrier::new(THREADS);
    let finish = |scopes: &[(ManagedScope, Tensor<u8>)]| -> Vec<u64> {
        start.wait();
        scopes.iter().map(|(scope, _)| scope.finish_blocking().unwrap().trimmed_bytes).collect()
    };
    let trimmed: Vec<u64> = std::thread::scope(|threads| {
        let chunks = scopes.chunks(SCOPES / THREADS);
        let workers: Vec<_> = chunks.map(|chunk| threads.spawn(|| finish(chunk))).collect();
        assert_eq!(workers.len(), THREADS);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let memory = settled(&manager);
    assert_eq!((memory.trims, probe.calls(CallKind::Trim)), (1, 1));
    assert_eq!(memory.reserved.bytes, 0);
    let told: Vec<u64> = trimmed.into_iter().filter(|bytes| *bytes > 0).collect();
    assert_eq!(told.len(), 1, "one report tells of the trim");
    assert!(told[0] >= memory.peak_reserved_bytes, "all that was reserved went back");
    drop(scopes);
    assert_given_back(&manager);
}

/// `OnFinish` trims when no root scope is open any more: not when a child finishes, not when one of two roots does, and
/// not while work that was moved out of a scope goes on.
pub(super) fn on_finish_waits_for_the_last_root(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(with(TrimPolicy::OnFinish));
    let use_some = |scope: &ManagedScope| drop(scope.tensor::<u8>(MIB).unwrap());
    let first = manager.scope("first").unwrap();
    let child = first.scope("child").unwrap();
    let moving = first.scope("moving").unwrap();
    use_some(&child);
    assert_eq!(child.finish_blocking().unwrap().trimmed_bytes, 0);
    let second = manager.scope("second").unwrap();
    let moved = moving.move_out().unwrap();
    assert_eq!(first.finish_blocking().unwrap().trimmed_bytes, 0);
    assert_eq!(second.finish_blocking().unwrap().trimmed_bytes, 0);
    assert_eq!((mebibytes(&manager), manager.memory().trims, probe.calls(CallKind::Free)), ([0, 0, 1], 0, 0));
    use_some(&moved);
    assert!(moved.finish_blocking().unwrap().trimmed_bytes >= MIB);
    assert_eq!((mebibytes(&manager), manager.memory().trims), ([0, 0, 0], 1));
    // And again, when there was no open scope in between.
    let next = manager.scope("next").unwrap();
    use_some(&next);
    assert!(next.finish_blocking().unwrap().trimmed_bytes >= MIB);
    assert_eq!((mebibytes(&manager), manager.memory().trims), ([0, 0, 0], 2));
    assert_given_back(&manager);
}

/// `OnFinish` gives back what the scope released itself, and leaves what others hold.
pub(super) fn on_finish_gives_back_what_the_scope_released(bed: &Bed) {
    let manager = bed.open_with(with(TrimPolicy::OnFinish)).manager;
    let held = manager.tensor::<u8>(MIB).unwrap();
    let scope = manager.scope("s").unwrap();
    let local = [1, 2, 4].map(|size| scope.tensor::<u8>(size * MIB).unwrap());
    let kept = scope.tensor::<u8>(MIB).unwrap();
    kept.promote().unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_bytes, report.released_tensors), (7 * MIB, 3));
    assert!(report.trimmed_bytes >= 7 * MIB, "{report}");
    assert_eq!(mebibytes(&manager), [2, 0, 0]);
    drop((held, kept, local));
    assert_given_back(&manager);
}

/// `EveryExecution` leaves nothing cached whenever an execution has retired; what is dropped while nothing runs goes
/// with the next one.
pub(super) fn every_execution_leaves_nothing_cached(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(with(TrimPolicy::EveryExecution));
    let scope = manager.scope("s").unwrap();
    let kept = manager.tensor::<u32>(LEN).unwrap();
    for round in 1..=5 {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        let execution = scope.evaluate([op::copy(&tensor, &kept)]).unwrap();
        drop(tensor);
        execution.wait().unwrap();
        assert_eq!((mebibytes(&manager), probe.calls(CallKind::Free)), ([1, 0, 0], round));
    }
    drop(manager.tensor::<u32>(LEN).unwrap());
    assert_eq!(mebibytes(&manager), [1, 0, 1], "nothing has retired since");
    scope.evaluate([op::fill(&kept, 1)]).unwrap().wait().unwrap();
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    scope.finish_blocking().unwrap();
    drop(kept);
    assert_given_back(&manager);
}

/// Runs a little work on `kept`, so that an execution retires.
fn retire_one(scope: &ManagedScope, kept: &Tensor<u32>) {
    scope.evaluate([op::fill(kept.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
}

/// Makes and drops `count` tensors of one mebibyte, all at a time.
fn cache(manager: &Manager, count: usize) {
    let tensors: Vec<Tensor<u8>> = (0..count).map(|_| manager.tensor(MIB).unwrap()).collect();
    drop(tensors);
}

/// `Watermark` trims above `high`, down to `low`, and does nothing in between: work that stays below never meets the
/// driver.
pub(super) fn a_watermark_has_hysteresis(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(with(TrimPolicy::Watermark { high: 8 * MIB, low: 4 * MIB }));
    let scope = manager.scope("s").unwrap();
    let kept = manager.tensor::<u32>(LEN).unwrap();
    let frees = || probe.calls(CallKind::Free);
    cache(&manager, 8);
    retire_one(&scope, &kept);
    assert_eq!((mebibytes(&manager), frees()), ([1, 0, 8], 0), "at the mark, not above");
    cache(&manager, 9);
    assert_eq!((mebibytes(&manager), frees()), ([1, 0, 9], 0), "dropping trims nothing");
    retire_one(&scope, &kept);
    assert_eq!((mebibytes(&manager), frees()), ([1, 0, 4], 5), "down to the lower mark, not below");
    for _ in 0..5 {
        cache(&manager, 8);
        retire_one(&scope, &kept);
    }
    assert_eq!((mebibytes(&manager), frees()), ([1, 0, 8], 5), "between the marks nothing is given back");
    assert_eq!(probe.calls(CallKind::Allocate), 1 + 9 + 4);
    scope.finish_blocking().unwrap();
    drop(kept);
    assert_given_back(&manager);
}

/// `Watermark` also looks when a scope finishes, and the scope's report says what it gave back.
pub(super) fn a_watermark_trims_at_a_finish_and_tells(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(with(TrimPolicy::Watermark { high: 4 * MIB, low: MIB }));
    let scope = manager.scope("s").unwrap();
    let local: Vec<Tensor<u8>> = (0..6).map(|_| scope.tensor(MIB).unwrap()).collect();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_bytes, mebibytes(&manager)), (6 * MIB, [0, 0, 1]));
    assert_eq!(report.trimmed_bytes, 5 * MIB, "what the policy gave back at this finish");
    drop(local);
    // Between the marks: kept while another root scope is open, which may need it, and not after the last.
    let scopes = [manager.scope("first").unwrap(), manager.scope("last").unwrap()];
    cache(&manager, 3);
    let trimmed =
        scopes.map(|scope| (scope.finish_blocking().unwrap().trimmed_bytes / MIB, mebibytes(&manager)));
    assert_eq!(trimmed, [(0, [0, 0, 3]), (2, [0, 0, 1])]);
    assert_given_back(&manager);
}

/// Equal marks are legal: everything above goes. Marks of zero keep nothing.
pub(super) fn a_watermark_may_be_one_mark(bed: &Bed) {
    for mark in [0, 3] {
        let trim = TrimPolicy::Watermark { high: mark * MIB, low: mark * MIB };
        let manager = bed.open_with(with(trim)).manager;
        let scope = manager.scope("s").unwrap();
        let kept = manager.tensor::<u32>(LEN).unwrap();
        cache(&manager, 6);
        retire_one(&scope, &kept);
        assert_eq!(mebibytes(&manager), [1, 0, mark]);
        scope.finish_blocking().unwrap();
        drop(kept);
        assert_given_back(&manager);
    }
}

/// `Never` gives nothing back by itself, whatever finishes, retires or is dropped; running out of memory, asking and
/// closing do.
pub(super) fn never_trims_by_itself(bed: &Bed) {
    fn work(manager: &Manager, probe: &Probe) {
        for size in [1, 2, 4] {
            let scope = manager.scope("s").unwrap();
            let tensor = scope.tensor::<u32>(size * LEN).unwrap();
            scope.evaluate([op::fill(&tensor, 1)]).unwrap();
            assert_eq!(scope.finish_blocking().unwrap().trimmed_bytes, 0);
        }
        assert_eq!((mebibytes(manager), probe.calls(CallKind::Free | CallKind::Trim)), ([0, 0, 7], 0));
        assert_eq!(manager.memory().trims, 0);
    }
    let Rig { manager, probe } = bed.open_with(untrimmed());
    work(&manager, &probe);
    assert_given_back(&manager);
    let Rig { manager, probe } = bed.open_with(untrimmed());
    work(&manager, &probe);
    let report = manager.close().unwrap();
    assert_eq!((report.memory.reserved.bytes, probe.calls(CallKind::Free)), (0, 3));
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).budget(8 * MIB).build();
    let Rig { manager, probe } = bed.open_with(options);
    work(&manager, &probe);
    let tensor = manager.tensor::<u8>(8 * MIB).unwrap();
    assert_eq!((mebibytes(&manager), manager.memory().trims), ([8, 0, 0], 1));
    drop(tensor);
    assert_given_back(&manager);
}
