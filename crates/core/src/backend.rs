//! The SPI: what one device API has to provide. Three traits, [`Backend`], [`Scope`] and [`Sequence`],
//! and the plain data that crosses them.
//!
//! Not here: any policy. States, hooks, pooling, deferral and reports stand once, in this crate's engine;
//! a backend only does what it is told, and says what the device answered.
//!
//! # Life cycle of a backend
//!
//! 1. The backend is made by its own constructor and handed to [`Manager::open_with`](crate::Manager::open_with).
//! 2. Core allocates blocks, compiles kernels and opens native scopes as work needs them.
//! 3. For each evaluation: [`Sequence::record`] (once an operation, only if the recording changed or the
//!    API cannot repeat it), [`Sequence::submit`], later [`Backend::completed`] reaches the point, then
//!    [`Sequence::collect`].
//! 4. Native sequences go back by [`Scope::recycle`], arenas by [`Scope::reset`], blocks by [`Backend::free`].
//! 5. [`Backend::shutdown`] is the last call.
//!
//! # Duties
//!
//! Core (the caller) never frees what a submission still uses (L4), never touches a native object from two
//! threads at once unless the method takes `&self`, and makes no call after `shutdown`.
//! The implementor never blocks except in [`Backend::wait_any`], [`Backend::write_block`] and
//! [`Backend::read_block`], never calls back into core, never panics for what the environment does, and
//! reports the driver's errors as [`BackendError`]s. A caller's bug may be answered by an assertion.

use std::fmt;
use std::time::Duration;

use crate::error::BackendError;
use crate::kernel::KernelSource;
use crate::operation::Operation;

