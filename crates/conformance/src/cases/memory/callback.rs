//! Cases about the callback for memory that has run out: who is asked, when, how often, and what becomes of its answer
//! (L15, L20).
//!
//! The variations of one callback under a budget (it drops, allocates, recurs, fails, panics) are in `field`.

use std::error::Error as _;
use std::sync::{Arc, Barrier};

use parking_lot::Mutex;
use tenure_core::{
    BackendErrorKind, BoxError, Error, ManagedScope, ManagerOptions, OutOfMemoryRequest, Tensor, TrimPolicy,
    op,
};

use super::out_of_memory;
use super::out_of_memory::ask_and_release;
use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{Count, MIB, assert_given_back, mebibytes, settled};
use crate::instrument::{CallKind, Limits};

/// Options with a callback, without trimming by policy and without threads of tenure's.
fn asking(
    callback: impl Fn(&OutOfMemoryRequest) -> Result<(), BoxError> + Send + Sync + 'static,
) -> ManagerOptions {
    ManagerOptions::builder()
        .trim(TrimPolicy::Never)
        .threads(false)
        .on_out_of_memory(Arc::new(callback))
        .build()
}

/// A driver that holds 8 MiB.
fn eight_mebibytes() -> Limits {
    Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() }
}

/// What a callback can give up.
type Spill<V> = Arc<Mutex<Option<V>>>;

/// The driver is full: the callback is asked once, after everything else was tried, with the figures of that moment,
/// and what it gives up is enough. A request that fits by giving the cache up asks nobody.
pub(super) fn a_full_driver_asks_last(bed: &Bed) {
    let spill: Spill<Tensor<u8>> = Arc::default();
    let (asked, give) = (Count::default(), spill.clone());
    let count = asked.clone();
    let callback = move |request: &OutOfMemoryRequest| {
        count.add();
        assert_eq!((&*request.label, request.requested), ("tensor", 5 * MIB));
        let memory = &request.memory;
        assert_eq!((memory.live.bytes, memory.cached.bytes), (4 * MIB, 0), "the cache went before");
        drop(give.lock().take());
        Ok(())
    };
    let Rig { manager, probe } = bed.open_limited(eight_mebibytes(), asking(callback));
    *spill.lock() = Some(manager.tensor(4 * MIB).unwrap());
    drop(manager.tensor::<u8>(MIB).unwrap());
    drop(manager.tensor::<u8>(4 * MIB).unwrap());
    assert_eq!((asked.get(), manager.memory().retries), (0, 1));
    let tensor = manager.tensor::<u8>(5 * MIB).unwrap();
    let memory = settled(&manager);
    assert_eq!((asked.get(), memory.retries, memory.failed_allocations), (1, 2, 0));
    assert_eq!((mebibytes(&manager), probe.calls(CallKind::Free)), ([5, 0, 0], 3));
    drop(tensor);
    assert_given_back(&manager);
}

/// Three requests fail one after the other: each asks once, and the driver three times (before, after trimming, after
/// asking).
pub(super) fn each_request_asks_once(bed: &Bed) {
    let asked = Count::default();
    let count = asked.clone();
    let Rig { manager, probe } = bed.open_with(asking(move |_| {
        count.add();
        Ok(())
    }));
    probe.fail_always(CallKind::Allocate, BackendErrorKind::OutOfMemory);
    for request in 1..=3 {
        let error = out_of_memory(manager.tensor::<u8>(MIB));
        assert!(error.callback.is_none(), "it did not fail");
        let memory = settled(&manager);
        assert_eq!((asked.get(), probe.calls(CallKind::Allocate)), (request, 3 * request));
        assert_eq!((memory.retries, memory.failed_allocations), (request, request));
    }
    probe.clear_faults();
    assert_given_back(&manager);
}

/// Errors that are none of memory ask nobody: another kind of the driver's, a size that passes a limit, one that
/// overflows, and nothing at all.
pub(super) fn other_errors_ask_nobody(bed: &Bed) {
    let asked = Count::default();
    let count = asked.clone();
    let Rig { manager, probe } = bed.open_limited(
        Limits { max_block_bytes: Some(4 * MIB), ..Limits::default() },
        asking(move |_| {
            count.add();
            Ok(())
        }),
    );
    probe.fail_nth(CallKind::Allocate, 1, BackendErrorKind::Driver);
    assert!(matches!(manager.tensor::<u8>(MIB), Err(Error::Backend(_))));
    assert!(matches!(manager.tensor::<u8>(5 * MIB), Err(Error::TooLarge { .. })));
    assert!(matches!(manager.tensor::<u64>(u64::MAX), Err(Error::SizeOverflow { .. })));
    drop(manager.tensor::<u8>(0).unwrap());
    assert_eq!((asked.get(), manager.memory().retries), (0, 0));
    assert_given_back(&manager);
}

