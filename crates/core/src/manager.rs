//! [`Manager`]: the root of all ownership, and its options.
//!
//! Not here: what it does (`engine/`).

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use typed_builder::TypedBuilder;

use crate::backend::{Backend, BackendInfo, Capabilities, DriverMemory};
use crate::engine::Engine;
use crate::engine::making::TensorRequest;
use crate::engine::scopes::ScopeCell;
use crate::engine::wait::deadline_after;
use crate::error::{BackendError, BackendErrorKind, BoxError, Error, RunError, Site};
use crate::event::EventLog;
use crate::kernel::{Kernel, KernelSource};
use crate::report::{CloseReport, MemoryReport, PollReport, ScopeReport, TrimReport};
use crate::scope::ManagedScope;
use crate::scope_ref::ScopeOptions;
use crate::tensor::{Element, Tensor, TensorOptions, element_type};

/// When cached memory goes back to the driver (L21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimPolicy {
    /// When the last open root scope finishes.
    #[default]
    OnFinish,
    /// Whenever executions have retired. Slow: each trim costs driver calls.
    EveryExecution,
    /// When more than `high` bytes are cached, down to `low`; also when the last open root scope finishes and more than
    /// `low` are.
    Watermark {
        /// Trimming starts above this many cached bytes.
        high: u64,
        /// Trimming stops at this many cached bytes.
        low: u64,
    },
    /// Only by [`Manager::trim`], when memory runs out, and at close.
    Never,
}

/// What the out-of-memory callback is told.
#[derive(Clone, Debug)]
pub struct OutOfMemoryRequest {
    /// Label of the tensor asked for.
    pub label: Arc<str>,
    /// Bytes asked for.
    pub requested: u64,
    /// The manager's memory, after reclaiming and trimming.
    pub memory: MemoryReport,
}

/// Called once when memory has run out, after everything else was tried: it may drop tensors to make room.
/// No lock is held, and it may allocate; it is not called for its own allocations (L15, L20).
pub type OutOfMemoryCallback = Arc<dyn Fn(&OutOfMemoryRequest) -> Result<(), BoxError> + Send + Sync>;

/// How to open a manager. Made by `ManagerOptions::builder()`, the options that are wanted, and `.build()`.
///
/// | option | takes | default |
/// | --- | --- | --- |
/// | `label` | text: the name, for errors and reports | "manager" |
/// | `budget` | `u64`, bytes that may be reserved from the driver at most (L22) | what the driver gives |
/// | `trim` | [`TrimPolicy`]: when cached memory goes back to the driver (L21) | [`TrimPolicy::OnFinish`] |
/// | `threads` | `bool`: whether tenure may make its two threads; without them [`Manager::poll`] does their work | `true` |
/// | `hook_deadline` | [`Duration`]: the time that one run of a hook may take (L16); needs threads | no limit |
/// | `finish_deadline` | [`Duration`]: how long finishing a scope waits for its executions (L16); needs threads | no limit |
/// | `on_out_of_memory` | [`OutOfMemoryCallback`]: called when memory has run out (L20) | nobody is asked |
///
/// ```
/// use tenure_core::{ManagerOptions, TrimPolicy};
/// let options = ManagerOptions::builder().label("training").budget(1 << 30).trim(TrimPolicy::Never).build();
/// # drop(options);
/// ```
#[derive(Clone, TypedBuilder)]
pub struct ManagerOptions {
    /// The name, for errors and reports.
    #[builder(default = "manager".into(), setter(into))]
    pub(crate) label: Arc<str>,
    /// Most bytes that may be reserved from the driver (L22). Default: what the driver gives.
    #[builder(default, setter(strip_option))]
    pub(crate) budget: Option<u64>,
    /// When cached memory goes back to the driver.
    #[builder(default)]
    pub(crate) trim: TrimPolicy,
    /// Whether tenure may make its two threads. Without them [`Manager::poll`] does their work.
    #[builder(default = true)]
    pub(crate) threads: bool,
    /// The time that one run of a hook may take (L16). Needs threads.
    #[builder(default, setter(strip_option))]
    pub(crate) hook_deadline: Option<Duration>,
    /// How long finishing a scope waits for its executions (L16). Needs threads.
    #[builder(default, setter(strip_option))]
    pub(crate) finish_deadline: Option<Duration>,
    /// Called when memory has run out.
    #[builder(default, setter(strip_option))]
    pub(crate) on_out_of_memory: Option<OutOfMemoryCallback>,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        ManagerOptions::builder().build()
    }
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("label", &self.label)
            .field("budget", &self.budget)
            .field("trim", &self.trim)
            .field("threads", &self.threads)
            .field("hook_deadline", &self.hook_deadline)
            .field("finish_deadline", &self.finish_deadline)
            .finish_non_exhaustive()
    }
}

