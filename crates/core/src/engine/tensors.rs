//! Tensors as the manager owns them: state, memory, who they belong to, and until when the device uses them.
//!
//! Handles are in `tensor.rs`; this is what they point to.

use std::any::TypeId;
use std::sync::{Arc, Weak};

use slotmap::{Key, KeyData, new_key_type};
use smallvec::SmallVec;

use crate::backend::TimelinePoint;
use crate::engine::Engine;
use crate::engine::adoption::AdoptedMemory;
use crate::engine::driver::NativeBlock;
use crate::engine::gate::Pass;
use crate::engine::pool::Grant;
use crate::engine::scopes::ScopeCell;
use crate::engine::sequences::Life;
use crate::engine::timeline::{Deferred, Frontier};
use crate::error::{EndOfLife, Error, ResourceKind, Site};
use crate::event::EventKind;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::tensor::TensorHandle;

new_key_type! {
    pub(crate) struct TensorKey;
}

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType {
    pub id: TypeId,
    pub name: &'static str,
    pub bytes: u64,
}

pub(crate) struct TensorCell {
    pub engine: Arc<Engine>,
    pub id: u64,
    pub label: Arc<str>,
    pub shape: SmallVec<[u64; 4]>,
    pub element: ElementType,
    pub bytes: u64,
    pub site: Site,
    /// Its place among the manager's tensors, as a number. Written under their lock.
    key: AtomicU64,
    pub(super) state: Mutex<TensorState>,
    /// Held while it moves to another scope: one move at a time.
    moving: Mutex<()>,
    /// Pins or host accesses of this tensor went away.
    pub(super) released: Condvar,
}

pub(super) struct TensorState {
    pub(super) life: Life,
    /// None for an empty tensor, and once given up.
    memory: Option<Memory>,
    /// The scope it is local to; none for the manager's.
    owner: Option<Arc<ScopeCell>>,
    /// Evaluations between their checks and their submission.
    pub(super) pins: u32,
    /// Calls that look at the native block. They exclude nothing, and keep it.
    looks: u32,
    pub(super) host: HostAccess,
    pub(super) uses: Uses,
}

/// Whose the memory of a tensor is.
pub(crate) enum Memory {
    /// The pool's.
    Pooled(Grant),
    /// The host engine's.
    Adopted(AdoptedMemory),
}

impl Memory {
    /// Bytes of the pool.
    pub(crate) fn pooled_bytes(&self) -> u64 {
        match self {
            Memory::Pooled(grant) => grant.bytes,
            Memory::Adopted(_) => 0,
        }
    }

    /// None for an empty tensor.
    fn place(&self) -> Option<(Arc<NativeBlock>, u64)> {
        match self {
            Memory::Pooled(grant) => Some((grant.native.clone(), grant.offset)),
            Memory::Adopted(adopted) if adopted.bytes == 0 => None,
            Memory::Adopted(adopted) => Some((adopted.native.clone(), 0)),
        }
    }
}

/// Copies between host and tensor that are under way. They exclude evaluations that conflict.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HostAccess {
    None,
    Readers(u32),
    Writer,
}

impl HostAccess {
    /// A use by the device would conflict.
    fn excludes(self, writes: bool) -> bool {
        match self {
            HostAccess::None => false,
            HostAccess::Readers(_) => writes,
            HostAccess::Writer => true,
        }
    }
}

impl TensorState {
    /// Nobody is about to use the memory: it may be given up.
    fn is_free(&self) -> bool {
        self.pins == 0 && self.looks == 0 && self.host == HostAccess::None
    }
}

/// Until when the device uses a tensor.
#[derive(Default)]
pub(super) struct Uses {
    last_write: Option<TimelinePoint>,
    /// Reads since then.
    reads: Frontier,
}

impl Uses {
    pub(super) fn all(&self) -> Frontier {
        let mut all = self.reads.clone();
        if let Some(write) = self.last_write {
            all.cover(write);
        }
        all
    }

