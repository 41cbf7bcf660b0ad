//! Accesses in no order, each as a program that has to be reported and as its twin in order that must not be.
//!
//! Not here: use outside of a life (`lifetimes.rs`), faults of kernels that stop the device (`faults.rs`).

use std::ptr::{null, null_mut};

use cudarc::driver::sys::{self, CUresult, CUstream};

use crate::Case;
use crate::ffi::*;
use crate::gate::Gate;
use crate::kit::*;
use crate::ptx::KERNELS;

/// What orders two pieces of work of a program, if anything.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    Nothing,
    Event,
    Host,
}

const RACE: &str = "two writes in no order";
const READ: &str = "a read and a write in no order";

pub const CASES: &[Case] = &[
    Case::new("checker/write_write", || write_write(By::Nothing)).reported(RACE),
    Case::new("checker/a_violation_ends_a_strict_process", || write_write(By::Nothing))
        .reported(RACE)
        .with(&[("SOFTCUDA_STRICT", "1")])
        .ending(86),
    Case::new("checker/write_write_by_event", || write_write(By::Event)),
    Case::new("checker/write_write_by_host", || write_write(By::Host)),
    Case::new("checker/write_read", || write_read(By::Nothing)).reported(READ),
    Case::new("checker/write_read_by_event", || write_read(By::Event)),
    Case::new("checker/read_write", || read_write(By::Nothing)).reported(READ),
    Case::new("checker/read_write_by_event", || read_write(By::Event)),
    Case::new("checker/read_read", read_read),
    Case::new("checker/other_bytes", other_bytes),
    Case::new("checker/kernels", || kernels(By::Nothing)).reported("kernel `fill`"),
    Case::new("checker/kernels_by_event", || kernels(By::Event)),
    Case::new("checker/kernels_that_run_late", || late_kernels(By::Nothing)).reported(RACE),
    Case::new("checker/kernels_that_run_late_by_event", || late_kernels(By::Event)),
    Case::new("checker/kernels_on_other_halves", kernels_on_other_halves),
    Case::new("checker/atomics_beside_atomics", atomics_beside_atomics),
    Case::new("checker/an_event_query_orders", || event_query(true)),
    Case::new("checker/without_an_event_query", || event_query(false)).reported(RACE),
    Case::new("checker/an_old_record_does_not_order", || old_record(true)).reported(RACE),
    Case::new("checker/a_new_record_orders", || old_record(false)),
    Case::new("checker/graph_nodes", || graph_nodes(false)).reported(RACE),
    Case::new("checker/graph_nodes_in_order", || graph_nodes(true)),
    Case::new("checker/a_graph_and_a_stream", || graph_and_stream(By::Nothing)).reported(RACE),
    Case::new("checker/a_graph_and_a_stream_by_event", || graph_and_stream(By::Event)),
    Case::new("checker/the_default_stream", || default_stream(false)).reported(RACE),
    Case::new("checker/the_default_stream_orders_blocking_ones", || default_stream(true)),
    Case::new("checker/off", || write_write(By::Nothing)).with(&[("SOFTCUDA_CHECK", "0")]),
    Case::new("checker/reports_say_how_to_mend", || write_write(By::Nothing)).reported("cuStreamWaitEvent"),
];

/// Orders what comes in the second stream after what was submitted to the first.
pub fn between(by: By, before: CUstream, after: CUstream) {
    match by {
        By::Nothing => {}
        By::Event => order(before, after),
        By::Host => cuStreamSynchronize(before).unwrap(),
    }
}

