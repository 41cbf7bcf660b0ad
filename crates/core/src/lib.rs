//! The contract of tenure: the life of tensors, scopes, sequences and cleanup hooks, once for every device API.
//!
//! Engines use [`Manager`], [`Tensor`], [`ManagedScope`], [`ManagedSequence`] and [`Execution`]; backends
//! implement [`Backend`] and its [`backend::Scope`] and [`backend::Sequence`]. The contract's rules are
//! numbered L1 to L28 in docs/contract.md.
//!
//! This crate names no driver. The facade `tenure` opens a backend by name.

#![deny(missing_docs)]
#![allow(clippy::missing_const_for_thread_local, reason = "shuttle's macro takes no const block")]

pub use bytemuck;

pub mod backend;
mod backend_error;
pub mod cleanup;
mod condvar;
mod engine;
pub mod error;
pub mod event;
pub mod graph;
pub mod kernel;
pub mod manager;
pub mod operation;
pub mod report;
pub mod scope;
mod scope_ref;
pub mod sequence;
mod sync;
pub mod tensor;
pub mod view;

/// Constructors of operations: `op::dispatch`, `op::copy`, `op::fill`, `op::upload`, `op::download`.
pub mod op {
    pub use crate::operation::{copy, dispatch, download, fill, upload};
}

pub use backend::{Backend, BackendInfo, Capabilities, DriverMemory, QueueId, TimelinePoint};
pub use cleanup::{
    CleanupContext, CleanupHook, ExecutionInfo, Hook, HookClass, HookId, Period, Rejected, hook,
};
pub use error::{
    BackendError, BackendErrorKind, BoxError, CleanupFailure, EndOfLife, Error, OutOfMemory, ResourceKind,
    RunError, SharedError, Site,
};
pub use event::{Event, EventKind, EventLog, EventStream, HookEnd};
pub use graph::{Graph, GraphCleanup, GraphReport, Node, SweepOnFinish, SweepReport};
pub use kernel::{Access, CudaProgram, HostArguments, Kernel, KernelSource};
pub use manager::{Manager, ManagerOptions, OutOfMemoryCallback, OutOfMemoryRequest, TrimPolicy};
pub use operation::{Dispatch, Download, Op};
pub use report::{
    CleanupError, CleanupErrorKind, CloseReport, DetachedHook, Holder, HookReport, Leak, MemoryReport,
    Outcome, PollReport, ScopeReport, SequenceInfo, TrimReport, UnfinishedScope, Usage,
};
pub use scope::{Finish, ManagedScope};
pub use scope_ref::{ScopeOptions, ScopeRef, ScopeState};
pub use sequence::{Execution, ExecutionStatus, ManagedSequence, SequenceState};
pub use tensor::{AnyTensor, Element, NativeTensor, ReadFuture, Tensor, TensorId, TensorOptions};
pub use view::View;