impl ManagerOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |option, problem: &str| Err(Error::InvalidOption { option, problem: problem.into() });
        if !self.threads && self.hook_deadline.is_some() {
            return invalid(
                "hook_deadline",
                "deadlines need tenure's threads, which `threads(false)` forbids",
            );
        }
        if !self.threads && self.finish_deadline.is_some() {
            return invalid(
                "finish_deadline",
                "deadlines need tenure's threads, which `threads(false)` forbids",
            );
        }
        if let TrimPolicy::Watermark { high, low } = self.trim
            && low > high
        {
            return invalid("trim", "a watermark's `low` is at most its `high`");
        }
        Ok(())
    }
}

/// The user's hold on an engine: the last one closes it.
pub(crate) struct ManagerHandle {
    engine: Arc<Engine>,
}

impl Drop for ManagerHandle {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

/// Owns a device, its memory, its timeline and every tensor. Cheap to clone.
///
/// When the last clone is dropped the manager closes by itself: scopes that are open are finished as abandoned,
/// and the device ends when it is idle; the drop does not wait for that. [`Manager::close`] does, and reports.
#[derive(Clone)]
pub struct Manager {
    handle: Arc<ManagerHandle>,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("label", &self.engine().label)
            .field("device", &self.engine().info.device)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// Opens a manager on a backend.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if options contradict each other.
    pub fn open_with<B: Backend>(backend: B, options: ManagerOptions) -> Result<Manager, Error> {
        let engine = Engine::open(backend, options)?;
        let handle = Arc::new(ManagerHandle { engine: engine.clone() });
        engine.closing.set_user(Arc::downgrade(&handle));
        Ok(Manager { handle })
    }

    /// The manager of an engine, if the user still holds one.
    pub(crate) fn of(engine: &Arc<Engine>) -> Result<Manager, Error> {
        let handle = engine.closing.user().and_then(|user| Weak::upgrade(&user));
        handle.map(|handle| Manager { handle }).ok_or_else(|| Error::Closed { manager: engine.label.clone() })
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    /// The name given when it was opened.
    pub fn label(&self) -> &str {
        &self.engine().label
    }

    /// Names of backend and device.
    pub fn info(&self) -> &BackendInfo {
        &self.engine().info
    }

    /// What the device can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.engine().capabilities
    }

    /// The backend, if it is a `B`: for interoperation.
    pub fn backend<B: Backend>(&self) -> Option<&B> {
        self.engine().driver.as_any().downcast_ref()
    }

    /// Opens a root scope.
    ///
    /// # Errors
    /// [`Error::Closed`].
    #[track_caller]
    pub fn scope(&self, label: impl Into<Arc<str>>) -> Result<ManagedScope, Error> {
        self.scope_with(ScopeOptions::builder().label(label).build())
    }

    /// As [`Manager::scope`], with options.
    ///
    /// # Errors
    /// As [`Manager::scope`], and [`Error::InvalidOption`].
    #[track_caller]
    pub fn scope_with(&self, options: ScopeOptions) -> Result<ManagedScope, Error> {
        let request = options.request(Location::caller());
        self.engine().open_scope(request, None).map(ManagedScope::new)
    }

