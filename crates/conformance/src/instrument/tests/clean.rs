//! A life as it should be has no violations, and every call is counted and logged.
//!
//! Not here: what is wrong with other lives.

use tenure_core::backend::{Backend, Sequence};

use super::bench::{Bench, point, submit, writer};
use super::ffi;
use crate::instrument::{CallKind, CallSet, ObjectKind};

#[test]
fn a_whole_life_is_clean() {
    let bench = Bench::new();
    bench.probe.log_on();
    let block = bench.block();
    let kernel = bench.kernel();
    let adopted = bench.adopted();
    let mut arena = bench.arena(0);
    let mut sequence = writer(&mut arena, &block);
    for value in 1..=2 {
        submit(&mut sequence, point(0, value), &[point(0, value - 1)][..usize::from(value > 1)]).unwrap();
        bench.backend.wait_any(&[point(0, value)], None).unwrap();
        assert_eq!(bench.completed(0), value);
        sequence.collect().unwrap();
    }
    ffi::write_block(&bench.backend, &block, 0, &[1; 8]).unwrap();
    ffi::read_block(&bench.backend, &block, 0, &mut [0; 8]).unwrap();
    ffi::reset_sequence(&mut sequence).unwrap();
    ffi::recycle(&mut arena, sequence);
    ffi::reset_scope(&mut arena).unwrap();
    ffi::close_scope(&bench.backend, arena).unwrap();
    ffi::free(&bench.backend, block).unwrap();
    ffi::release(&bench.backend, adopted).unwrap();
    ffi::destroy_kernel(&bench.backend, kernel).unwrap();
    assert!(!bench.probe.is_shut_down());
    ffi::shutdown(&bench.backend).unwrap();
    assert!(bench.probe.is_shut_down());
    bench.expect_clean();
    for kind in ObjectKind::ALL {
        let balance = bench.probe.lifetimes(kind);
        assert!(balance.is_balanced() && balance.made == 1 && balance.peak == 1, "{kind}: {balance:?}");
    }
    assert_eq!(bench.probe.lifetimes(ObjectKind::Block).peak_bytes, 64);
    assert_eq!(bench.probe.calls(CallKind::Submit), 2);
    assert_eq!(bench.probe.calls(CallKind::Submit | CallKind::Collect), 4);
    let log = bench.probe.log();
    assert_eq!(log.first().map(String::as_str), Some("allocate block 1 `x`, 64 bytes"));
    assert!(log.contains(&"submit sequence 5 as point 2 of queue 0 after 1".to_owned()), "{log:#?}");
    assert_eq!(log.last().map(String::as_str), Some("shutdown"));
}

#[test]
fn nothing_is_logged_unless_asked_for() {
    let bench = Bench::new();
    let _ = bench.block();
    assert_eq!(bench.probe.log(), [""; 0]);
    bench.probe.log_on();
    let _ = bench.block();
    bench.probe.log_off();
    let _ = bench.block();
    assert_eq!(bench.probe.log().len(), 1);
    bench.probe.clear_log();
    assert_eq!(bench.probe.log(), [""; 0]);
}

#[test]
fn names_and_limits_cost_the_inner_backend_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.backend.info().name, "tiny");
    assert_eq!(bench.backend.capabilities().queues, 2);
    assert_eq!(bench.probe.calls(CallKind::Info | CallKind::Capabilities), 2);
    assert_eq!(bench.probe.calls(CallSet::FALLIBLE), 0);
}
