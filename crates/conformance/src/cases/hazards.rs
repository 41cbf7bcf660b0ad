//! Cases about work that depends on other work: whatever writes and reads the same elements, in one sequence or in several
//! that nobody waits for, happens in the order in which it was given (L4). Where a layer watches over synchronisation, as
//! on Vulkan, a barrier that is missing fails the case also when the results are right by luck.
//!
//! Programs are lists of steps, which run on the device and on plain vectors; both have to agree. Not here: waits between
//! queues as such (`sequences/queues.rs`).

use tenure_core::{Download, Kernel, ManagedScope, Manager, Op, ScopeOptions, Tensor, View, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::kernels::groups_for;
use crate::random::Random;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("hazards/every_pair_in_one_sequence", &["L4", "L9"], every_pair_in_one_sequence),
    case("hazards/every_pair_in_two_sequences", &["L4"], every_pair_in_two_sequences),
    case("hazards/parts_of_a_tensor", &["L4"], parts_of_a_tensor),
    case("hazards/random_programs", &["L4", "L9"], random_programs),
    case("hazards/random_programs_again", &["L4", "L9"], random_programs_again),
    case(
        "hazards/a_repeated_sequence_depends_on_itself",
        &["L4", "L9"],
        a_repeated_sequence_depends_on_itself,
    ),
    case("hazards/a_read_back_while_another_sequence_runs", &["L4", "L7"], a_read_back_while_another_runs),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[Requirement::Kernels], run }
}

/// Elements of each tensor: enough that a device works on several workgroups at once.
const LEN: usize = 4096;

/// Tensors of a program.
const TENSORS: usize = 4;

/// Elements of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    tensor: usize,
    first: usize,
    count: usize,
}

impl Part {
    const fn all(tensor: usize) -> Part {
        Part { tensor, first: 0, count: LEN }
    }

    fn of(self, memory: &[Vec<u32>]) -> &[u32] {
        &memory[self.tensor][self.first..self.first + self.count]
    }

    fn of_mut(self, memory: &mut [Vec<u32>]) -> &mut [u32] {
        &mut memory[self.tensor][self.first..self.first + self.count]
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fill(Part, u32),
    /// Writes the value and those after it.
    Upload(Part, u32),
    Copy(Part, Part),
    CopyKernel(Part, Part),
    Increment(Part),
    Iota(Part),
    Download(Part),
}

impl Step {
    /// What it does, on vectors. A download's values go to `downloads`.
    fn simulate(self, memory: &mut [Vec<u32>], downloads: &mut Vec<Vec<u32>>) {
        match self {
            Step::Fill(part, value) => part.of_mut(memory).fill(value),
            Step::Upload(part, value) => part.of_mut(memory).copy_from_slice(&values(value, part.count)),
            Step::Copy(from, to) | Step::CopyKernel(from, to) => {
                let copied = from.of(memory).to_vec();
                to.of_mut(memory).copy_from_slice(&copied);
            }
            Step::Increment(part) => {
                part.of_mut(memory).iter_mut().for_each(|element| *element = element.wrapping_add(1));
            }
            Step::Iota(part) => {
                part.of_mut(memory).iter_mut().zip(0..).for_each(|(element, at)| *element = at);
            }
            Step::Download(part) => downloads.push(part.of(memory).to_vec()),
        }
    }
}

fn values(first: u32, count: usize) -> Vec<u32> {
    (first..).take(count).collect()
}

/// The tensors and kernels of a program on a device.
struct Machine {
    tensors: Vec<Tensor<u32>>,
    increment: Kernel,
    iota: Kernel,
    copy: Kernel,
}

impl Machine {
    fn new(bed: &Bed, manager: &Manager) -> Machine {
        let kernels = bed.kernels();
        Machine {
            tensors: (0..TENSORS).map(|_| manager.tensor::<u32>(LEN as u64).unwrap()).collect(),
            increment: manager.kernel(&kernels.increment).unwrap(),
            iota: manager.kernel(&kernels.iota).unwrap(),
            copy: manager.kernel(&kernels.copy_u32).unwrap(),
        }
    }

    /// Writes what every program begins with, and returns the same as vectors.
    fn begin(&self) -> Vec<Vec<u32>> {
        let memory: Vec<Vec<u32>> = (0..TENSORS).map(|at| values(at as u32 * 10_000, LEN)).collect();
        for (tensor, elements) in self.tensors.iter().zip(&memory) {
            tensor.write(elements).unwrap();
        }
        memory
    }

    fn view(&self, part: Part) -> View<u32> {
        let (first, count) = (part.first as u64, part.count as u64);
        self.tensors[part.tensor].view(first..first + count).unwrap()
    }