    /// Runs `body` in a scope of its own and finishes the scope with its result, on every exit: success, error and
    /// panic, which goes on unwinding after the cleanup.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let (sum, report) = manager.run("sum", |scope| {
    ///     let tensor = scope.tensor_from("values", &[1_u32, 2, 3])?;
    ///     Ok::<_, tenure_core::Error>(tensor.read()?.iter().sum::<u32>())
    /// })?;
    /// assert_eq!(sum, 6);
    /// assert_eq!(report.outcome, tenure_core::Outcome::Completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`ManagedScope::finish_with`], and [`Error::Closed`] as [`RunError::Scope`].
    #[track_caller]
    pub fn run<T, E>(
        &self,
        label: impl Into<Arc<str>>,
        body: impl FnOnce(&ManagedScope) -> Result<T, E>,
    ) -> Result<(T, ScopeReport), RunError<E>> {
        let scope = self.scope(label).map_err(RunError::Scope)?;
        match catch_unwind(AssertUnwindSafe(|| body(&scope))) {
            Ok(result) => scope.finish_with(result),
            Err(panic) => {
                scope.finish_panicked();
                resume_unwind(panic)
            }
        }
    }

    /// As [`Manager::run`] for an async body, which gets a shared handle of the scope. Dropping the future abandons the
    /// scope; a panic finishes it as panicked, on the cleanup thread.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Error, Manager, ManagerOptions, op};
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let finished = manager.run_async("batch", |scope| async move {
    ///     let tensor = scope.tensor::<u32>(4)?;
    ///     scope.evaluate([op::fill(&tensor, 7)])?.await?;
    ///     tensor.read_async().await
    /// });
    /// let (values, report) = pollster::block_on(finished)?;
    /// assert_eq!((values, report.executions), (vec![7; 4], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Manager::run`].
    pub async fn run_async<T, E, F>(
        &self,
        label: impl Into<Arc<str>>,
        body: impl FnOnce(Arc<ManagedScope>) -> F,
    ) -> Result<(T, ScopeReport), RunError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let scope = Arc::new(self.scope(label).map_err(RunError::Scope)?);
        let result = body(scope.clone()).await;
        scope.finish_with_async(result).await
    }

    /// Makes a tensor of `len` elements that the manager owns: it lives until its last handle and recording go, it
    /// is destroyed, or the manager closes (L2). Its contents are unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::TooLarge`], [`Error::SizeOverflow`], [`Error::TooManyBlocks`],
    /// [`Error::DeviceLost`], [`Error::Closed`].
    #[track_caller]
    pub fn tensor<T: Element>(&self, len: u64) -> Result<Tensor<T>, Error> {
        self.tensor_with(TensorOptions::builder().shape([len]).build())
    }

    /// As [`Manager::tensor`], with shape and label.
    ///
    /// # Errors
    /// As [`Manager::tensor`].
    #[track_caller]
    pub fn tensor_with<T: Element>(&self, options: TensorOptions) -> Result<Tensor<T>, Error> {
        let site = Location::caller();
        Manager::make(self.engine(), options, site, None)
    }

    /// Makes a tensor of `data`'s length and copies `data` to it, once.
    ///
    /// # Errors
    /// As [`Manager::tensor`] and [`Tensor::write`].
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

    pub(crate) fn make<T: Element>(
        engine: &Arc<Engine>,
        options: TensorOptions,
        site: Site,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<Tensor<T>, Error> {
        let request =
            TensorRequest { label: options.label, shape: options.shape, element: element_type::<T>(), site };
        engine.make_tensor(request, scope).map(Tensor::new)
    }

    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`Error::Backend`] with the compiler's log, or `Unsupported` if no form fits the backend.
    pub fn kernel(&self, source: &KernelSource) -> Result<Kernel, Error> {
        self.engine().compile(source).map(|entry| Kernel { entry })
    }

    /// The memory figures now (L19). In a fork of the process there are none: all are 0.
    pub fn memory(&self) -> MemoryReport {
        if self.engine().is_foreign_process() {
            // Another thread of the parent may have held the lock.
            return MemoryReport::default();
        }
        self.engine().memory_report()
    }

    /// What the driver itself says of its memory.
    ///
    /// # Errors
    /// [`Error::Backend`] where the API has no such figure.
    pub fn driver_memory(&self) -> Result<DriverMemory, Error> {
        let _pass = self.engine().enter()?;
        self.engine().driver.memory().map_err(|error| self.engine().backend_error(error))
    }

    /// Gives all cached memory back to the driver, whatever the policy.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn trim(&self) -> Result<TrimReport, Error> {
        let _pass = self.engine().enter()?;
        self.engine().retire_and_queue_hooks();
        Ok(self.engine().trim_to(0))
    }

