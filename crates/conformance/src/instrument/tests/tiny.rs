//! A backend that does nothing: it counts points, and completes them at once or when it is told to.
//!
//! It has no memory that could be misused, so that every order of calls is defined. Not here: real work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, Scope, Sequence, Submission,
    TimelinePoint, WaitStatus,
};
use tenure_core::operation::Operation;
use tenure_core::{BackendError, BackendErrorKind, KernelSource};

/// What the device does, and what tests see of it.
#[derive(Default)]
pub(crate) struct Device {
    state: Mutex<State>,
    changed: Condvar,
    /// Submitted points complete only by [`Device::finish`].
    pub manual: AtomicBool,
    /// The next submission fails.
    pub refuses: AtomicBool,
}

#[derive(Default)]
struct State {
    submitted: [u64; 2],
    completed: [u64; 2],
    interrupted: bool,
    calls: Vec<&'static str>,
    /// Submissions block until it is cleared.
    blocked: bool,
}

impl Device {
    /// Everything that was submitted completes.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.completed = state.submitted;
        self.changed.notify_all();
    }

    /// Says that a queue has completed up to `value`, true or not.
    pub(crate) fn claim(&self, queue: u32, value: u64) {
        self.state.lock().completed[queue as usize] = value;
    }

    /// Submissions block from now on, or go on.
    pub(crate) fn block_submissions(&self, blocked: bool) {
        self.state.lock().blocked = blocked;
        self.changed.notify_all();
    }

    /// Blocks until the device has seen this call.
    pub(crate) fn wait_for_call(&self, name: &str) {
        let mut state = self.state.lock();
        while !state.calls.contains(&name) {
            self.changed.wait(&mut state);
        }
    }

    /// How often this call has reached the device.
    pub(crate) fn calls(&self, name: &str) -> usize {
        self.state.lock().calls.iter().filter(|call| **call == name).count()
    }

    fn saw(&self, name: &'static str) {
        self.state.lock().calls.push(name);
        self.changed.notify_all();
    }
}

pub(crate) struct Tiny(pub Arc<Device>);

pub(crate) struct TinySequence(Arc<Device>);

pub(crate) struct TinyScope(Arc<Device>);

impl Backend for Tiny {
    type Block = ();
    type Kernel = ();
    type Scope = TinyScope;
    type Sequence = TinySequence;
    type Foreign = ();

    fn info(&self) -> BackendInfo {
        BackendInfo { name: "tiny".into(), device: "nothing".into(), software: true }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 2,
            max_block_bytes: 1 << 20,
            max_binding_bytes: 1 << 10,
            max_groups: [u32::MAX; 3],
            max_blocks: 8,
            alignment: 16,
            sub_allocation: true,
            reusable_recordings: true,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        }
    }

    fn allocate(&self, _request: &BlockRequest<'_>) -> Result<(), BackendError> {
        self.0.saw("allocate");
        Ok(())
    }

    unsafe fn free(&self, (): ()) -> Result<(), BackendError> {
        self.0.saw("free");
        Ok(())
    }

    unsafe fn adopt(&self, (): (), _request: &BlockRequest<'_>) -> Result<(), BackendError> {
        self.0.saw("adopt");
        Ok(())
    }

    unsafe fn release(&self, (): ()) -> Result<(), BackendError> {
        self.0.saw("release");
        Ok(())
    }

    unsafe fn write_block(&self, (): &(), _offset: u64, _bytes: &[u8]) -> Result<(), BackendError> {
        self.0.saw("write_block");
        Ok(())
    }

    unsafe fn read_block(&self, (): &(), _offset: u64, _bytes: &mut [u8]) -> Result<(), BackendError> {
        self.0.saw("read_block");
        Ok(())
    }

    fn compile(&self, _source: &KernelSource) -> Result<(), BackendError> {
        self.0.saw("compile");
        Ok(())
    }

    unsafe fn destroy_kernel(&self, (): ()) -> Result<(), BackendError> {
        self.0.saw("destroy_kernel");
        Ok(())
    }

    fn open_scope(&self, _queue: QueueId, _label: &str) -> Result<TinyScope, BackendError> {
        self.0.saw("open_scope");
        Ok(TinyScope(self.0.clone()))
    }

    unsafe fn close_scope(&self, _scope: TinyScope) -> Result<(), BackendError> {
        self.0.saw("close_scope");
        Ok(())
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        self.0.saw("completed");
        Ok(self.0.state.lock().completed[queue.0 as usize])
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        self.0.saw("wait_any");
        let mut state = self.0.state.lock();
        loop {
            let done = targets.iter().any(|target| state.completed[target.queue.0 as usize] >= target.value);
            if done || std::mem::take(&mut state.interrupted) {
                return Ok(WaitStatus::Woken);
            }
            match timeout {
                None => self.0.changed.wait(&mut state),
                Some(timeout) => {
                    if self.0.changed.wait_for(&mut state, timeout).timed_out() {
                        return Ok(WaitStatus::TimedOut);
                    }
                }
            }
        }
    }

    fn interrupt(&self) {
        self.0.saw("interrupt");
        self.0.state.lock().interrupted = true;
        self.0.changed.notify_all();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        self.0.saw("memory");
        Ok(DriverMemory::default())
    }

    fn trim(&self) -> Result<u64, BackendError> {
        self.0.saw("trim");
        Ok(0)
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.0.saw("shutdown");
        Ok(())
    }
}

impl Scope<Tiny> for TinyScope {
    fn open_sequence(&mut self, _label: &str) -> Result<TinySequence, BackendError> {
        self.0.saw("open_sequence");
        Ok(TinySequence(self.0.clone()))
    }

    unsafe fn recycle(&mut self, _sequence: TinySequence) {
        self.0.saw("recycle");
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.0.saw("scope reset");
        Ok(())
    }
}

impl Sequence<Tiny> for TinySequence {
    unsafe fn record(&mut self, _operation: &Operation<'_, Tiny>) -> Result<(), BackendError> {
        self.0.saw("record");
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        self.0.saw("submit");
        if self.0.refuses.swap(false, Ordering::SeqCst) {
            return Err(BackendError::new(BackendErrorKind::Driver, "submit", "the device refuses"));
        }
        let mut state = self.0.state.lock();
        while state.blocked {
            self.0.changed.wait(&mut state);
        }
        let TimelinePoint { queue, value } = submission.point;
        state.submitted[queue.0 as usize] = value;
        if !self.0.manual.load(Ordering::SeqCst) {
            state.completed[queue.0 as usize] = value;
        }
        self.0.changed.notify_all();
        Ok(())
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        self.0.saw("collect");
        Ok(())
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.0.saw("sequence reset");
        Ok(())
    }
}
