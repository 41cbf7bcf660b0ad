//! The manager's tensors by shard: those that live, and idle ones that are kept whole for the next request of their size.
//!
//! A thread makes its tensors in one shard, whose only lock is seldom anybody else's. A tensor whose last handle goes while
//! the device is done with it stays as it is, with its memory, and the next request of that size takes it over: nothing of
//! the process or of the pool is taken or given back. For the pool's books an idle tensor is as good as granted;
//! whoever needs the books exact takes the idle ones out first ([`Shards::take_idle`]). Not here: what a life is
//! (`engine/tensors.rs`).

use std::sync::{Arc, Weak};
use std::thread::available_parallelism;

use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use crate::engine::pool::{Pool, Recent};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, thread_number};
use crate::tensor::TensorHandle;

/// Most shards of a manager. Beyond that, threads share.
const MOST_SHARDS: usize = 32;

new_key_type! {
    pub(crate) struct TensorKey;
}

pub(crate) struct Shards {
    shards: Box<[Shard]>,
    /// Shards from this one on were never used.
    used: AtomicUsize,
}

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
    /// Every tensor whose life has not ended. One that cannot be upgraded is about to leave.
    pub live: SlotMap<TensorKey, Weak<TensorHandle>>,
    /// Idle tensors by the bytes of their grants. Nobody else has a reference to one.
    idle: Recent<Arc<TensorHandle>>,
    idle_bytes: u64,
    /// While no shard has fewer idle bytes than this, as many bytes live together as ever before, or fewer.
    floor: u64,
    /// Requests that an idle tensor served.
    hits: u64,
}

/// A request of idle bytes that may be a new high-water mark of what lives: the pool has to be told.
pub(super) struct NewPeak;

impl Shards {
    pub(super) fn new() -> Self {
        let count = available_parallelism().map_or(1, usize::from).next_power_of_two();
        let shard = || Shard {
            books: Mutex::new(Books::default()),
            left: Condvar::new(),
            idle_bytes: AtomicU64::new(0),
        };
        let shards = (0..count.min(MOST_SHARDS)).map(|_| shard()).collect();
        Shards { shards, used: AtomicUsize::new(0) }
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

    pub(super) fn shard(&self, number: usize) -> &Shard {
        &self.shards[number]
    }

    fn used(&self) -> &[Shard] {
        &self.shards[..self.used.load(Ordering::Relaxed)]
    }

    /// Handles of all tensors whose life has not ended. The caller holds no lock: dropping one may end its tensor.
    pub(super) fn live(&self) -> Vec<Arc<TensorHandle>> {
        let mut live = Vec::new();
        for shard in &self.shards {
            live.extend(shard.books.lock().live.values().filter_map(Weak::upgrade));
        }
        live
    }

    /// The number of tensors whose life has not ended.
    pub(super) fn live_count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.books.lock().live.len() as u64).sum()
    }

    /// Waits until all have left. No tensor is made any more, and those that are there are on their way.
    pub(super) fn wait_empty(&self) {
        for shard in &self.shards {
            let mut books = shard.books.lock();
            while !books.live.is_empty() {
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
            let mut books = shard.books.lock();
            pool.counters.cache_hits += std::mem::take(&mut books.hits);
            let mut idle = books.idle.take_all();
            for handle in &mut idle {
                let grant = TensorHandle::alone(handle).and_then(|handle| handle.cell.take_grant());
                pool.release(grant.expect("an idle tensor has memory, and nobody else has it"));
            }
            husks.append(&mut idle);
            books.floor = 0;
            shard.count_idle(&mut books, |_| 0);
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

    /// As [`Shard::reuse`], with the pool told of a new peak.
    pub(super) fn reuse_exactly(&self, number: usize, bytes: u64, pool: &mut Pool) -> Option<Arc<TensorHandle>> {
        let mut all = self.all_books();
        let books = all.get_mut(number)?;
        let handle = books.idle.take(bytes)?;
        books.hits += 1;
        self.shards[number].count_idle(books, |idle| idle - bytes);
        balance(&mut all, pool);
        Some(handle)
    }

    fn all_books(&self) -> SmallVec<[MutexGuard<'_, Books>; 8]> {
        self.used().iter().map(|shard| shard.books.lock()).collect()
    }
}

/// Raises the peak to what lives now, and shares out how many idle bytes may be taken before it has to be looked at again.
///
/// What lives is what the pool has granted less what is idle. While every shard keeps its floor that is at most
/// `granted - sum of floors`, and here that becomes at most the peak: until a floor is passed nobody has to ask.
fn balance(all: &mut [MutexGuard<'_, Books>], pool: &mut Pool) {
    let idle: u64 = all.iter().map(|books| books.idle_bytes).sum();
    let slack = pool.raise_peak(idle);
    for books in all {
        let share = if slack >= idle {
            books.idle_bytes
        } else {
            (u128::from(slack) * u128::from(books.idle_bytes) / u128::from(idle)) as u64
        };
        books.floor = books.idle_bytes - share;
    }
}

impl Shard {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    /// An idle tensor with a grant of `bytes`. The caller holds the books.
    pub(super) fn reuse(&self, books: &mut Books, bytes: u64) -> Result<Option<Arc<TensorHandle>>, NewPeak> {
        if !books.idle.has(bytes) {
            return Ok(None);
        }
        if books.idle_bytes - bytes < books.floor {
            return Err(NewPeak);
        }
        books.hits += 1;
        self.count_idle(books, |idle| idle - bytes);
        Ok(books.idle.take(bytes))
    }

    /// Whether a tensor with a grant of `bytes` could be kept.
    pub(super) fn has_place(&self, books: &Books, bytes: u64) -> bool {
        books.idle.has_place(bytes)
    }

    /// Keeps a tensor that nobody else has. The caller holds the books, and there is a place.
    pub(super) fn keep(&self, books: &mut Books, bytes: u64, handle: Arc<TensorHandle>) {
        let surplus = books.idle.keep(bytes, handle);
        debug_assert!(surplus.is_none(), "there is a place");
        self.count_idle(books, |idle| idle + bytes);
    }

    fn count_idle(&self, books: &mut Books, change: impl FnOnce(u64) -> u64) {
        books.idle_bytes = change(books.idle_bytes);
        self.idle_bytes.store(books.idle_bytes, Ordering::Relaxed);
    }

    /// Wakes who waits in [`Shards::wait_empty`].
    pub(super) fn tell_left(&self) {
        self.left.notify_all();
    }
}
