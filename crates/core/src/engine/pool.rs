//! The pool: blocks from the driver, cut into grants, kept for reuse, with exact accounting (L19, L22).
//!
//! Pure bookkeeping under one lock: no driver call happens here. Whole blocks serve large grants; small
//! ones are cut from pages by `offset-allocator` where the backend allows. In front of both stands a short list of what
//! came back last, by size (`pool/recent.rs`). Not here: what to do when there is no room (`engine/memory.rs`).

mod recent;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use offset_allocator::{Allocation, Allocator};
use slotmap::{SlotMap, new_key_type};

use crate::backend::{Capabilities, TimelinePoint};
use crate::engine::driver::NativeBlock;
use crate::report::{MemoryReport, Usage};
pub(crate) use recent::{Found, Recent};

/// Grants up to this size are cut from pages.
const SMALL_BYTES: u64 = 256 << 10;
/// Size of a page, where the budget allows.
const PAGE_BYTES: u64 = 1 << 20;
/// Size classes an octave for whole blocks: at most 1/8 of a block is padding.
const CLASSES_PER_OCTAVE: u64 = 8;

new_key_type! {
    pub(crate) struct BlockKey;
}

/// A range of device memory that one tensor has.
pub(crate) struct Grant {
    pub native: Arc<NativeBlock>,
    pub offset: u64,
    /// Bytes taken from the pool, at least what was asked for.
    pub bytes: u64,
    /// Until when the device uses it for the tensor before: the next use comes after that, on the device.
    pub after: Option<TimelinePoint>,
    key: BlockKey,
    slice: Option<Allocation>,
}

/// How large a new block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// With room for more or other requests, as far as the budget allows.
    Roomy,
    /// As large as the request, to the unit of alignment: for a driver that refused more.
    Exact,
}

/// Room that was set aside for a block that the driver is being asked for.
pub(crate) struct Growth {
    pub bytes: u64,
    page: bool,
    grant: u64,
}

/// How requests are rounded. The same for as long as the manager lives.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    alignment: u64,
    sub_allocation: bool,
    max_block_bytes: u64,
}

impl Sizes {
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        Sizes {
            alignment: capabilities.alignment,
            sub_allocation: capabilities.sub_allocation,
            max_block_bytes: capabilities.max_block_bytes,
        }
    }

    /// Bytes that a request of `bytes` takes.
    pub(crate) fn rounded(&self, bytes: u64) -> u64 {
        let aligned = round_up(bytes, self.alignment);
        if self.is_small(bytes) {
            return aligned;
        }
        // Half of the next power of two, which itself may be more than can be said.
        let octave = 1 << (aligned - 1).ilog2();
        let step = (octave / CLASSES_PER_OCTAVE).max(self.alignment);
        let fits = aligned.checked_add(step - 1).map(|most| most & !(step - 1));
        fits.unwrap_or(u64::MAX).min(self.max_block_bytes)
    }

    /// How large memory is that serves a request of `bytes`, if at most `1 / share` of what the request takes is padding besides.
    fn serving(&self, bytes: u64, share: u64) -> RangeInclusive<u64> {
        let rounded = self.rounded(bytes);
        let spare = if self.is_small(bytes) { 0 } else { rounded / share };
        round_up(bytes, self.alignment)..=rounded.saturating_add(spare)
    }

    /// How large cached blocks are that serve a request: a larger one is better used than a new one made.
    fn serving_cached(&self, bytes: u64) -> RangeInclusive<u64> {
        self.serving(bytes, 4)
    }

    /// The same of memory that the device still uses: whoever takes it waits for that, so it is to fit well.
    pub(crate) fn serving_in_flight(&self, bytes: u64) -> RangeInclusive<u64> {
        self.serving(bytes, CLASSES_PER_OCTAVE)
    }

    fn is_small(&self, bytes: u64) -> bool {
        self.sub_allocation && bytes <= SMALL_BYTES && self.max_block_bytes >= PAGE_BYTES
    }
}

/// The next multiple of `unit`, a power of two: no division on the hot path.
fn round_up(bytes: u64, unit: u64) -> u64 {
    (bytes + (unit - 1)) & !(unit - 1)
}

/// Why there is no room for another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// It would pass the budget.
    Budget,
    /// The device allows no more blocks.
    Blocks,
}

/// A block on its way to the driver. Its bytes stay in `reserved` until [`Pool::freed`].
pub(crate) struct Leaving {
    pub native: Arc<NativeBlock>,
    pub bytes: u64,
}

struct Block {
    native: Arc<NativeBlock>,
    bytes: u64,
    live: u64,
    retired: u64,
    /// The allocator of a page; none for a whole block.
    page: Option<Allocator>,
}