    /// Blocks until everything that was submitted has retired. Hooks may still be running.
    ///
    /// # Errors
    /// [`Error::ForkedProcess`].
    pub fn wait_idle(&self) -> Result<(), Error> {
        self.engine().check_process()?;
        self.engine().wait_idle_until(None);
        Ok(())
    }

    /// As [`Manager::wait_idle`], for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; nothing has changed.
    pub fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.engine().check_process()?;
        if self.engine().wait_idle_until(deadline_after(timeout)) {
            return Ok(());
        }
        Err(Error::TimedOut { what: format!("manager `{}`", self.label()).into(), after: timeout })
    }

    /// Does the work of tenure's threads once, without blocking: retires what has completed, reclaims, and without
    /// threads runs the cleanup that is due.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_core::op;
    /// let options = ManagerOptions::builder().threads(false).build();
    /// let manager = Manager::open_with(HostBackend::new(), options)?;
    /// let scope = manager.scope("frame")?;
    /// let tensor = scope.tensor::<f32>(1024)?;
    /// let execution = scope.evaluate([op::fill(&tensor, 1.0)])?;
    /// // Once a frame, from the engine's own loop:
    /// while execution.status() == tenure_core::ExecutionStatus::Running {
    ///     manager.poll()?;
    /// }
    /// scope.finish_blocking()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ForkedProcess`].
    pub fn poll(&self) -> Result<PollReport, Error> {
        self.engine().check_process()?;
        let retired = self.engine().retire_and_queue_hooks();
        let jobs = if self.engine().options.threads { 0 } else { self.engine().poll_jobs() };
        Ok(PollReport { retired, jobs })
    }

    /// Begins to collect events (L27). Until the first log they cost one relaxed load each.
    pub fn record_events(&self) -> EventLog {
        self.engine().events.listen()
    }

    /// Whether anybody records events: what every call asks before it makes one, by one relaxed load (L27). For what is
    /// worth working out only if an event log shows it.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// assert!(!manager.records_events());
    /// let log = manager.record_events();
    /// assert!(manager.records_events());
    /// drop(log);
    /// assert!(!manager.records_events());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn records_events(&self) -> bool {
        self.engine().events.is_heard()
    }

    /// Takes the errors that nobody waited for: of teardown and of abandoned scopes. The first 64 are kept.
    pub fn take_errors(&self) -> Vec<Error> {
        self.engine().take_errors()
    }

    /// Tells that the device is lost, where an engine that shares the device knows it first (L23).
    pub fn notify_lost(&self, message: &str) {
        if self.engine().is_foreign_process() {
            return;
        }
        let cause = BackendError::new(BackendErrorKind::DeviceLost, "notify_lost", message);
        self.engine().note_backend_error(&cause);
        self.engine().loss_noticed();
    }

    /// Closes the manager, for every clone: finishes open scopes as abandoned, waits for the device, gives
    /// everything back, and reports what was still held (L28). A second close gives the same report.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`] from inside a hook (L15).
    pub fn close(&self) -> Result<CloseReport, Error> {
        self.engine().close(None)
    }

    /// As [`Manager::close`], for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::CloseTimedOut`]: the manager is closed to new work and ends when it is idle.
    pub fn close_deadline(&self, timeout: Duration) -> Result<CloseReport, Error> {
        self.engine().close(Some(timeout))
    }
}
