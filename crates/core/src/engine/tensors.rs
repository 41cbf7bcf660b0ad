//! Tensors as the manager owns them: state, memory, who they belong to, and until when the device uses them.
//!
//! Handles are in `tensor.rs`; this is what they point to. How a tensor is made, and what is kept for the next: `making.rs`.

use std::any::TypeId;
use std::sync::Arc;

use slotmap::{Key, KeyData};
use smallvec::SmallVec;

use crate::backend::TimelinePoint;
use crate::engine::Engine;
use crate::engine::adoption::AdoptedMemory;
use crate::engine::driver::NativeBlock;
use crate::engine::gate::Pass;
use crate::engine::making::TensorRequest;
use crate::engine::pool::Grant;
use crate::engine::scopes::ScopeCell;
use crate::engine::sequences::Life;
use crate::engine::shards::TensorKey;
use crate::engine::timeline::{Deferred, Frontier};
use crate::error::{EndOfLife, Error, ResourceKind, Site};
use crate::event::EventKind;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::tensor::{Label, TensorHandle};

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType {
    pub id: TypeId,
    pub name: &'static str,
    pub bytes: u64,
}

pub(crate) struct TensorCell {
    pub engine: Arc<Engine>,
    /// Another one for each of its lives. Written while nobody else has it.
    id: AtomicU64,
    pub label: Label,
    pub shape: SmallVec<[u64; 4]>,
    pub element: ElementType,
    pub bytes: u64,
    pub site: Site,
    /// Which of the manager's shards it is in.
    pub(super) shard: usize,
    /// Its place there, as a number. Written under the shard's lock.
    key: AtomicU64,
    /// It was made in a scope, and may have an owner.
    pub(super) was_local: bool,
    /// Bytes that it has of the pool while it lives.
    pub(super) pooled_bytes: u64,
    /// The device has used it in this life.
    was_used: AtomicBool,
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

impl TensorCell {
    /// A tensor that lives, in that shard.
    pub(super) fn new(
        engine: Arc<Engine>,
        shard: usize,
        request: TensorRequest,
        bytes: u64,
        mut memory: Option<Memory>,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Self {
        let last_write = match &mut memory {
            Some(Memory::Pooled(grant)) => grant.after.take(),
            _ => None,
        };
        TensorCell {
            engine,
            id: AtomicU64::new(0),
            label: request.label,
            shape: request.shape,
            element: request.element,
            bytes,
            site: request.site,
            shard,
            key: AtomicU64::new(0),
            was_local: scope.is_some(),
            pooled_bytes: memory.as_ref().map_or(0, Memory::pooled_bytes),
            was_used: AtomicBool::new(last_write.is_some()),
            state: Mutex::new(TensorState {
                life: Life::Live,
                memory,
                owner: scope.cloned(),
                pins: 0,
                looks: 0,
                host: HostAccess::None,
                uses: Uses { last_write, ..Uses::default() },
            }),
            moving: Mutex::new(()),
            released: Condvar::new(),
        }
    }

    /// Begins another life. Nobody else has the tensor.
    #[inline]
    pub(super) fn renew(&self, scope: Option<&Arc<ScopeCell>>) {
        if let Some(scope) = scope {
            self.state.lock().owner = Some(scope.clone());
        }
    }

    /// Forgets what has used the tensor, if the device has finished with all of it. Nobody else has the tensor.
    #[inline]
    pub(super) fn forget_uses(&self, engine: &Engine) -> bool {
        if self.was_used.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            if !state.uses.have_retired(engine) {
                return false;
            }
            state.uses = Uses::default();
            self.was_used.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Says which tensor it now is. The caller has the shard's books, and nobody else the tensor.
    pub(super) fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Says where in its shard it is. The caller has the shard's books.
    pub(super) fn set_key(&self, key: TensorKey) {
        self.key.store(key.data().as_ffi(), Ordering::Relaxed);
    }

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
        Error::Stale { kind: ResourceKind::Tensor, label: self.label.to_shared(), why: why.clone() }
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

    /// Whether its life has ended, asked by who has it alone.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.state.get_mut().life, Life::Ended(_))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// The memory of an idle tensor, whose last life ends with that.
    pub(super) fn take_idle_grant(&self) -> Grant {
        let mut state = self.state.lock();
        state.life = Life::Ended(EndOfLife::Destroyed(self.site));
        match state.memory.take() {
            Some(Memory::Pooled(grant)) => grant,
            _ => unreachable!("an idle tensor has memory of the pool"),
        }
    }

    pub(super) fn key(&self) -> TensorKey {
        TensorKey::from(KeyData::from_ffi(self.key.load(Ordering::Relaxed)))
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

    /// Takes the owner out, for a tensor that is to be idle: it must not keep a scope, nor what that has of the user's.
    pub(super) fn take_owner(&self) -> Option<Arc<ScopeCell>> {
        if self.was_local { self.state.lock().owner.take() } else { None }
    }

    /// It is not to be idle after all. The caller holds no lock.
    pub(super) fn put_owner_back(&self, owner: Option<Arc<ScopeCell>>) {
        if owner.is_some() {
            self.state.lock().owner = owner;
        }
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
    /// Ends every tensor, for a manager that closes and makes none any more.
    pub(crate) fn end_all_tensors(self: &Arc<Self>) {
        for handle in self.shards.live() {
            self.end_tensor(&handle.cell, self.closed_reason());
        }
        // Those whose last handle is going on another thread just now. They pass the gate before they leave.
        self.shards.wait_empty();
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
        let shard = self.shards.shard(cell.shard);
        shard.open_books().forget(cell.key());
        if !self.closing.is_open() {
            shard.tell_left();
        }
        let scope = owner.as_ref();
        self.emit(scope, Some(cell.site), || EventKind::Retire {
            tensor: cell.id(),
            label: cell.label.to_shared(),
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
                    tensor: cell.id(),
                    label: cell.label.to_shared(),
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
            tensor: cell.id(),
            label: cell.label.to_shared(),
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
        cell.was_used.store(true, Ordering::Relaxed);
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
