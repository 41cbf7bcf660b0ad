//! Handles of scopes: [`ManagedScope`], which ends its scope when dropped, and [`ScopeRef`], which does not.
//!
//! Not here: what the manager keeps of a scope (`engine/scopes.rs`) and how it finishes (`engine/finish.rs`).

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use typed_builder::TypedBuilder;

use crate::backend::QueueId;
use crate::cleanup::{CleanupContext, Hook, HookId, Rejected};
use crate::engine::finish_wait::FinishWait;
use crate::engine::scopes::{Phase, ScopeCell, ScopeRequest};
use crate::engine::sequences::SequenceCell;
use crate::engine::threads::Job;
use crate::error::{BoxError, EndOfLife, Error, RunError, Site};
use crate::manager::Manager;
use crate::operation::Op;
use crate::report::{Outcome, ScopeReport, SequenceInfo};
use crate::sequence::{Execution, ManagedSequence};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::tensor::{Element, Tensor, TensorOptions};

/// How to open a scope.
#[derive(Clone, Debug, TypedBuilder)]
pub struct ScopeOptions {
    /// The name, for errors, events and reports.
    #[builder(default = "scope".into(), setter(into))]
    pub(crate) label: Arc<str>,
    /// The queue that its sequences are submitted to. Default: the parent's, or queue 0.
    #[builder(default, setter(strip_option))]
    pub(crate) queue: Option<QueueId>,
    /// The time that one run of a hook may take (L16). Default: the parent's, or the manager's.
    #[builder(default, setter(strip_option))]
    pub(crate) hook_deadline: Option<Duration>,
    /// How long finishing waits for executions (L16). Default: the parent's, or the manager's.
    #[builder(default, setter(strip_option))]
    pub(crate) finish_deadline: Option<Duration>,
}

impl ScopeOptions {
    pub(crate) fn request(self, site: Site) -> ScopeRequest {
        ScopeRequest {
            label: self.label,
            site,
            queue: self.queue,
            hook_deadline: self.hook_deadline,
            finish_deadline: self.finish_deadline,
        }
    }
}

/// The states of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeState {
    /// Takes entries and evaluates.
    Open,
    /// Runs its cleanup; only its hooks may add to it (L10).
    Finishing,
    /// Everything ran.
    Finished(Outcome),
}

/// A scope: owns sequences, local tensors, child scopes and hooks, and finishes exactly once.
///
/// Dropped without `finish` it neither blocks nor panics: the cleanup thread finishes it as
/// [`Outcome::Abandoned`], or [`Outcome::Panicked`] while unwinding (L17). All methods of [`ScopeRef`] are its own.
#[must_use = "a scope that is dropped at once is abandoned at once"]
pub struct ManagedScope {
    scope: ScopeRef,
    /// Its entries went to another handle.
    moved: AtomicBool,
}

impl fmt::Debug for ManagedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scope.fmt(f)
    }
}

impl ManagedScope {
    pub(crate) fn new(cell: Arc<ScopeCell>) -> Self {
        ManagedScope { scope: ScopeRef::new(cell), moved: AtomicBool::new(false) }
    }

    fn cell(&self) -> &Arc<ScopeCell> {
        &self.scope.cell
    }

    /// Finishes the scope, in the order of L16. A second finish at the same time awaits the same result.
    ///
    /// Hooks run while this future is polled, except those with a deadline, which the cleanup thread runs.
    /// Dropping the future moves what is left to the cleanup thread (L18).
    ///
    /// # Errors
    /// [`Error::Cleanup`] with the earliest error and the report; [`Error::ScopeFinished`] if it has finished
    /// before; [`Error::WouldDeadlock`] from inside a hook of its own or of a scope below.
    pub fn finish(&self) -> Finish {
        self.finish_as(Outcome::Completed)
    }

    fn finish_as(&self, outcome: Outcome) -> Finish {
        if self.moved.load(Ordering::Acquire) {
            return Finish::refused(Error::ScopeMoved { scope: self.cell().label.clone() });
        }
        Finish { wait: Ok(FinishWait::new(self.cell().clone(), outcome)) }
    }

