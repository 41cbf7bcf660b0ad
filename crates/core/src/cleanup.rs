//! Cleanup hooks: what users register, when it runs, and what it sees while it runs.
//!
//! Not here: running them in order and exactly once (`engine/finish.rs`), and their reports (`report.rs`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::engine::scopes::ScopeCell;
use crate::error::{BoxError, Error};
use crate::manager::Manager;
use crate::report::Outcome;
use crate::scope_ref::ScopeRef;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// Once when the scope finishes, as an entry of its stack, even with zero executions.
    Scope,
    /// Once for each execution submitted after the registration, after it retired (L11).
    Execution,
    /// Once when the scope finishes, after its tensors were given up: the place for clearing caches (L16).
    AfterRelease,
}

/// Whether a hook needs the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HookClass {
    /// Always runs.
    #[default]
    Host,
    /// Recorded as skipped once the device is lost (L14).
    Device,
}

/// User code that runs when an execution retires or a scope finishes.
///
/// # Life cycle
/// 1. Registered with a scope by [`ScopeRef::register`], through [`hook::custom`].
/// 2. `run` is called once per [`Period`], never at the same time as another hook of the scope.
/// 3. Dropped after its last run.
///
/// # Duties
/// The implementor may call anything of tenure's, holds no lock of its own that the body of the scope waits
/// with, and expects to be polled by the thread that finishes the scope or by the cleanup thread: a future that
/// needs a runtime carries its handle. Core holds no lock while it runs (L15), runs it on every exit path (L11),
/// and isolates its panics (L13).
#[async_trait]
pub trait CleanupHook: Send + 'static {
    /// The name, for reports and errors.
    fn label(&self) -> &str;

    /// When it runs.
    fn period(&self) -> Period;

    /// Whether it needs the device.
    fn class(&self) -> HookClass;

    /// Does the work.
    ///
    /// # Errors
    /// Anything; it is reported with hook, scope, sequence and execution, and stops no other hook.
    async fn run(&mut self, context: &CleanupContext) -> Result<(), BoxError>;
}

/// A hook ready to be registered: made by the functions of [`hook`].
pub struct Hook {
    pub(crate) label: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) period: Period,
    pub(crate) class: HookClass,
    pub(crate) deadline: Option<Duration>,
    pub(crate) body: HookBody,
}

pub(crate) type HookFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

type OnceBody = dyn FnOnce(&CleanupContext) -> Result<(), BoxError> + Send;
type EachBody = dyn FnMut(&CleanupContext) -> Result<(), BoxError> + Send;
type FutureBody = dyn FnOnce(CleanupContext) -> HookFuture + Send;

pub(crate) enum HookBody {
    Once(Box<OnceBody>),
    Each(Box<EachBody>),
    Future(Box<FutureBody>),
    Custom(Box<dyn CleanupHook>),
}

impl Hook {
    fn new(label: impl Into<Arc<str>>, period: Period, body: HookBody) -> Self {
        Hook { label: label.into(), key: None, period, class: HookClass::Host, deadline: None, body }
    }

    /// Gives the hook a key: a second registration with the same key, scope and period is the first one (L12).
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Makes it a device hook: skipped once the device is lost (L14).
    pub fn device(mut self) -> Self {
        self.class = HookClass::Device;
        self
    }

