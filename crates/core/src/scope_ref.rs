//! [`ScopeRef`]: everything that a scope can do, without owning it. And its options and states.
//!
//! Not here: ending a scope (`scope.rs`).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use typed_builder::TypedBuilder;

use crate::backend::QueueId;
use crate::cleanup::{CleanupContext, Hook, HookId, Rejected};
use crate::engine::open::ScopeRequest;
use crate::engine::scopes::{Phase, ScopeCell};
use crate::engine::sequences::SequenceCell;
use crate::error::{BoxError, EndOfLife, Error, Site};
use crate::manager::Manager;
use crate::operation::Op;
use crate::report::{Outcome, SequenceInfo};
use crate::scope::ManagedScope;
use crate::sequence::{Execution, ManagedSequence};
use crate::tensor::{Element, Tensor, TensorOptions};

/// How to open a scope. Made by `ScopeOptions::builder()`, the options that are wanted, and `.build()`.
///
/// | option | takes | default |
/// | --- | --- | --- |
/// | `label` | text: the name, for errors, events and reports | "scope" |
/// | `queue` | [`QueueId`]: the queue that its sequences are submitted to | the parent's, or queue 0 |
/// | `hook_deadline` | [`Duration`]: the time that one run of a hook may take (L16) | the parent's, or the manager's |
/// | `finish_deadline` | [`Duration`]: how long finishing waits for executions (L16) | the parent's, or the manager's |
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

/// A scope without owning it: what hooks and helpers get. Cheap to clone, valid to keep for ever.
#[derive(Clone)]
pub struct ScopeRef {
    pub(crate) cell: Arc<ScopeCell>,
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

    /// The state. In a fork of the process, where nothing goes on, it is that of an abandoned scope.
    pub fn state(&self) -> ScopeState {
        if self.cell.engine.is_foreign_process() {
            return ScopeState::Finished(Outcome::Abandoned);
        }
        match self.cell.phase() {
            Phase::Open => ScopeState::Open,
            Phase::Finishing => ScopeState::Finishing,
            Phase::Finished(outcome) => ScopeState::Finished(outcome),
        }
    }

    /// True once cancelled.
    pub fn is_cancelled(&self) -> bool {
        !self.cell.engine.is_foreign_process() && self.cell.inner.lock().cancelled
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
        self.cell.replace_sequence(name.into(), Location::caller()).map(ManagedSequence::new)
    }

    /// Another handle of a named sequence.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    pub fn find(&self, name: &str) -> Result<ManagedSequence, Error> {
        self.cell.engine.check_process()?;
        self.cell.find_sequence(name).map(ManagedSequence::new)
    }

    /// Destroys a named sequence.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    #[track_caller]
    pub fn destroy(&self, name: &str) -> Result<(), Error> {
        let site = Location::caller();
        self.cell.engine.check_process()?;
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
        if self.cell.engine.is_foreign_process() {
            return 0;
        }
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
        if self.cell.engine.is_foreign_process() {
            return Vec::new();
        }
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
