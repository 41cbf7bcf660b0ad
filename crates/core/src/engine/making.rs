//! Making tensors: of new memory, of memory that the pool has, or of an idle tensor; and keeping idle ones when they go.
//!
//! Not here: the places where idle ones are (`shards.rs`), where memory comes from (`memory.rs`), and every other end of a
//! tensor (`tensors.rs`).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::engine::scopes::ScopeCell;
use crate::engine::shards::{OpenBooks, Reuse};
use crate::engine::tensors::{ElementType, Memory, TensorCell};
use crate::error::{EndOfLife, Error, Site};
use crate::event::EventKind;
use crate::sync::atomic::{Ordering, fence};
use crate::tensor::{Label, TensorHandle, TensorRef};

/// What to make a tensor of.
pub(crate) struct TensorRequest {
    pub label: Label,
    pub shape: SmallVec<[u64; 4]>,
    pub element: ElementType,
    pub site: Site,
}

/// Bytes of a tensor; none if they do not fit 64 bits. An extent of 0 makes it empty, wherever it stands (L22).
fn bytes_of(shape: &[u64], element_bytes: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(element_bytes, |bytes, extent| bytes.checked_mul(*extent))
}

impl TensorCell {
    /// Whether a request asks for a tensor that is like this one in all but its id.
    #[inline]
    fn is_like(&self, request: &TensorRequest, scope: Option<&Arc<ScopeCell>>) -> bool {
        std::ptr::eq(self.site, request.site)
            && self.element.id == request.element.id
            && self.shape.iter().eq(&request.shape)
            && self.was_local == scope.is_some()
            && self.label == request.label
    }
}

impl Engine {
    /// Makes a tensor, in `scope` or for the manager.
    pub(crate) fn make_tensor(
        self: &Arc<Self>,
        request: TensorRequest,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<TensorRef, Error> {
        // Who closes waits until the event is told.
        let _heard = self.events.is_heard().then(|| self.gate.enter());
        if let Some(handle) = self.reuse_tensor(&request, scope) {
            return self.begin_life(handle, scope);
        }
        let _pass = self.enter()?;
        let bytes = self.check_request(&request, scope)?;
        let memory = self.acquire(&request.label, bytes)?.map(Memory::Pooled);
        self.install_tensor(request, bytes, memory, scope)
    }

    /// An idle tensor that is as the request asks, if there is one and nothing is in the way: no search, no memory of the
    /// process, and no lock but that of this thread's shard.
    fn reuse_tensor(
        self: &Arc<Self>,
        request: &TensorRequest,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Option<Arc<TensorHandle>> {
        let bytes = bytes_of(&request.shape, request.element.bytes)
            .filter(|bytes| *bytes > 0 && *bytes <= self.capabilities.max_block_bytes)?;
        if self.is_foreign_process()
            || self.is_lost()
            || scope.is_some_and(|scope| scope.check_admits().is_err())
        {
            return None;
        }
        let rounded = self.sizes.rounded(bytes);
        let fits = |handle: &Arc<TensorHandle>| handle.cell.is_like(request, scope);
        let number = self.shards.own();
        let mut books = self.shards.shard(number).open_books();
        // Under the lock: who closes takes it afterwards, and finds the tensor.
        if !self.is_open() {
            return None;
        }
        let handle = match books.reuse(rounded, fits) {
            Reuse::Tensor(handle) => handle,
            Reuse::None => return None,
            Reuse::NewPeak => {
                drop(books);
                let _pass = self.gate.enter();
                if !self.is_open() {
                    return None;
                }
                self.shards.reuse_exactly(number, rounded, fits, &mut self.pool.lock())?
            }
        };
        handle.cell.renew(scope);
        Some(handle)
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
            label: request.label.to_shared(),
            shape: request.shape.to_vec(),
            element_bytes: request.element.bytes,
        })?;
        let limit = self.capabilities.max_block_bytes;
        if bytes > limit {
            let label = request.label.to_shared();
            return Err(Error::TooLarge { label, requested: bytes, limit, which: "largest block" });
        }
        Ok(bytes)
    }

