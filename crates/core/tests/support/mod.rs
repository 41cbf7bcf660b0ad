//! A backend with no device: submissions complete at once, or one by one by hand. For core's own tests; what a
//! real backend does is the conformance suite's business.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, Scope, Sequence, Submission,
    TimelinePoint, WaitStatus,
};
use tenure_core::operation::Operation;
use tenure_core::{BackendError, KernelSource};

#[cfg(feature = "shuttle")]
use shuttle::sync::{Condvar, Mutex};
#[cfg(not(feature = "shuttle"))]
use std::sync::{Condvar, Mutex};

/// What a test holds of the device.
#[derive(Clone, Default)]
pub struct Device {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: bool,
    submitted: u64,
    completed: u64,
    blocked: u64,
    interrupts: u64,
    /// An interrupt that found nobody blocked: the next wait returns at once.
    latched: bool,
    allocated: u64,
    freed: u64,
    shut_down: u64,
}

impl Device {
    /// Completions wait for [`Device::complete_all`].
    pub fn hold(&self) {
        self.shared.state.lock().unwrap().held = true;
    }

    /// Completes what was submitted, and lets the rest complete at once.
    pub fn complete_all(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.held = false;
        state.completed = state.submitted;
        self.shared.changed.notify_all();
    }

    /// Blocks taken and given back.
    pub fn balance(&self) -> (u64, u64) {
        let state = self.shared.state.lock().unwrap();
        (state.allocated, state.freed)
    }

    /// Waits until the backend was shut down; it must be once.
    pub fn wait_shut_down(&self) {
        let mut state = self.shared.state.lock().unwrap();
        while state.shut_down == 0 {
            state = self.shared.changed.wait(state).unwrap();
        }
        assert_eq!(state.shut_down, 1);
    }

    pub fn backend(&self) -> Null {
        Null { device: self.clone() }
    }
}

pub struct Null {
    device: Device,
}

pub struct NullScope {
    device: Device,
}

pub struct NullSequence {
    device: Device,
}

impl Backend for Null {
    type Block = ();
    type Kernel = ();
    type Scope = NullScope;
    type Sequence = NullSequence;
    type Foreign = ();

    fn info(&self) -> BackendInfo {
        BackendInfo { name: "null".into(), device: "no device".into(), software: true }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 1,
            max_block_bytes: 1 << 40,
            max_binding_bytes: 1 << 40,
            max_groups: [u32::MAX; 3],
            max_blocks: 1 << 20,
            alignment: 256,
            sub_allocation: true,
            reusable_recordings: true,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        }
    }

    fn allocate(&self, _request: &BlockRequest<'_>) -> Result<(), BackendError> {
        self.device.shared.state.lock().unwrap().allocated += 1;
        Ok(())
    }

    unsafe fn free(&self, _block: ()) -> Result<(), BackendError> {
        let mut state = self.device.shared.state.lock().unwrap();
        // Stricter than L4, and enough for tests with one execution in flight.
        assert_eq!(state.completed, state.submitted, "a block is freed while work is in flight");
        state.freed += 1;
        Ok(())
    }

    unsafe fn adopt(&self, (): (), _request: &BlockRequest<'_>) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn release(&self, (): ()) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn write_block(&self, _block: &(), _offset: u64, _bytes: &[u8]) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn read_block(&self, _block: &(), _offset: u64, _bytes: &mut [u8]) -> Result<(), BackendError> {
        Ok(())
    }

    fn compile(&self, _source: &KernelSource) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn destroy_kernel(&self, _kernel: ()) -> Result<(), BackendError> {
        Ok(())
    }

    fn open_scope(&self, _queue: QueueId, _label: &str) -> Result<NullScope, BackendError> {
        Ok(NullScope { device: self.device.clone() })
    }

    unsafe fn close_scope(&self, _scope: NullScope) -> Result<(), BackendError> {
        Ok(())
    }

    fn completed(&self, _queue: QueueId) -> Result<u64, BackendError> {
        Ok(self.device.shared.state.lock().unwrap().completed)
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        let mut state = self.device.shared.state.lock().unwrap();
        if std::mem::take(&mut state.latched) {
            return Ok(WaitStatus::Woken);
        }
        let interrupts = state.interrupts;
        state.blocked += 1;
        let mut status = WaitStatus::Woken;
        while status == WaitStatus::Woken
            && state.interrupts == interrupts
            && targets.iter().all(|target| target.value > state.completed)
        {
            state = match timeout {
                None => self.device.shared.changed.wait(state).unwrap(),
                Some(timeout) => {
                    let (state, result) = self.device.shared.changed.wait_timeout(state, timeout).unwrap();
                    if result.timed_out() {
                        status = WaitStatus::TimedOut;
                    }
                    state
                }
            };
        }
        state.blocked -= 1;
        Ok(status)
    }

    fn interrupt(&self) {
        let mut state = self.device.shared.state.lock().unwrap();
        if state.blocked > 0 {
            state.interrupts += 1;
        } else {
            state.latched = true;
        }
        self.device.shared.changed.notify_all();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        Ok(DriverMemory::default())
    }

    fn trim(&self) -> Result<u64, BackendError> {
        Ok(0)
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.device.shared.state.lock().unwrap().shut_down += 1;
        self.device.shared.changed.notify_all();
        Ok(())
    }
}

impl Scope<Null> for NullScope {
    fn open_sequence(&mut self, _label: &str) -> Result<NullSequence, BackendError> {
        Ok(NullSequence { device: self.device.clone() })
    }

    unsafe fn recycle(&mut self, _sequence: NullSequence) {}

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Sequence<Null> for NullSequence {
    unsafe fn record(&mut self, _operation: &Operation<'_, Null>) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        let mut state = self.device.shared.state.lock().unwrap();
        assert_eq!(submission.point.value, state.submitted + 1, "points rise one by one");
        state.submitted = submission.point.value;
        if !state.held {
            state.completed = state.submitted;
            self.device.shared.changed.notify_all();
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
