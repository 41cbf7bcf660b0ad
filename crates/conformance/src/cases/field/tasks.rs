//! Case C35: scopes of two tasks that take turns, on one thread and on many.
//!
//! Not here: scopes in scopes (`nesting.rs`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tenure_core::{Manager, ManagerOptions, op};

use super::support::{Count, MIB, Yield, assert_given_back, case, settled};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("field/c35_a_tasks_take_turns", &["L2", "L11", "L16"], c35_a_tasks_take_turns),
    case("field/c35_b_tasks_change_threads", &["L2", "L11", "L16"], c35_b_tasks_change_threads),
];

/// What the two tasks of C35 tell each other and the case.
#[derive(Clone)]
struct Task {
    manager: Manager,
    bytes: u64,
    each: Count,
    once: Count,
    /// Steps that it has done.
    steps: Arc<AtomicUsize>,
}

/// Steps of a task: open and make a tensor; evaluate; finish.
const STEPS: usize = 3;

impl Task {
    fn new(manager: &Manager, bytes: u64) -> Self {
        let (each, once) = (Count::default(), Count::default());
        Task { manager: manager.clone(), bytes, each, once, steps: Arc::default() }
    }

    /// One step is done: the other task may go on.
    async fn step(&self) {
        self.steps.fetch_add(1, Ordering::SeqCst);
        Yield::default().await;
    }

    async fn run(self) {
        let scope = self.manager.scope("task").unwrap();
        scope.register(self.each.each("each")).unwrap();
        scope.register(self.once.once("once")).unwrap();
        let tensor = scope.tensor::<u8>(self.bytes).unwrap();
        let other = scope.tensor::<u8>(64).unwrap();
        self.step().await;
        assert_eq!(scope.live_bytes(), self.bytes + 64);
        scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 7)]).unwrap().await.unwrap();
        scope.evaluate([op::copy(tensor.view(0..64).unwrap(), &other)]).unwrap().await.unwrap();
        self.step().await;
        assert_eq!(other.read_async().await.unwrap(), [7; 64]);
        let report = scope.finish().await.unwrap();
        assert_eq!((report.released_tensors, report.released_bytes), (2, self.bytes + 64));
        assert!(!tensor.is_live());
        assert_eq!((self.each.get(), self.once.get()), (2, 1));
        self.steps.fetch_add(1, Ordering::SeqCst);
    }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The executor: polls a task on this thread until it has done its next step.
fn advance(task: &mut BoxedTask, steps: &AtomicUsize) {
    let before = steps.load(Ordering::SeqCst);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_ready() || steps.load(Ordering::SeqCst) > before {
            assert_eq!(poll, if before + 1 == STEPS { Poll::Ready(()) } else { Poll::Pending });
            return;
        }
        std::thread::park();
    }
}

/// Every order in which two tasks of three steps can take turns.
fn interleavings() -> Vec<Vec<usize>> {
    let all: Vec<Vec<usize>> = (0_u32..1 << (2 * STEPS))
        .filter(|bits| bits.count_ones() as usize == STEPS)
        .map(|bits| (0..2 * STEPS).map(|at| (bits >> at & 1) as usize).collect())
        .collect();
    assert_eq!(all.len(), 20);
    all
}

/// Runs two tasks in every order of their steps. `turn` polls a task for one step.
fn take_turns(manager: &Manager, turn: impl Fn(usize, &mut BoxedTask, &AtomicUsize)) {
    let sizes = [MIB, 2 * MIB];
    for order in interleavings() {
        let tasks = sizes.map(|bytes| Task::new(manager, bytes));
        let mut running: [BoxedTask; 2] = tasks.clone().map(|task| Box::pin(task.run()) as BoxedTask);
        for at in order {
            turn(at, &mut running[at], &tasks[at].steps);
            // Whoever has begun and not finished holds its own bytes, and nobody else's are gone.
            let expected: u64 = tasks
                .iter()
                .filter(|task| (1..STEPS).contains(&task.steps.load(Ordering::SeqCst)))
                .map(|task| task.bytes)
                .sum();
            let live = settled(manager).live.bytes;
            assert_eq!(live / MIB * MIB, expected, "{live} bytes live");
        }
        assert!(tasks.iter().all(|task| task.once.get() == 1 && task.each.get() == 2));
        assert_eq!(settled(manager).tensors, 0);
    }
}

/// Two tasks on one thread open scopes, await, evaluate, await and finish, in every order: each finish releases the
/// bytes of its own scope (tensorflow/tfjs#4685). There is no current scope that a task could find changed.
fn c35_a_tasks_take_turns(bed: &Bed) {
    for with_threads in [true, false] {
        let options = ManagerOptions::builder().threads(with_threads).build();
        let Rig { manager, .. } = bed.open_with(options);
        if with_threads {
            take_turns(&manager, |_, task, steps| advance(task, steps));
        } else {
            take_turns(&manager, |_, task, steps| advance_without_threads(&manager, task, steps));
        }
        assert_given_back(&manager);
    }
}

/// As [`advance`], where the manager has no threads that would wake the task: the executor waits for the device instead.
fn advance_without_threads(manager: &Manager, task: &mut BoxedTask, steps: &AtomicUsize) {
    let before = steps.load(Ordering::SeqCst);
    loop {
        let poll = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if poll.is_ready() || steps.load(Ordering::SeqCst) > before {
            return;
        }
        manager.wait_idle().unwrap();
    }
}

/// The same, with every step on a thread of its own, so that scopes are opened, used and finished by different threads.
fn c35_b_tasks_change_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    take_turns(&manager, |_, task, steps| {
        std::thread::scope(|threads| {
            threads.spawn(|| advance(task, steps));
        });
    });
    assert_given_back(&manager);
}