    /// Whether the device has finished with all of them.
    fn have_retired(&self, engine: &Engine) -> bool {
        self.last_write.iter().chain(self.reads.points()).all(|point| engine.is_retired(*point))
    }

    pub(super) fn writes(&self) -> Frontier {
        let mut writes = Frontier::default();
        if let Some(write) = self.last_write {
            writes.cover(write);
        }
        writes
    }
}

/// Bytes of a tensor; none if they do not fit 64 bits. An extent of 0 makes it empty, wherever it stands (L22).
fn bytes_of(shape: &[u64], element_bytes: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(element_bytes, |bytes, extent| bytes.checked_mul(*extent))
}

/// What to make a tensor of.
pub(crate) struct TensorRequest {
    pub label: Arc<str>,
    pub shape: SmallVec<[u64; 4]>,
    pub element: ElementType,
    pub site: Site,
}

impl TensorCell {
    /// # Errors
    /// `Stale` with label and place if its life has ended (L3).
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        if let Life::Ended(why) = &self.state.lock().life {
            return Err(self.stale(why));
        }
        self.engine.check_open().map_err(|error| self.stale_if_closed(error))
    }

    /// L6: a handle that outlives its manager is stale, from the moment that the manager closes.
    pub(crate) fn stale_if_closed(&self, error: Error) -> Error {
        match error {
            Error::Closed { .. } => self.stale(&self.engine.closed_reason()),
            other => other,
        }
    }

    pub(super) fn stale(&self, why: &EndOfLife) -> Error {
        Error::Stale { kind: ResourceKind::Tensor, label: self.label.clone(), why: why.clone() }
    }

    /// Keeps the memory until [`Engine::unpin`]. Host copies that conflict are short and are waited for.
    pub(crate) fn pin(&self, writes: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        loop {
            if let Life::Ended(why) = &state.life {
                return Err(self.stale(why));
            }
            if !state.host.excludes(writes) {
                state.pins += 1;
                return Ok(());
            }
            self.released.wait(&mut state);
        }
    }

    /// Keeps the memory for a submission, and adds what has to complete before it to `waits`. False if a host copy that
    /// conflicts is under way: nothing is kept then.
    pub(crate) fn pin_for_use(&self, writes: bool, waits: &mut Frontier) -> Result<bool, Error> {
        let mut state = self.state.lock();
        if let Life::Ended(why) = &state.life {
            return Err(self.stale(why));
        }
        if state.host.excludes(writes) {
            return Ok(false);
        }
        state.pins += 1;
        if let Some(write) = state.uses.last_write {
            waits.cover(write);
        }
        if writes {
            for read in state.uses.reads.points() {
                waits.cover(*read);
            }
        }
        Ok(true)
    }

    /// Waits until no host copy conflicts with a use, or the tensor has ended.
    pub(crate) fn wait_for_host(&self, writes: bool) {
        let mut state = self.state.lock();
        while matches!(state.life, Life::Live) && state.host.excludes(writes) {
            self.released.wait(&mut state);
        }
    }

    /// The block and the offset in it; none for an empty tensor. The caller has pinned it.
    pub(crate) fn native_place(&self) -> Option<(Arc<NativeBlock>, u64)> {
        self.state.lock().memory.as_ref().and_then(Memory::place)
    }

    /// Bytes of the pool that it has.
    pub(crate) fn granted_bytes(&self) -> u64 {
        self.state.lock().memory.as_ref().map_or(0, Memory::pooled_bytes)
    }

    pub(crate) fn owner(&self) -> Option<Arc<ScopeCell>> {
        self.state.lock().owner.clone()
    }
}

/// One call that looks at a tensor's native block. It ends also when the user's code panics.
struct Look<'a> {
    engine: &'a Arc<Engine>,
    cell: &'a TensorCell,
    pass: Option<Pass<'a>>,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.engine.let_go(self.cell, |state| state.looks -= 1);
        drop(self.pass.take());
        self.engine.close_if_orphaned();
    }
}

