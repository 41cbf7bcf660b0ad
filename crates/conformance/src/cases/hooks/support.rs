//! Helpers of the cases about scopes, hooks and the stack: rows of the table, hooks that note their runs, and the
//! figures that a case ends with.
//!
//! Not here: things to wait with (`gadgets.rs`), kernels (`kernels.rs`), and anything that only one part needs.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::{
    BoxError, CleanupContext, CleanupError, CleanupFailure, CleanupHook, Error, Execution, Hook, HookClass,
    Manager, ManagerOptions, Outcome, Period, ScopeRef, ScopeReport, Tensor, TrimPolicy, hook, op,
};

pub(in crate::cases) use super::gadgets::{Bomb, Latch, OnDrop, Signal, ThreadEnd, Yield, watch_this_thread};
use crate::bed::Bed;
use crate::case::{Case, Requirement};
use crate::instrument::{CallKind, CallSet};

/// One mebibyte: a size that every pool grants exactly.
pub(in crate::cases) const MIB: u64 = 1 << 20;

/// How long a case waits for what must come. Only keeps it from hanging.
pub(in crate::cases) const WATCHDOG: Duration = Duration::from_secs(20);

/// A deadline that nothing of a case's outlives.
pub(in crate::cases) const FAR: Duration = Duration::from_secs(600);

/// A deadline that is meant to pass.
pub(in crate::cases) const SOON: Duration = Duration::from_millis(20);

/// Every driver call but the one that wakes a waiting thread.
pub(in crate::cases) const DRIVER_WORK: CallSet = CallSet::ALL.without(CallSet::of(&[CallKind::Interrupt]));

/// A row of the table.
pub(in crate::cases) const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// A row of the table, for devices that have something.
pub(in crate::cases) const fn case_with(
    id: &'static str,
    rules: &'static [&'static str],
    requires: &'static [Requirement],
    run: fn(&Bed),
) -> Case {
    Case { id, rules, requires, run }
}

/// Number of rows of all parts.
pub(in crate::cases) const fn count(parts: &[&[Case]]) -> usize {
    let mut count = 0;
    let mut part = 0;
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// One table of all parts, of which there are `COUNT` rows.
pub(in crate::cases) const fn joined<const COUNT: usize>(parts: &[&[Case]]) -> [Case; COUNT] {
    let mut all = [const { Case { id: "", rules: &[], requires: &[], run: |_| {} } }; COUNT];
    let mut next = 0;
    let mut part = 0;
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            let case = &parts[part][at];
            all[next] = Case { id: case.id, rules: case.rules, requires: case.requires, run: case.run };
            next += 1;
            at += 1;
        }
        part += 1;
    }
    all
}

/// Options without trimming by policy.
pub(in crate::cases) fn untrimmed() -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).build()
}

/// Options without threads.
pub(in crate::cases) fn threadless() -> ManagerOptions {
    ManagerOptions::builder().threads(false).build()
}

/// An error of the case's own.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cases) struct Fault(pub(in crate::cases) &'static str);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl StdError for Fault {}

/// Counts; clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::cases) struct Count(Arc<AtomicU64>);

impl Count {
    pub(in crate::cases) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::cases) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What happened, in order; clones write to the same list.
#[derive(Clone, Debug, Default)]
pub(in crate::cases) struct Order(Arc<Mutex<Vec<String>>>);

impl Order {
    pub(in crate::cases) fn note(&self, text: impl Into<String>) {
        self.0.lock().push(text.into());
    }

    pub(in crate::cases) fn seen(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// A scope hook that notes its label.
    pub(in crate::cases) fn once(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::once(label, move |_| {
            order.note(label);
            Ok(())
        })
    }

    /// A scope hook that notes its label and fails with a [`Fault`] of that name.
    pub(in crate::cases) fn failing(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::once(label, move |_| {
            order.note(label);
            Err(Fault(label).into())
        })
    }

    /// A scope hook that notes its label and panics with it.
    pub(in crate::cases) fn panicking(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::once(label, move |_| {
            order.note(label);
            panic!("{label}")
        })
    }

    /// An execution hook that notes its label and the number of the execution.
    pub(in crate::cases) fn each(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::each(label, move |context| {
            order.note(format!("{label} #{}", number(context)));
            Ok(())
        })
    }

    /// An `AfterRelease` hook that notes its label.
    pub(in crate::cases) fn after(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::after_release(label, move |_| {
            order.note(label);
            Ok(())
        })
    }

    /// An async scope hook that notes its beginning and, after having been pending, its end.
    pub(in crate::cases) fn future(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::future(label, move |_| async move {
            order.note(format!("{label} begins"));
            Yield::default().await;
            order.note(format!("{label} ends"));
            Ok(())
        })
    }

    /// A scope hook that notes its label and how the scope ends.
    pub(in crate::cases) fn outcome(&self, label: &'static str) -> Hook {
        let order = self.clone();
        hook::once(label, move |context| {
            order.note(format!("{label} {}", outcome(context)));
            Ok(())
        })
    }

    /// Adopts a value of no meaning whose release notes `label`.
    #[track_caller]
    pub(in crate::cases) fn adopt(&self, scope: &ScopeRef, label: &'static str) {
        let order = self.clone();
        let release = move |name: &'static str, _: &CleanupContext| {
            order.note(name);
            Ok(())
        };
        scope.adopt(label, label, release).unwrap();
    }
}