/// Where a block counts: by the most alive of what it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Live,
    Retired,
    Cached,
}

impl Block {
    fn standing(&self) -> Standing {
        match (self.live, self.retired) {
            (0, 0) => Standing::Cached,
            (0, _) => Standing::Retired,
            _ => Standing::Live,
        }
    }
}

/// Counters that only ever grow; the engine adds to them where the pool does not know.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub allocations: u64,
    pub frees: u64,
    pub abandoned: u64,
    pub failed_allocations: u64,
    pub retries: u64,
    pub trims: u64,
    pub cache_hits: u64,
    pub teardown_errors: u64,
}

pub(crate) struct Pool {
    sizes: Sizes,
    max_blocks: u64,
    budget: Option<u64>,
    blocks: SlotMap<BlockKey, Block>,
    /// Cached grants that came back last. They are in no page and not in `whole` until they are settled.
    recent: Recent<Grant>,
    /// Cached whole blocks by size.
    whole: BTreeMap<u64, Vec<BlockKey>>,
    pages: Vec<BlockKey>,
    live: Usage,
    retired: Usage,
    cached: Usage,
    /// Set aside for blocks that the driver is being asked for.
    growing: Usage,
    /// Blocks on their way to the driver.
    leaving: Usage,
    peak_live: u64,
    peak_reserved: u64,
    /// Memory of the host engine in tensors: nothing that the pool reserves.
    pub adopted: Usage,
    pub counters: Counters,
}

impl Pool {
    pub(crate) fn new(capabilities: &Capabilities, budget: Option<u64>) -> Self {
        Pool {
            sizes: Sizes::new(capabilities),
            max_blocks: capabilities.max_blocks,
            budget,
            blocks: SlotMap::with_key(),
            recent: Recent::default(),
            whole: BTreeMap::new(),
            pages: Vec::new(),
            live: Usage::default(),
            retired: Usage::default(),
            cached: Usage::default(),
            growing: Usage::default(),
            leaving: Usage::default(),
            peak_live: 0,
            peak_reserved: 0,
            adopted: Usage::default(),
            counters: Counters::default(),
        }
    }

    pub(super) fn budget(&self) -> Option<u64> {
        self.budget
    }

    pub(super) fn max_blocks(&self) -> u64 {
        self.max_blocks
    }

    /// A grant from what the pool has. O(1) but for the page that a small one is cut from.
    pub(crate) fn take_cached(&mut self, bytes: u64) -> Option<Grant> {
        let rounded = self.sizes.rounded(bytes);
        let grant = match self.recent.take(rounded) {
            Some(grant) => {
                self.count_out(grant.key, grant.bytes);
                grant
            }
            None => self.take_settled(bytes, rounded).or_else(|| {
                // What came back last, in other sizes, may be what is missing.
                if self.settle_recent() { self.take_settled(bytes, rounded) } else { None }
            })?,
        };
        self.counters.cache_hits += 1;
        Some(grant)
    }

    fn take_settled(&mut self, bytes: u64, rounded: u64) -> Option<Grant> {
        let slice = if self.sizes.is_small(bytes) { self.take_slice(rounded) } else { None };
        slice.or_else(|| self.take_whole(self.sizes.serving_cached(bytes)))
    }

    /// The smallest cached whole block of so many bytes.
    fn take_whole(&mut self, bytes: RangeInclusive<u64>) -> Option<Grant> {
        let (&size, keys) = self.whole.range_mut(bytes).next()?;
        let key = keys.pop().expect("empty size classes are removed");
        if keys.is_empty() {
            self.whole.remove(&size);
        }
        Some(self.hand_out(key, None, 0, size))
    }

    fn take_slice(&mut self, bytes: u64) -> Option<Grant> {
        let units = u32::try_from(bytes / self.sizes.alignment).expect("small grants have few units");
        let mut at = self.pages.len();
        while at > 0 {
            at -= 1;
            let key = self.pages[at];
            let page = self.blocks[key].page.as_mut().expect("pages have an allocator");
            if let Some(slice) = page.allocate(units) {
                let offset = u64::from(slice.offset) * self.sizes.alignment;
                return Some(self.hand_out(key, Some(slice), offset, bytes));
            }
        }
        None
    }

    fn count_out(&mut self, key: BlockKey, bytes: u64) {
        self.cached.bytes -= bytes;
        self.live.bytes += bytes;
        self.restand(key, |block| block.live += 1);
    }

