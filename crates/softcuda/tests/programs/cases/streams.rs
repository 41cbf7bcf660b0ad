//! Streams: work in order, beside other streams, and by the rules of the default stream.
//!
//! Not here: events, captures.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUresult;

use crate::Case;
use crate::ffi::*;
use crate::gate::{Gate, run};
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("streams/work_is_asynchronous", work_is_asynchronous),
    Case::new("streams/work_of_one_is_in_order", work_of_one_is_in_order),
    Case::new("streams/streams_do_not_wait_for_each_other", streams_do_not_wait_for_each_other),
    Case::new(
        "streams/the_default_stream_waits_for_blocking_ones",
        the_default_stream_waits_for_blocking_ones,
    ),
    Case::new("streams/blocking_ones_wait_for_the_default_stream", blocking_ones_wait_for_the_default_stream),
    Case::new("streams/host_functions_may_not_call_the_driver", host_functions_may_not_call_the_driver),
    Case::new("streams/a_destroyed_stream_ends_its_work", a_destroyed_stream_ends_its_work),
    Case::new("streams/wrong_handles_are_refused", wrong_handles_are_refused),
    Case::new("streams/words_are_written_and_waited_for", words_are_written_and_waited_for),
    Case::new("streams/many_come_and_go", many_come_and_go),
    Case::new("streams/threads_do_not_disturb_each_other", threads_do_not_disturb_each_other)
        .with(&[("SOFTCUDA_SEED", "5")]),
    Case::new("streams/seeds_change_no_result", seeds_change_no_result).with(&[("SOFTCUDA_SEED", "11")]),
];

/// `CU_STREAM_WAIT_VALUE_EQ`
const EQUAL: u32 = 1;

fn work_is_asynchronous() {
    start();
    let stream = stream();
    let gate = Gate::close(stream);
    still_waits(stream);
    gate.open();
    cuStreamSynchronize(stream).unwrap();
    cuStreamQuery(stream).unwrap();
    finish(&[stream]);
    end();
}

fn work_of_one_is_in_order() {
    start();
    let stream = stream();
    let log = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::close(stream);
    for number in 0..50 {
        let log = log.clone();
        run(stream, move || log.lock().unwrap().push(number));
    }
    gate.open();
    finish(&[stream]);
    assert_eq!(*log.lock().unwrap(), (0..50).collect::<Vec<_>>());
    end();
}

fn streams_do_not_wait_for_each_other() {
    start();
    let (held, free) = (stream(), stream());
    let gate = Gate::close(held);
    run(free, || ());
    cuStreamSynchronize(free).unwrap();
    still_waits(held);
    gate.open();
    finish(&[held, free]);
    end();
}

fn the_default_stream_waits_for_blocking_ones() {
    start();
    let (mut blocking, beside) = (null_mut(), stream());
    cuStreamCreate(&mut blocking, 0).unwrap();
    let apart = Gate::close(beside);
    let gate = Gate::close(blocking);
    run(null_mut(), || ());
    still_waits(null_mut());
    gate.open();
    // The stream that is not blocking is still held, and nobody waits for it.
    cuStreamSynchronize(null_mut()).unwrap();
    still_waits(beside);
    apart.open();
    finish(&[blocking, beside]);
    end();
}

fn blocking_ones_wait_for_the_default_stream() {
    start();
    let (mut blocking, beside) = (null_mut(), stream());
    cuStreamCreate(&mut blocking, 0).unwrap();
    let gate = Gate::close(null_mut());
    run(blocking, || ());
    run(beside, || ());
    cuStreamSynchronize(beside).unwrap();
    still_waits(blocking);
    gate.open();
    finish(&[blocking, beside]);
    end();
}

fn host_functions_may_not_call_the_driver() {
    start();
    let stream = stream();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let inside = answers.clone();
    run(stream, move || {
        let mut words = std::ptr::null();
        let mut inside = inside.lock().unwrap();
        inside.push(cuCtxSynchronize());
        inside.push(cuInit(0));
        inside.push(cuGetErrorName(CUresult::CUDA_SUCCESS, &mut words));
    });
    finish(&[stream]);
    let refused = Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
    assert_eq!(*answers.lock().unwrap(), [refused, refused, Ok(())]);
    end();
}