    /// As [`ManagedScope::finish`], blocking.
    ///
    /// # Errors
    /// As [`ManagedScope::finish`].
    pub fn finish_blocking(&self) -> Result<ScopeReport, Error> {
        self.block(self.finish())
    }

    fn block(&self, finish: Finish) -> Result<ScopeReport, Error> {
        self.cell().engine.block_on(finish, None).expect("a wait without a time has a result")
    }

    /// Finishes with the result of the scope's body: `Err` makes the outcome `Failed`, and stays the first
    /// error whatever the cleanup says (L13).
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let scope = manager.scope("job")?;
    /// let result: Result<(), String> = Err("bad input".into());
    /// let error = scope.finish_with(result).unwrap_err();
    /// assert_eq!(error.report().unwrap().outcome, tenure_core::Outcome::Failed);
    /// assert_eq!(error.body(), Some("bad input".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Body`] with the body's error as it is, [`RunError::Scope`] as [`ManagedScope::finish`].
    pub fn finish_with<T, E>(&self, result: Result<T, E>) -> Result<(T, ScopeReport), RunError<E>> {
        let finished = self.block(self.finish_as(outcome_of(&result)));
        join(result, finished)
    }

    /// As [`ManagedScope::finish_with`], without blocking.
    ///
    /// # Errors
    /// As [`ManagedScope::finish_with`].
    pub async fn finish_with_async<T, E>(
        &self,
        result: Result<T, E>,
    ) -> Result<(T, ScopeReport), RunError<E>> {
        let finished = self.finish_as(outcome_of(&result)).await;
        join(result, finished)
    }

    /// Finishes after the body panicked; errors go to the manager's `take_errors`.
    pub(crate) fn finish_panicked(&self) {
        self.cell().set_unattended();
        // The result is read through the unattended errors.
        let _ = self.block(self.finish_as(Outcome::Panicked));
        self.cell().engine.keep_errors_of_abandoned(self.cell());
    }

    /// Hands entries and running work to a new root scope handle, without running a hook (L17). This handle
    /// then refuses everything with [`Error::ScopeMoved`].
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let outer = manager.scope("request")?;
    /// let inner = outer.scope("background")?;
    /// let moved = inner.move_out()?;
    /// // The request ends; the background work does not.
    /// outer.finish_blocking()?;
    /// assert_eq!(moved.finish_blocking()?.scope.as_ref(), "background");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ScopeFinishing`], [`Error::ScopeFinished`], [`Error::ScopeMoved`].
    pub fn move_out(&self) -> Result<ManagedScope, Error> {
        let error = || Error::ScopeMoved { scope: self.cell().label.clone() };
        if self.moved.load(Ordering::Acquire) {
            return Err(error());
        }
        self.cell().engine.detach_scope(self.cell())?;
        if self.moved.swap(true, Ordering::AcqRel) {
            return Err(error());
        }
        Ok(ManagedScope::new(self.cell().clone()))
    }
}

fn outcome_of<T, E>(result: &Result<T, E>) -> Outcome {
    if result.is_ok() { Outcome::Completed } else { Outcome::Failed }
}

fn join<T, E>(
    result: Result<T, E>,
    finished: Result<ScopeReport, Error>,
) -> Result<(T, ScopeReport), RunError<E>> {
    match (result, finished) {
        (Ok(value), Ok(report)) => Ok((value, report)),
        (Ok(_), Err(error)) => Err(RunError::Scope(error)),
        (Err(error), Ok(report)) => Err(RunError::Body { error, report: Some(Box::new(report)) }),
        (Err(error), Err(Error::Cleanup(failure))) => {
            Err(RunError::Body { error, report: Some(Box::new(failure.report.clone())) })
        }
        (Err(error), Err(_)) => Err(RunError::Body { error, report: None }),
    }
}