    fn op(&self, step: Step, downloads: &mut Vec<Download<u32>>) -> Op {
        let run = |kernel: &Kernel, parts: &[Part]| -> Op {
            let dispatch = parts.iter().fold(op::dispatch(kernel), |run, part| run.bind(self.view(*part)));
            dispatch.groups(groups_for(parts[0].count as u64)).into()
        };
        match step {
            Step::Fill(part, value) => op::fill(self.view(part), value),
            Step::Upload(part, value) => op::upload(self.view(part), &values(value, part.count)),
            Step::Copy(from, to) => op::copy(self.view(from), self.view(to)),
            Step::CopyKernel(from, to) => run(&self.copy, &[from, to]),
            Step::Increment(part) => run(&self.increment, &[part]),
            Step::Iota(part) => run(&self.iota, &[part]),
            Step::Download(part) => {
                let (op, values) = op::download(self.view(part));
                downloads.push(values);
                op
            }
        }
    }

    /// Evaluates each list of steps as one sequence, without waiting in between, and compares everything with vectors.
    fn check(&self, scopes: &[ManagedScope], program: &[(usize, Vec<Step>)]) {
        self.check_again(scopes, program, 1);
    }

    /// The same, and then all sequences again, so often in all.
    fn check_again(&self, scopes: &[ManagedScope], program: &[(usize, Vec<Step>)], times: usize) {
        let mut memory = self.begin();
        let mut downloads = Vec::new();
        let recorded = program.iter().map(|(scope, steps)| {
            let sequence = scopes[*scope].sequence().unwrap();
            for step in steps {
                sequence.record(self.op(*step, &mut downloads)).unwrap();
            }
            sequence
        });
        let sequences: Vec<_> = recorded.collect();
        for time in 0..times {
            let mut expected = Vec::new();
            let mut executions = Vec::new();
            for (sequence, (_, steps)) in sequences.iter().zip(program) {
                executions.push(sequence.evaluate().unwrap());
                steps.iter().for_each(|step| step.simulate(&mut memory, &mut expected));
            }
            for (tensor, elements) in self.tensors.iter().zip(&memory) {
                let label = tensor.label();
                assert_eq!(tensor.read().unwrap(), *elements, "{label} after {program:?}, time {time}");
            }
            for execution in executions {
                execution.wait().unwrap();
            }
            for (values, expected) in downloads.iter().zip(&expected) {
                assert_eq!(values.get().unwrap(), *expected, "downloaded in {program:?}, time {time}");
            }
        }
    }
}

/// Every way to use the first tensor: to write it, to read it, to do both.
const USES: [Step; 9] = [
    Step::Fill(Part::all(0), 7),
    Step::Upload(Part::all(0), 500),
    Step::Copy(Part::all(1), Part::all(0)),
    Step::CopyKernel(Part::all(2), Part::all(0)),
    Step::Increment(Part::all(0)),
    Step::Iota(Part::all(0)),
    Step::Copy(Part::all(0), Part::all(3)),
    Step::CopyKernel(Part::all(0), Part::all(1)),
    Step::Download(Part::all(0)),
];

fn pairs() -> impl Iterator<Item = (Step, Step)> {
    USES.into_iter().flat_map(|first| USES.into_iter().map(move |second| (first, second)))
}

/// Write and read, read and write, write and write, by every kind of operation, in one recording.
fn every_pair_in_one_sequence(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let machine = Machine::new(bed, &manager);
    let scopes = [manager.scope("s").unwrap()];
    for (first, second) in pairs() {
        machine.check(&scopes, &[(0, vec![first, second])]);
    }
    scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop(machine);
    manager.close().unwrap();
}

/// The same between two sequences, of which the second is submitted while the first may be running; on two queues where
/// there are two.
fn every_pair_in_two_sequences(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let machine = Machine::new(bed, &manager);
    let scopes = scopes(bed, &manager);
    let last = scopes.len() - 1;
    for (first, second) in pairs() {
        machine.check(&scopes, &[(0, vec![first]), (last, vec![second])]);
    }
    scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop(machine);
    manager.close().unwrap();
}

/// One scope a queue.
fn scopes(bed: &Bed, manager: &Manager) -> Vec<ManagedScope> {
    (0..bed.capabilities().queues.min(2))
        .map(|queue| {
            let options = ScopeOptions::builder().label(format!("on queue {queue}"));
            manager.scope_with(options.queue(tenure_core::QueueId(queue)).build()).unwrap()
        })
        .collect()
}

/// Parts of one tensor that overlap by one element, touch, or are apart, and the tensor as a whole.
fn parts_of_a_tensor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let machine = Machine::new(bed, &manager);
    let scopes = scopes(bed, &manager);
    let part = |first, count| Part { tensor: 0, first, count };
    let middle = part(1001, 1000);
    let others = [part(2000, 500), part(2001, 500), part(501, 500), part(500, 502), Part::all(0), middle];
    for other in others {
        let elsewhere = Part { tensor: 1, ..other };
        let steps =
            [Step::Iota(middle), Step::Increment(other), Step::Copy(other, elsewhere), Step::Fill(middle, 3)];
        machine.check(&scopes, &[(0, steps.to_vec())]);
        let apart: Vec<_> =
            steps.iter().enumerate().map(|(at, step)| (at % scopes.len(), vec![*step])).collect();
        machine.check(&scopes, &apart);
    }
    scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop(machine);
    manager.close().unwrap();
}

