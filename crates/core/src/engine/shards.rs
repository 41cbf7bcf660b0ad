//! The manager's tensors by shard: those that live, and idle ones that are kept whole for the next request like theirs.
//!
//! A thread makes its tensors in one shard, whose lock is seldom anybody else's. A tensor whose last handle goes while the
//! device is done with it stays as it is, with its memory; a request that is the same in all (place in the source,
//! name, shape, type) takes it over: nothing of the process and nothing of the pool is taken or given back. For the pool's
//! books an idle tensor is as good as granted; whoever needs the books exact takes the idle ones out first
//! ([`Shards::take_idle`]). Not here: what a life is (`engine/tensors.rs`).

use std::sync::{Arc, Weak};
use std::thread::available_parallelism;

use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use crate::engine::fork;
use crate::engine::pool::{Found, Grant, Pool, Recent};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{BorrowLock, Condvar, Mutex, MutexGuard, thread_number};
use crate::tensor::TensorHandle;

/// Most shards of a manager. Beyond that, threads share.
const MOST_SHARDS: usize = 32;

new_key_type! {
    pub(crate) struct TensorKey;
}

/// The shards of a manager. They are for ever, and another manager's after this one: so a tensor can be put into one by a
/// thread that has nothing but that tensor, without taking part in the engine's count, at which threads would meet.
pub(crate) struct Shards {
    shards: &'static [Shard],
    /// Shards from this one on were never used.
    used: AtomicUsize,
    /// How many forks there were when they became this manager's.
    forks: u32,
}

/// Shards that no manager has: as many sets as managers were open at a time, at most.
static SPARE: BorrowLock<Vec<&'static [Shard]>> = BorrowLock::new(Vec::new());

/// On cache lines of its own: two threads that work in two shards share nothing.
#[repr(align(128))]
pub(super) struct Shard {
    books: Mutex<Books>,
    /// A tensor has left while somebody closed.
    left: Condvar,
    /// Bytes of the idle ones, for those who do not hold the lock. Written under it.
    idle_bytes: AtomicU64,
}

/// What a shard's lock guards.
#[derive(Default)]
pub(super) struct Books {
    tensors: SlotMap<TensorKey, Slot>,
    /// How many of them live.
    live: usize,
    /// Idle tensors by the bytes of their grants. Nobody else has a reference to one.
    idle: Recent<Arc<TensorHandle>>,
    idle_bytes: u64,
    /// While no shard has fewer idle bytes than this, as many bytes live together as ever before, or fewer.
    floor: u64,
    /// Requests that an idle tensor served.
    hits: u64,
    /// The id of the next tensor that begins to live here. Each shard has ids of its own, as many apart as there are shards: no
    /// count that threads share.
    next_id: u64,
    id_step: u64,
}

/// A tensor that lives or is idle. One that cannot be upgraded is about to leave.
struct Slot {
    handle: Weak<TensorHandle>,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Live,
    Idle,
}

/// A shard's books under its lock.
pub(super) struct OpenBooks {
    shard: &'static Shard,
    books: MutexGuard<'static, Books>,
}

/// What came of the search for an idle tensor.
pub(super) enum Reuse {
    Tensor(Arc<TensorHandle>),
    /// There is one, but with it more bytes may live than ever before: the pool has to be told.
    NewPeak,
    None,
}

impl Shards {
    pub(super) fn new() -> Self {
        let spare = SPARE.try_write().and_then(|mut spare| spare.pop());
        let shards = spare.unwrap_or_else(|| Box::leak(make()));
        for (number, shard) in (1..).zip(shards) {
            // The tensors of the manager before held it open until all of them were gone.
            let mut books = shard.books.lock();
            (books.hits, books.next_id, books.id_step) = (0, number, shards.len() as u64);
        }
        Shards { shards, used: AtomicUsize::new(0), forks: fork::generation() }
    }

    /// The number of this thread's shard.
    pub(super) fn own(&self) -> usize {
        // As many as a power of two.
        let number = thread_number() & (self.shards.len() - 1);
        if number >= self.used.load(Ordering::Relaxed) {
            self.used.fetch_max(number + 1, Ordering::Relaxed);
        }
        number
    }