/// The number of the execution that an execution hook runs for.
#[track_caller]
pub(in crate::cases) fn number(context: &CleanupContext) -> u64 {
    context.execution().expect("an execution hook").number
}

/// How the scope of a hook ends.
#[track_caller]
pub(in crate::cases) fn outcome(context: &CleanupContext) -> Outcome {
    context.outcome().expect("the scope is finishing")
}

/// A hook as a trait object's implementation: notes its runs, and does what it is told.
pub(in crate::cases) struct Custom<F> {
    pub(in crate::cases) label: &'static str,
    pub(in crate::cases) period: Period,
    pub(in crate::cases) class: HookClass,
    /// Called for each run, after having been pending once.
    pub(in crate::cases) run: F,
}

impl<F> Custom<F> {
    pub(in crate::cases) fn new(label: &'static str, period: Period, run: F) -> Self {
        Custom { label, period, class: HookClass::Host, run }
    }
}

#[async_trait::async_trait]
impl<F> CleanupHook for Custom<F>
where
    F: FnMut(&CleanupContext) -> Result<(), BoxError> + Send + 'static,
{
    fn label(&self) -> &str {
        self.label
    }

    fn period(&self) -> Period {
        self.period
    }

    fn class(&self) -> HookClass {
        self.class
    }

    async fn run(&mut self, context: &CleanupContext) -> Result<(), BoxError> {
        Yield::default().await;
        (self.run)(context)
    }
}

/// Polls a future once, for nobody.
pub(in crate::cases) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The next message, which must come.
#[track_caller]
pub(in crate::cases) fn receive<T>(receiver: &mpsc::Receiver<T>) -> T {
    receiver.recv_timeout(WATCHDOG).expect("what was waited for never came")
}

/// Sends to a case that may have ended meanwhile.
pub(in crate::cases) fn tell<T>(sender: &mpsc::Sender<T>, message: T) {
    let _ = sender.send(message);
}

/// Submits a fill of the whole tensor.
#[track_caller]
pub(in crate::cases) fn fill(scope: &ScopeRef, tensor: &Tensor<u32>, value: u32) -> Execution {
    scope.evaluate([op::fill(tensor, value)]).unwrap()
}

/// Makes a tensor of 64 elements in the scope and submits a fill of it.
#[track_caller]
pub(in crate::cases) fn work(scope: &ScopeRef) -> Execution {
    fill(scope, &scope.tensor::<u32>(64).unwrap(), 1)
}

/// The failure that finishing gave.
#[track_caller]
pub(in crate::cases) fn cleanup_failure(result: Result<ScopeReport, Error>) -> Arc<CleanupFailure> {
    match result {
        Err(Error::Cleanup(failure)) => failure,
        other => panic!("the cleanup should have failed, not ended as {other:?}"),
    }
}

/// All errors of a failure, in run order.
pub(in crate::cases) fn all_errors(failure: &CleanupFailure) -> Vec<&CleanupError> {
    std::iter::once(&failure.primary).chain(&failure.others).collect()
}

/// The hook of each error, in run order; "execution" where it has none.
pub(in crate::cases) fn culprits<'a>(errors: impl IntoIterator<Item = &'a CleanupError>) -> Vec<&'a str> {
    errors.into_iter().map(|error| error.hook.as_deref().unwrap_or("execution")).collect()
}

/// How often each hook ran, in the order of registration.
pub(in crate::cases) fn runs(report: &ScopeReport) -> Vec<(&str, u64)> {
    report.hooks.iter().map(|row| (&*row.label, row.runs)).collect()
}

/// L19: nothing is live or retired once the queue is idle, and nothing is reserved after a trim.
#[track_caller]
pub(in crate::cases) fn assert_given_back(manager: &Manager) {
    manager.wait_idle().unwrap();
    // A pass of another thread may still be giving back what it retired.
    manager.poll().unwrap();
    let memory = manager.memory();
    assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached, "{memory:?}");
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0), "{memory}");
    manager.trim().unwrap();
    let memory = manager.memory();
    assert_eq!(memory.reserved.bytes, 0, "{memory}");
    assert_eq!(memory.allocations, memory.frees, "{memory}");
}

/// After whatever happened the manager works, and has everything back.
#[track_caller]
pub(in crate::cases) fn assert_works(manager: &Manager) {
    let (values, report) = manager
        .run("next", |scope| -> Result<Vec<u32>, Error> {
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([op::fill(&tensor, 5)])?.wait()?;
            tensor.read()
        })
        .unwrap();
    assert_eq!((values, report.outcome), (vec![5; 64], Outcome::Completed));
    assert_given_back(manager);
}
