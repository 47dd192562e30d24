//! The cache of blocks and metadata of all tables of a store, and of single pairs ([`RowCache`]).
//!
//! It takes the memory that is left for it: more if memtables leave some of theirs for a while
//! ([`CacheShare`]). Writers make it shrink ([`Cache::shrink_for_writers`]).
//!
//! It has many clocks: a piece that is looked up gets a second chance when the hand passes it. A
//! new block has none, so a long scan evicts the blocks that it has read itself, and little else.
//! Each clock has room for many of the largest metadata, or there are fewer clocks. If only some
//! fitted, clocks that by chance have more of them would evict these at each lookup, while others
//! have room.
//!
//! Blocks and metadata are in memory of their own ([`arena::pieces`]), whose resident bytes are
//! known. The gaps between pieces are the cache's, too: it holds fewer pieces. Memory is returned
//! only if a whole page of the system is free, so a request for memory evicts a few pieces more
//! than its length.
//!
//! Recently evicted pieces are remembered as hashes (*ghosts*): each of them that is read again
//! counts as a read that a larger cache would have saved.
//!
//! # Invariants
//! - C1. The budget counts the resident bytes of the pool, the bytes that pieces take outside it,
//!   and the ghosts' table. So it also counts an evicted piece as long as a reader uses it.
//! - C2. After an insertion the cache is not above its capacity, unless it is empty or readers use
//!   pieces that it has evicted. The capacity moves with the budget and with the memtables' bytes,
//!   and is computed each time.
//! - C3. After memory was reserved for a write, blocks and pairs take no more than memtables leave.
//!
//! # Concurrency
//! Each clock has one lock; no thread holds two. A piece that is inserted while the number of
//! clocks changes may end up in a clock where no lookup searches for it. Then it is read again, and
//! later evicted.

mod clock;
mod clocks;
mod evictions;
mod figures;
mod share;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arena::pieces::{self, Pool};
use cache::RowCache;
use codec::SeqNo;
use memory_budget::{GhostTable, MemoryBudget, MemoryGain};
use memtable::MemtableMemory;

use crate::background::release::Freed;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use clocks::Clocks;
use evictions::Evictions;
use figures::LookupCounts;
use lsm_tree::cache::{Cached, Key, PieceCache};
use lsm_tree::table::{Held, Home};
use lsm_tree::walk_lengths::WalkLengths;
use share::CacheShare;

/// Pieces of the largest metadata that a clock has room for: how many one of 16 clocks gets varies
/// by chance.
const METADATA_A_CLOCK: u64 = 16;
/// Bytes that an entry takes besides its content: its slot, its place in a map that is two thirds
/// full, two counts, and the allocator's overhead.
const ENTRY_OVERHEAD_BYTES: u64 = 128;
/// Parts of the budget of which a slab of the pool may be one, and its bytes at least and at most.
const SLAB_PARTS: u64 = 256;
const SLAB_BYTES_MIN: u64 = 64 << 10;
const SLAB_BYTES_MAX: u64 = 4 << 20;
/// Most pieces that are evicted for a new one, so that it finds a free place.
const GIVEN_UP_MAX: usize = 4;
/// The measures of a piece in the cache.
trait Measured: Sized {
    /// Returns the bytes that it takes, with its entry.
    fn bytes(&self) -> u64;
    /// Returns the same piece at another place of the pool.
    fn copied(&self, home: Home<'_>) -> Self;
    /// Sets the mark by which the pool knows it.
    fn mark(&self, mark: u64);
    /// Returns whether both are the same piece, at the same place.
    fn is(&self, other: &Self) -> bool;
    /// Returns its bytes that are not in the pool.
    fn beside(&self) -> u64;
}

impl Measured for Cached {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Block(block) => block.memory(),
            Self::Metadata(metadata) => metadata.memory(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }

    fn copied(&self, home: Home<'_>) -> Self {
        match self {
            Self::Block(block) => Self::Block(Arc::new(block.copied(home))),
            Self::Metadata(metadata) => Self::Metadata(Arc::new(metadata.copied(home))),
        }
    }