    pub(super) fn shard(&self, number: usize) -> &'static Shard {
        &self.shards[number]
    }

    fn used(&self) -> &'static [Shard] {
        &self.shards[..self.used.load(Ordering::Relaxed)]
    }

    /// Handles of all tensors whose life has not ended. The caller holds no lock: dropping one may end its tensor.
    pub(super) fn live(&self) -> Vec<Arc<TensorHandle>> {
        let mut live = Vec::new();
        for shard in self.shards {
            let books = shard.books.lock();
            let slots = books.tensors.values().filter(|slot| slot.standing == Standing::Live);
            live.extend(slots.filter_map(|slot| slot.handle.upgrade()));
        }
        live
    }

    /// The number of tensors whose life has not ended.
    pub(super) fn live_count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.books.lock().live as u64).sum()
    }

    /// Waits until all have left. No tensor is made any more, and those that are there are on their way.
    pub(super) fn wait_empty(&self) {
        for shard in self.shards {
            let mut books = shard.books.lock();
            while books.live > 0 {
                shard.left.wait(&mut books);
            }
        }
    }

    /// Bytes of the idle tensors, which the pool's books count as live.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.used().iter().map(|shard| shard.idle_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Takes all idle tensors out and gives their memory to `pool`, whose lock the caller holds. What is left of them is to be
    /// dropped without it.
    #[must_use = "dropped where no lock is held"]
    pub(super) fn take_idle(&self, pool: &mut Pool) -> Vec<Arc<TensorHandle>> {
        let mut husks = Vec::new();
        for shard in self.used() {
            let mut open = shard.open_books();
            let books = &mut *open.books;
            pool.counters.cache_hits += std::mem::take(&mut books.hits);
            let mut idle = books.idle.take_all();
            for handle in &idle {
                books.tensors.remove(handle.cell.key());
                pool.release(handle.cell.take_idle_grant());
            }
            husks.append(&mut idle);
            books.floor = 0;
            open.count_idle(|_| 0);
        }
        husks
    }

    /// Tells `pool`, whose lock the caller holds, that it has granted more: how many bytes live now.
    pub(super) fn note_peak(&self, pool: &mut Pool) {
        if self.idle_bytes() == 0 {
            pool.raise_peak(0);
        } else {
            let mut all = self.all_books();
            balance(&mut all, pool);
        }
    }

    /// As [`OpenBooks::reuse`], with the pool told of a new peak.
    pub(super) fn reuse_exactly(
        &self,
        number: usize,
        bytes: u64,
        fits: impl FnMut(&Arc<TensorHandle>) -> bool,
        pool: &mut Pool,
    ) -> Option<Arc<TensorHandle>> {
        let mut all = self.all_books();
        let open = all.get_mut(number)?;
        let found = open.books.idle.find(bytes, fits)?;
        let handle = open.begin(found, bytes);
        balance(&mut all, pool);
        Some(handle)
    }

    /// The memory of an idle tensor of this thread's shard that no request is like. What is left of it is to be dropped
    /// without the pool's lock.
    pub(super) fn take_memory(&self, bytes: u64, pool: &mut Pool) -> Option<(Grant, Arc<TensorHandle>)> {
        let number = self.own();
        let mut all = self.all_books();
        let open = all.get_mut(number)?;
        let found = open.books.idle.find(bytes, |_| true)?;
        let handle = open.take_out(found, bytes);
        open.books.tensors.remove(handle.cell.key());
        balance(&mut all, pool);
        Some((handle.cell.take_idle_grant(), handle))
    }

    fn all_books(&self) -> SmallVec<[OpenBooks; 8]> {
        self.used().iter().map(Shard::open_books).collect()
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        // Tried only: a fork may have inherited the lock from a thread that it has not. What a fork inherits is no manager's
        // any more: tensors that went there have left their places behind. A model's locks end with its run.
        if !cfg!(feature = "shuttle")
            && self.forks == fork::generation()
            && let Some(mut spare) = SPARE.try_write()
        {
            spare.push(self.shards);
        }
    }
}

fn make() -> Box<[Shard]> {
    let count = available_parallelism().map_or(1, usize::from).next_power_of_two();
    let shard =
        || Shard { books: Mutex::new(Books::default()), left: Condvar::new(), idle_bytes: AtomicU64::new(0) };
    (0..count.min(MOST_SHARDS)).map(|_| shard()).collect()
}

