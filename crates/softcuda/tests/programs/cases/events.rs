//! Events.
//!
//! Not here: events in captures and graphs.

use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUresult;

use crate::Case;
use crate::ffi::*;
use crate::gate::{Gate, run};
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("events/they_stand_for_what_was_before", they_stand_for_what_was_before),
    Case::new("events/recording_again_changes_later_waits_only", recording_again_changes_later_waits_only),
    Case::new("events/a_stream_waits_for_another", a_stream_waits_for_another),
    Case::new("events/time_passes", time_passes),
    Case::new("events/a_destroyed_event_still_orders", a_destroyed_event_still_orders),
];

fn they_stand_for_what_was_before() {
    start();
    let (stream, event) = (stream(), event());
    cuEventQuery(event).unwrap();
    cuEventSynchronize(event).unwrap();
    let gate = Gate::close(stream);
    cuEventRecord(event, stream).unwrap();
    refused(cuEventQuery(event), CUresult::CUDA_ERROR_NOT_READY);
    gate.open();
    cuEventSynchronize(event).unwrap();
    cuEventQuery(event).unwrap();
    cuEventDestroy_v2(event).unwrap();
    refused(cuEventQuery(event), CUresult::CUDA_ERROR_INVALID_HANDLE);
    finish(&[stream]);
    end();
}

fn recording_again_changes_later_waits_only() {
    start();
    let (first, second, waits) = (stream(), stream(), stream());
    let event = event();
    cuEventRecord(event, first).unwrap();
    cuStreamWaitEvent(waits, event, 0).unwrap();
    let gate = Gate::close(second);
    cuEventRecord(event, second).unwrap();
    run(waits, || ());
    cuStreamSynchronize(waits).unwrap();
    refused(cuEventQuery(event), CUresult::CUDA_ERROR_NOT_READY);
    cuStreamWaitEvent(waits, event, 0).unwrap();
    still_waits(waits);
    gate.open();
    finish(&[first, second, waits]);
    cuEventDestroy_v2(event).unwrap();
    end();
}

fn a_stream_waits_for_another() {
    start();
    let (one, two) = (stream(), stream());
    let log = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::close(one);
    let write = |what: &'static str| {
        let log = log.clone();
        move || log.lock().unwrap().push(what)
    };
    run(one, write("one"));
    order(one, two);
    run(two, write("two"));
    gate.open();
    finish(&[two, one]);
    assert_eq!(*log.lock().unwrap(), ["one", "two"]);
    end();
}

fn time_passes() {
    start();
    let (stream, before, after) = (stream(), event(), event());
    let mut milliseconds = f32::NAN;
    let never = cuEventElapsedTime(&mut milliseconds, before, after);
    refused(never, CUresult::CUDA_ERROR_INVALID_HANDLE);
    cuEventRecord(before, stream).unwrap();
    let gate = Gate::close(stream);
    cuEventRecord(after, stream).unwrap();
    let early = cuEventElapsedTime(&mut milliseconds, before, after);
    refused(early, CUresult::CUDA_ERROR_NOT_READY);
    gate.open();
    cuEventSynchronize(after).unwrap();
    cuEventElapsedTime(&mut milliseconds, before, after).unwrap();
    assert!(milliseconds > 0.0, "{milliseconds}");
    let mut untimed = std::ptr::null_mut();
    cuEventCreate(&mut untimed, 2).unwrap();
    cuEventRecord(untimed, stream).unwrap();
    refused(cuEventElapsedTime(&mut milliseconds, before, untimed), CUresult::CUDA_ERROR_INVALID_HANDLE);
    for event in [before, after, untimed] {
        cuEventDestroy_v2(event).unwrap();
    }
    finish(&[stream]);
    end();
}

fn a_destroyed_event_still_orders() {
    start();
    let (one, two) = (stream(), stream());
    let gate = Gate::close(one);
    // `order` destroys its event while the work before it still waits.
    order(one, two);
    run(two, || ());
    still_waits(two);
    gate.open();
    finish(&[two, one]);
    end();
}
