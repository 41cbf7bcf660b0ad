//! Recordings as graphs (L9).
//!
//! Not here: what the suite asks of recordings of every backend.

use tenure_core::{BackendErrorKind, Download, Error, Kernel, ManagedScope, Op, Tensor, op};

use crate::ffi::{calls, delay, inject, live, violations};
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

/// Evaluates what is recorded until it is a graph. Its nodes and edges.
fn shape(scope: &ManagedScope, operations: Vec<Op>) -> (u64, u64) {
    let before = [live("nodes"), live("edges")];
    let sequence = scope.sequence().unwrap();
    for operation in operations {
        sequence.record(operation).unwrap();
    }
    for _ in 0..2 {
        sequence.evaluate().unwrap().wait().unwrap();
    }
    (live("nodes") - before[0], live("edges") - before[1])
}

/// What shares no bytes, or only reads them, is in branches of a graph; what depends on other work comes after it.
#[test]
fn a_graph_has_an_edge_where_bytes_are_shared_and_nowhere_else() {
    alone("graphs::a_graph_has_an_edge_where_bytes_are_shared_and_nowhere_else", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|label| scope.tensor_from(label, &[0_u32; 64]).unwrap());
        let on = |tensor: &Tensor<u32>| -> Op { op::dispatch(&kernel).bind(tensor).into() };
        let part = |tensor: &Tensor<u32>, from, to| tensor.view(from..to).unwrap();
        let half = |from, to| -> Op { op::dispatch(&kernel).bind(part(&a, from, to)).into() };
        assert_eq!(shape(&scope, vec![on(&a), on(&b), on(&c)]), (3, 0), "three tensors");
        assert_eq!(shape(&scope, vec![on(&a), on(&a), on(&a)]), (3, 2), "one tensor");
        assert_eq!(shape(&scope, vec![half(0, 32), half(32, 64)]), (2, 0), "halves that touch");
        assert_eq!(shape(&scope, vec![half(0, 33), half(32, 64)]), (2, 1), "halves that share an element");
        let diamond = vec![on(&a), op::copy(&a, &b), op::copy(&a, &c), op::fill(&a, 1_u32)];
        // Two reads after the write, and the next write after both.
        assert_eq!(shape(&scope, diamond), (4, 4));
        let read = |tensor: &Tensor<u32>| op::download(tensor).0;
        assert_eq!(shape(&scope, vec![read(&a), read(&a), op::upload(&b, &[1; 64]), read(&b)]), (4, 1));
        scope.finish_blocking().unwrap();
        drop((scope, kernel, a, b, c));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("executables"), violations()), (0, 0));
    });
}

/// Elements of each of the tensors of a random recording.
const LEN: usize = 96;

/// Numbers that are the same in every run: a xorshift generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// One operation, as it is recorded and as it is on vectors. The tensor, its first element, and how many.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fill([usize; 3], u32),
    Upload([usize; 3], u32),
    /// To the same elements of another tensor.
    Copy([usize; 3], usize),
    Increment([usize; 3]),
    Download([usize; 3]),
}

impl Step {
    /// Many small writes and few looks at whole tensors, where `many`; else anything.
    fn random(numbers: &mut Numbers, tensors: usize, many: bool) -> Step {
        let kind = if many { [0, 1, 3][numbers.below(3)] } else { numbers.below(5) };
        let kind = if many && numbers.below(40) == 0 { 2 + 2 * numbers.below(2) } else { kind };
        let (tensor, first) = (numbers.below(tensors), numbers.below(LEN));
        let part = match (many, kind) {
            (false, _) => [tensor, first, 1 + numbers.below(LEN - first)],
            (true, 2 | 4) => [tensor, 0, LEN],
            (true, _) => [tensor, first, 1],
        };
        match kind {
            0 => Step::Fill(part, numbers.below(1000) as u32),
            1 => Step::Upload(part, numbers.below(1000) as u32),
            2 => Step::Copy(part, (tensor + 1 + numbers.below(tensors - 1)) % tensors),
            3 => Step::Increment(part),
            _ => Step::Download(part),
        }
    }

    fn op(self, tensors: &[Tensor<u32>], increment: &Kernel, reads: &mut Vec<Download<u32>>) -> Op {
        let view = |[tensor, first, count]: [usize; 3]| {
            tensors[tensor].view(first as u64..(first + count) as u64).unwrap()
        };
        match self {
            Step::Fill(part, value) => op::fill(view(part), value),
            Step::Upload(part, value) => op::upload(view(part), &vec![value; part[2]]),
            Step::Copy(part, to) => op::copy(view(part), view([to, part[1], part[2]])),
            Step::Increment(part) => op::dispatch(increment).bind(view(part)).groups([2, 1, 1]).into(),
            Step::Download(part) => {
                let (operation, download) = op::download(view(part));
                reads.push(download);
                operation
            }
        }
    }

