//! [`Bed`]: what a case gets. It opens managers on instrumented backends, and afterwards proves that each of them gave
//! everything back.
//!
//! Not here: running cases (`runner.rs`).

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::{
    Backend, BackendError, BackendInfo, Capabilities, Error, EventLog, KernelSource, Manager, ManagerOptions,
    op,
};

use crate::engine_memory::EngineMemory;
use crate::events::lives;
use crate::instrument::{Instrumented, Limits, ObjectKind, Probe};
use crate::kernels::KernelSet;

/// How long a manager may take to shut its backend down once a case has returned. Far above what it takes: the bound
/// only keeps a suite from hanging.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// What a bed knows of its backend.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Names of backend and device.
    pub info: BackendInfo,
    /// What the device can do, without any limits of a case.
    pub capabilities: Capabilities,
    /// It compiles every kernel of [`KernelSet::portable`].
    pub kernels: bool,
    /// It runs host closures as kernels, so that a kernel of a case can panic or count.
    pub host_kernels: bool,
    /// It runs them on threads of its own, so that a kernel of a case can also block.
    pub blocking_kernels: bool,
    /// The suite was told how an engine hands memory of its own in.
    pub engine_memory: bool,
}

/// A manager on an instrumented backend, and the probe of that backend.
///
/// The fields may be taken apart: the bed has a probe of its own.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The manager.
    pub manager: Manager,
    /// Counts, faults and held completions of its backend.
    pub probe: Probe,
}

/// Why no rig could be opened.
#[derive(Clone, Debug)]
enum OpenError {
    /// The backend could not be made.
    Backend(BackendError),
    /// The manager refused its options.
    Manager(Error),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        match error {
            OpenError::Backend(error) => Error::Backend(error),
            OpenError::Manager(error) => error,
        }
    }
}

type Open = dyn Fn(Limits, ManagerOptions) -> Result<Rig, OpenError> + Send + Sync;

/// What a case gets: managers of one backend, its facts and the suite's kernels.
///
/// # Life cycle
/// 1. [`Bed::new`] once a backend, which opens it once for its facts; [`Bed::fresh`] for each case.
/// 2. The case opens what it needs, and drops or closes it.
/// 3. [`Bed::verify`] after the case has returned or panicked.
pub struct Bed {
    open: Arc<Open>,
    facts: Arc<Facts>,
    kernels: Arc<KernelSet>,
    engine_memory: Option<EngineMemory>,
    opened: Mutex<Vec<Opened>>,
    listening: Listening,
}

/// A manager that was opened.
#[derive(Debug)]
struct Opened {
    label: String,
    probe: Probe,
    /// Its events from its begin, if somebody wants them.
    events: Option<EventLog>,
}

/// Whether the events of a case are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    Off,
    On,
}

impl Bed {
    /// A bed for the backends that `factory` makes, one for each manager.
    ///
    /// # Errors
    /// What the factory says: `Unavailable` where there is no such device here. Or what the device said when it was
    /// opened and closed once.
    pub fn new<B: Backend>(
        factory: impl Fn() -> Result<B, BackendError> + Send + Sync + 'static,
    ) -> Result<Bed, Error> {
        let open = move |limits, options| {
            let backend = Instrumented::with_limits(factory().map_err(OpenError::Backend)?, limits);
            let probe = backend.probe();
            let manager = Manager::open_with(backend, options).map_err(OpenError::Manager)?;
            Ok(Rig { manager, probe })
        };
        let kernels = KernelSet::new();
        let facts = find_facts(&open, &kernels)?;
        Ok(Bed {
            open: Arc::new(open),
            facts: Arc::new(facts),
            kernels: Arc::new(kernels),
            engine_memory: None,
            opened: Mutex::new(Vec::new()),
            listening: Listening::Off,
        })
    }

    /// The same bed with memory that stands for an engine's.
    pub(crate) fn with_engine_memory(self, memory: EngineMemory) -> Bed {
        let facts = Facts { engine_memory: true, ..Facts::clone(&self.facts) };
        Bed { facts: Arc::new(facts), engine_memory: Some(memory), ..self }
    }

    /// Memory that stands for an engine's, for cases that require
    /// [`Requirement::EngineMemory`](crate::Requirement::EngineMemory).
    pub(crate) fn engine_memory(&self) -> &EngineMemory {
        self.engine_memory.as_ref().expect("the case requires memory of an engine")
    }

    /// A bed of the same backend with nothing opened.
    pub fn fresh(&self) -> Bed {
        self.fresh_and(Listening::Off)
    }

    /// The same; with `listening` on, the managers' events are kept for [`Bed::contract_events`].
    pub(crate) fn fresh_and(&self, listening: Listening) -> Bed {
        Bed {
            open: self.open.clone(),
            facts: self.facts.clone(),
            kernels: self.kernels.clone(),
            engine_memory: self.engine_memory.clone(),
            opened: Mutex::new(Vec::new()),
            listening,
        }
    }

    /// Opens a manager with default options.
    ///
    /// # Panics
    /// If it cannot be opened: the case has failed.
    #[track_caller]
    pub fn open(&self) -> Rig {
        self.open_limited(Limits::default(), ManagerOptions::default())
    }

