//! Helpers of the cases about ownership, memory and input: rows of a table, counting hooks, memory figures at rest,
//! what a stale handle answers, and a snapshot that shows that a refusal changed nothing.
//!
//! Not here: kernels (`kernels.rs`).

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::{
    EndOfLife, Error, Hook, Manager, ManagerOptions, MemoryReport, ResourceKind, TrimPolicy, hook,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
pub(in crate::cases) use crate::cases::hooks::support::poll_once;
use crate::instrument::{CallKind, CallSet, Probe};

/// One mebibyte: a size that every pool grants exactly.
pub(in crate::cases) const MIB: u64 = 1 << 20;

/// Elements of 4 bytes in one mebibyte.
pub(in crate::cases) const LEN: u64 = MIB / 4;

/// How long a case waits for what must come. Only keeps it from hanging.
pub(in crate::cases) const WATCHDOG: Duration = Duration::from_secs(20);

/// Every driver call but the one that wakes a waiting thread.
pub(in crate::cases) const DRIVER_WORK: CallSet = CallSet::ALL.without(CallSet::of(&[CallKind::Interrupt]));

/// The driver calls whose number depends on what was asked for alone, not on when threads looked.
const ASKED_FOR: CallSet = DRIVER_WORK.without(CallSet::of(&[CallKind::Completed, CallKind::WaitAny]));

/// A row of a table.
pub(in crate::cases) const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// A row of a table, for devices that have something.
pub(in crate::cases) const fn case_with(
    id: &'static str,
    rules: &'static [&'static str],
    requires: &'static [Requirement],
    run: fn(&Bed),
) -> Case {
    Case { id, rules, requires, run }
}

/// Options without trimming by policy, so that every trim is one that the case asked for.
pub(in crate::cases) fn untrimmed() -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).build()
}

/// The same without threads of tenure's, so that nobody waits for the device but who is told to.
pub(in crate::cases) fn untrimmed_threadless() -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).threads(false).build()
}

/// What a tensor of `bytes` takes where it is small: the next multiple of the device's alignment.
pub(in crate::cases) fn small_grant(manager: &Manager, bytes: u64) -> u64 {
    bytes.next_multiple_of(manager.capabilities().alignment)
}

/// Driver calls that give a native object back or end the device.
pub(in crate::cases) fn given_back(probe: &Probe) -> u64 {
    probe.calls(
        CallKind::Free
            | CallKind::Recycle
            | CallKind::ResetSequence
            | CallKind::ResetScope
            | CallKind::CloseScope
            | CallKind::DestroyKernel
            | CallKind::Shutdown,
    )
}

/// Counts; clones count together.
#[derive(Clone, Default)]
pub(in crate::cases) struct Count(Arc<AtomicU64>);

impl Count {
    pub(in crate::cases) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::cases) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A scope hook that counts its runs.
    pub(in crate::cases) fn once(&self, label: &'static str) -> Hook {
        let count = self.clone();
        hook::once(label, move |_| {
            count.add();
            Ok(())
        })
    }

    /// An execution hook that counts its runs.
    pub(in crate::cases) fn each(&self, label: &'static str) -> Hook {
        let count = self.clone();
        hook::each(label, move |_| {
            count.add();
            Ok(())
        })
    }
}

/// The memory figures once a pass that is under way has given back what it retired.
#[track_caller]
pub(in crate::cases) fn settled(manager: &Manager) -> MemoryReport {
    manager.poll().unwrap();
    let memory = manager.memory();
    assert_sums(&memory);
    memory
}

/// L19: `reserved = live + retired + cached`, in bytes and in blocks.
#[track_caller]
pub(in crate::cases) fn assert_sums(memory: &MemoryReport) {
    assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached, "{memory:?}");
}

/// Bytes that are live, retired and cached, in whole mebibytes.
#[track_caller]
pub(in crate::cases) fn mebibytes(manager: &Manager) -> [u64; 3] {
    let memory = settled(manager);
    [memory.live, memory.retired, memory.cached].map(|usage| {
        assert!(usage.bytes.is_multiple_of(MIB), "{memory}");
        usage.bytes / MIB
    })
}

/// After all handles are gone and the queues are idle nothing is live or retired, and after a trim nothing is reserved
/// (L19).
#[track_caller]
pub(in crate::cases) fn assert_given_back(manager: &Manager) {
    manager.wait_idle().unwrap();
    let memory = settled(manager);
    assert_eq!(memory.tensors, 0, "tensors are still there: {memory}");
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0), "{memory}");
    manager.trim().unwrap();
    let memory = manager.memory();
    assert_eq!(memory.reserved.bytes, 0, "{memory}");
    assert_eq!(memory.allocations, memory.frees, "{memory}");
}

/// Asserts that the answer is `Stale` for a resource of this kind and label, and returns how its life ended.
#[track_caller]
pub(in crate::cases) fn stale<T: Debug>(
    answer: Result<T, Error>,
    kind: ResourceKind,
    label: &str,
) -> EndOfLife {
    match answer {
        Err(Error::Stale { kind: told, label: named, why }) => {
            assert_eq!((told, &*named), (kind, label));
            why
        }
        other => panic!("{kind} `{label}` is stale, and the answer was {other:?}"),
    }
}

/// Asserts that a message names all of these.
#[track_caller]
pub(in crate::cases) fn assert_names(error: &Error, names: &[&str]) {
    let text = error.to_string();
    for name in names {
        assert!(text.contains(name), "the message does not name `{name}`: {text}");
    }
}

/// What a manager had and had asked of its driver at one moment.
#[derive(Debug, PartialEq)]
pub(in crate::cases) struct Snapshot {
    memory: MemoryReport,
    calls: u64,
}

impl Snapshot {
    pub(in crate::cases) fn of(rig: &Rig) -> Self {
        Snapshot { memory: settled(&rig.manager), calls: rig.probe.calls(ASKED_FOR) }
    }

    /// Asserts that nothing has changed since: no figure, and no driver call was made.
    #[track_caller]
    pub(in crate::cases) fn assert_unchanged(&self, rig: &Rig) {
        assert_eq!(*self, Snapshot::of(rig), "what is refused changes nothing");
    }
}