    /// The time that one run may take (L16). The scope is then finished by the cleanup thread.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// When it runs.
    pub fn period(&self) -> Period {
        self.period
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("label", &self.label)
            .field("period", &self.period)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Constructors of hooks.
pub mod hook {
    use super::*;

    /// A closure that runs once, when the scope finishes.
    pub fn once(
        label: impl Into<Arc<str>>,
        run: impl FnOnce(&CleanupContext) -> Result<(), BoxError> + Send + 'static,
    ) -> Hook {
        Hook::new(label, Period::Scope, HookBody::Once(Box::new(run)))
    }

    /// A closure that runs once for each execution, after it retired.
    pub fn each(
        label: impl Into<Arc<str>>,
        run: impl FnMut(&CleanupContext) -> Result<(), BoxError> + Send + 'static,
    ) -> Hook {
        Hook::new(label, Period::Execution, HookBody::Each(Box::new(run)))
    }

    /// A closure that runs once, after the scope's tensors were given up: for clearing caches.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_core::hook;
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let scope = manager.scope("chain")?;
    /// let tensor = scope.tensor::<u8>(256)?;
    /// scope.register(hook::after_release("clear caches", move |_| {
    ///     assert!(!tensor.is_live(), "the scope's tensors were given up");
    ///     Ok(())
    /// }))?;
    /// scope.finish_blocking()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after_release(
        label: impl Into<Arc<str>>,
        run: impl FnOnce(&CleanupContext) -> Result<(), BoxError> + Send + 'static,
    ) -> Hook {
        Hook::new(label, Period::AfterRelease, HookBody::Once(Box::new(run)))
    }

    /// An async closure that runs once, when the scope finishes.
    pub fn future<F>(
        label: impl Into<Arc<str>>,
        run: impl FnOnce(CleanupContext) -> F + Send + 'static,
    ) -> Hook
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Hook::new(label, Period::Scope, HookBody::Future(Box::new(move |context| Box::pin(run(context)))))
    }

    /// A [`CleanupHook`] of any type. Label, period and class are asked for once, now.
    pub fn custom(custom: impl CleanupHook) -> Hook {
        let label: Arc<str> = custom.label().into();
        let class = custom.class();
        let mut hook = Hook::new(label, custom.period(), HookBody::Custom(Box::new(custom)));
        hook.class = class;
        hook
    }
}

/// Identifies a registration. The same key gives the same id (L12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookId(pub(crate) u64);

/// A value that was refused, with the reason. `?` keeps the reason and drops the value.
#[derive(Debug)]
pub struct Rejected<V> {
    /// The value, untouched.
    pub value: V,
    /// Why it was refused.
    pub error: Error,
}

impl<V> fmt::Display for Rejected<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V> From<Rejected<V>> for Box<dyn std::error::Error> {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error.into()
    }
}

impl<V> From<Rejected<V>> for BoxError {
    fn from(rejected: Rejected<V>) -> BoxError {
        rejected.error.into()
    }
}

impl<V> From<Rejected<V>> for Error {
    fn from(rejected: Rejected<V>) -> Error {
        rejected.error
    }
}

/// What a hook sees while it runs.
#[derive(Clone)]
pub struct CleanupContext {
    pub(crate) scope: Arc<ScopeCell>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) execution: Option<ExecutionInfo>,
}

impl CleanupContext {
    /// How the scope is ending; none for an execution hook that runs while the scope is open.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The scope that is cleaned up. Its tensors can still be used, except in `AfterRelease` hooks.
    pub fn scope(&self) -> ScopeRef {
        ScopeRef::new(self.scope.clone())
    }

    /// The manager.
    ///
    /// # Errors
    /// [`Error::Closed`] if the user holds no manager any more. The scope can be used all the same.
    pub fn manager(&self) -> Result<Manager, Error> {
        self.scope().manager()
    }

    /// The execution that an execution hook runs for.
    pub fn execution(&self) -> Option<&ExecutionInfo> {
        self.execution.as_ref()
    }

    /// Registers another hook. While the scope finishes it goes on top of the stack and runs next (L10).
    ///
    /// # Errors
    /// As [`ScopeRef::register`].
    #[track_caller]
    pub fn register(&self, hook: impl Into<Hook>) -> Result<HookId, Rejected<Hook>> {
        self.scope().register(hook)
    }
}

impl fmt::Debug for CleanupContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanupContext")
            .field("scope", &self.scope.label)
            .field("outcome", &self.outcome)
            .field("execution", &self.execution)
            .finish()
    }
}

/// An execution, as its hooks see it.
#[derive(Clone, Debug)]
pub struct ExecutionInfo {
    /// Its number in its scope, from 1.
    pub number: u64,
    /// Name of the sequence that was evaluated.
    pub sequence: Arc<str>,
    /// How it ended.
    pub result: Result<(), Error>,
}