    /// Makes a tensor that has its memory. On an error the memory takes the way of a tensor that has ended.
    pub(super) fn install_tensor(
        self: &Arc<Self>,
        request: TensorRequest,
        bytes: u64,
        memory: Option<Memory>,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<TensorRef, Error> {
        let number = self.shards.own();
        let cell = TensorCell::new(self.clone(), number, request, bytes, memory, scope);
        let handle = Arc::new(TensorHandle { cell });
        self.shards.shard(number).open_books().add(&handle);
        self.begin_life(handle, scope)
    }

    /// Tells of a tensor that now lives, and makes it the scope's.
    #[inline]
    fn begin_life(
        self: &Arc<Self>,
        handle: Arc<TensorHandle>,
        scope: Option<&Arc<ScopeCell>>,
    ) -> Result<TensorRef, Error> {
        let cell = &handle.cell;
        self.emit(scope, Some(cell.site), || EventKind::Acquire {
            tensor: cell.id(),
            label: cell.label.to_shared(),
            bytes: cell.bytes,
        });
        if let Some(scope) = scope
            && let Err(error) = scope.adopt_tensor(&handle)
        {
            // The scope began to finish in between.
            self.end_tensor(cell, EndOfLife::ScopeFinished(scope.label.clone()));
            return Err(error);
        }
        Ok(TensorRef::new(handle))
    }

    /// The last reference to a tensor goes: its life ends. One that the device has finished with is kept whole.
    pub(crate) fn end_last(handle: Arc<TensorHandle>) {
        // Others may have changed the tensor before they let it go.
        fence(Ordering::Acquire);
        let cell = &handle.cell;
        let engine = &cell.engine;
        if cell.pooled_bytes == 0 || engine.is_foreign_process() || engine.is_lost() {
            return;
        }
        if engine.events.is_heard() {
            return Engine::end_last_heard(handle);
        }
        // Dropped last, without the lock: the scope may go with it.
        let _owner;
        if let Some((mut books, owner)) = engine.prepare_keeping(&handle) {
            _owner = owner;
            books.keep(handle);
        }
    }

    /// As [`Engine::end_last`], and somebody listens.
    #[cold]
    fn end_last_heard(handle: Arc<TensorHandle>) {
        let cell = &handle.cell;
        let engine = cell.engine.clone();
        // Who closes waits until the events are told.
        let _pass = engine.gate.enter();
        let owner = cell.owner();
        let scope = owner.as_ref();
        let (tensor, bytes, site, label) = (cell.id(), cell.bytes, cell.site, cell.label.to_shared());
        let Some((mut books, _owner)) = engine.prepare_keeping(&handle) else { return };
        books.keep(handle);
        drop(books);
        engine.emit(scope, Some(site), || EventKind::Retire { tensor, label: label.clone(), bytes });
        engine.emit(scope, None, || EventKind::Reclaim { tensor, label, bytes });
    }

    /// The books in which a tensor that nobody else has may be kept, and the scope that was its owner, to be dropped without
    /// their lock; none if something is in the way.
    #[inline]
    fn prepare_keeping(&self, handle: &Arc<TensorHandle>) -> Option<(OpenBooks, Option<Arc<ScopeCell>>)> {
        let cell = &handle.cell;
        if !cell.forget_uses(self) {
            return None;
        }
        let owner = cell.take_owner();
        if owner.as_ref().is_none_or(|scope| scope.forget_unless_quarantined(cell)) {
            let books = self.shards.shard(cell.shard).open_books();
            // Under the lock: who closes takes it afterwards, and finds the tensor, or its memory. One that somebody looks at
            // among all others just now goes the way of those that are not kept, and so does one whose life has ended.
            if self.is_open() && Arc::strong_count(handle) == 1 && books.can_keep(handle) {
                return Some((books, owner));
            }
        }
        cell.put_owner_back(owner);
        None
    }
}