    fn hand_out(&mut self, key: BlockKey, slice: Option<Allocation>, offset: u64, bytes: u64) -> Grant {
        self.count_out(key, bytes);
        Grant { native: self.blocks[key].native.clone(), offset, bytes, after: None, key, slice }
    }

    /// Changes what a block holds and keeps the counts of blocks right.
    fn restand(&mut self, key: BlockKey, change: impl FnOnce(&mut Block)) {
        let block = &mut self.blocks[key];
        let before = block.standing();
        change(block);
        let after = block.standing();
        if before != after {
            self.count(before).blocks -= 1;
            self.count(after).blocks += 1;
        }
    }

    fn count(&mut self, standing: Standing) -> &mut Usage {
        match standing {
            Standing::Live => &mut self.live,
            Standing::Retired => &mut self.retired,
            Standing::Cached => &mut self.cached,
        }
    }

    /// Raises the peak of what lives: what was granted but for `idle` bytes. Answers how much more may live below the peak.
    pub(crate) fn raise_peak(&mut self, idle: u64) -> u64 {
        let live = self.live.bytes - idle;
        self.peak_live = self.peak_live.max(live);
        self.peak_live - live
    }

    pub(crate) fn reserved(&self) -> Usage {
        self.live + self.retired + self.cached + self.growing + self.leaving
    }