impl Deref for ManagedScope {
    type Target = ScopeRef;

    fn deref(&self) -> &ScopeRef {
        &self.scope
    }
}

impl Drop for ManagedScope {
    fn drop(&mut self) {
        let cell = self.cell();
        if self.moved.load(Ordering::Acquire) || cell.engine.is_foreign_process() {
            return;
        }
        let outcome = if std::thread::panicking() { Outcome::Panicked } else { Outcome::Abandoned };
        // Refused where somebody has begun: then there is nothing to do.
        if cell.begin_abandon(outcome) {
            cell.engine.push_job(Job::Finish(cell.clone()));
        }
    }
}

/// A scope without owning it: what hooks and helpers get. Cheap to clone, valid to keep for ever.
#[derive(Clone)]
pub struct ScopeRef {
    cell: Arc<ScopeCell>,
}

impl fmt::Debug for ScopeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("label", &self.cell.label)
            .field("id", &self.cell.id)
            .field("state", &self.state())
            .finish()
    }
}

impl ScopeRef {
    pub(crate) fn new(cell: Arc<ScopeCell>) -> Self {
        ScopeRef { cell }
    }

    /// The name given when it was opened.
    pub fn label(&self) -> &str {
        &self.cell.label
    }

    /// Its number in its manager, from 1.
    pub fn id(&self) -> u64 {
        self.cell.id
    }

    /// The state.
    pub fn state(&self) -> ScopeState {
        match self.cell.phase() {
            Phase::Open => ScopeState::Open,
            Phase::Finishing => ScopeState::Finishing,
            Phase::Finished(outcome) => ScopeState::Finished(outcome),
        }
    }