/// One implementation of a device API.
///
/// All methods take `&self` and may be called from any thread at the same time.
pub trait Backend: Send + Sync + Sized + 'static {
    /// A piece of device memory: what one driver allocation gives.
    type Block: Send + Sync + 'static;
    /// A kernel compiled for this device.
    type Kernel: Send + Sync + 'static;
    /// The native arena behind managed scopes.
    type Scope: Scope<Self>;
    /// The native recording behind managed sequences.
    type Sequence: Sequence<Self>;
    /// Memory of the host engine, in this API's terms: what [`Backend::adopt`] takes.
    type Foreign: Send + 'static;

    /// Names of the backend and the device, and whether the device is software.
    fn info(&self) -> BackendInfo;

    /// What the device can do and its limits. Constant for the backend's life.
    fn capabilities(&self) -> Capabilities;

    /// Makes one block of `request.bytes` (never 0, never above [`Capabilities::max_block_bytes`]).
    /// The contents are unspecified but readable.
    ///
    /// # Errors
    /// `OutOfMemory` where the driver has no room, `DeviceLost`, or what the driver said.
    fn allocate(&self, request: &BlockRequest<'_>) -> Result<Self::Block, BackendError>;

    /// Gives a block back to the driver. The block is gone whatever the answer.
    ///
    /// # Safety
    /// The block came from [`Backend::allocate`], the device has finished with every submission that names it, and no
    /// native recording that will be submitted again names it.
    ///
    /// # Errors
    /// What the driver said; core counts it and goes on (L13).
    unsafe fn free(&self, block: Self::Block) -> Result<(), BackendError>;

    /// Makes a block of memory that the host engine owns. `request.bytes` is what will be used of it, in any unit.
    ///
    /// # Safety
    /// `foreign` is memory of this device that is valid, and used by nobody else, until [`Backend::release`] of the block.
    ///
    /// # Errors
    /// `Unsupported` if the memory is too small or not fit for what blocks are used for, `DeviceLost`, or what the driver
    /// said. The memory is then the engine's as before.
    unsafe fn adopt(
        &self,
        foreign: Self::Foreign,
        request: &BlockRequest<'_>,
    ) -> Result<Self::Block, BackendError>;

    /// Ends a block that was made by [`Backend::adopt`]. Its memory stays the engine's.
    ///
    /// # Safety
    /// As [`Backend::free`], for a block from `adopt`.
    ///
    /// # Errors
    /// What the driver said; core counts it and goes on (L13).
    unsafe fn release(&self, block: Self::Block) -> Result<(), BackendError>;

    /// Copies `bytes` from the host into the block at `offset`, complete on return.
    ///
    /// # Safety
    /// No submitted and unfinished work uses that range, and no other host access overlaps it.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory` (staging), or what the driver said.
    unsafe fn write_block(&self, block: &Self::Block, offset: u64, bytes: &[u8]) -> Result<(), BackendError>;

    /// Copies from the block at `offset` to the host, complete on return.
    ///
    /// # Safety
    /// No submitted and unfinished work writes that range, and no host write overlaps it.
    ///
    /// # Errors
    /// As [`Backend::write_block`].
    unsafe fn read_block(
        &self,
        block: &Self::Block,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError>;

    /// Compiles the first form in `source` that the device takes.
    ///
    /// # Errors
    /// `Unsupported` if no form fits, `Compile` with the compiler's log and the kernel's label.
    fn compile(&self, source: &KernelSource) -> Result<Self::Kernel, BackendError>;

    /// Destroys a compiled kernel. May run destructors of user code (a host kernel's captures).
    ///
    /// # Safety
    /// The device has finished with every submission that names the kernel, and no native recording that
    /// will be submitted again names it.
    ///
    /// # Errors
    /// What the driver said.
    unsafe fn destroy_kernel(&self, kernel: Self::Kernel) -> Result<(), BackendError>;

    /// Opens a native arena whose sequences are submitted to `queue`.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, or what the driver said.
    fn open_scope(&self, queue: QueueId, label: &str) -> Result<Self::Scope, BackendError>;

    /// Closes a native arena.
    ///
    /// # Safety
    /// Every sequence made from it was recycled.
    ///
    /// # Errors
    /// What the driver said.
    unsafe fn close_scope(&self, scope: Self::Scope) -> Result<(), BackendError>;

    /// The highest point of `queue` up to which the device has completed everything. Never goes back, cheap.
    ///
    /// # Errors
    /// `DeviceLost` once the device is lost: from then on, for ever.
    fn completed(&self, queue: QueueId) -> Result<u64, BackendError>;

    /// Blocks until one of `targets` is completed, the time is over, or [`Backend::interrupt`] was called.
    /// Returning early without a reason is allowed. With no target it waits for the interrupt or the time. Every
    /// target was submitted. With targets and no time an interrupt may be missed, so that the wait can be left to the
    /// driver: who has to be brought back gives a time, however long.
    ///
    /// # Errors
    /// `DeviceLost`, or what the driver said.
    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError>;

    /// Makes every [`Backend::wait_any`] that has a time or no target and is blocked now return early; if none is, the
    /// next one.
    fn interrupt(&self);

    /// What the driver itself says of this device's memory, beside core's own figures (L19).
    ///
    /// # Errors
    /// `Unsupported` where the API has no such figure.
    fn memory(&self) -> Result<DriverMemory, BackendError>;

    /// Gives what the backend or driver caches (staging, driver pools) back to the system.
    /// Returns the bytes given back.
    ///
    /// # Errors
    /// What the driver said.
    fn trim(&self) -> Result<u64, BackendError>;

    /// Ends the device: joins the backend's threads, destroys the device if the backend made it, lets go of
    /// the keep-alive of a foreign one.
    ///
    /// # Safety
    /// Every block (adopted ones included), kernel and scope was given back or the device is lost, and no call follows.
    ///
    /// # Errors
    /// What the driver said.
    unsafe fn shutdown(&self) -> Result<(), BackendError>;
}

/// A native arena: a command pool and descriptor pool, a stream and its events, a bind-group cache.
///
/// Core keeps it behind one lock, counts the sequences made from it, and shares it when a scope moves.
pub trait Scope<B: Backend>: Send + 'static {
    /// Makes an empty native sequence.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, or what the driver said.
    fn open_sequence(&mut self, label: &str) -> Result<B::Sequence, BackendError>;

    /// Takes a native sequence back for reuse or destruction.
    ///
    /// # Safety
    /// The sequence came from this arena and the device has finished with its last submission.
    unsafe fn recycle(&mut self, sequence: B::Sequence);

    /// Resets the whole arena, so that another scope can use it.
    ///
    /// # Safety
    /// Every sequence made from it was recycled.
    ///
    /// # Errors
    /// What the driver said; core then closes the arena.
    unsafe fn reset(&mut self) -> Result<(), BackendError>;
}

