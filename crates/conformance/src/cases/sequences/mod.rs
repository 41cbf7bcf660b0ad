//! Cases about sequences: states, names, recording, evaluating and evaluating again (L4, L5, L7, L8, L9).
//!
//! Not here: what sequences of one scope have to do with its end (`scopes/`), cancelled ones (`cancellation/`) and many
//! threads at one sequence (`threads/`).

mod anonymous;
mod encoding;
mod names;
mod queues;
mod states;

use tenure_core::{ManagedScope, Manager, MemoryReport, Tensor};

use super::hooks::support::{count, joined};
use crate::bed::{Bed, Rig};
use crate::case::Case;

const PARTS: &[&[Case]] = &[states::CASES, names::CASES, anonymous::CASES, encoding::CASES, queues::CASES];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);

/// A manager, a scope `s` in it, and a tensor of 64 ones in that.
#[track_caller]
fn open(bed: &Bed) -> (Rig, ManagedScope, Tensor<u32>) {
    let rig = bed.open();
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    (rig, scope, tensor)
}

/// The memory figures once everything that was submitted has retired, and what it held was given back.
#[track_caller]
pub(in crate::cases) fn settled(manager: &Manager) -> MemoryReport {
    manager.wait_idle().unwrap();
    // A pass of another thread may still be giving back what it retired.
    manager.poll().unwrap();
    manager.memory()
}
