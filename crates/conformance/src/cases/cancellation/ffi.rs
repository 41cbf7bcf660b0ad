//! A waker with functions of its own, where [`std::task::Wake`] would clone and drop without asking anybody.

use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use parking_lot::Mutex;
use tenure_core::{Execution, ExecutionStatus};

/// What a curious waker points to.
pub(super) struct Curious {
    pub execution: Mutex<Option<Execution>>,
    pub looks: Mutex<Vec<ExecutionStatus>>,
}

impl Curious {
    pub(super) fn new(execution: Execution) -> Self {
        Curious { execution: Mutex::new(Some(execution)), looks: Mutex::new(Vec::new()) }
    }
}

/// A waker that looks at the execution when it is cloned, woken and dropped.
pub(super) fn curious(shared: &Arc<Curious>) -> Waker {
    fn look(data: *const ()) {
        // SAFETY: every waker of the table below holds a count of this `Arc`, so that it is alive.
        let shared = unsafe { &*data.cast::<Curious>() };
        let execution = shared.execution.lock().clone();
        if let Some(execution) = execution {
            let status = execution.status();
            shared.looks.lock().push(status);
        }
    }
    fn clone(data: *const ()) -> RawWaker {
        look(data);
        // SAFETY: `data` is from `Arc::into_raw`, and alive.
        unsafe { Arc::increment_strong_count(data.cast::<Curious>()) };
        RawWaker::new(data, &TABLE)
    }
    fn drop_it(data: *const ()) {
        look(data);
        // SAFETY: `data` is from `Arc::into_raw`, and this waker's count is given up here, once.
        unsafe { Arc::decrement_strong_count(data.cast::<Curious>()) };
    }
    fn wake(data: *const ()) {
        look(data);
        drop_it(data);
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, look, drop_it);
    let data = Arc::into_raw(shared.clone()).cast::<()>();
    // SAFETY: the functions of the table keep the contract of `RawWaker`: they are safe on any thread, and count.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}