    /// True once cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cell.inner.lock().cancelled
    }

    /// Bytes of its live local tensors, as asked for.
    pub fn live_bytes(&self) -> u64 {
        self.cell.live_bytes()
    }

    /// The manager.
    ///
    /// # Errors
    /// [`Error::Closed`] if the user holds no manager any more.
    pub fn manager(&self) -> Result<Manager, Error> {
        Manager::of(&self.cell.engine)
    }

    /// Opens a child scope: an entry of this one's stack.
    ///
    /// # Errors
    /// [`Error::ScopeFinishing`], [`Error::ScopeFinished`], [`Error::Closed`].
    #[track_caller]
    pub fn scope(&self, label: impl Into<Arc<str>>) -> Result<ManagedScope, Error> {
        self.scope_with(ScopeOptions::builder().label(label).build())
    }

    /// As [`ScopeRef::scope`], with options.
    ///
    /// # Errors
    /// As [`ScopeRef::scope`], and [`Error::InvalidOption`].
    #[track_caller]
    pub fn scope_with(&self, options: ScopeOptions) -> Result<ManagedScope, Error> {
        let request = options.request(Location::caller());
        self.cell.engine.open_scope(request, Some(&self.cell)).map(ManagedScope::new)
    }

    /// Makes a tensor of `len` elements, local to this scope: it is retired when the scope finishes, unless it is
    /// promoted (L2). Its contents are unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::TooLarge`], [`Error::SizeOverflow`], [`Error::TooManyBlocks`],
    /// [`Error::DeviceLost`], [`Error::ScopeFinishing`], [`Error::ScopeFinished`], [`Error::Closed`].
    #[track_caller]
    pub fn tensor<T: Element>(&self, len: u64) -> Result<Tensor<T>, Error> {
        self.tensor_with(TensorOptions::builder().shape([len]).build())
    }

    /// As [`ScopeRef::tensor`], with shape and label.
    ///
    /// # Errors
    /// As [`ScopeRef::tensor`].
    #[track_caller]
    pub fn tensor_with<T: Element>(&self, options: TensorOptions) -> Result<Tensor<T>, Error> {
        let site = Location::caller();
        Manager::make(&self.cell.engine, options, site, Some(&self.cell))
    }

    /// Makes a tensor of `data`'s length and copies `data` to it, once.
    ///
    /// # Errors
    /// As [`ScopeRef::tensor`] and [`Tensor::write`].
    #[track_caller]
    pub fn tensor_from<T: Element>(
        &self,
        label: impl Into<Arc<str>>,
        data: &[T],
    ) -> Result<Tensor<T>, Error> {
        let options = TensorOptions::builder().shape([data.len() as u64]).label(label).build();
        let tensor = self.tensor_with(options)?;
        tensor.write(data)?;
        Ok(tensor)
    }

    /// Opens an anonymous sequence.
    ///
    /// # Errors
    /// [`Error::ScopeFinishing`], [`Error::ScopeFinished`], [`Error::Closed`].
    #[track_caller]
    pub fn sequence(&self) -> Result<ManagedSequence, Error> {
        self.cell.open_sequence(None, Location::caller()).map(ManagedSequence::new)
    }

    /// Opens a named sequence. It lives until it is destroyed or the scope finishes.
    ///
    /// # Errors
    /// As [`ScopeRef::sequence`], and [`Error::NameTaken`].
    #[track_caller]
    pub fn named(&self, name: impl Into<Arc<str>>) -> Result<ManagedSequence, Error> {
        self.cell.open_sequence(Some(name.into()), Location::caller()).map(ManagedSequence::new)
    }

    /// As [`ScopeRef::named`]; a live sequence of that name is destroyed first.
    ///
    /// # Errors
    /// As [`ScopeRef::sequence`].
    #[track_caller]
    pub fn replace(&self, name: impl Into<Arc<str>>) -> Result<ManagedSequence, Error> {
        let site = Location::caller();
        let name = name.into();
        self.cell.check_admits()?;
        if let Ok(old) = self.cell.find_sequence(&name) {
            self.cell.destroy_sequence(&old, EndOfLife::Replaced(site));
        }
        self.cell.open_sequence(Some(name), site).map(ManagedSequence::new)
    }

    /// Another handle of a named sequence.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    pub fn find(&self, name: &str) -> Result<ManagedSequence, Error> {
        self.cell.find_sequence(name).map(ManagedSequence::new)
    }

    /// Destroys a named sequence.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    #[track_caller]
    pub fn destroy(&self, name: &str) -> Result<(), Error> {
        let site = Location::caller();
        let sequence = self.cell.find_sequence(name)?;
        self.cell.destroy_sequence(&sequence, EndOfLife::Destroyed(site));
        Ok(())
    }

    /// Destroys all anonymous sequences. Running executions complete. Returns how many there were.
    #[track_caller]
    pub fn clear_anonymous(&self) -> usize {
        self.clear_those(Location::caller(), |cell| !cell.named)
    }

    /// Destroys all sequences. Running executions complete. Returns how many there were.
    #[track_caller]
    pub fn clear(&self) -> usize {
        self.clear_those(Location::caller(), |_| true)
    }

    fn clear_those(&self, site: Site, which: impl Fn(&SequenceCell) -> bool) -> usize {
        let sequences = self.cell.sequences(which);
        for sequence in &sequences {
            self.cell.destroy_sequence(sequence, EndOfLife::Destroyed(site));
        }
        sequences.len()
    }

    /// The named sequences, in creation order.
    pub fn named_sequences(&self) -> Vec<SequenceInfo> {
        self.list(|cell| cell.named)
    }

    /// The anonymous sequences, in creation order.
    pub fn anonymous_sequences(&self) -> Vec<SequenceInfo> {
        self.list(|cell| !cell.named)
    }

    fn list(&self, which: impl Fn(&SequenceCell) -> bool) -> Vec<SequenceInfo> {
        let describe = |cell: &Arc<SequenceCell>| SequenceInfo {
            name: cell.name.clone(),
            state: cell.state(),
            site: cell.site,
        };
        self.cell.sequences(which).iter().map(describe).collect()
    }

    /// Records `operations` in an anonymous sequence and evaluates it.
    ///
    /// # Errors
    /// As [`ScopeRef::sequence`], [`ManagedSequence::record`] and [`ManagedSequence::evaluate`].
    #[track_caller]
    pub fn evaluate<O: Into<Op>>(&self, operations: impl IntoIterator<Item = O>) -> Result<Execution, Error> {
        let sequence = self.sequence()?;
        for operation in operations {
            sequence.record(operation)?;
        }
        sequence.evaluate()
    }

    /// Registers a hook. `Period::Scope` hooks are entries of the stack.
    ///
    /// # Errors
    /// Hands the hook back once the scope finishes, except from inside a hook of its own or of a scope below,
    /// where it goes on top of the stack and runs next (L10).
    pub fn register(&self, hook: impl Into<Hook>) -> Result<HookId, Rejected<Hook>> {
        self.cell.register(hook.into())
    }

    /// Registers a hook on `ancestor`, which is this scope or one above it: with a key, many nodes register
    /// once on their chain's scope (L12).
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_core::hook;
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let chain = manager.scope("chain")?;
    /// for _ in 0..3 {
    ///     let node = chain.scope("node")?;
    ///     node.register_on(&chain, hook::after_release("empty cache", |_| Ok(())).key("cache"))?;
    ///     node.finish_blocking()?;
    /// }
    /// let report = chain.finish_blocking()?;
    /// assert_eq!(report.hooks.len(), 1);
    /// assert_eq!(report.hooks[0].runs, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`ScopeRef::register`], and [`Error::NotAnAncestor`].
    pub fn register_on(&self, ancestor: &ScopeRef, hook: impl Into<Hook>) -> Result<HookId, Rejected<Hook>> {
        let hook = hook.into();
        if !self.cell.is_under(&ancestor.cell) {
            let error = Error::NotAnAncestor {
                ancestor: ancestor.cell.label.clone(),
                scope: self.cell.label.clone(),
            };
            return Err(Rejected { value: hook, error });
        }
        ancestor.cell.register(hook)
    }

    /// Gives a value of any type to the scope, as an entry of its stack: `release` gets it back when the entry's
    /// turn comes.
    ///
    /// # Errors
    /// Hands the value back, as [`ScopeRef::register`] does.
    pub fn adopt<V: Send + 'static>(
        &self,
        label: impl Into<Arc<str>>,
        value: V,
        release: impl FnOnce(V, &CleanupContext) -> Result<(), BoxError> + Send + 'static,
    ) -> Result<(), Rejected<V>> {
        self.cell.adopt(label.into(), value, release)
    }

    /// Cancels the scope and the scopes below: submitted work completes, the rest never starts, and finishing
    /// ends as [`Outcome::Cancelled`] (L16). Returns at once.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_core::{Error, Outcome, op};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let scope = manager.scope("render")?;
    /// let tensor = scope.tensor::<u8>(256)?;
    /// let submitted = scope.evaluate([op::fill(&tensor, 1)])?;
    /// scope.cancel();
    /// submitted.wait()?;
    /// assert!(matches!(scope.evaluate([op::fill(&tensor, 2)]), Err(Error::Cancelled { .. })));
    /// assert_eq!(scope.finish_blocking()?.outcome, Outcome::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        if !self.cell.engine.is_foreign_process() {
            self.cell.cancel();
        }
    }
}

/// A finish under way: a future of the scope's report. Made by [`ManagedScope::finish`].
#[must_use = "a finish does nothing until it is polled"]
pub struct Finish {
    wait: Result<FinishWait, Option<Error>>,
}

impl Finish {
    fn refused(error: Error) -> Self {
        Finish { wait: Err(Some(error)) }
    }
}

impl fmt::Debug for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").finish_non_exhaustive()
    }
}

impl Future for Finish {
    type Output = Result<ScopeReport, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.wait {
            Ok(wait) => Pin::new(wait).poll(context),
            Err(error) => Poll::Ready(Err(error.take().expect("a finish is polled once after its end"))),
        }
    }
}
