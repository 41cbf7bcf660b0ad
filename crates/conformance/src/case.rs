//! [`Case`]: one conformance case, and [`Requirement`], what it needs of a device.
//!
//! Not here: the cases (`cases/`), and how their results are judged (`expectations.rs`, `runner.rs`).

use tenure_core::QueueId;

use crate::bed::{Bed, Facts};

/// One case. It fails by panicking; what it leaves behind is judged after it has returned.
#[derive(Debug)]
pub struct Case {
    /// `topic/name`, unique.
    pub id: &'static str,
    /// The rules of the contract that it is about, such as `L4`; at least one.
    pub rules: &'static [&'static str],
    /// What the device must have for it. Elsewhere it is skipped, with the reason.
    pub requires: &'static [Requirement],
    /// The case itself.
    pub run: fn(&Bed),
}

impl Case {
    /// The rules, joined by commas.
    pub fn rule(&self) -> String {
        self.rules.join(",")
    }

    /// Why it cannot run on a device; `None` where it can.
    pub fn missing(&self, facts: &Facts) -> Option<String> {
        let missing: Vec<String> =
            self.requires.iter().filter_map(|requirement| requirement.missing(facts)).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }
}

/// What a case needs of a device. Told by capabilities and facts, never by a backend's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// At least so many queues.
    Queues(u32),
    /// Core may cut blocks into ranges.
    SubAllocation,
    /// Core may not cut blocks. Where it may, a case can forbid it by [`Limits`](crate::instrument::Limits).
    WholeBlocks,
    /// A recording can be submitted again unchanged.
    ReusableRecordings,
    /// The suite's portable kernels compile.
    Kernels,
    /// Host closures run as kernels: for kernels that panic or count.
    HostKernels,
    /// Host closures run as kernels on threads of the backend's own: for kernels that block.
    BlockingKernels,
    /// After a loss a new device can be opened in the same process.
    ReopensAfterLoss,
    /// Native objects of a lost device are destroyed, not abandoned.
    DestroysAfterLoss,
    /// The suite knows how an engine hands memory of its own in.
    EngineMemory,
}

impl Requirement {
    /// What is missing, in words; `None` if nothing is.
    pub fn missing(self, facts: &Facts) -> Option<String> {
        let capabilities = &facts.capabilities;
        let (met, reason) = match self {
            Requirement::Queues(count) => {
                let queues = capabilities.queues;
                (queues >= count, format!("needs {count} queues, the device has {queues}"))
            }
            Requirement::SubAllocation => {
                (capabilities.sub_allocation, "needs blocks that can be cut into ranges".to_owned())
            }
            Requirement::WholeBlocks => {
                (!capabilities.sub_allocation, "needs blocks that cannot be cut into ranges".to_owned())
            }
            Requirement::ReusableRecordings => {
                (capabilities.reusable_recordings, "needs recordings that can be submitted again".to_owned())
            }
            Requirement::Kernels => (
                facts.kernels,
                "needs kernels, and the backend compiles none of the suite's forms".to_owned(),
            ),
            Requirement::HostKernels => (facts.host_kernels, "needs host closures as kernels".to_owned()),
            Requirement::BlockingKernels => {
                (facts.blocking_kernels, "needs host closures as kernels, on threads of their own".to_owned())
            }
            Requirement::ReopensAfterLoss => {
                (!capabilities.loss_is_sticky, "needs a device that opens again after loss".to_owned())
            }
            Requirement::DestroysAfterLoss => (
                !capabilities.abandons_on_loss,
                "needs native objects that can be destroyed after loss".to_owned(),
            ),
            Requirement::EngineMemory => (
                facts.engine_memory,
                "needs memory of an engine, which the suite of this backend was not given".to_owned(),
            ),
        };
        (!met).then_some(reason)
    }
}

/// The first queue.
pub const FIRST: QueueId = QueueId(0);

/// The second queue, for cases that require [`Requirement::Queues`] of 2.
pub const SECOND: QueueId = QueueId(1);
