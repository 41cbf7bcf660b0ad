//! A decorated tiny backend with its probe and device, and short names for what tests do with it.
//!
//! Not here: the tests.

use std::sync::Arc;

use tenure_core::backend::{Backend, BlockRequest, Scope, Submission};
use tenure_core::operation::{Binding, BlockRange, Operation};
use tenure_core::{Access, BackendError, KernelSource, QueueId, TimelinePoint};

use super::ffi;
use super::tiny::{Device, Tiny};
use crate::instrument::{
    Instrumented, Limits, Probe, TrackedBlock, TrackedKernel, TrackedScope, TrackedSequence,
};

pub(super) type Block = TrackedBlock<Tiny>;
pub(super) type Kernel = TrackedKernel<Tiny>;
pub(super) type Arena = TrackedScope<Tiny>;
pub(super) type Recording = TrackedSequence<Tiny>;

/// Bytes of the blocks that tests use.
pub(super) const BYTES: u64 = 64;

pub(super) struct Bench {
    pub backend: Instrumented<Tiny>,
    pub probe: Probe,
    pub device: Arc<Device>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Bench::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        let device = Arc::new(Device::default());
        let backend = Instrumented::with_limits(Tiny(device.clone()), limits);
        let probe = backend.probe();
        Bench { backend, probe, device }
    }

    pub(super) fn allocate(&self, bytes: u64) -> Result<Block, BackendError> {
        self.backend.allocate(&BlockRequest { bytes, label: "x" })
    }

    pub(super) fn block(&self) -> Block {
        self.allocate(BYTES).unwrap()
    }

    pub(super) fn adopted(&self) -> Block {
        ffi::adopt(&self.backend, &BlockRequest { bytes: BYTES, label: "x" }).unwrap()
    }

    pub(super) fn kernel(&self) -> Kernel {
        self.backend.compile(&KernelSource::new("k", &[])).unwrap()
    }

    pub(super) fn arena(&self, queue: u32) -> Arena {
        self.backend.open_scope(QueueId(queue), "arena").unwrap()
    }

    /// The point of a queue, after the inner backend has been asked for it.
    pub(super) fn completed(&self, queue: u32) -> u64 {
        self.backend.completed(QueueId(queue)).unwrap()
    }

    /// The one violation that there is.
    #[track_caller]
    pub(super) fn expect_violation(&self, text: &str) {
        let violations = self.probe.violations();
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].contains(text), "{violations:?}");
    }

    #[track_caller]
    pub(super) fn expect_clean(&self) {
        assert_eq!(self.probe.violations(), [""; 0]);
    }
}

pub(super) fn point(queue: u32, value: u64) -> TimelinePoint {
    TimelinePoint { queue: QueueId(queue), value }
}

pub(super) fn range(block: &Block, offset: u64, bytes: u64) -> BlockRange<'_, Instrumented<Tiny>> {
    BlockRange { block: Some(block), offset, bytes }
}

/// A native sequence that writes the whole block.
pub(super) fn writer(arena: &mut Arena, block: &Block) -> Recording {
    let mut sequence = arena.open_sequence("writer").unwrap();
    record_fill(&mut sequence, block).unwrap();
    sequence
}

/// A native sequence that reads the whole block.
pub(super) fn reader(arena: &mut Arena, block: &Block) -> Recording {
    let mut sequence = arena.open_sequence("reader").unwrap();
    let into = Arc::default();
    let operation = Operation::Read { source: range(block, 0, BYTES), into: &into };
    ffi::record(&mut sequence, &operation).unwrap();
    sequence
}

/// A native sequence that runs a kernel on nothing.
pub(super) fn runner(arena: &mut Arena, kernel: &Kernel) -> Recording {
    let mut sequence = arena.open_sequence("runner").unwrap();
    dispatch(&mut sequence, kernel, &[]).unwrap();
    sequence
}

pub(super) fn record_fill(sequence: &mut Recording, block: &Block) -> Result<(), BackendError> {
    ffi::record(sequence, &Operation::Fill { target: range(block, 0, BYTES), pattern: &[0; 4] })
}

pub(super) fn dispatch(
    sequence: &mut Recording,
    kernel: &Kernel,
    ranges: &[(BlockRange<'_, Instrumented<Tiny>>, Access)],
) -> Result<(), BackendError> {
    let bindings: Vec<Binding<'_, Instrumented<Tiny>>> =
        ranges.iter().map(|(range, access)| Binding { range: *range, access: *access }).collect();
    let operation =
        Operation::Dispatch { kernel, bindings: &bindings, groups: [1; 3], parameters: &[], label: "k" };
    ffi::record(sequence, &operation)
}

pub(super) fn submit(
    sequence: &mut Recording,
    at: TimelinePoint,
    waits: &[TimelinePoint],
) -> Result<(), BackendError> {
    ffi::submit(sequence, &Submission { point: at, waits, label: "test" })
}