fn a_destroyed_stream_ends_its_work() {
    start();
    let stream = stream();
    let done = Arc::new(Mutex::new(false));
    let gate = Gate::close(stream);
    let inside = done.clone();
    run(stream, move || *inside.lock().unwrap() = true);
    still_waits(stream);
    cuStreamDestroy_v2(stream).unwrap();
    assert!(!*done.lock().unwrap(), "destroying does not wait");
    gate.open();
    cuCtxSynchronize().unwrap();
    assert!(*done.lock().unwrap(), "the context's work includes that of streams that are gone");
    end();
}

fn wrong_handles_are_refused() {
    start();
    let stream = stream();
    finish(&[stream]);
    refused(cuStreamSynchronize(stream), CUresult::CUDA_ERROR_INVALID_HANDLE);
    refused(cuStreamDestroy_v2(null_mut()), CUresult::CUDA_ERROR_INVALID_HANDLE);
    refused(cuEventRecord(null_mut(), null_mut()), CUresult::CUDA_ERROR_INVALID_HANDLE);
    refused(cuLaunchHostFunc(null_mut(), None, null_mut()), CUresult::CUDA_ERROR_INVALID_VALUE);
    end();
}

fn words_are_written_and_waited_for() {
    start();
    let (writer, waiter) = (stream(), stream());
    let word = memory(4);
    cuMemsetD32Async(word, 0, 1, writer).unwrap();
    order(writer, waiter);
    cuStreamWaitValue32_v2(waiter, word, 7, EQUAL).unwrap();
    let gate = Gate::close(writer);
    cuStreamWriteValue32_v2(writer, word, 7, 0).unwrap();
    still_waits(waiter);
    gate.open();
    cuStreamSynchronize(waiter).unwrap();
    refused(cuStreamWriteValue32_v2(writer, word + 1, 7, 0), CUresult::CUDA_ERROR_INVALID_VALUE);
    finish(&[writer, waiter]);
    cuMemFree_v2(word).unwrap();
    end();
}

fn many_come_and_go() {
    start();
    let memory = memory(4096);
    for round in 0..300u32 {
        let stream = stream();
        cuMemsetD32Async(memory, round, 1024, stream).unwrap();
        finish(&[stream]);
    }
    assert_eq!(words(memory, 1024, null_mut()), vec![299; 1024]);
    cuMemFree_v2(memory).unwrap();
    end();
}

fn threads_do_not_disturb_each_other() {
    let context = start() as usize;
    let thread = |number: u32| {
        move || {
            cuCtxSetCurrent(context as _).unwrap();
            for round in 0..60 {
                let (one, two) = (stream(), stream());
                let address = pooled(4096, one);
                let value = number * 1000 + round;
                cuMemsetD32Async(address, value, 1024, one).unwrap();
                order(one, two);
                assert_eq!(words(address, 1024, two), vec![value; 1024]);
                cuMemsetD32Async(address, 0, 1024, two).unwrap();
                order(two, one);
                cuMemFreeAsync(address, one).unwrap();
                if round % 2 == 0 {
                    cuStreamSynchronize(one).unwrap();
                }
                cuStreamDestroy_v2(two).unwrap();
                cuStreamDestroy_v2(one).unwrap();
            }
        }
    };
    let threads: Vec<_> = (0..6).map(|number| std::thread::spawn(thread(number))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    cuCtxSynchronize().unwrap();
    end();
}

fn seeds_change_no_result() {
    start();
    let streams: Vec<_> = (0..4).map(|_| stream()).collect();
    for seed in [1, 2, 0] {
        set_seed(seed);
        let word = memory(4);
        cuMemsetD32Async(word, 0, 1, streams[0]).unwrap();
        for value in 1..40u32 {
            let (before, after) = (value as usize % 4, (value as usize + 1) % 4);
            let before = if value == 1 { 0 } else { before };
            order(streams[before], streams[after]);
            cuMemsetD32Async(word, value, 1, streams[after]).unwrap();
        }
        assert_eq!(words(word, 1, streams[0]), [39]);
        cuMemFree_v2(word).unwrap();
    }
    finish(&streams);
    end();
}
