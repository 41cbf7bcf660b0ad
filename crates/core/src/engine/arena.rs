//! Native arenas: shared by the sequences made from them, reset whole when all have come back, and kept for
//! the next scope.

use std::sync::Arc;

use crate::backend::QueueId;
use crate::engine::Engine;
use crate::engine::driver::{NativeScope, NativeSequence};
use crate::error::Error;
use crate::sync::Mutex;

/// Idle arenas kept for reuse, at most.
const MAX_IDLE: usize = 16;

pub(crate) struct Arena {
    pub queue: QueueId,
    inner: Mutex<ArenaInner>,
}

struct ArenaInner {
    /// None once closed.
    native: Option<NativeScope>,
    /// Sequences that are out.
    out: usize,
    /// The scope that opened it has let go.
    released: bool,
}

impl Arena {
    /// A native sequence from this arena.
    pub(crate) fn open_sequence(&self, engine: &Engine, label: &str) -> Result<NativeSequence, Error> {
        let mut inner = self.inner.lock();
        let native = inner.native.as_mut().expect("an arena with an owner is open");
        let sequence =
            engine.driver.open_sequence(native, label).map_err(|error| engine.backend_error(error))?;
        inner.out += 1;
        Ok(sequence)
    }

    /// Takes a native sequence back whose last submission has completed.
    pub(crate) fn recycle(self: &Arc<Self>, engine: &Engine, sequence: NativeSequence) {
        let mut inner = self.inner.lock();
        let native = inner.native.as_mut().expect("an arena with sequences out is open");
        if engine.is_lost() && engine.capabilities.abandons_on_loss {
            // L23: it went with the device.
            std::mem::forget(sequence);
        } else {
            // SAFETY: the sequence came from this arena, and is not in flight: it was never submitted, or its
            // execution has retired (L4).
            unsafe { engine.driver.recycle(native, sequence) };
        }
        inner.out -= 1;
        let idle = inner.out == 0 && inner.released;
        drop(inner);
        if idle {
            engine.keep_or_close(self);
        }
    }

    /// The scope has finished: the arena goes back when its last sequence does.
    pub(crate) fn release(self: &Arc<Self>, engine: &Engine) {
        let idle = {
            let mut inner = self.inner.lock();
            inner.released = true;
            inner.out == 0
        };
        if idle {
            engine.keep_or_close(self);
        }
    }
}

impl Engine {
    /// An arena for a scope on `queue`: an idle one, or a new one.
    pub(crate) fn open_arena(&self, queue: QueueId, label: &str) -> Result<Arc<Arena>, Error> {
        let idle = {
            let mut idle = self.idle_arenas.lock();
            idle.iter().position(|arena| arena.queue == queue).map(|at| idle.swap_remove(at))
        };
        if let Some(arena) = idle {
            arena.inner.lock().released = false;
            return Ok(arena);
        }
        let native = self.driver.open_scope(queue, label).map_err(|error| self.backend_error(error))?;
        let inner = ArenaInner { native: Some(native), out: 0, released: false };
        Ok(Arc::new(Arena { queue, inner: Mutex::new(inner) }))
    }

    fn keep_or_close(&self, arena: &Arc<Arena>) {
        let mut native = arena.inner.lock().native.take();
        if let Some(open) = native.as_mut()
            && !self.is_lost()
            && self.is_open()
            && self.idle_arenas.lock().len() < MAX_IDLE
        {
            // SAFETY: `out` was 0 after the owner released it, and an idle arena makes no sequences: every
            // sequence was recycled.
            match unsafe { self.driver.reset_scope(open) } {
                Ok(()) => {
                    let inner = ArenaInner { native, out: 0, released: false };
                    let arena = Arc::new(Arena { queue: arena.queue, inner: Mutex::new(inner) });
                    self.idle_arenas.lock().push(arena);
                    return;
                }
                Err(error) => {
                    self.note_backend_error(&error);
                    self.record_teardown_error(Error::Backend(error));
                }
            }
        }
        if let Some(native) = native {
            self.close_native(native);
        }
    }

    /// Closes the arenas that nobody uses.
    pub(crate) fn close_idle_arenas(&self) {
        let idle = std::mem::take(&mut *self.idle_arenas.lock());
        for arena in idle {
            let native = arena.inner.lock().native.take();
            if let Some(native) = native {
                self.close_native(native);
            }
        }
    }

    fn close_native(&self, native: NativeScope) {
        if self.is_lost() && self.capabilities.abandons_on_loss {
            std::mem::forget(native);
            return;
        }
        // SAFETY: nobody uses the arena: every sequence made from it was recycled.
        if let Err(error) = unsafe { self.driver.close_scope(native) } {
            self.note_backend_error(&error);
            self.record_teardown_error(Error::Backend(error));
        }
    }
}
