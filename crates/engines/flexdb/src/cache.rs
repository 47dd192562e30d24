//! The interval cache: which blocks stay in memory (Flex 5.2).
//!
//! A block is attached to the head of its interval's version. So a reader that finds the head has
//! the block, and no version has the block of another one. The cache only decides which blocks to
//! evict. A hand goes round the heads whose blocks it holds (CLOCK), passes by heads that were used
//! since its last visit, and takes the block of the next one. A head that a commit has replaced
//! disappears with its last reader, and its block with it.
//!
//! A head remembers how many bytes had been evicted when its block was (it is a *ghost*). So if it
//! is read again, the cache knows whether a larger cache would still have had it.
//!
//! Once blocks have no more room, the pairs that gets find in them are also kept as single pairs
//! ([`RowCache`]), in a part of the same share.
//!
//! # Invariants
//! - B1. After each call that adds something, blocks and pairs together take no more than the given
//!   share, as far as blocks can be evicted: no reader holds them, and they were not used
//!   meanwhile.
//! - B2. Blocks have no more than [`BlockMemory::loss_max`] resident in addition to the bytes that
//!   they may take. First the memory that no block uses is returned to the system, then more blocks
//!   are evicted.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use cache::RowCache;
use memory_budget::{Account, GHOST_PAGE_BYTES, GhostTable, MemoryBudget, MemoryGain};
use sync::Mutex;

use crate::block::{Block, BlockMemory};
use crate::index::Head;

/// Parts of the cache, each with a hand.
const RINGS: usize = 16;
/// A cache of fewer bytes has no room for a usual interval: a larger one would keep whatever is
/// read.
const STARVED_BYTES: u64 = BLOCK_PARTS * (16 << 10);
/// No block takes more than this part of the cache.
const BLOCK_PARTS: u64 = 8;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The memory of the blocks.
    pub(crate) memory: BlockMemory,
    rings: [Mutex<VecDeque<Weak<Head>>>; RINGS],
    next: AtomicUsize,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// Bytes evicted so far, and the bytes that the cache is imagined to have in addition.
    given_up: AtomicU64,
    ghost_reach: AtomicU64,
    /// Blocks that these additional bytes would have saved reading.
    ghost_hits: AtomicU64,
    /// The pairs that are kept in addition to blocks.
    pub(crate) pairs: RowCache,
    /// Bytes of blocks that were cached since the allocator was last asked to return freed memory.
    cached_bytes: AtomicU64,
}

impl Cache {
    /// An empty one within `budget`; whether it keeps pairs.
    pub(crate) fn new(budget: &Arc<MemoryBudget>, keeps_pairs: bool) -> Self {
        let (rings, next) = (std::array::from_fn(|_| Mutex::default()), AtomicUsize::new(0));
        let [hits, misses, given_up, ghost_reach, ghost_hits] = Default::default();
        let cached_bytes = AtomicU64::new(0);
        let part_max = if keeps_pairs { cache::PART_MAX } else { 0.0 };
        Self {
            memory: BlockMemory::new(Arc::new(Account::new(budget))),
            rings,
            next,
            hits,
            misses,
            given_up,
            ghost_reach,
            ghost_hits,
            pairs: RowCache::new(GhostTable::within(budget), budget, part_max),
            cached_bytes,
        }
    }

