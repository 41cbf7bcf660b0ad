//! Graphs that are built node by node.
//!
//! Not here: captured ones.

use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{self, CUgraph, CUgraphNode, CUmemorytype, CUresult};

use crate::Case;
use crate::ffi::*;
use crate::gate::{Gate, host_function};
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("graphs/nodes_run_in_their_order", nodes_run_in_their_order),
    Case::new("graphs/they_are_launched_again_and_again", they_are_launched_again_and_again),
    Case::new("graphs/kernels_get_other_arguments", kernels_get_other_arguments),
    Case::new("graphs/children_host_functions_and_events", children_host_functions_and_events),
    Case::new("graphs/launches_of_one_come_one_after_the_other", launches_of_one_come_one_after_the_other),
    Case::new("graphs/a_graph_takes_the_place_of_another", a_graph_takes_the_place_of_another),
    Case::new("graphs/nodes_wait_for_events", nodes_wait_for_events),
    Case::new("graphs/freed_memory_is_found_at_launch", freed_memory_is_found_at_launch)
        .reported("use after free"),
    Case::new("graphs/wrong_uses_are_refused", wrong_uses_are_refused),
];

fn graph() -> CUgraph {
    let mut graph = null_mut();
    cuGraphCreate(&mut graph, 0).unwrap();
    graph
}

fn fill(graph: CUgraph, after: &[CUgraphNode], address: u64, value: u32, words: usize) -> CUgraphNode {
    let parameters = sys::CUDA_MEMSET_NODE_PARAMS {
        dst: address,
        pitch: 0,
        value,
        elementSize: 4,
        width: words,
        height: 1,
    };
    let mut node = null_mut();
    let (list, count) = (after.as_ptr(), after.len());
    cuGraphAddMemsetNode(&mut node, graph, list, count, &parameters, null_mut()).unwrap();
    node
}

fn copy(graph: CUgraph, after: &[CUgraphNode], to: u64, from: u64, bytes: usize) -> CUgraphNode {
    let parameters = sys::CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: from,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: to,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
        ..zeroed()
    };
    let mut node = null_mut();
    let (list, count) = (after.as_ptr(), after.len());
    cuGraphAddMemcpyNode(&mut node, graph, list, count, &parameters, null_mut()).unwrap();
    node
}

fn zeroed() -> sys::CUDA_MEMCPY3D {
    sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: 0,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: 0,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: 0,
        Height: 1,
        Depth: 1,
    }
}

