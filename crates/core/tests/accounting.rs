//! Exact accounting whichever thread makes and drops a tensor, and whatever is kept for the next one (L19): random steps on
//! three threads, one at a time, against a model.

#![cfg(not(feature = "shuttle"))]

mod support;

use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;
use support::Device;
use tenure_core::{Manager, ManagerOptions, Tensor, TrimPolicy};

const THREADS: usize = 3;
/// Whole blocks of exact classes, so that a tensor's bytes are those of its memory.
const SIZES: [u64; 4] = [512 << 10, 1 << 20, 2 << 20, 4 << 20];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// By one of two lines of the program.
    Make {
        size: usize,
        line: bool,
    },
    Drop(usize),
    Trim,
    Report,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        6 => (0..SIZES.len(), any::<bool>()).prop_map(|(size, line)| Step::Make { size, line }),
        6 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Trim),
        2 => Just(Step::Report),
    ];
    (0..THREADS, step)
}

/// Runs what it is sent, on a thread of its own, one thing at a time.
struct Worker {
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    done: mpsc::Receiver<()>,
}

impl Worker {
    fn start() -> Self {
        let (jobs, received) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            for job in received {
                job();
                // The test may have failed meanwhile.
                let _ = finished.send(());
            }
        });
        Worker { jobs, done }
    }

    fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (answer, answered) = mpsc::channel();
        self.jobs
            .send(Box::new(move || answer.send(job()).expect("the test waits")))
            .expect("the worker runs");
        self.done.recv().expect("the job has not panicked");
        answered.recv().expect("the job has answered")
    }
}

fn make(manager: &Manager, bytes: u64, line: bool) -> Tensor<u8> {
    let first: fn(&Manager, u64) -> _ = |manager, bytes| manager.tensor(bytes);
    let second: fn(&Manager, u64) -> _ = |manager, bytes| manager.tensor(bytes);
    let made = if line { first(manager, bytes) } else { second(manager, bytes) };
    made.expect("there is room")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn figures_are_exact_on_every_thread(steps in proptest::collection::vec(step(), 1..120)) {
        let workers: Vec<Worker> = (0..THREADS).map(|_| Worker::start()).collect();
        let device = Device::default();
        let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
        let manager = Manager::open_with(device.backend(), options).unwrap();
        let mut live: Vec<(u64, Tensor<u8>)> = Vec::new();
        let (mut bytes, mut peak) = (0, 0);
        for (thread, step) in steps {
            let worker = &workers[thread];
            let used = manager.clone();
            match step {
                Step::Make { size, line } => {
                    let size = SIZES[size];
                    live.push((size, worker.run(move || make(&used, size, line))));
                    bytes += size;
                    peak = peak.max(bytes);
                }
                Step::Drop(at) if !live.is_empty() => {
                    let (size, tensor) = live.swap_remove(at % live.len());
                    worker.run(move || drop(tensor));
                    bytes -= size;
                }
                Step::Drop(_) => {}
                Step::Trim => {
                    worker.run(move || used.trim().unwrap());
                    prop_assert_eq!(manager.memory().cached.bytes, 0);
                }
                Step::Report => {
                    let memory = manager.memory();
                    prop_assert_eq!(memory.live.bytes, bytes);
                    prop_assert_eq!(memory.tensors, live.len() as u64);
                    prop_assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached);
                    prop_assert_eq!(memory.peak_live_bytes, peak);
                }
            }
        }
        prop_assert_eq!(manager.memory().peak_live_bytes, peak);
        drop(live);
        let report = manager.close().unwrap();
        prop_assert!(report.is_clean(), "{}", report);
        prop_assert_eq!(report.memory.reserved.bytes, 0);
        let (allocated, freed) = device.balance();
        prop_assert_eq!(allocated, freed);
    }
}