/// A native recording: a command buffer, a graph, or a list that is rebuilt at each submission.
///
/// It is used by one thread at a time and has at most one submission in flight.
pub trait Sequence<B: Backend>: Send + 'static {
    /// Appends one operation.
    ///
    /// # Safety
    /// Blocks and kernels that the operation names stay alive until the sequence is reset or recycled, or
    /// until it is never submitted again and its last submission has completed; ranges are inside the
    /// blocks; no written range overlaps another range of the same operation.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, `Unsupported`, or what the driver said. The recording is then
    /// incomplete and core resets it before the next use.
    unsafe fn record(&mut self, operation: &Operation<'_, B>) -> Result<(), BackendError>;

    /// Submits what was recorded. On `Ok`, `submission.point` completes after everything in the recording
    /// has, and in order on its queue. On an error nothing was submitted.
    ///
    /// # Safety
    /// The previous submission of this sequence has completed and was collected; what the recording names is
    /// alive and stays so until the point completes; points of one queue are submitted in rising order with
    /// no other submission to that queue at the same time.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`, or what the driver said.
    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError>;

    /// Called once after a submission's point completed: delivers read-backs to their
    /// [`ReadCell`](crate::operation::ReadCell)s and returns the failure of this execution, if the device reports one.
    ///
    /// # Errors
    /// `Execution` if the submitted work failed by itself, `DeviceLost`, or what the driver said.
    fn collect(&mut self) -> Result<(), BackendError>;

    /// Discards what was recorded.
    ///
    /// # Safety
    /// The last submission has completed and was collected.
    ///
    /// # Errors
    /// What the driver said; core then recycles the sequence and opens another.
    unsafe fn reset(&mut self) -> Result<(), BackendError>;
}

/// Names of a backend and its device, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// The backend's name, as in `Manager::open("host")`.
    pub name: String,
    /// The device, as its driver names it.
    pub device: String,
    /// True for a device emulated on the CPU; shown in every report.
    pub software: bool,
}

/// What a device can do and its limits. Cases are gated by these, never by a backend's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Number of queues, at least 1. Each has a timeline of its own.
    pub queues: u32,
    /// Largest block, in bytes.
    pub max_block_bytes: u64,
    /// Largest range that one kernel binding may cover, in bytes.
    pub max_binding_bytes: u64,
    /// Most workgroups of one dispatch, in each direction.
    pub max_groups: [u32; 3],
    /// Most blocks that may be allocated at a time.
    pub max_blocks: u64,
    /// Alignment of ranges inside a block, in bytes; a power of two of at least 16.
    pub alignment: u64,
    /// Core may cut blocks into ranges. False where the API tracks usage per whole buffer.
    pub sub_allocation: bool,
    /// A recording can be submitted again unchanged (L9).
    pub reusable_recordings: bool,
    /// After loss, native objects can be neither used nor destroyed and are abandoned (L23).
    pub abandons_on_loss: bool,
    /// After loss, the process must restart before a new device can be opened (L23).
    pub loss_is_sticky: bool,
    /// Host and device share memory, so that an upload copies once.
    pub unified_memory: bool,
}

/// One of a device's queues, `0..Capabilities::queues`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}", self.0)
    }
}

/// A position in the order in which one queue completes submitted work. Values start at 1; 0 is "nothing".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimelinePoint {
    /// The queue.
    pub queue: QueueId,
    /// The value that the queue's timeline reaches.
    pub value: u64,
}

/// What is asked of [`Backend::allocate`] and [`Backend::adopt`].
#[derive(Clone, Copy, Debug)]
pub struct BlockRequest<'a> {
    /// Size in bytes; for [`Backend::allocate`] a multiple of [`Capabilities::alignment`].
    pub bytes: u64,
    /// For the driver's debug names.
    pub label: &'a str,
}

/// What is asked of [`Sequence::submit`].
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The point that completes with this submission.
    pub point: TimelinePoint,
    /// What has to complete before: on other queues a device-side wait, on the submission's own queue (which
    /// runs in order) a memory barrier only.
    pub waits: &'a [TimelinePoint],
    /// For the driver's debug names.
    pub label: &'a str,
}

/// How a bounded wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// A target completed, or the wait was interrupted: look again.
    Woken,
    /// The time was over first.
    TimedOut,
}

/// The driver's own memory figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverMemory {
    /// Held by this process through this device.
    pub used: u64,
    /// What the driver lets this process use, if it says.
    pub budget: Option<u64>,
}
