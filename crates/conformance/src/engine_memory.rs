//! Memory that stands for a host engine's own: blocks that a backend allocated behind the manager's back, to be adopted as
//! tensors. Also a look at tensors past the manager, as an engine would take it.
//!
//! Not here: the calls themselves (`engine_memory/ffi.rs`), and what is expected of them (`cases/adoption`).

mod ffi;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tenure_core::{Backend, Error, Manager, ScopeRef, Tensor};

/// How long a release may take to come. Far above what it takes: it only keeps a suite from hanging.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

/// What to adopt, and for whom.
pub(crate) struct Adoption<'a> {
    pub manager: &'a Manager,
    /// The scope that the tensor is local to; none for the manager's.
    pub scope: Option<&'a ScopeRef>,
    pub label: &'a str,
    /// What the engine has in the memory.
    pub contents: &'a [u32],
    /// Elements that the tensor claims beyond those.
    pub beyond: u64,
    /// Runs in the release callback, after the memory was looked at.
    pub on_release: Box<dyn FnOnce() + Send>,
}

impl<'a> Adoption<'a> {
    /// Adopts memory of `contents` as a tensor of the manager.
    pub(crate) fn new(manager: &'a Manager, label: &'a str, contents: &'a [u32]) -> Self {
        Adoption { manager, scope: None, label, contents, beyond: 0, on_release: Box::new(|| ()) }
    }
}

/// What an engine learns of the memory that it lent.
#[derive(Clone, Default)]
pub(crate) struct Lent(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    releases: u32,
    /// What was in the memory when it came back; none if the device is lost.
    contents: Option<Vec<u32>>,
}

impl Lent {
    /// How often the release callback was called.
    pub(crate) fn releases(&self) -> u32 {
        self.0.state.lock().releases
    }

    /// Waits for the release and returns what the engine finds in its memory.
    ///
    /// # Panics
    /// If the release does not come.
    pub(crate) fn wait(&self) -> Option<Vec<u32>> {
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        let mut state = self.0.state.lock();
        while state.releases == 0 {
            let timed_out = self.0.changed.wait_until(&mut state, deadline).timed_out();
            assert!(!timed_out || state.releases > 0, "the memory was not released");
        }
        state.contents.clone()
    }

    fn released(&self, contents: Option<Vec<u32>>) {
        let mut state = self.0.state.lock();
        state.releases += 1;
        state.contents = contents;
        self.0.changed.notify_all();
    }
}

type Adopt = dyn Fn(Adoption<'_>) -> (Result<Tensor<u32>, Error>, Lent) + Send + Sync;
type Look = dyn Fn(&Tensor<u32>, &dyn Fn()) -> Result<Vec<u32>, Error> + Send + Sync;

/// What a backend says to memory that is of no API at all.
pub(crate) fn adopt_nonsense(manager: &Manager) -> Error {
    ffi::adopt_nonsense(manager)
}

/// How an engine shares memory with managers of one backend.
#[derive(Clone)]
pub(crate) struct EngineMemory {
    adopt: Arc<Adopt>,
    look: Arc<Look>,
}

impl EngineMemory {
    /// `foreign_of` says of a block of `B` what an engine would hand in for it.
    pub(crate) fn new<B: Backend>(
        foreign_of: impl Fn(&B::Block) -> B::Foreign + Send + Sync + 'static,
    ) -> Self {
        EngineMemory {
            adopt: Arc::new(move |adoption| ffi::adopt::<B>(adoption, &foreign_of)),
            look: Arc::new(ffi::look::<B>),
        }
    }

    /// Adopts memory of the engine. It is freed, by the engine, in the release callback.
    pub(crate) fn adopt(&self, adoption: Adoption<'_>) -> (Result<Tensor<u32>, Error>, Lent) {
        (self.adopt)(adoption)
    }

    /// Reads a tensor where [`Tensor::native`] says that it is. Nothing may be using it.
    pub(crate) fn look(&self, tensor: &Tensor<u32>) -> Result<Vec<u32>, Error> {
        (self.look)(tensor, &|| ())
    }

    /// The same, and runs `before` while the block is in sight.
    pub(crate) fn look_while(&self, tensor: &Tensor<u32>, before: &dyn Fn()) -> Result<Vec<u32>, Error> {
        (self.look)(tensor, before)
    }
}
