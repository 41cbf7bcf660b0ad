//! Cases about copies between host and tensor: what they wait for, what they exclude, and tensors that end under them
//! (L4, L7).
//!
//! Not here: reads as futures (`futures.rs`).

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tenure_core::{Error, Manager, Tensor, op};

use super::support::{
    LEN, WATCHDOG, assert_given_back, mebibytes, poll_once, settled, untrimmed, untrimmed_threadless,
};
use crate::bed::{Bed, Rig};
use crate::instrument::{CallKind, Probe};

/// The device reads a tensor and has not finished: the host reads it all the same, blocking and as a future.
pub(super) fn reads_do_not_wait_for_reads(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[5_u32; 64]).unwrap();
    let (download, values) = op::download(&tensor);
    probe.hold();
    let execution = scope.evaluate([download]).unwrap();
    // A read that waited here would never end.
    assert_eq!(tensor.read().unwrap(), [5; 64]);
    assert_eq!(tensor.view(8..10).unwrap().read().unwrap(), [5; 2]);
    match poll_once(&mut tensor.read_async()) {
        Poll::Ready(Ok(read)) => assert_eq!(read, [5; 64]),
        other => panic!("the read has nothing to wait for: {other:?}"),
    }
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(values.get().unwrap(), [5; 64]);
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}

/// Runs `copy` on a thread of its own, sees it wait for the device while `kind` was not called, and releases what is
/// held.
fn sees_it_wait<T: Send>(probe: &Probe, kind: CallKind, copy: impl FnOnce() -> T + Send) -> T {
    let (waits, copies) = (probe.calls(CallKind::WaitAny), probe.calls(kind));
    std::thread::scope(|threads| {
        let copying = threads.spawn(copy);
        let waiting = probe.wait_calls(CallKind::WaitAny, waits + 1, WATCHDOG);
        let early = probe.calls(kind) - copies;
        probe.release_all();
        let answer = copying.join().unwrap();
        assert!(waiting, "the copy waits for the device");
        assert_eq!(early, 0, "the copy came before the device had finished");
        answer
    })
}

/// The device still reads a tensor: a write waits for it, and the device has read the old values.
pub(super) fn a_write_waits_for_the_devices_reads(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed_threadless());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[5_u32; 64]).unwrap();
    let target = manager.tensor::<u32>(64).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::copy(&tensor, &target)]).unwrap();
    sees_it_wait(&probe, CallKind::WriteBlock, || tensor.write(&[6; 64])).unwrap();
    execution.wait().unwrap();
    assert_eq!((tensor.read().unwrap(), target.read().unwrap()), (vec![6; 64], vec![5; 64]));
    scope.finish_blocking().unwrap();
    drop((tensor, target));
    assert_given_back(&manager);
}

/// The device still writes a tensor: a read waits for it and has the new values. A write of another tensor does not.
pub(super) fn a_read_waits_for_the_devices_writes(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed_threadless());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[5_u32; 64]).unwrap();
    let other = manager.tensor::<u32>(64).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 7)]).unwrap();
    other.write(&[1; 64]).unwrap();
    assert_eq!(other.read().unwrap(), [1; 64]);
    let read = sees_it_wait(&probe, CallKind::ReadBlock, || tensor.read());
    assert_eq!(read.unwrap(), [7; 64]);
    execution.wait().unwrap();
    scope.finish_blocking().unwrap();
    drop((tensor, other));
    assert_given_back(&manager);
}

/// Asserts that all values are the same, and returns it.
#[track_caller]
fn constant(values: &[u32]) -> u32 {
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "a copy saw another one half done");
    values[0]
}

/// Two threads write, two read, two evaluate on one tensor: no copy sees another half done. The decorator judges that
/// none overlaps the device's work.
pub(super) fn copies_exclude_each_other(bed: &Bed) {
    const ROUNDS: u32 = 40;
    const ELEMENTS: u64 = 4096;
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[0_u32; ELEMENTS as usize]).unwrap();
    std::thread::scope(|threads| {
        for writer in 1..=2_u32 {
            let tensor = &tensor;
            threads.spawn(move || {
                for round in 0..ROUNDS {
                    tensor.write(&[writer * 1000 + round; ELEMENTS as usize]).unwrap();
                }
            });
            threads.spawn(move || {
                for _ in 0..ROUNDS {
                    constant(&tensor.read().unwrap());
                }
            });
        }
        threads.spawn(|| {
            for round in 0..ROUNDS {
                scope.evaluate([op::fill(&tensor, 3000 + round)]).unwrap();
            }
        });
        threads.spawn(|| {
            for _ in 0..ROUNDS {
                let (download, values) = op::download(&tensor);
                scope.evaluate([download]).unwrap().wait().unwrap();
                constant(&values.get().unwrap());
            }
        });
    });
    let last = constant(&tensor.read().unwrap());
    let ends = [1000, 2000, 3000].map(|start| start + ROUNDS - 1);
    assert!(ends.contains(&last), "the last write of a thread stays, not {last}");
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}

/// A tensor is destroyed while threads copy to and from it: each copy is whole or `Stale`, and the memory is given back
/// after the last of them.
pub(super) fn a_tensor_ends_under_a_copy(bed: &Bed) {
    fn round(manager: &Manager) {
        let tensor = manager.tensor_from("data", &vec![1_u32; LEN as usize]).unwrap();
        let start = Barrier::new(3);
        let copy = |copy: fn(&Tensor<u32>) -> Result<(), Error>| {
            start.wait();
            loop {
                match copy(&tensor) {
                    Ok(()) => {}
                    Err(Error::Stale { .. }) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| copy(|tensor| tensor.write(&vec![2; LEN as usize])));
            threads.spawn(|| {
                copy(|tensor| {
                    constant(&tensor.read()?);
                    Ok(())
                });
            });
            start.wait();
            tensor.destroy().unwrap();
        });
        assert_eq!((settled(manager).tensors, mebibytes(manager)), (0, [0, 0, 1]));
    }
    let manager = bed.open_with(untrimmed()).manager;
    for _ in 0..20 {
        round(&manager);
    }
    assert_given_back(&manager);
}

/// A tensor is destroyed while a read of it waits for the device: the read ends as `Stale` and copies nothing.
pub(super) fn a_tensor_ends_under_a_waiting_read(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed_threadless());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let destroyed = AtomicBool::new(false);
    let waits = probe.calls(CallKind::WaitAny);
    let answer = std::thread::scope(|threads| {
        let reading = threads.spawn(|| {
            let answer = tensor.read();
            assert!(destroyed.load(Ordering::SeqCst), "the read waited until then");
            answer
        });
        let waiting = probe.wait_calls(CallKind::WaitAny, waits + 1, WATCHDOG);
        tensor.destroy().unwrap();
        destroyed.store(true, Ordering::SeqCst);
        probe.release_all();
        assert!(waiting, "the read waits for the device");
        reading.join().unwrap()
    });
    assert!(matches!(answer, Err(Error::Stale { .. })), "{answer:?}");
    assert_eq!(probe.calls(CallKind::ReadBlock), 0);
    execution.wait().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}
