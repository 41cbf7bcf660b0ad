//! Recordings as graphs (L9).
//!
//! Not here: what the suite asks of recordings of every backend.

use tenure_core::{BackendErrorKind, Error, op};

use crate::ffi::{calls, inject, live, violations};
use crate::support::{alone, increment, manager};

/// Every call that puts work into a stream one by one.
const SINGLE: [&str; 4] =
    ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemsetD32Async", "cuMemcpyDtoDAsync_v2"];

fn singles() -> u64 {
    SINGLE.iter().map(|name| calls(name)).sum()
}

/// The first evaluation puts commands into the stream, the second makes the graph, and from then on one call does all.
#[test]
fn a_recording_becomes_a_graph_and_is_replayed() {
    alone("graphs::a_recording_becomes_a_graph_and_is_replayed", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let [a, b] = ["a", "b"].map(|label| scope.tensor_from(label, &[0_u32; 300]).unwrap());
        let (read, download) = op::download(&b);
        let sequence = scope.named("all").unwrap();
        sequence
            .record(op::upload(&a, &[7_u32; 300]))
            .unwrap()
            .record(op::dispatch(&kernel).bind(&a).groups([5, 1, 1]))
            .unwrap()
            .record(op::fill(b.view(0..10).unwrap(), 3_u32))
            .unwrap()
            .record(op::copy(a.view(10..300).unwrap(), b.view(10..300).unwrap()))
            .unwrap()
            .record(read)
            .unwrap();
        let expected: Vec<u32> = (0..300).map(|at| if at < 10 { 3 } else { 8 }).collect();
        let mut before = 0;
        for round in 0..5 {
            sequence.evaluate().unwrap().wait().unwrap();
            assert_eq!(download.get().unwrap(), expected, "evaluation {round}");
            if round == 0 {
                assert_eq!(calls("cuGraphCreate"), 0);
                before = singles();
            }
        }
        assert_eq!(singles(), before, "nothing was put into the stream one by one again");
        assert_eq!((calls("cuGraphCreate"), calls("cuGraphLaunch")), (1, 4));
        assert_eq!((live("graphs"), live("executables")), (0, 1));
        sequence.reset().unwrap();
        sequence.record(op::fill(&a, 1_u32)).unwrap().evaluate().unwrap().wait().unwrap();
        assert_eq!(live("executables"), 0, "a graph goes with what was recorded");
        scope.finish_blocking().unwrap();
        drop((scope, kernel, a, b, sequence));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!(violations(), 0);
    });
}

/// A graph whose tensor was destroyed is not launched again: it is refused before any call of the driver (L5).
#[test]
fn a_graph_of_a_destroyed_tensor_is_refused() {
    alone("graphs::a_graph_of_a_destroyed_tensor_is_refused", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor_from("gone", &[0_u32; 64]).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1_u32)).unwrap();
        for _ in 0..3 {
            sequence.evaluate().unwrap().wait().unwrap();
        }
        tensor.destroy().unwrap();
        manager.trim().unwrap();
        let before = calls("cuGraphLaunch");
        let error = sequence.evaluate().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Stale { .. }), "{error}");
        assert!(error.to_string().contains("gone"), "{error}");
        assert_eq!(calls("cuGraphLaunch"), before);
        scope.finish_blocking().unwrap();
        drop((scope, tensor, sequence));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!(violations(), 0);
    });
}

/// The driver fails while a graph is made, at each of its steps: the evaluation says so and submits nothing, nothing is left
/// of the graph, and the next evaluation works.
#[test]
fn a_graph_that_fails_half_way_leaves_nothing() {
    alone("graphs::a_graph_that_fails_half_way_leaves_nothing", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = scope.tensor_from("t", &[0_u32; 64]).unwrap();
        let other = scope.tensor_from("o", &[0_u32; 64]).unwrap();
        for (step, function, call) in [
            (0, "cuGraphCreate", 1),
            (1, "cuGraphAddKernelNode_v2", 2),
            (2, "cuGraphAddMemsetNode", 1),
            (3, "cuGraphAddMemcpyNode", 1),
            (4, "cuGraphInstantiateWithFlags", 1),
            (5, "cuGraphLaunch", 1),
        ] {
            scope.evaluate([op::fill(&tensor, 0_u32)]).unwrap().wait().unwrap();
            let sequence = scope.sequence().unwrap();
            let dispatch = || op::dispatch(&kernel).bind(&tensor).groups([1, 1, 1]);
            sequence.record(dispatch()).unwrap().record(dispatch()).unwrap();
            sequence.record(op::fill(&other, 9_u32)).unwrap().record(op::upload(&other, &[1; 64])).unwrap();
            sequence.evaluate().unwrap().wait().unwrap();
            inject(function, call, 1);
            let error = sequence.evaluate().map(|_| ()).unwrap_err();
            match &error {
                Error::Backend(error) => assert_eq!(error.kind, BackendErrorKind::Driver, "{error}"),
                other => panic!("step {step}: {other}"),
            }
            assert_eq!(tensor.read().unwrap(), [2; 64], "step {step}: nothing was submitted");
            assert_eq!(live("graphs"), 0, "step {step}");
            sequence.evaluate().unwrap().wait().unwrap();
            assert_eq!(tensor.read().unwrap(), [4; 64], "step {step}");
        }
        scope.finish_blocking().unwrap();
        drop((scope, kernel, tensor, other));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("executables"), violations()), (0, 0));
    });
}
