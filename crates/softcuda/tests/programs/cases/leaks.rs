//! What programs leave behind.
//!
//! Not here: programs that leave nothing; all others are looked at too.

use std::ptr::null_mut;

use crate::Case;
use crate::ffi::*;
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("leaks/each_kind_counts", each_kind_counts).leaking(9),
    Case::new("leaks/what_dies_with_its_context_counts", what_dies_with_its_context_counts).leaking(5),
    Case::new("leaks/nothing_is_left", nothing_is_left),
    Case::new("leaks/they_end_a_strict_process", one_stream).leaking(2).with(STRICT).ending(86),
    Case::new("leaks/nothing_is_left_in_a_strict_process", nothing_is_left).with(STRICT),
];

const STRICT: &[(&str, &str)] = &[("SOFTCUDA_STRICT", "1")];

fn one_stream() {
    start();
    stream();
}

fn each_kind_counts() {
    start();
    let stream = stream();
    event();
    module(KERNELS);
    memory(64);
    host(64);
    pooled(64, stream);
    pool();
    let mut graph = null_mut();
    cuGraphCreate(&mut graph, 0).unwrap();
    let kinds = ["contexts", "streams", "events", "modules", "graphs", "pools", "memory", "host"];
    assert_eq!(kinds.map(live), [1, 1, 1, 1, 1, 1, 2, 1]);
    assert_eq!(live(""), 9);
}

fn what_dies_with_its_context_counts() {
    cuInit(0).unwrap();
    let mut context = null_mut();
    cuCtxCreate_v2(&mut context, 0, 0).unwrap();
    stream();
    event();
    module(KERNELS);
    memory(64);
    host(64);
    assert_eq!(leaks(), 6, "these and the context");
    cuCtxDestroy_v2(context).unwrap();
    assert_eq!(live(""), 0);
}

fn nothing_is_left() {
    start();
    let stream = stream();
    let address = pooled(64, stream);
    assert_eq!(leaks(), 3);
    cuMemFreeAsync(address, stream).unwrap();
    finish(&[stream]);
    end();
    assert_eq!(leaks(), 0);
}