    fn simulate(self, memory: &mut [Vec<u32>], reads: &mut Vec<Vec<u32>>) {
        match self {
            Step::Fill([tensor, first, count], value) | Step::Upload([tensor, first, count], value) => {
                memory[tensor][first..first + count].fill(value);
            }
            Step::Copy([tensor, first, count], to) => {
                let copied = memory[tensor][first..first + count].to_vec();
                memory[to][first..first + count].copy_from_slice(&copied);
            }
            Step::Increment([tensor, first, count]) => {
                memory[tensor][first..first + count].iter_mut().for_each(|element| *element += 1);
            }
            Step::Download([tensor, first, count]) => {
                reads.push(memory[tensor][first..first + count].to_vec());
            }
        }
    }
}

/// Recordings of random work, evaluated until they are graphs whose nodes run in whatever order their edges leave: the device has
/// what the host computes, and the driver finds no two uses that nothing orders.
#[test]
fn graphs_of_random_recordings_compute_what_the_host_does() {
    alone("graphs::graphs_of_random_recordings_compute_what_the_host_does", || {
        let manager = manager();
        let kernel = manager.kernel(&increment()).unwrap();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut edges = 0;
        for round in 0..60 {
            delay(round + 1);
            let scope = manager.scope("s").unwrap();
            let mut memory: Vec<Vec<u32>> = (0..4).map(|at| vec![at * 100; LEN]).collect();
            let tensors: Vec<Tensor<u32>> =
                memory.iter().map(|elements| scope.tensor_from("t", elements).unwrap()).collect();
            // Now and then so many operations that nodes are put between.
            let many = round % 10 == 9;
            let count = if many { 400 } else { 2 + numbers.below(14) };
            let mut program: Vec<Step> = Vec::new();
            while program.len() < count {
                let step = Step::random(&mut numbers, tensors.len(), many);
                program.push(step);
                // Twice: neither comes after the other, and both after what was written.
                program.extend(matches!(step, Step::Download(_)).then_some(step));
            }
            let sequence = scope.sequence().unwrap();
            let mut reads = Vec::new();
            for step in &program {
                sequence.record(step.op(&tensors, &kernel, &mut reads)).unwrap();
            }
            for evaluation in 0..4 {
                let mut expected = Vec::new();
                program.iter().for_each(|step| step.simulate(&mut memory, &mut expected));
                sequence.evaluate().unwrap().wait().unwrap();
                for (tensor, elements) in tensors.iter().zip(&memory) {
                    assert_eq!(tensor.read().unwrap(), *elements, "evaluation {evaluation} of {program:?}");
                }
                for (download, expected) in reads.iter().zip(&expected) {
                    assert_eq!(download.get().unwrap(), *expected, "evaluation {evaluation} of {program:?}");
                }
            }
            edges += live("edges");
            scope.finish_blocking().unwrap();
        }
        assert!(edges > 0 && calls("cuGraphLaunch") == 180);
        assert!(calls("cuGraphAddEmptyNode") > 0, "nodes were put between");
        drop(kernel);
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("executables"), violations()), (0, 0));
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

/// Handles go, memory is trimmed and taken anew between evaluations: a graph keeps what it names, and no more (L5).
#[test]
fn a_graph_keeps_what_it_names() {
    alone("graphs::a_graph_keeps_what_it_names", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = manager.tensor_from("named", &[0_u32; 1 << 16]).unwrap();
        let (read, download) = op::download(&tensor);
        let sequence = scope.named("again").unwrap();
        sequence.record(op::dispatch(&kernel).bind(&tensor).groups([1024, 1, 1])).unwrap();
        sequence.record(read).unwrap();
        drop((kernel, tensor));
        for evaluation in 1..=4 {
            manager.trim().unwrap();
            // Would be in the same place if that were free.
            let other = manager.tensor_from("other", &[77_u32; 1 << 16]).unwrap();
            sequence.evaluate().unwrap().wait().unwrap();
            assert_eq!(download.get().unwrap(), [evaluation; 1 << 16]);
            assert_eq!(other.read().unwrap(), [77; 1 << 16]);
        }
        assert_eq!((live("executables"), live("modules")), (1, 1));
        sequence.reset().unwrap();
        assert_eq!(manager.memory().live.bytes, 0, "nobody else had it");
        scope.finish_blocking().unwrap();
        drop((scope, sequence));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live(""), violations()), (0, 0));
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
            (6, "cuGraphAddKernelNode_v2", 1),
            (7, "cuGraphAddEmptyNode", 1),
        ] {
            scope.evaluate([op::fill(&tensor, 0_u32)]).unwrap().wait().unwrap();
            let sequence = scope.sequence().unwrap();
            let dispatch = || op::dispatch(&kernel).bind(&tensor).groups([1, 1, 1]);
            sequence.record(dispatch()).unwrap().record(dispatch()).unwrap();
            sequence.record(op::fill(&other, 9_u32)).unwrap().record(op::upload(&other, &[1; 64])).unwrap();
            // So many writers of what is read that a node is put between.
            for at in 0..64 {
                sequence.record(op::fill(other.view(at..at + 1).unwrap(), 5_u32)).unwrap();
            }
            sequence.record(op::download(&other).0).unwrap();
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