/// Raises the peak to what lives now, and shares out how many idle bytes may be taken before it has to be looked at again.
///
/// What lives is what the pool has granted less what is idle. While every shard keeps its floor that is at most
/// `granted - sum of floors`, and here that becomes at most the peak: until a floor is passed nobody has to ask.
fn balance(all: &mut [OpenBooks], pool: &mut Pool) {
    let idle: u64 = all.iter().map(|open| open.books.idle_bytes).sum();
    let slack = pool.raise_peak(idle);
    for OpenBooks { books, .. } in all {
        let share = if slack >= idle {
            books.idle_bytes
        } else {
            (u128::from(slack) * u128::from(books.idle_bytes) / u128::from(idle)) as u64
        };
        books.floor = books.idle_bytes - share;
    }
}

impl Shard {
    #[inline]
    pub(super) fn open_books(&'static self) -> OpenBooks {
        OpenBooks { shard: self, books: self.books.lock() }
    }

    /// Wakes who waits in [`Shards::wait_empty`].
    pub(super) fn tell_left(&self) {
        self.left.notify_all();
    }
}

impl OpenBooks {
    /// An idle tensor with a grant of `bytes` that `fits`.
    #[inline]
    pub(super) fn reuse(&mut self, bytes: u64, fits: impl FnMut(&Arc<TensorHandle>) -> bool) -> Reuse {
        match self.books.idle.find(bytes, fits) {
            None => Reuse::None,
            Some(_) if self.books.idle_bytes - bytes < self.books.floor => Reuse::NewPeak,
            Some(found) => Reuse::Tensor(self.begin(found, bytes)),
        }
    }

    /// An idle tensor lives again.
    #[inline]
    fn begin(&mut self, found: Found, bytes: u64) -> Arc<TensorHandle> {
        let handle = self.take_out(found, bytes);
        let books = &mut *self.books;
        books.live += 1;
        books.tensors[handle.cell.key()].standing = Standing::Live;
        handle.cell.set_id(books.take_id());
        handle
    }

    /// Takes an idle tensor from its place, for a request that it serves.
    #[inline]
    fn take_out(&mut self, found: Found, bytes: u64) -> Arc<TensorHandle> {
        self.books.hits += 1;
        self.count_idle(|idle| idle - bytes);
        self.books.idle.take_found(found)
    }

    /// Whether the tensor lives, and there is a place for it.
    #[inline]
    pub(super) fn can_keep(&self, handle: &TensorHandle) -> bool {
        let slot = self.books.tensors.get(handle.cell.key());
        slot.is_some_and(|slot| slot.standing == Standing::Live)
            && self.books.idle.has_place(handle.cell.pooled_bytes)
    }

    /// Keeps a tensor that nobody else has, and that can be kept.
    #[inline]
    pub(super) fn keep(&mut self, handle: Arc<TensorHandle>) {
        let books = &mut *self.books;
        let bytes = handle.cell.pooled_bytes;
        books.live -= 1;
        books.tensors[handle.cell.key()].standing = Standing::Idle;
        let surplus = books.idle.keep(bytes, handle);
        debug_assert!(surplus.is_none(), "there is a place");
        self.count_idle(|idle| idle + bytes);
    }

    #[inline]
    fn count_idle(&mut self, change: impl FnOnce(u64) -> u64) {
        self.books.idle_bytes = change(self.books.idle_bytes);
        self.shard.idle_bytes.store(self.books.idle_bytes, Ordering::Relaxed);
    }

    /// Takes in a tensor that begins to live.
    pub(super) fn add(&mut self, handle: &Arc<TensorHandle>) {
        self.books.live += 1;
        let slot = Slot { handle: Arc::downgrade(handle), standing: Standing::Live };
        handle.cell.set_key(self.books.tensors.insert(slot));
        handle.cell.set_id(self.books.take_id());
    }

    /// The tensor's life has ended, and it is not kept.
    pub(super) fn forget(&mut self, key: TensorKey) {
        if self.books.tensors.remove(key).is_some() {
            self.books.live -= 1;
        }
    }
}

impl Books {
    fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += self.id_step;
        id
    }
}