fn part(random: &mut Random) -> Part {
    let first = random.index(LEN);
    Part { tensor: random.index(TENSORS), first, count: 1 + random.index(LEN - first) }
}

fn step(random: &mut Random) -> Step {
    let part = part(random);
    let other = Part { tensor: (part.tensor + 1 + random.index(TENSORS - 1)) % TENSORS, ..part };
    match random.below(7) {
        0 => Step::Fill(part, random.below(1000) as u32),
        1 => Step::Upload(part, random.below(1000) as u32),
        2 => Step::Copy(part, other),
        3 => Step::CopyKernel(part, other),
        4 => Step::Increment(part),
        5 => Step::Iota(part),
        _ => Step::Download(part),
    }
}

/// Forty programs of up to eight sequences of up to eight steps each, on whatever parts.
fn random_programs(bed: &Bed) {
    run_random_programs(bed, 0x9e37_79b9_7f4a_7c15, 1);
}

/// Other programs, of which each sequence is evaluated three times: some backends submit what comes again in another way.
fn random_programs_again(bed: &Bed) {
    run_random_programs(bed, 0x2545_f491_4f6c_dd1d, 3);
}

fn run_random_programs(bed: &Bed, seed: u64, times: usize) {
    let Rig { manager, .. } = bed.open();
    let machine = Machine::new(bed, &manager);
    let scopes = scopes(bed, &manager);
    let mut random = Random::new(seed);
    for _ in 0..40 {
        let program: Vec<(usize, Vec<Step>)> = (0..=random.index(8))
            .map(|_| {
                let scope = random.index(scopes.len());
                let count = 1 + random.index(8);
                (scope, (0..count).map(|_| step(&mut random)).collect())
            })
            .collect();
        machine.check_again(&scopes, &program, times);
    }
    scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop(machine);
    manager.close().unwrap();
}

/// A recording that goes on from what its last execution left: each execution sees all of the one before.
fn a_repeated_sequence_depends_on_itself(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let machine = Machine::new(bed, &manager);
    machine.begin();
    let scope = manager.scope("s").unwrap();
    let sequence = scope.named("grow").unwrap();
    let mut none = Vec::new();
    let steps = [
        Step::Increment(Part::all(0)),
        Step::Copy(Part::all(0), Part::all(1)),
        Step::Increment(Part::all(1)),
        Step::CopyKernel(Part::all(1), Part::all(0)),
    ];
    for step in steps {
        sequence.record(machine.op(step, &mut none)).unwrap();
    }
    for _ in 0..50 {
        sequence.run().unwrap();
    }
    assert_eq!(machine.tensors[0].read().unwrap(), values(100, LEN));
    drop(sequence);
    scope.finish_blocking().unwrap();
    drop(machine);
    manager.close().unwrap();
}

/// What a sequence in flight does not write can be read meanwhile, by the host and by a download; what it writes is read
/// after it.
fn a_read_back_while_another_runs(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let machine = Machine::new(bed, &manager);
    let memory = machine.begin();
    let scopes = scopes(bed, &manager);
    let last = scopes.len() - 1;
    probe.hold_queue(tenure_core::QueueId(0));
    let steps = [Step::Increment(Part::all(0)), Step::Copy(Part::all(1), Part::all(2))];
    let mut none = Vec::new();
    let running = scopes[0].evaluate(steps.map(|step| machine.op(step, &mut none))).unwrap();
    // Neither is written by what is in flight, and one of them is read by it.
    assert_eq!(machine.tensors[1].read().unwrap(), memory[1]);
    assert_eq!(machine.tensors[3].read().unwrap(), memory[3]);
    let (download, values_of) = op::download(&machine.tensors[1]);
    let other = scopes[last].evaluate([download]).unwrap();
    if last > 0 {
        other.wait().unwrap();
        assert_eq!(values_of.get().unwrap(), memory[1]);
    }
    assert_eq!(running.status(), tenure_core::ExecutionStatus::Running, "it is held");
    probe.release_all();
    assert_eq!(machine.tensors[0].read().unwrap(), values(1, LEN));
    assert_eq!(machine.tensors[2].read().unwrap(), memory[1]);
    running.wait().unwrap();
    other.wait().unwrap();
    assert_eq!(values_of.get().unwrap(), memory[1]);
    scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop((machine, values_of));
    manager.close().unwrap();
}