fn kernel(function: sys::CUfunction, arguments: &mut Arguments) -> sys::CUDA_KERNEL_NODE_PARAMS {
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 64,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: arguments.pointers(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

fn nodes_run_in_their_order() {
    start();
    let (stream, module) = (stream(), module(KERNELS));
    let (one, two) = (memory(256), memory(256));
    let graph = graph();
    let first = fill(graph, &[], one, 3, 64);
    let second = fill(graph, &[], two, 4, 64);
    let mut node = null_mut();
    // The arguments are taken when the node is made.
    let mut arguments = Arguments::new(&[one, two, 64]);
    let parameters = kernel(function(module, "add"), &mut arguments);
    let after = [first, second];
    cuGraphAddKernelNode_v2(&mut node, graph, after.as_ptr(), 2, &parameters).unwrap();
    copy(graph, &[node], two, one, 256);
    drop(arguments);
    let mut count = 0;
    cuGraphGetNodes(graph, null_mut(), &mut count).unwrap();
    assert_eq!(count, 4);
    let executable = instantiate(graph);
    cuGraphDestroy(graph).unwrap();
    cuGraphUpload(executable, stream).unwrap();
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(two, 64, stream), [7; 64]);
    finish(&[stream]);
    cuGraphExecDestroy(executable).unwrap();
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(one).unwrap();
    cuMemFree_v2(two).unwrap();
    end();
}

fn they_are_launched_again_and_again() {
    start();
    let (one, two, module, word) = (stream(), stream(), module(KERNELS), memory(4));
    cuMemsetD32Async(word, 0, 1, one).unwrap();
    let graph = graph();
    let mut node = null_mut();
    let mut arguments = Arguments::new(&[word]);
    let parameters = kernel(function(module, "count"), &mut arguments);
    cuGraphAddKernelNode_v2(&mut node, graph, null(), 0, &parameters).unwrap();
    let executable = instantiate(graph);
    order(one, two);
    for _ in 0..10 {
        cuGraphLaunch(executable, one).unwrap();
        cuGraphLaunch(executable, two).unwrap();
    }
    assert_eq!(words(word, 1, two), [20 * 64]);
    finish(&[one, two]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(word).unwrap();
    end();
}

fn kernels_get_other_arguments() {
    start();
    let (stream, module, to) = (stream(), module(KERNELS), memory(256));
    let graph = graph();
    let fill = function(module, "fill");
    let mut node = null_mut();
    let mut arguments = Arguments::new(&[to, 64, 1]);
    cuGraphAddKernelNode_v2(&mut node, graph, null(), 0, &kernel(fill, &mut arguments)).unwrap();
    let executable = instantiate(graph);
    cuGraphLaunch(executable, stream).unwrap();
    let mut arguments = Arguments::new(&[to, 64, 2]);
    let parameters = kernel(fill, &mut arguments);
    let gate = Gate::close(stream);
    cuGraphExecKernelNodeSetParams_v2(executable, node, &parameters).unwrap();
    gate.open();
    assert_eq!(words(to, 64, stream), [1; 64]);
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(to, 64, stream), [2; 64]);
    let unknown = cuGraphExecKernelNodeSetParams_v2(executable, null_mut(), &parameters);
    refused(unknown, CUresult::CUDA_ERROR_INVALID_VALUE);
    finish(&[stream]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    end();
}

fn children_host_functions_and_events() {
    start();
    let (stream, word, event) = (stream(), memory(4), event());
    let child = graph();
    let log = Arc::new(Mutex::new(Vec::new()));
    let inside = log.clone();
    let (fn_, user_data) = host_function(move || inside.lock().unwrap().push("child"));
    let mut node = null_mut();
    let parameters = sys::CUDA_HOST_NODE_PARAMS { fn_, userData: user_data };
    cuGraphAddHostNode(&mut node, child, null(), 0, &parameters).unwrap();
    let whole = graph();
    let first = fill(whole, &[], word, 8, 1);
    let mut middle = null_mut();
    cuGraphAddChildGraphNode(&mut middle, whole, &first, 1, child).unwrap();
    let mut empty = null_mut();
    cuGraphAddEmptyNode(&mut empty, whole, &middle, 1).unwrap();
    let mut record = null_mut();
    cuGraphAddEventRecordNode(&mut record, whole, &empty, 1, event).unwrap();
    let executable = instantiate(whole);
    let gate = Gate::close(stream);
    cuGraphLaunch(executable, stream).unwrap();
    refused(cuEventQuery(event), CUresult::CUDA_ERROR_NOT_READY);
    gate.open();
    cuEventSynchronize(event).unwrap();
    assert_eq!(*log.lock().unwrap(), ["child"]);
    finish(&[stream]);
    for graph in [child, whole] {
        cuGraphDestroy(graph).unwrap();
    }
    cuGraphExecDestroy(executable).unwrap();
    cuEventDestroy_v2(event).unwrap();
    cuMemFree_v2(word).unwrap();
    end();
}

fn launches_of_one_come_one_after_the_other() {
    start();
    let (one, two, word) = (stream(), stream(), memory(4));
    let graph = graph();
    fill(graph, &[], word, 5, 1);
    let executable = instantiate(graph);
    let gate = Gate::close(one);
    cuGraphLaunch(executable, one).unwrap();
    cuGraphLaunch(executable, two).unwrap();
    still_waits(two);
    gate.open();
    cuStreamSynchronize(two).unwrap();
    finish(&[one, two]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuMemFree_v2(word).unwrap();
    end();
}

fn a_graph_takes_the_place_of_another() {
    start();
    let (stream, word) = (stream(), memory(8));
    let (first, second, other) = (graph(), graph(), graph());
    fill(first, &[], word, 1, 1);
    fill(second, &[], word, 2, 1);
    let node = fill(other, &[], word, 3, 1);
    fill(other, &[node], word, 4, 1);
    let mut clone = null_mut();
    cuGraphClone(&mut clone, first).unwrap();
    cuGraphDestroy(first).unwrap();
    let mut executable = null_mut();
    let mut parameters = sys::CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        hUploadStream: null_mut(),
        hErrNode_out: null_mut(),
        result_out: sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
    };
    cuGraphInstantiateWithParams(&mut executable, clone, &mut parameters).unwrap();
    let success = sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS;
    assert_eq!(parameters.result_out, success);
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(word, 1, stream), [1]);
    let mut result = sys::CUgraphExecUpdateResultInfo {
        result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
        errorNode: null_mut(),
        errorFromNode: null_mut(),
    };
    cuGraphExecUpdate_v2(executable, second, &mut result).unwrap();
    assert_eq!(result.result, sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS);
    cuGraphLaunch(executable, stream).unwrap();
    assert_eq!(words(word, 1, stream), [2]);
    let answer = cuGraphExecUpdate_v2(executable, other, &mut result);
    refused(answer, CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    finish(&[stream]);
    for graph in [clone, second, other] {
        cuGraphDestroy(graph).unwrap();
    }
    cuGraphExecDestroy(executable).unwrap();
    cuMemFree_v2(word).unwrap();
    end();
}

/// The wait is for what the event stands for at the launch, and it orders.
fn nodes_wait_for_events() {
    start();
    let (one, two, word, event) = (stream(), stream(), memory(4), event());
    let graph = graph();
    let mut wait = null_mut();
    cuGraphAddEventWaitNode(&mut wait, graph, null(), 0, event).unwrap();
    fill(graph, &[wait], word, 2, 1);
    let executable = instantiate(graph);
    cuGraphLaunch(executable, two).unwrap();
    cuStreamSynchronize(two).unwrap();
    let gate = Gate::close(one);
    cuMemsetD32Async(word, 1, 1, one).unwrap();
    cuEventRecord(event, one).unwrap();
    cuGraphLaunch(executable, two).unwrap();
    still_waits(two);
    gate.open();
    assert_eq!(words(word, 1, two), [2]);
    finish(&[one, two]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    cuEventDestroy_v2(event).unwrap();
    cuMemFree_v2(word).unwrap();
    end();
}

fn freed_memory_is_found_at_launch() {
    start();
    let (stream, word) = (stream(), memory(4));
    let graph = graph();
    fill(graph, &[], word, 2, 1);
    let executable = instantiate(graph);
    cuMemFree_v2(word).unwrap();
    refused(cuGraphLaunch(executable, stream), CUresult::CUDA_ERROR_INVALID_VALUE);
    finish(&[stream]);
    cuGraphExecDestroy(executable).unwrap();
    cuGraphDestroy(graph).unwrap();
    end();
}

fn wrong_uses_are_refused() {
    start();
    let (graph, other) = (graph(), graph());
    let mut node = null_mut();
    cuGraphAddEmptyNode(&mut node, graph, null(), 0).unwrap();
    let mut second = null_mut();
    let stranger = cuGraphAddEmptyNode(&mut second, other, &node, 1);
    refused(stranger, CUresult::CUDA_ERROR_INVALID_VALUE);
    let mut executable = null_mut();
    let device_launch = cuGraphInstantiateWithFlags(&mut executable, graph, 4);
    refused(device_launch, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    refused(cuGraphLaunch(null_mut(), null_mut()), CUresult::CUDA_ERROR_INVALID_VALUE);
    for graph in [graph, other] {
        cuGraphDestroy(graph).unwrap();
        refused(cuGraphDestroy(graph), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    end();
}