/// The callback fails: its error is in the answer, beside the driver's, and is the source of it.
pub(super) fn a_failing_callback_is_in_the_error(bed: &Bed) {
    #[derive(Debug)]
    struct DiskFull(u32);
    impl std::fmt::Display for DiskFull {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "disk {} is full", self.0)
        }
    }
    impl std::error::Error for DiskFull {}

    let limits = eight_mebibytes();
    let Rig { manager, .. } = bed.open_limited(limits, asking(|_| Err(DiskFull(7).into())));
    let error = manager.tensor::<u8>(9 * MIB).unwrap_err();
    let found = error.find::<DiskFull>().expect("the callback's error is found by its type");
    assert_eq!(found.0, 7);
    let figures = out_of_memory::<()>(Err(error));
    assert_eq!(figures.driver.as_ref().map(|error| error.kind), Some(BackendErrorKind::OutOfMemory));
    assert_eq!(figures.source().unwrap().to_string(), "disk 7 is full");
    assert!(figures.to_string().contains("disk 7 is full"), "{figures}");
    drop(manager.tensor::<u8>(8 * MIB).unwrap());
    assert_given_back(&manager);
}

/// Two threads run out of memory at the same time: each is asked by itself, both callbacks run at once, and no lock of
/// tenure's is held while they do.
pub(super) fn each_thread_is_asked_by_itself(bed: &Bed) {
    let both = Arc::new(Barrier::new(2));
    let asked = Count::default();
    let callback = {
        let (both, asked) = (both.clone(), asked.clone());
        move |_: &OutOfMemoryRequest| {
            asked.add();
            both.wait();
            Ok(())
        }
    };
    let Rig { manager, .. } = bed.open_limited(eight_mebibytes(), asking(callback));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| out_of_memory(manager.tensor::<u8>(16 * MIB)));
        }
    });
    let memory = settled(&manager);
    assert_eq!((asked.get(), memory.failed_allocations, memory.reserved.bytes), (2, 2, 0));
    assert_given_back(&manager);
}

/// The callback finishes a scope: its tensors are room enough, and finishing under a request deadlocks with nothing.
pub(super) fn the_callback_may_finish_a_scope(bed: &Bed) {
    let spill: Spill<ManagedScope> = Arc::default();
    let give = spill.clone();
    let options = asking(move |_| {
        let scope = give.lock().take().ok_or("nothing left")?;
        scope.finish_blocking()?;
        Ok(())
    });
    let manager = bed.open_limited(eight_mebibytes(), options).manager;
    let scope = manager.scope("spill").unwrap();
    let tensors = [(); 3].map(|()| scope.tensor::<u8>(2 * MIB).unwrap());
    scope.evaluate([op::fill(tensors[0].view(0..64).unwrap(), 1)]).unwrap();
    *spill.lock() = Some(scope);
    let tensor = manager.tensor::<u8>(8 * MIB).unwrap();
    assert!(tensors.iter().all(|tensor| !tensor.is_live()));
    assert_eq!((mebibytes(&manager), manager.memory().failed_allocations), ([8, 0, 0], 0));
    let error = out_of_memory(manager.tensor::<u8>(MIB));
    assert_eq!(error.callback.as_ref().unwrap().to_string(), "nothing left");
    drop((tensor, tensors));
    assert_given_back(&manager);
}

/// The callback gives up a tensor that the device still uses: that is a pending free like any other, and is waited for.
pub(super) fn what_it_gives_up_in_flight_is_waited_for(bed: &Bed) {
    let spill: Spill<Tensor<u8>> = Arc::default();
    let give = spill.clone();
    let options = asking(move |_| {
        give.lock().take().ok_or("nothing left")?.destroy()?;
        Ok(())
    });
    let Rig { manager, probe } = bed.open_limited(eight_mebibytes(), options);
    let scope = manager.scope("busy").unwrap();
    let tensor = manager.tensor::<u8>(6 * MIB).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    *spill.lock() = Some(tensor);
    let tensor = ask_and_release(&probe, &execution, || manager.tensor::<u8>(4 * MIB)).unwrap();
    assert_eq!((mebibytes(&manager), manager.memory().failed_allocations), ([4, 0, 0], 0));
    execution.wait().unwrap();
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}