impl Engine {
    /// Makes a tensor, in `scope` or for the manager.
    pub(crate) fn make_tensor(
        self: &Arc<Self>,
        request: TensorRequest,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<Arc<TensorHandle>, Error> {
        let _pass = self.enter()?;
        let bytes = self.check_request(&request, scope)?;
        let memory = self.acquire(&request.label, bytes)?.map(Memory::Pooled);
        self.install_tensor(request, bytes, memory, scope)
    }

    /// The bytes of a tensor that may be made now.
    pub(super) fn check_request(
        &self,
        request: &TensorRequest,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<u64, Error> {
        if let Some(lost) = self.lost_error() {
            return Err(lost);
        }
        if let Some(scope) = scope {
            scope.check_admits()?;
        }
        let bytes = bytes_of(&request.shape, request.element.bytes).ok_or_else(|| Error::SizeOverflow {
            label: request.label.clone(),
            shape: request.shape.to_vec(),
            element_bytes: request.element.bytes,
        })?;
        let limit = self.capabilities.max_block_bytes;
        if bytes > limit {
            let label = request.label.clone();
            return Err(Error::TooLarge { label, requested: bytes, limit, which: "largest block" });
        }
        Ok(bytes)
    }

    /// Begins the life of a tensor that has its memory. On an error the memory takes the way of a tensor that has ended.
    pub(super) fn install_tensor(
        self: &Arc<Self>,
        request: TensorRequest,
        bytes: u64,
        memory: Option<Memory>,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<Arc<TensorHandle>, Error> {
        let handle = Arc::new(TensorHandle {
            cell: TensorCell {
                engine: self.clone(),
                id: self.next_tensor.fetch_add(1, Ordering::Relaxed) + 1,
                label: request.label,
                shape: request.shape,
                element: request.element,
                bytes,
                site: request.site,
                key: AtomicU64::new(0),
                state: Mutex::new(TensorState {
                    life: Life::Live,
                    memory,
                    owner: scope.cloned(),
                    pins: 0,
                    looks: 0,
                    host: HostAccess::None,
                    uses: Uses::default(),
                }),
                moving: Mutex::new(()),
                released: Condvar::new(),
            },
        });
        let cell = &handle.cell;
        {
            let mut tensors = self.tensors.lock();
            let key = tensors.insert(Arc::downgrade(&handle));
            cell.key.store(key.data().as_ffi(), Ordering::Relaxed);
        }
        self.emit(scope, Some(cell.site), || EventKind::Acquire {
            tensor: cell.id,
            label: cell.label.clone(),
            bytes,
        });
        if let Some(scope) = scope
            && let Err(error) = scope.adopt_tensor(&handle)
        {
            // The scope began to finish in between.
            self.end_tensor(cell, EndOfLife::ScopeFinished(scope.label.clone()));
            return Err(error);
        }
        Ok(handle)
    }

    /// Handles of all tensors whose life has not ended. The caller holds no lock: dropping one may end its tensor.
    pub(crate) fn live_tensors(&self) -> Vec<Arc<TensorHandle>> {
        self.tensors.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Ends every tensor, for a manager that closes and makes none any more.
    pub(crate) fn end_all_tensors(self: &Arc<Self>) {
        for handle in self.live_tensors() {
            self.end_tensor(&handle.cell, self.closed_reason());
        }
        // Those whose last handle is going on another thread just now. They pass the gate before they leave.
        let mut tensors = self.tensors.lock();
        while !tensors.is_empty() {
            self.tensors_changed.wait(&mut tensors);
        }
    }

    /// Ends a tensor's life. Twice is nothing (L2). Its memory goes back when the device has finished (L4).
    pub(crate) fn end_tensor(self: &Arc<Self>, cell: &TensorCell, why: EndOfLife) {
        self.end_tensor_if(cell, why, |_| true);
    }

    /// As [`Engine::end_tensor`], unless the owner is another than `ours` accepts. True if it ended now.
    fn end_tensor_if(
        self: &Arc<Self>,
        cell: &TensorCell,
        why: EndOfLife,
        ours: impl FnOnce(Option<&Arc<ScopeCell>>) -> bool,
    ) -> bool {
        // Closing waits until the memory has arrived in the pool.
        let _pass = self.gate.enter();
        let (owner, idle) = {
            let mut state = cell.state.lock();
            if matches!(state.life, Life::Ended(_)) || !ours(state.owner.as_ref()) {
                return false;
            }
            state.life = Life::Ended(why);
            // Whoever uses it last gives the memory up in the name of the scope.
            let idle = state.is_free().then(|| (state.memory.take(), std::mem::take(&mut state.uses)));
            let owner = if idle.is_some() { state.owner.take() } else { state.owner.clone() };
            (owner, idle)
        };
        {
            let mut tensors = self.tensors.lock();
            tensors.remove(TensorKey::from(KeyData::from_ffi(cell.key.load(Ordering::Relaxed))));
        }
        if !self.closing.is_open() {
            self.tensors_changed.notify_all();
        }
        let scope = owner.as_ref();
        self.emit(scope, Some(cell.site), || EventKind::Retire {
            tensor: cell.id,
            label: cell.label.clone(),
            bytes: cell.bytes,
        });
        if let Some(scope) = scope {
            scope.forget_tensor(cell);
        }
        if let Some((memory, uses)) = idle {
            self.give_up_memory(cell, memory, uses, scope);
        }
        true
    }

    /// Gives the memory of a tensor whose life has ended to its frontier, or to the scope's quarantine.
    fn give_up(self: &Arc<Self>, cell: &TensorCell, scope: Option<&Arc<ScopeCell>>) {
        let (memory, uses) = {
            let mut state = cell.state.lock();
            (state.memory.take(), std::mem::take(&mut state.uses))
        };
        self.give_up_memory(cell, memory, uses, scope);
    }

    fn give_up_memory(
        self: &Arc<Self>,
        cell: &TensorCell,
        memory: Option<Memory>,
        uses: Uses,
        scope: Option<&Arc<ScopeCell>>,
    ) {
        let quarantine = scope.and_then(|scope| scope.quarantine());
        let memory = match memory {
            // What most tensors come to: nothing is in the way.
            Some(Memory::Pooled(grant)) if quarantine.is_none() && uses.have_retired(self) => {
                self.pool.lock().release(grant);
                self.emit(scope, None, || EventKind::Reclaim {
                    tensor: cell.id,
                    label: cell.label.clone(),
                    bytes: cell.bytes,
                });
                return;
            }
            other => other,
        };
        let frontier = uses.all();
        if let Some(Memory::Pooled(grant)) = &memory {
            self.pool.lock().retire(grant);
        }
        let deferred = Deferred {
            memory,
            frontier,
            tensor: cell.id,
            label: cell.label.clone(),
            bytes: cell.bytes,
            scope: scope.map(|scope| (scope.id, scope.label.clone())),
        };
        match quarantine {
            // L16: a hook that has not come back may still use it.
            Some(quarantine) => quarantine.keep(self, deferred),
            None => self.defer(deferred),
        }
    }

    /// The device uses the tensor until `point`, which keeps it from now on: the pin goes.
    pub(crate) fn use_until(self: &Arc<Self>, cell: &TensorCell, point: TimelinePoint, writes: bool) {
        self.let_go(cell, |state| {
            if writes {
                state.uses.last_write = Some(point);
                state.uses.reads.clear();
            } else {
                state.uses.reads.cover(point);
            }
            state.pins -= 1;
        });
    }

    /// Takes a pin away; the last one of an ended tensor gives its memory up.
    pub(crate) fn unpin(self: &Arc<Self>, cell: &TensorCell) {
        self.let_go(cell, |state| state.pins -= 1);
    }

    /// Takes away what kept the memory; the last of it gives the memory of an ended tensor up.
    pub(super) fn let_go(self: &Arc<Self>, cell: &TensorCell, change: impl FnOnce(&mut TensorState)) {
        let ended = {
            let mut state = cell.state.lock();
            change(&mut state);
            state.is_free() && matches!(state.life, Life::Ended(_))
        };
        cell.released.notify_all();
        if ended {
            let scope = cell.state.lock().owner.take();
            self.give_up(cell, scope.as_ref());
        }
    }

    /// Shows `look` where the tensor's memory is: a block, if it is not empty, and the offset in it. The memory stays where
    /// it is until `look` returns, and closing waits for that.
    pub(crate) fn look_at_memory<R>(
        self: &Arc<Self>,
        cell: &TensorCell,
        look: impl FnOnce(Option<(&NativeBlock, u64)>) -> R,
    ) -> Result<R, Error> {
        let looking = {
            let pass = self.enter_for(cell)?;
            let mut state = cell.state.lock();
            if let Life::Ended(why) = &state.life {
                return Err(cell.stale(why));
            }
            state.looks += 1;
            Look { engine: self, cell, pass: Some(pass) }
        };
        let place = cell.native_place();
        let answer = look(place.as_ref().map(|(native, offset)| (&**native, *offset)));
        // Before the block may go: the pool asks for its last owner.
        drop(place);
        drop(looking);
        Ok(answer)
    }

    /// Moves a tensor to another scope, or to the manager.
    pub(crate) fn move_tensor(
        self: &Arc<Self>,
        handle: &Arc<TensorHandle>,
        to: impl FnOnce(&Arc<ScopeCell>) -> Option<Arc<ScopeCell>>,
    ) -> Result<(), Error> {
        let cell = &handle.cell;
        cell.check_live()?;
        let _pass = self.enter().map_err(|error| cell.stale_if_closed(error))?;
        let _moving = cell.moving.lock();
        // The manager's already, or ended just now.
        let Some(from) = cell.owner() else { return cell.check_live() };
        let target = to(&from);
        if let Some(target) = &target {
            target.adopt_tensor(handle)?;
        }
        let moved = {
            let mut state = cell.state.lock();
            // The old scope may have finished in between.
            let ours = matches!(state.life, Life::Live)
                && state.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, &from));
            if ours {
                state.owner = target.clone();
            }
            ours
        };
        if moved {
            from.forget_tensor(cell);
            if let Some(target) = &target
                && !target.holds_tensor(cell)
            {
                // The target finished in between, and passed it by: it was not its own yet.
                self.end_local_tensor(cell, target);
                return cell.check_live();
            }
            return Ok(());
        }
        if let Some(target) = &target {
            target.forget_tensor(cell);
        }
        cell.check_live()
    }

    /// Ends a tensor as local to `scope`, unless it has moved elsewhere.
    pub(crate) fn end_local_tensor(self: &Arc<Self>, cell: &TensorCell, scope: &Arc<ScopeCell>) -> bool {
        // Decided and done under one lock: the tensor may be on its way elsewhere.
        let why = EndOfLife::ScopeFinished(scope.label.clone());
        self.end_tensor_if(cell, why, |owner| owner.is_some_and(|owner| Arc::ptr_eq(owner, scope)))
    }

    /// Enters for a call on a tensor: a closed manager makes it stale (L6).
    pub(super) fn enter_for(self: &Arc<Self>, cell: &TensorCell) -> Result<Pass<'_>, Error> {
        cell.check_live()?;
        let pass = self.enter().map_err(|error| cell.stale_if_closed(error))?;
        match self.lost_error() {
            Some(lost) => Err(lost),
            None => Ok(pass),
        }
    }

    /// The first point that a host read has to wait for.
    pub(crate) fn unretired_write(&self, cell: &TensorCell) -> Option<TimelinePoint> {
        let writes = cell.state.lock().uses.writes();
        writes.points().iter().copied().find(|point| !self.is_retired(*point))
    }
}