    /// True while blocks are on their way to the driver: room will come.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.blocks > 0
    }

    /// What a trim would give back.
    pub(super) fn unused(&self) -> Usage {
        let cached = self.blocks.values().filter(|block| block.standing() == Standing::Cached);
        cached.fold(Usage::default(), |sum, block| sum + Usage { bytes: block.bytes, blocks: 1 })
    }

    /// Sets room aside for a new block that serves a request of `bytes`.
    pub(crate) fn plan_growth(&mut self, bytes: u64, fit: Fit) -> Result<Growth, NoRoom> {
        let reserved = self.reserved();
        if reserved.blocks >= self.max_blocks {
            return Err(NoRoom::Blocks);
        }
        let left = self.budget.unwrap_or(u64::MAX).saturating_sub(reserved.bytes);
        let exact = round_up(bytes, self.sizes.alignment);
        let page = self.sizes.is_small(bytes);
        let size = match fit {
            Fit::Exact => exact,
            Fit::Roomy if page => {
                // Near the budget a page shrinks, down to what is asked for.
                let mut size = PAGE_BYTES;
                while size > left && size / 2 >= exact {
                    size /= 2;
                }
                size.max(exact)
            }
            Fit::Roomy => Some(self.sizes.rounded(bytes)).filter(|rounded| *rounded <= left).unwrap_or(exact),
        };
        if size > left {
            return Err(NoRoom::Budget);
        }
        self.growing = self.growing + Usage { bytes: size, blocks: 1 };
        // What the request fills whole is no page: it has nothing to cut.
        let page = page && size > exact;
        Ok(Growth { bytes: size, page, grant: if page { exact } else { size } })
    }

    /// The driver gave the block: it serves the request that it was planned for.
    pub(crate) fn commit(&mut self, growth: Growth, native: NativeBlock) -> Grant {
        self.growing = Usage { bytes: self.growing.bytes - growth.bytes, blocks: self.growing.blocks - 1 };
        self.cached = self.cached + Usage { bytes: growth.bytes, blocks: 1 };
        self.peak_reserved = self.peak_reserved.max(self.reserved().bytes);
        self.counters.allocations += 1;
        let page = growth.page.then(|| {
            let units = u32::try_from(growth.bytes / self.sizes.alignment).expect("pages have few units");
            // Its last node is never used, and a full page has one of no size beside those of its units.
            Allocator::with_max_allocs(units, units + 2)
        });
        let key = self.blocks.insert(Block {
            native: Arc::new(native),
            bytes: growth.bytes,
            live: 0,
            retired: 0,
            page,
        });
        if growth.page {
            self.pages.push(key);
            self.take_slice(growth.grant).expect("a new page has room for what it was made for")
        } else {
            self.hand_out(key, None, 0, growth.grant)
        }
    }

    /// The driver refused: as if nothing had been planned (L19).
    pub(crate) fn rollback(&mut self, growth: &Growth) {
        self.growing = Usage { bytes: self.growing.bytes - growth.bytes, blocks: self.growing.blocks - 1 };
    }

    /// The tensor is gone, the device may still be busy.
    pub(crate) fn retire(&mut self, grant: &Grant) {
        self.live.bytes -= grant.bytes;
        self.retired.bytes += grant.bytes;
        self.restand(grant.key, |block| {
            block.live -= 1;
            block.retired += 1;
        });
    }

    /// Another tensor has what the device still uses for one that is gone.
    pub(crate) fn resume(&mut self, grant: &Grant) {
        self.retired.bytes -= grant.bytes;
        self.live.bytes += grant.bytes;
        self.restand(grant.key, |block| {
            block.retired -= 1;
            block.live += 1;
        });
    }

    /// The device has finished: the grant goes back to the cache.
    pub(crate) fn reclaim(&mut self, grant: Grant) {
        self.retired.bytes -= grant.bytes;
        self.restand(grant.key, |block| block.retired -= 1);
        self.keep(grant);
    }

    /// The tensor is gone and the device is not using it: retired and reclaimed in one.
    pub(crate) fn release(&mut self, grant: Grant) {
        self.live.bytes -= grant.bytes;
        self.restand(grant.key, |block| block.live -= 1);
        self.keep(grant);
    }

    fn keep(&mut self, grant: Grant) {
        self.cached.bytes += grant.bytes;
        if let Some(surplus) = self.recent.keep(grant.bytes, grant) {
            self.settle(surplus);
        }
    }

    /// Settles all that came back last. True if there was anything.
    fn settle_recent(&mut self) -> bool {
        let recent = self.recent.take_all();
        let any = !recent.is_empty();
        recent.into_iter().for_each(|grant| self.settle(grant));
        any
    }

    /// Gives a cached grant back to its page, or to the whole blocks.
    fn settle(&mut self, grant: Grant) {
        let Grant { native, bytes, key, slice, .. } = grant;
        drop(native);
        match slice {
            Some(slice) => self.blocks[key].page.as_mut().expect("slices come from pages").free(slice),
            None => self.whole.entry(bytes).or_default().push(key),
        }
    }

    /// Takes unused blocks out, largest first, until `cached` is at most `keep` bytes.
    pub(crate) fn take_unused(&mut self, keep: u64) -> Vec<Leaving> {
        self.settle_recent();
        let mut leaving = Vec::new();
        while self.cached.bytes > keep {
            let Some((&size, keys)) = self.whole.iter_mut().next_back() else { break };
            let key = keys.pop().expect("empty size classes are removed");
            if keys.is_empty() {
                self.whole.remove(&size);
            }
            leaving.push(self.take_out(key));
        }
        let mut at = self.pages.len();
        while at > 0 && self.cached.bytes > keep {
            at -= 1;
            let key = self.pages[at];
            if self.blocks[key].standing() == Standing::Cached {
                self.pages.swap_remove(at);
                leaving.push(self.take_out(key));
            }
        }
        leaving
    }

    fn take_out(&mut self, key: BlockKey) -> Leaving {
        let block = self.blocks.remove(key).expect("unused blocks are in the pool");
        let usage = Usage { bytes: block.bytes, blocks: 1 };
        self.cached = Usage { bytes: self.cached.bytes - usage.bytes, blocks: self.cached.blocks - 1 };
        self.leaving = self.leaving + usage;
        Leaving { native: block.native, bytes: block.bytes }
    }

    /// A block has arrived at the driver, or was abandoned with a lost device.
    pub(crate) fn freed(&mut self, bytes: u64, abandoned: bool) {
        self.leaving = Usage { bytes: self.leaving.bytes - bytes, blocks: self.leaving.blocks - 1 };
        if abandoned {
            self.counters.abandoned += 1;
        } else {
            self.counters.frees += 1;
        }
    }

    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cached.bytes
    }

    pub(crate) fn report(&mut self) -> MemoryReport {
        self.settle_recent();
        let whole = self.whole.keys().next_back().copied().unwrap_or(0);
        let slice = self
            .pages
            .iter()
            .filter_map(|key| self.blocks[*key].page.as_ref())
            .map(|page| u64::from(page.storage_report().largest_free_region) * self.sizes.alignment)
            .max()
            .unwrap_or(0);
        MemoryReport {
            live: self.live,
            retired: self.retired,
            // What is on its way in or out is nobody's: it counts as cached, so that the sum is exact (L19).
            cached: self.cached + self.growing + self.leaving,
            reserved: self.reserved(),
            adopted: self.adopted,
            peak_live_bytes: self.peak_live,
            peak_reserved_bytes: self.peak_reserved,
            tensors: 0,
            allocations: self.counters.allocations,
            frees: self.counters.frees,
            abandoned: self.counters.abandoned,
            failed_allocations: self.counters.failed_allocations,
            retries: self.counters.retries,
            trims: self.counters.trims,
            cache_hits: self.counters.cache_hits,
            teardown_errors: self.counters.teardown_errors,
            largest_free_bytes: whole.max(slice),
            budget: self.budget,
        }
    }
}

#[cfg(test)]
mod tests;