    /// Opens a manager with options.
    ///
    /// # Panics
    /// As [`Bed::open`].
    #[track_caller]
    pub fn open_with(&self, options: ManagerOptions) -> Rig {
        self.open_limited(Limits::default(), options)
    }

    /// Opens a manager with options, on a backend with limits.
    ///
    /// # Panics
    /// As [`Bed::open`].
    #[track_caller]
    pub fn open_limited(&self, limits: Limits, options: ManagerOptions) -> Rig {
        match self.try_open(limits, options) {
            Ok(rig) => rig,
            Err(error) => panic!("the bed cannot open a manager: {error}"),
        }
    }

    /// As [`Bed::open_limited`], for cases about opening itself.
    ///
    /// # Errors
    /// What the factory or the manager says.
    pub fn try_open(&self, limits: Limits, options: ManagerOptions) -> Result<Rig, Error> {
        let rig = (self.open)(limits, options)?;
        let events = match self.listening {
            Listening::Off => None,
            Listening::On => Some(rig.manager.record_events()),
        };
        let label = rig.manager.label().to_owned();
        self.opened.lock().push(Opened { label, probe: rig.probe.clone(), events });
        Ok(rig)
    }

    /// What is known of the backend.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Names of backend and device.
    pub fn info(&self) -> &BackendInfo {
        &self.facts.info
    }

    /// What the device can do, without limits.
    pub fn capabilities(&self) -> &Capabilities {
        &self.facts.capabilities
    }

    /// The suite's kernels.
    pub fn kernels(&self) -> &KernelSet {
        &self.kernels
    }

    /// Releases every completion that the case held back: it has panicked and cannot do it any more.
    pub(crate) fn let_go(&self) {
        for opened in &*self.opened.lock() {
            opened.probe.release_all();
        }
    }

    /// Waits until every manager that was opened has shut its backend down, and says what is wrong: violations, and
    /// objects that are not accounted for (L19). Empty if all is well.
    pub fn verify(&self) -> Vec<String> {
        self.verify_within(SHUTDOWN_TIMEOUT)
    }

    pub(crate) fn verify_within(&self, timeout: Duration) -> Vec<String> {
        let opened = self.opened.lock();
        let mut problems = Vec::new();
        for Opened { label, probe, .. } in &*opened {
            if !probe.wait_shutdown(timeout) {
                problems.push(format!("manager `{label}` did not shut its backend down within {timeout:?}"));
            }
            problems.extend(probe.violations().iter().map(|text| format!("manager `{label}`: {text}")));
            for kind in ObjectKind::ALL {
                let balance = probe.lifetimes(kind);
                if !balance.is_balanced() {
                    problems.push(format!(
                        "manager `{label}`: L19: of kind {kind} {} were made, {} given back, {} abandoned",
                        balance.made, balance.given_back, balance.abandoned
                    ));
                }
            }
        }
        problems
    }

    /// Native objects that were abandoned with lost devices (L23). For after [`Bed::verify`].
    pub(crate) fn abandoned(&self) -> u64 {
        let opened = self.opened.lock();
        let of =
            |probe: &Probe| ObjectKind::ALL.iter().map(|kind| probe.lifetimes(*kind).abandoned).sum::<u64>();
        opened.iter().map(|opened| of(&opened.probe)).sum()
    }

    /// The contract events (L27) of every manager that was opened, in the order of opening. For after [`Bed::verify`].
    pub(crate) fn contract_events(&self) -> String {
        let mut text = String::new();
        for Opened { label, events, .. } in &*self.opened.lock() {
            let events = events.as_ref().map(EventLog::events).unwrap_or_default();
            text.push_str(&format!("manager `{label}`\n{}", lives(&events)));
        }
        text
    }
}

impl fmt::Debug for Bed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bed")
            .field("facts", &self.facts)
            .field("opened", &*self.opened.lock())
            .finish_non_exhaustive()
    }
}

/// Opens the backend once to see what it is.
fn find_facts(
    open: &impl Fn(Limits, ManagerOptions) -> Result<Rig, OpenError>,
    kernels: &KernelSet,
) -> Result<Facts, Error> {
    let options = ManagerOptions::builder().label("facts").build();
    let Rig { manager, .. } = open(Limits::default(), options)?;
    let kernel_thread = thread_of_a_kernel(&manager);
    let facts = Facts {
        info: manager.info().clone(),
        capabilities: manager.capabilities().clone(),
        kernels: kernels.portable().iter().all(|source| manager.kernel(source).is_ok()),
        host_kernels: kernel_thread.is_some(),
        blocking_kernels: kernel_thread.is_some_and(|thread| thread != std::thread::current().id()),
        engine_memory: false,
    };
    manager.close()?;
    Ok(facts)
}

/// The thread that a host closure runs on as a kernel; `None` if the backend runs none.
fn thread_of_a_kernel(manager: &Manager) -> Option<ThreadId> {
    let ran_on = Arc::new(Mutex::new(None));
    let seen = ran_on.clone();
    let source = KernelSource::new("which thread", &[])
        .host(move |_| *seen.lock() = Some(std::thread::current().id()));
    let kernel = manager.kernel(&source).ok()?;
    let ran = manager.run("facts", |scope| scope.evaluate([op::dispatch(&kernel)])?.wait());
    ran.ok()?;
    *ran_on.lock()
}
