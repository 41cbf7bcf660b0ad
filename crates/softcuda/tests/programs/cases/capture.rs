//! Stream capture.
//!
//! Not here: graphs that are built node by node.

use std::ptr::null_mut;

use cudarc::driver::sys::{
    CUgraph, CUresult, CUstream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED, CUstreamCaptureStatus,
};

use crate::Case;
use crate::ffi::*;
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("capture/work_becomes_a_graph", work_becomes_a_graph),
    Case::new("capture/streams_join_by_events", streams_join_by_events),
    Case::new("capture/unjoined_work_is_refused", unjoined_work_is_refused),
    Case::new("capture/waiting_makes_it_void", waiting_makes_it_void),
    Case::new("capture/some_calls_are_forbidden", some_calls_are_forbidden),
    Case::new("capture/the_default_stream_may_not_wait_for_it", the_default_stream_may_not_wait_for_it),
    Case::new("capture/outside_events_are_refused", outside_events_are_refused),
];

fn begin(stream: CUstream) {
    cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
}

fn status(stream: CUstream) -> CUstreamCaptureStatus {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    cuStreamIsCapturing(stream, &mut status).unwrap();
    status
}

/// Ends a capture that is void.
fn end_void(stream: CUstream) {
    assert_eq!(status(stream), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    let mut graph: CUgraph = null_mut();
    let answer = cuStreamEndCapture(stream, &mut graph);
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert!(graph.is_null());
    assert_eq!(status(stream), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
}

fn work_becomes_a_graph() {
    start();
    let (stream, module, to) = (stream(), module(KERNELS), memory(256));
    let add = function(module, "add");
    cuMemsetD32Async(to, 1, 64, stream).unwrap();
    begin(stream);
    launch(add, 64, stream, &[to, to, 64]).unwrap();
    launch(add, 64, stream, &[to, to, 64]).unwrap();
    let mut graph = null_mut();
    cuStreamEndCapture(stream, &mut graph).unwrap();
    assert_eq!(words(to, 64, stream), [1; 64], "nothing ran yet");
    let executable = instantiate(graph);
    cuGraphDestroy(graph).unwrap();
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(to, 64, stream), [4; 64]);
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(to, 64, stream), [16; 64]);
    finish(&[stream]);
    cuGraphExecDestroy(executable).unwrap();
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    end();
}

fn streams_join_by_events() {
    start();
    let (one, two) = (stream(), stream());
    let (left, right) = (memory(4), memory(4));
    begin(one);
    order(one, two);
    assert_eq!(status(two), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cuMemsetD32Async(left, 1, 1, one).unwrap();
    cuMemsetD32Async(right, 2, 1, two).unwrap();
    order(two, one);
    cuMemcpyDtoDAsync_v2(left, right, 4, one).unwrap();
    let mut graph = null_mut();
    cuStreamEndCapture(one, &mut graph).unwrap();
    assert_eq!(status(two), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    let executable = instantiate(graph);
    cuGraphLaunch(executable, two).unwrap();
    assert_eq!(words(left, 1, two), [2]);
    finish(&[one, two]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuMemFree_v2(left).unwrap();
    cuMemFree_v2(right).unwrap();
    end();
}

fn unjoined_work_is_refused() {
    start();
    let (one, two, word) = (stream(), stream(), memory(4));
    begin(one);
    order(one, two);
    cuMemsetD32Async(word, 1, 1, two).unwrap();
    let mut graph = null_mut();
    let wrong_stream = cuStreamEndCapture(two, &mut graph);
    refused(wrong_stream, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end_void(one);
    begin(one);
    order(one, two);
    cuMemsetD32Async(word, 1, 1, two).unwrap();
    let answer = cuStreamEndCapture(one, &mut graph);
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    refused(cuStreamEndCapture(one, &mut graph), CUresult::CUDA_ERROR_ILLEGAL_STATE);
    finish(&[one, two]);
    cuMemFree_v2(word).unwrap();
    end();
}

fn waiting_makes_it_void() {
    start();
    let stream = stream();
    begin(stream);
    refused(cuStreamSynchronize(stream), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    let later = cuMemsetD32Async(4096, 1, 1, stream);
    refused(later, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_void(stream);
    begin(stream);
    refused(cuCtxSynchronize(), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_void(stream);
    let event = event();
    begin(stream);
    cuEventRecord(event, stream).unwrap();
    refused(cuEventQuery(event), CUresult::CUDA_ERROR_CAPTURED_EVENT);
    let mut graph = null_mut();
    cuStreamEndCapture(stream, &mut graph).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuEventDestroy_v2(event).unwrap();
    finish(&[stream]);
    end();
}

fn some_calls_are_forbidden() {
    start();
    let stream = stream();
    let mut address = 0;
    begin(stream);
    let answer = cuMemAlloc_v2(&mut address, 64);
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_void(stream);
    begin(stream);
    let answer = cuMemAllocAsync(&mut address, 64, stream);
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_void(stream);
    cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    cuMemAlloc_v2(&mut address, 64).unwrap();
    let mut graph = null_mut();
    cuStreamEndCapture(stream, &mut graph).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuMemFree_v2(address).unwrap();
    let default = cuStreamBeginCapture_v2(null_mut(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    refused(default, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    finish(&[stream]);
    end();
}

fn the_default_stream_may_not_wait_for_it() {
    start();
    let mut blocking = null_mut();
    cuStreamCreate(&mut blocking, 0).unwrap();
    let word = memory(4);
    begin(blocking);
    let answer = cuMemsetD32Async(word, 1, 1, null_mut());
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_void(blocking);
    finish(&[blocking]);
    cuMemFree_v2(word).unwrap();
    end();
}

fn outside_events_are_refused() {
    start();
    let (one, two, event) = (stream(), stream(), event());
    cuEventRecord(event, two).unwrap();
    begin(one);
    let answer = cuStreamWaitEvent(one, event, 0);
    refused(answer, CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_void(one);
    cuEventDestroy_v2(event).unwrap();
    finish(&[one, two]);
    end();
}