    /// Bytes of all blocks that are held anywhere, and of pairs.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.bytes() + self.pairs.bytes()
    }

    /// Bytes of the ghosts of evicted pairs.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        self.pairs.ghost_bytes()
    }

    /// From now on counts the reads that `bytes` more bytes would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.ghost_reach.store(self.pairs.divide_ghost_reach(bytes), Relaxed);
    }

    /// Returns the blocks of the device whose reads the additional memory would have saved so far.
    /// A read that more blocks or more pairs would have saved is counted for both.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.ghost_hits.load(Relaxed) + self.pairs.ghost_hits()
    }

    /// Keeps the pair that a get found below memtables in the state of this number, if blocks have
    /// no room any more, and makes room for it.
    pub(crate) fn keep_pair(&self, number: u64, key: &[u8], value: &[u8], share: u64) {
        if self.has_room(share) {
            return;
        }
        self.fit_pairs(share, false);
        if self.pairs.keep(number, key, number, value) {
            self.shrink_blocks(share);
        }
    }

    /// Counts intervals that were read for scans.
    pub(crate) fn note_walked(&self, intervals: usize, share: u64) {
        // As for gets, a walk counts only if blocks have no room.
        if !self.has_room(share) {
            self.pairs.note_walked(intervals as u64);
        }
    }

    /// Returns the moment, in pages evicted; never 0.
    fn moment(&self) -> u32 {
        ((self.given_up.load(Relaxed) / GHOST_PAGE_BYTES) as u32).max(1)
    }

    /// Counts an interval that was read again.
    fn note_read(&self, head: &Head, block: &Block) {
        let Some(gone) = head.take_ghost() else { return };
        let age = u64::from(self.moment().wrapping_sub(gone.get()));
        if age < self.ghost_reach.load(Relaxed) / GHOST_PAGE_BYTES {
            self.ghost_hits.fetch_add(MemoryGain::blocks(block.memory_bytes()), Relaxed);
        }
    }

    /// Keeps a block, if it is not too large for a cache of `share` bytes, and makes room for it.
    pub(crate) fn insert(&self, head: &Arc<Head>, block: &Arc<Block>, share: u64) {
        self.note_read(head, block);
        let is_due = self.pairs.note_block();
        self.fit_pairs(share, is_due);
        if block.memory_bytes() > share / BLOCK_PARTS {
            if share < STARVED_BYTES {
                self.ghost_hits.fetch_add(MemoryGain::blocks(block.memory_bytes()), Relaxed);
            }
            return;
        }
        if head.cache(block) {
            let mut ring = self.next_ring().lock();
            if ring.len() == ring.capacity() {
                ring.retain(|head| head.upgrade().is_some_and(|head| head.is_cached()));
            }
            ring.push_back(Arc::downgrade(head));
        }
        self.shrink_blocks(share);
    }

    /// Counts the bytes of a block that was cached. If they make more than `many`, the count begins
    /// again, and this returns true: the allocator has to return freed memory.
    pub(crate) fn note_cached(&self, bytes: u64, many: u64) -> bool {
        let cached = self.cached_bytes.fetch_add(bytes, Relaxed) + bytes;
        cached > many && self.cached_bytes.swap(0, Relaxed) > many
    }

    /// Fits pairs to their part of the share, if that is due or they have more than the largest
    /// part.
    fn fit_pairs(&self, share: u64, is_due: bool) {
        if is_due || self.pairs.bytes() > (share as f64 * cache::PART_MAX) as u64 {
            self.pairs.fit(share);
        }
    }

    /// Evicts pairs and blocks above `share`, which may have become less.
    pub(crate) fn shrink(&self, share: u64) {
        self.pairs.fit(share);
        self.shrink_blocks(share);
    }

    /// Evicts blocks until blocks and pairs together have no more than `share` bytes, or each block
    /// was visited twice. Pairs keep their part.
    pub(crate) fn shrink_blocks(&self, share: u64) {
        let share = share.saturating_sub(self.pairs.bytes());
        for _ in 0..2 * RINGS {
            let excess = self.memory.bytes().saturating_sub(share);
            if excess == 0 {
                break;
            }
            self.give_up(excess);
        }
        let most = share + self.memory.loss_max();
        for _ in 0..2 * RINGS {
            let excess = self.memory.resident().saturating_sub(most);
            if excess == 0 {
                return;
            }
            if self.memory.release(excess) < excess {
                self.give_up(excess);
            }
        }
    }

    /// Advances the hand in one ring until it has evicted `bytes` bytes of blocks, or once round.
    fn give_up(&self, bytes: u64) {
        let (mut gone, mut gone_bytes) = (Vec::new(), 0);
        let mut ring = self.next_ring().lock();
        for _ in 0..ring.len() {
            if gone_bytes >= bytes {
                break;
            }
            let Some(weak) = ring.pop_front() else { break };
            let Some(head) = weak.upgrade() else { continue };
            if head.was_used() {
                ring.push_back(weak);
            } else if let Some(block) = head.evict(self.moment()) {
                self.given_up.fetch_add(block.memory_bytes(), Relaxed);
                gone_bytes += block.memory_bytes();
                gone.push(block);
            }
        }
        // Their slots are free from now on.
        drop(ring);
        drop(gone);
    }

    /// Whether a block may be added without evicting another one.
    pub(crate) fn has_room(&self, share: u64) -> bool {
        self.bytes() < share - share / BLOCK_PARTS
    }

    fn next_ring(&self) -> &Mutex<VecDeque<Weak<Head>>> {
        &self.rings[self.next.fetch_add(1, Relaxed) % RINGS]
    }
}