    fn mark(&self, mark: u64) {
        match self {
            Self::Block(block) => block.mark(mark),
            Self::Metadata(metadata) => metadata.mark(mark),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Block(one), Self::Block(other)) => Arc::ptr_eq(one, other),
            (Self::Metadata(one), Self::Metadata(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn beside(&self) -> u64 {
        let pooled = match self {
            Self::Block(block) => block.pooled(),
            Self::Metadata(metadata) => metadata.pooled(),
        };
        self.bytes() - pooled as u64
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    clocks: Clocks,
    pool: Pool,
    /// Bytes of all pieces in clocks, and their bytes that are not in the pool.
    held: AtomicU64,
    beside: AtomicU64,
    share: CacheShare,
    lookups: LookupCounts,
    pairs: RowCache,
    walk_lengths: WalkLengths,
    /// Bytes of the metadata of all tables, and of the largest.
    metadata_bytes: AtomicU64,
    metadata_bytes_max: AtomicU64,
    evictions: Evictions,
}

impl Cache {
    /// Makes an empty cache within `budget`, next to these memtables.
    pub(crate) fn new(
        budget: &Arc<MemoryBudget>,
        options: &Options,
        memtables: &Arc<MemtableMemory>,
    ) -> Self {
        let slab_bytes = (budget.limit() / SLAB_PARTS).clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX);
        let pairs_part_max = if options.pairs { cache::PART_MAX } else { 0.0 };
        Self {
            clocks: Clocks::new(),
            pool: Pool::metered(slab_bytes as usize, Arc::clone(budget) as Arc<dyn pieces::Meter>),
            held: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            share: CacheShare::new(budget, options, memtables),
            lookups: LookupCounts::default(),
            pairs: RowCache::new(GhostTable::within(budget), budget, pairs_part_max),
            walk_lengths: WalkLengths::default(),
            metadata_bytes: AtomicU64::new(0),
            metadata_bytes_max: AtomicU64::new(0),
            evictions: Evictions::new(budget),
        }
    }

    /// Returns memory for a piece of `len` bytes that was read. If the cache would have too much,
    /// it evicts other pieces and reuses their memory.
    fn piece(&self, len: usize) -> pieces::Piece {
        let capacity = self.capacity();
        let mut grown = self.pairs.blocks() as usize;
        for _ in 0..GIVEN_UP_MAX {
            let bytes = self.bytes().saturating_sub(self.pool.idle()) + len as u64;
            if bytes <= capacity || self.pool.has_room(len) {
                break;
            }
            grown += 1;
            if !self.give_up_one(grown) {
                break;
            }
        }
        self.pool.take(len)
    }

    /// Evicts all pieces above the capacity, which may have become less.
    pub(crate) fn shrink(&self) {
        self.fit_pairs();
        self.fit_clocks();
        self.shrink_to(self.capacity(), 0);
    }

    /// Releases bytes that memtables had left and need now.
    pub(crate) fn shrink_for_writers(&self, split: &MemorySplit) {
        let share = self.share.claim_for_writers(split);
        let holds = self.bytes() + self.pairs.bytes();
        if holds <= share {
            return;
        }
        self.fit_pairs_in(share);
        self.shrink_to(share.saturating_sub(self.pairs.bytes()), 0);
        self.evictions.freed.release_soon();
    }

    /// Returns whether it holds no more than it may.
    pub(crate) fn is_within_capacity(&self) -> bool {
        self.bytes() <= self.capacity()
    }

    /// Returns the bytes that it may hold: its share, and no more than others leave of the budget.
    fn capacity(&self) -> u64 {
        let limit = self.share.budget.limit();
        let others = self.share.budget.used().saturating_sub(self.bytes());
        self.share.bytes().saturating_sub(self.pairs.bytes()).min(limit.saturating_sub(others))
    }

    /// Returns the pairs that are kept next to blocks.
    pub(crate) fn pairs(&self) -> &RowCache {
        &self.pairs
    }

    /// Keeps a pair that a get found in the tables of version `version`, and evicts blocks for it.
    pub(crate) fn keep_pair(&self, version: u64, key: &[u8], seqno: SeqNo, value: &[u8]) {
        if self.pairs.keep(version, key, seqno.get(), value) {
            self.shrink_to(self.capacity(), 0);
        }
    }

    /// Notes the bytes of all tables' metadata, for which there is to be room next to pairs, and of
    /// the largest. The number of clocks does not follow before [`Cache::fit_clocks`].
    pub(crate) fn note_metadata(&self, bytes: u64, bytes_max: u64) {
        self.metadata_bytes.store(bytes, Relaxed);
        self.metadata_bytes_max.store(bytes_max, Relaxed);
        self.fit_pairs();
    }

    /// Uses fewer clocks if one has too little room for metadata, and more if it has more than
    /// enough.
    pub(crate) fn fit_clocks(&self) {
        let bytes = self.share.own_bytes().saturating_sub(self.pairs.bytes());
        let least =
            METADATA_A_CLOCK * (self.metadata_bytes_max.load(Relaxed) + ENTRY_OVERHEAD_BYTES);
        self.clocks.fit(bytes, least, &|bytes, beside| self.count_off(bytes, beside));
    }

    /// Gives pairs their part of the bytes that metadata leave.
    fn fit_pairs(&self) {
        self.fit_pairs_in(self.share.bytes());
    }

    fn fit_pairs_in(&self, share: u64) {
        self.pairs.fit(share.saturating_sub(self.metadata_bytes.load(Relaxed)));
    }

    /// Evicts pieces above `capacity`, and returns their memory, but no more than necessary, since
    /// the next pieces fill it. Each time that a slab's bytes have become free between pieces, the
    /// pieces are drawn together.
    fn shrink_to(&self, capacity: u64, grown: usize) {
        let (mut victim, mut free_at_last) = (grown, 0);
        while self.bytes().saturating_sub(self.pool.idle()) > capacity {
            let free = self.free_between_pieces();
            if free >= free_at_last + self.pool.slab_bytes() as u64 {
                if self.draw_together() {
                    continue;
                }
                free_at_last = free;
            }
            if !self.give_up_one(victim) {
                break;
            }
            victim += 1;
        }
        let above = self.bytes().saturating_sub(capacity);
        if above > 0 {
            self.pool.release(above);
        }
    }

    /// Returns the free bytes of the pool on pages that have pieces.
    fn free_between_pieces(&self) -> u64 {
        self.pool.resident().saturating_sub(self.pool.idle() + self.pool.used())
    }

    /// Copies the pieces of a slab to places that others have left, so that it is idle. Returns
    /// whether less is in use then.
    fn draw_together(&self) -> bool {
        let in_use = || self.pool.resident().saturating_sub(self.pool.idle());
        let (before, mut marks) = (in_use(), Vec::new());
        self.pool.sparse(&mut marks);
        // Metadata have two pieces.
        marks.sort_unstable();
        marks.dedup();
        for mark in marks {
            let Some(old) = self.clocks.at(mark) else { continue };
            let new = old.copied(Home::Cache(self));
            let (bytes, bytes_before) = (new.bytes(), old.bytes());
            let left_over = self.clocks.replace(mark, &old, new);
            if left_over.is_some_and(|left_over| left_over.is(&old)) {
                self.held.fetch_add(bytes, Relaxed);
                self.held.fetch_sub(bytes_before, Relaxed);
            }
        }
        in_use() < before
    }

    /// Evicts a piece of the first clock from the `grown`th on that has its part of all bytes.
    /// Returns whether there was one.
    fn give_up_one(&self, grown: usize) -> bool {
        let evicted = self.clocks.evict(grown, self.held.load(Relaxed));
        let Some(slot) = evicted else { return false };
        let (bytes, beside) = self.evictions.drop_piece(slot);
        self.count_off(bytes, beside);
        true
    }

    /// Counts a piece in a clock: `bytes` bytes, of which `beside` are not counted by the pool.
    fn count(&self, bytes: u64, beside: u64) {
        self.share.budget.charge_anyway(beside);
        self.held.fetch_add(bytes, Relaxed);
        self.beside.fetch_add(beside, Relaxed);
    }

    fn count_off(&self, bytes: u64, beside: u64) {
        self.share.budget.release(beside);
        self.held.fetch_sub(bytes, Relaxed);
        self.beside.fetch_sub(beside, Relaxed);
    }

    /// Returns the count of memory that it has freed.
    pub(crate) fn freed(&self) -> &Arc<Freed> {
        &self.evictions.freed
    }
}

impl PieceCache for Cache {
    fn get(&self, key: &Key) -> Option<Cached> {
        let found = self.clocks.lookup(key);
        self.lookups.note(key, found.is_some());
        found
    }

    fn has(&self, key: &Key) -> bool {
        self.clocks.has(key)
    }

    fn memory(&self, len: usize) -> Held {
        Held::Pooled(self.piece(len))
    }

    fn insert(&self, key: Key, cached: Cached) {
        let (bytes, beside) = (cached.bytes(), cached.beside());
        self.evictions.ghosts.note_read(key.hash(), MemoryGain::blocks(bytes));
        self.share.note_read(bytes);
        if self.pairs.note_block() {
            self.fit_pairs();
        }
        let capacity = self.capacity();
        if bytes > capacity {
            return;
        }
        // Counted before it is there: a thread that evicts it subtracts it.
        self.count(bytes, beside);
        let index = self.clocks.index_of(&key);
        if !self.clocks.add(index, key, cached) {
            self.count_off(bytes, beside);
        }
        self.shrink_to(capacity, index);
        self.evictions.freed.release_soon();
    }

    fn note_walked(&self, blocks: u64) {
        self.pairs.note_walked(blocks);
    }

    fn walk_lengths(&self) -> &WalkLengths {
        &self.walk_lengths
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        &self.share.budget
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.share.budget.release(self.beside.load(Relaxed));
    }
}
