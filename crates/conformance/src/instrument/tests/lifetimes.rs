//! The end of a backend: what is out, what is running, and what is called afterwards.
//!
//! Not here: the end of a lost device (`loss.rs`).

use std::time::Duration;

use tenure_core::backend::{Backend, Scope};

use super::bench::{Bench, point, submit};
use super::ffi;
use crate::instrument::ObjectKind;

#[test]
fn nothing_is_out_at_the_end() {
    let bench = Bench::new();
    let mut arena = bench.arena(0);
    // Dropping is not giving back.
    drop((bench.block(), bench.adopted(), bench.kernel(), arena.open_sequence("s").unwrap(), arena));
    ffi::shutdown(&bench.backend).unwrap();
    let violations = bench.probe.violations();
    assert_eq!(violations.len(), 5, "{violations:?}");
    for kind in ObjectKind::ALL {
        let text = format!("L19: shutdown with 1 of kind {kind} out");
        assert!(violations.iter().any(|violation| violation.contains(&text)), "{text}: {violations:?}");
        assert!(!bench.probe.lifetimes(kind).is_balanced());
    }
}

#[test]
fn a_long_list_is_cut() {
    let bench = Bench::new();
    let _blocks: Vec<_> = (0..6).map(|_| bench.block()).collect();
    ffi::shutdown(&bench.backend).unwrap();
    bench.expect_violation("6 of kind block out: 1 `x`, 2 `x`, 3 `x`, 4 `x`, and others");
}

#[test]
fn nothing_is_running_at_the_end() {
    let bench = Bench::new();
    let mut arena = bench.arena(0);
    let mut sequence = arena.open_sequence("s").unwrap();
    bench.probe.hold();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    ffi::recycle(&mut arena, sequence);
    ffi::close_scope(&bench.backend, arena).unwrap();
    ffi::shutdown(&bench.backend).unwrap();
    let violations = bench.probe.violations();
    assert!(violations[1].contains("L4: shutdown while point 1 of queue 0 is running"), "{violations:?}");
}

#[test]
fn nothing_is_called_after_the_end() {
    let bench = Bench::new();
    let (block, mut arena) = (bench.block(), bench.arena(0));
    let sequence = arena.open_sequence("s").unwrap();
    ffi::shutdown(&bench.backend).unwrap();
    let before = bench.probe.violations().len();
    bench.backend.trim().unwrap_err();
    bench.backend.interrupt();
    ffi::free(&bench.backend, block).unwrap_err();
    ffi::recycle(&mut arena, sequence);
    assert_eq!(bench.backend.info().name, "tiny");
    let violations = bench.probe.violations();
    assert_eq!(violations.len(), before + 5, "{violations:?}");
    assert!(violations[before].contains("trim after shutdown"), "{violations:?}");
    for call in ["trim", "interrupt", "free", "recycle"] {
        assert_eq!(bench.device.calls(call), 0, "{call}");
    }
}

#[test]
fn the_end_comes_once() {
    let bench = Bench::new();
    ffi::shutdown(&bench.backend).unwrap();
    ffi::shutdown(&bench.backend).unwrap_err();
    bench.expect_violation("shutdown is called twice");
    assert_eq!(bench.device.calls("shutdown"), 1);
}

#[test]
fn the_end_can_be_waited_for() {
    let bench = Bench::new();
    assert!(!bench.probe.wait_shutdown(Duration::from_millis(1)));
    let probe = bench.probe.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || probe.wait_shutdown(Duration::from_secs(3600)));
        ffi::shutdown(&bench.backend).unwrap();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_probe_outlives_its_backend() {
    let bench = Bench::new();
    let probe = bench.probe.clone();
    drop(bench);
    probe.hold();
    probe.release_all();
    probe.settle();
    assert!(!probe.is_shut_down());
}