/// Two streams and memory that both may use, written before.
pub fn with_memory(body: impl FnOnce(CUstream, CUstream, u64)) {
    start();
    let (one, two, address) = (stream(), stream(), memory(1024));
    cuMemsetD8_v2(address, 0, 1024).unwrap();
    cuCtxSynchronize().unwrap();
    body(one, two, address);
    finish(&[one, two]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn write_write(by: By) {
    with_memory(|one, two, address| {
        cuMemsetD8Async(address, 1, 1024, one).unwrap();
        between(by, one, two);
        cuMemsetD8Async(address + 512, 2, 1, two).unwrap();
    });
}

fn write_read(by: By) {
    with_memory(|one, two, address| {
        cuMemsetD8Async(address, 1, 1024, one).unwrap();
        between(by, one, two);
        assert_eq!(read(address, 4, two).len(), 4);
    });
}

fn read_write(by: By) {
    with_memory(|one, two, address| {
        let pinned = host(16);
        cuMemcpyDtoHAsync_v2(pinned, address, 16, one).unwrap();
        between(by, one, two);
        cuMemsetD8Async(address + 15, 2, 1, two).unwrap();
        cuStreamSynchronize(one).unwrap();
        cuMemFreeHost(pinned).unwrap();
    });
}

fn read_read() {
    with_memory(|one, two, address| {
        let (left, right) = (host(16), host(16));
        cuMemcpyDtoHAsync_v2(left, address, 16, one).unwrap();
        cuMemcpyDtoHAsync_v2(right, address, 16, two).unwrap();
        cuStreamSynchronize(one).unwrap();
        cuStreamSynchronize(two).unwrap();
        cuMemFreeHost(left).unwrap();
        cuMemFreeHost(right).unwrap();
    });
}

fn other_bytes() {
    with_memory(|one, two, address| {
        cuMemsetD8Async(address, 1, 512, one).unwrap();
        cuMemsetD8Async(address + 512, 2, 512, two).unwrap();
    });
}

pub fn with_kernels(body: impl FnOnce(CUstream, CUstream, u64, sys::CUmodule)) {
    with_memory(|one, two, address| {
        let module = module(KERNELS);
        body(one, two, address, module);
        cuStreamSynchronize(one).unwrap();
        cuStreamSynchronize(two).unwrap();
        cuModuleUnload(module).unwrap();
    });
}

fn kernels(by: By) {
    with_kernels(|one, two, address, module| {
        let fill = function(module, "fill");
        launch(fill, 64, one, &[address, 64, 1]).unwrap();
        between(by, one, two);
        launch(fill, 64, two, &[address + 252, 64, 2]).unwrap();
    });
}

/// The kernel that was submitted first runs when the host has long seen the second complete.
fn late_kernels(by: By) {
    with_kernels(|one, two, address, module| {
        let fill = function(module, "fill");
        launch(fill, 64, two, &[address, 64, 2]).unwrap();
        between(by, two, one);
        let gate = Gate::close(one);
        launch(fill, 64, one, &[address, 64, 1]).unwrap();
        cuStreamSynchronize(two).unwrap();
        gate.open();
    });
}

fn kernels_on_other_halves() {
    with_kernels(|one, two, address, module| {
        let fill = function(module, "fill");
        launch(fill, 128, one, &[address, 128, 1]).unwrap();
        launch(fill, 128, two, &[address + 512, 128, 2]).unwrap();
    });
}

fn atomics_beside_atomics() {
    with_kernels(|one, two, address, module| {
        let count = function(module, "count");
        launch(count, 64, one, &[address]).unwrap();
        launch(count, 64, two, &[address]).unwrap();
        cuCtxSynchronize().unwrap();
        assert_eq!(words(address, 1, one), [128]);
    });
}

fn event_query(ask: bool) {
    with_memory(|one, two, address| {
        let event = event();
        cuMemsetD8Async(address, 1, 1024, one).unwrap();
        cuEventRecord(event, one).unwrap();
        if ask {
            while cuEventQuery(event) == Err(CUresult::CUDA_ERROR_NOT_READY) {
                std::thread::yield_now();
            }
        }
        cuMemsetD8Async(address, 2, 1024, two).unwrap();
        cuEventDestroy_v2(event).unwrap();
    });
}

fn old_record(old: bool) {
    with_memory(|one, two, address| {
        let event = event();
        if old {
            cuEventRecord(event, one).unwrap();
        }
        cuMemsetD8Async(address, 1, 1024, one).unwrap();
        if !old {
            cuEventRecord(event, one).unwrap();
        }
        cuStreamWaitEvent(two, event, 0).unwrap();
        cuMemsetD8Async(address, 2, 1024, two).unwrap();
        cuEventDestroy_v2(event).unwrap();
    });
}

fn graph_nodes(in_order: bool) {
    with_memory(|one, _, address| {
        let mut graph = null_mut();
        cuGraphCreate(&mut graph, 0).unwrap();
        let parameters = |value| sys::CUDA_MEMSET_NODE_PARAMS {
            dst: address,
            pitch: 0,
            value,
            elementSize: 1,
            width: 8,
            height: 1,
        };
        let (mut first, mut second) = (null_mut(), null_mut());
        cuGraphAddMemsetNode(&mut first, graph, null(), 0, &parameters(1), null_mut()).unwrap();
        let (after, count) = if in_order { (&raw const first, 1) } else { (null(), 0) };
        cuGraphAddMemsetNode(&mut second, graph, after, count, &parameters(2), null_mut()).unwrap();
        let executable = instantiate(graph);
        cuGraphLaunch(executable, one).unwrap();
        cuStreamSynchronize(one).unwrap();
        cuGraphExecDestroy(executable).unwrap();
        cuGraphDestroy(graph).unwrap();
    });
}

fn graph_and_stream(by: By) {
    with_memory(|one, two, address| {
        cuStreamBeginCapture_v2(one, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        cuMemsetD8Async(address, 1, 8, one).unwrap();
        let mut graph = null_mut();
        cuStreamEndCapture(one, &mut graph).unwrap();
        let executable = instantiate(graph);
        cuGraphLaunch(executable, one).unwrap();
        between(by, one, two);
        cuMemsetD8Async(address, 2, 8, two).unwrap();
        cuCtxSynchronize().unwrap();
        cuGraphExecDestroy(executable).unwrap();
        cuGraphDestroy(graph).unwrap();
    });
}

fn default_stream(blocking: bool) {
    with_memory(|_, _, address| {
        let mut stream = null_mut();
        cuStreamCreate(&mut stream, if blocking { 0 } else { NON_BLOCKING }).unwrap();
        cuMemsetD8Async(address, 1, 8, stream).unwrap();
        cuMemsetD8Async(address, 2, 8, null_mut()).unwrap();
        finish(&[stream]);
        cuStreamSynchronize(null_mut()).unwrap();
    });
}
