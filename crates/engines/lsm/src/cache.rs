//! The cache of blocks and metadata of all tables of a store, and of single pairs ([`pairs`]),
//! within the memory that is left for it: more of it where memtables leave some of theirs for a while ([`claim`]). Who
//! writes has it give way ([`Cache::give_way`]).
//!
//! Many clocks: what is looked up gets a second chance when the hand comes by. A new block has
//! none, so a long scan pushes out what it has read itself, and little else. Each has room for many of the
//! largest metadata, or there are fewer: where only some would fit, clocks that have got more of them by
//! chance would give them up to each other, at each look-up, while others have room.
//!
//! Blocks and metadata lie in memory of their own ([`sync::pieces`]), of which it is known what is resident. What of it
//! is between pieces is the cache's, too: it holds fewer. Memory comes back from it where a whole page of the
//! system is free, so whoever needs some has a few pieces more given up than it is long.
//!
//! What was given up not long ago is remembered as hashes (*ghosts*): whatever of it is read again tells
//! what a larger cache would have saved.
//!
//! # Invariants
//! - C1. What the budget counts is what is resident of the pool, what pieces take beside it, and the ghosts' table.
//!   So it counts a piece that was given up, too, as long as anybody reads in it.
//! - C2. After an insertion the cache is not above its capacity, unless it is empty or others read in what it gave
//!   up. The capacity moves with the budget and with what memtables take, and is asked for each time.
//! - C3. After memory was set aside for a write, blocks and pairs take no more than what memtables leave.
//!
//! # Concurrency
//! One lock a clock; no two are held at once. What comes while the number of clocks changes may end up in a
//! clock where nobody looks for it: it is read again then, and given up in its turn.

mod claim;
mod clock;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use codec::SeqNo;
use engine::{Charge, Ghosts, MemoryBudget, MemoryGain};
use pairs::Pairs;
use sync::locks::Mutex;
use sync::pieces::{self, Pool};

use crate::background::give_back::Freed;
use crate::memory_split::MemorySplit;
use crate::memtable::Family;
use crate::options::Options;
use crate::table::{Block, Home, Metadata};
use claim::Claim;
use clock::Clock;

/// Clocks, at most; a power of two, as their number always is.
const CLOCKS_MAX: usize = 16;
/// The largest metadata that a clock has room for: how many come to one of 16 clocks varies by chance.
const METADATA_A_CLOCK: u64 = 16;
/// What an entry takes beside what it holds: its slot, its place in a map that is two thirds full, two counts, and
/// what the allocator has of it.
const ENTRY_OVERHEAD_BYTES: u64 = 128;
/// Of the budget that a store is opened with, what the ghosts of blocks take, and those of pairs; and the
/// entries of each, at least and at most.
const GHOSTS_SHARE: u64 = 4096;
const GHOSTS_MIN: u64 = 64;
const GHOSTS_MAX: u64 = 1 << 16;
/// Bytes given up that are one page to the ghosts.
const GHOST_PAGE_BYTES: u64 = 4096;
/// A part of the budget that the cache gives up at once, so that not every write has it give way.
const WAY_PARTS: u64 = 256;
/// Part of the budget that is read in between two looks at what memtables need no more.
const TURN_PARTS: u64 = 2;
/// Pieces that come in between two looks at how much pairs should have.
const INSERTIONS_A_ROUND: u64 = 256;
/// Parts of the budget of which a slab of the pool may be one, and its bytes at least and at most.
const SLAB_PARTS: u64 = 256;
const SLAB_BYTES_MIN: u64 = 64 << 10;
const SLAB_BYTES_MAX: u64 = 4 << 20;
/// Pieces that are given up for a new one, at most, so that it finds a place that is free.
const GIVEN_UP_MAX: usize = 4;
/// Stands for the metadata where a fragment's number would be.
const METADATA: u32 = u32::MAX;

/// What is cached.
#[derive(Clone, Debug)]
pub(crate) enum Cached {
    Block(Arc<Block>),
    Metadata(Arc<Metadata>),
}

impl Cached {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Block(block) => block.memory(),
            Self::Metadata(metadata) => metadata.memory(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }

    /// The same at another place of the pool.
    fn copied(&self, home: Home<'_>) -> Self {
        match self {
            Self::Block(block) => Self::Block(Arc::new(block.copied(home))),
            Self::Metadata(metadata) => Self::Metadata(Arc::new(metadata.copied(home))),
        }
    }

    /// Has the pool know it by this.
    fn mark(&self, mark: u64) {
        match self {
            Self::Block(block) => block.mark(mark),
            Self::Metadata(metadata) => metadata.mark(mark),
        }
    }

    /// Whether both are the same piece, at the same place.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Block(one), Self::Block(other)) => Arc::ptr_eq(one, other),
            (Self::Metadata(one), Self::Metadata(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Of these, what does not lie in the pool.
    fn beside(&self) -> u64 {
        let pooled = match self {
            Self::Block(block) => block.pooled(),
            Self::Metadata(metadata) => metadata.pooled(),
        };
        self.bytes() - pooled as u64
    }
}

/// Which piece of which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    table: u64,
    fragment: u32,
    offset: u64,
}

impl Key {
    /// A data block.
    pub(crate) fn block(table: u64, fragment: u32, offset: u64) -> Self {
        Self { table, fragment, offset }
    }

    /// A table's metadata.
    pub(crate) fn metadata(table: u64) -> Self {
        Self { table, fragment: METADATA, offset: 0 }
    }

    fn hash(&self) -> u64 {
        let mut bytes = [0; 20];
        let (table, rest) = bytes.split_at_mut(8);
        let (fragment, offset) = rest.split_at_mut(4);
        table.copy_from_slice(&self.table.to_le_bytes());
        fragment.copy_from_slice(&self.fragment.to_le_bytes());
        offset.copy_from_slice(&self.offset.to_le_bytes());
        codec::hash64(0, &bytes)
    }

    /// Its clock of so many.
    fn clock(&self, clocks: usize) -> usize {
        self.hash() as usize % clocks
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Of which the first ones are used.
    clocks: Vec<Mutex<Clock>>,
    used: AtomicUsize,
    /// Whoever changes their number.
    fitting: Mutex<()>,
    pool: Pool,
    /// Bytes of all pieces in clocks, and of these what does not lie in the pool.
    held: AtomicU64,
    beside: AtomicU64,
    budget: Arc<MemoryBudget>,
    memtables: Arc<Family>,
    claim: Claim,
    options: Options,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Of these, metadata.
    metadata_misses: AtomicU64,
    pairs: Pairs,
    /// Bytes of the metadata of all tables, and of the largest.
    metadata_bytes: AtomicU64,
    metadata_bytes_max: AtomicU64,
    /// Pieces that came in.
    insertions: AtomicU64,
    ghosts: Ghosts,
    _of_ghosts: Charge,
    /// Bytes given up so far.
    given_up: AtomicU64,
    freed: Arc<Freed>,
}

impl Cache {
    /// An empty cache within `budget`, beside these memtables.
    pub(crate) fn new(
        budget: &Arc<MemoryBudget>,
        options: &Options,
        memtables: &Arc<Family>,
    ) -> Self {
        let entries = budget.limit() / GHOSTS_SHARE / size_of::<u64>() as u64;
        let entries = entries.clamp(GHOSTS_MIN, GHOSTS_MAX).next_power_of_two();
        let (ghosts, of_pairs) = (Ghosts::new(entries as usize), Ghosts::new(entries as usize));
        let mut of_ghosts = Charge::new(budget);
        of_ghosts.set(2 * ghosts.bytes() as usize);
        let slab_bytes = (budget.limit() / SLAB_PARTS).clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX);
        let pairs_part_max = if options.pairs { pairs::PART_MAX } else { 0.0 };
        Self {
            clocks: (0..CLOCKS_MAX).map(|index| Mutex::new(Clock::new(index))).collect(),
            used: AtomicUsize::new(CLOCKS_MAX),
            fitting: Mutex::default(),
            pool: Pool::metered(slab_bytes as usize, Arc::clone(budget) as Arc<dyn pieces::Meter>),
            held: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            budget: Arc::clone(budget),
            memtables: Arc::clone(memtables),
            claim: Claim::default(),
            options: options.clone(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            metadata_misses: AtomicU64::new(0),
            pairs: Pairs::new(of_pairs, budget, pairs_part_max),
            metadata_bytes: AtomicU64::new(0),
            metadata_bytes_max: AtomicU64::new(0),
            insertions: AtomicU64::new(0),
            ghosts,
            _of_ghosts: of_ghosts,
            given_up: AtomicU64::new(0),
            freed: Freed::new(budget),
        }
    }

    /// What is there of `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<Cached> {
        let found = self.clock(key.clock(self.used()))?.lock().look_up(key);
        if found.is_some() {
            self.hits.fetch_add(1, Relaxed);
        } else {
            self.misses.fetch_add(1, Relaxed);
            self.metadata_misses.fetch_add(u64::from(key.fragment == METADATA), Relaxed);
        }
        found
    }

    /// Whether it has `key`. Counts as no look-up.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.clock(key.clock(self.used())).is_some_and(|clock| clock.lock().has(key))
    }

    /// Memory for a piece of `len` bytes that was read. Where there would be too much, that of others, which
    /// are given up for it.
    pub(crate) fn piece(&self, len: usize) -> pieces::Piece {
        let capacity = self.capacity();
        let mut grown = self.insertions.load(Relaxed) as usize;
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

    /// Keeps `cached`, which was read, and gives up others for it.
    pub(crate) fn insert(&self, key: Key, cached: Cached) {
        let (bytes, beside) = (cached.bytes(), cached.beside());
        self.ghosts.note_read(key.hash(), MemoryGain::blocks(bytes));
        let turn = self.budget.limit() / TURN_PARTS;
        self.claim.note_read(bytes, self.memtables.taken(), turn);
        if self.insertions.fetch_add(1, Relaxed).is_multiple_of(INSERTIONS_A_ROUND) {
            self.fit_pairs();
        }
        let capacity = self.capacity();
        if bytes > capacity {
            return;
        }
        // Counted before it is there: whoever gives it up again takes it off.
        self.count(bytes, beside);
        let index = key.clock(self.used());
        let is_new = self.clock(index).is_some_and(|clock| clock.lock().add(key, cached));
        if !is_new {
            self.count_off(bytes, beside);
        }
        self.shrink_to(capacity, index);
        self.freed.give_back_soon();
    }

    /// Gives up what is above the capacity, which may have become less.
    pub(crate) fn shrink(&self) {
        self.fit_pairs();
        self.fit_clocks();
        self.shrink_to(self.capacity(), 0);
    }

    /// Gives up what memtables have left and need now.
    pub(crate) fn give_way(&self, split: &MemorySplit) {
        let step = self.budget.limit() / WAY_PARTS;
        let claimed = self.claim.note_taken(self.memtables.taken(), step);
        let (share, holds) = (split.cache_beside(claimed), self.bytes() + self.pairs.bytes());
        if holds <= share {
            return;
        }
        self.fit_pairs_in(share);
        self.shrink_to(share.saturating_sub(self.pairs.bytes()), 0);
        self.freed.give_back_soon();
    }

    /// Whether it holds no more than it may.
    pub(crate) fn is_within_capacity(&self) -> bool {
        self.bytes() <= self.capacity()
    }

    /// What it may hold: its share, and no more than others leave of the budget.
    fn capacity(&self) -> u64 {
        let limit = self.budget.limit();
        let others = self.budget.used().saturating_sub(self.bytes());
        self.share().saturating_sub(self.pairs.bytes()).min(limit.saturating_sub(others))
    }

    /// What blocks and pairs may take.
    fn share(&self) -> u64 {
        let claimed = self.claim.beside(self.memtables.taken());
        MemorySplit::of(self.budget.limit(), &self.options).cache_beside(claimed)
    }

    /// The pairs that are kept beside blocks.
    pub(crate) fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// Keeps what a get found in the tables of the version of this number, and gives up blocks for it.
    pub(crate) fn keep_pair(&self, version: u64, key: &[u8], seqno: SeqNo, value: &[u8]) {
        let before = self.pairs.bytes();
        self.pairs.keep(version, key, seqno.get(), value);
        if self.pairs.bytes() > before {
            self.shrink_to(self.capacity(), 0);
        }
    }

    /// So many blocks were read for walks.
    pub(crate) fn note_walked(&self, blocks: u64) {
        self.pairs.note_walked(blocks);
    }

    /// The tables have so much metadata, for which there is to be room beside pairs, and the largest of
    /// them is so long. The clocks do not follow before [`Cache::fit_clocks`].
    pub(crate) fn note_metadata(&self, bytes: u64, bytes_max: u64) {
        self.metadata_bytes.store(bytes, Relaxed);
        self.metadata_bytes_max.store(bytes_max, Relaxed);
        self.fit_pairs();
    }

    /// Uses fewer clocks where one has too little room for metadata, and more where it has more than enough.
    pub(crate) fn fit_clocks(&self) {
        let share = MemorySplit::of(self.budget.limit(), &self.options).cache_bytes;
        let bytes = share.saturating_sub(self.pairs.bytes());
        let least =
            METADATA_A_CLOCK * (self.metadata_bytes_max.load(Relaxed) + ENTRY_OVERHEAD_BYTES);
        let fitting = |least: u64| -> usize {
            let clocks = (bytes / least).clamp(1, CLOCKS_MAX as u64);
            1 << clocks.ilog2()
        };
        let _fitting = self.fitting.lock();
        let used = self.used();
        // With twice the room at least, or they would come and go with every table.
        let wanted = fitting(least).min(used.max(fitting(2 * least)));
        if wanted != used {
            self.use_clocks(wanted);
        }
    }

    /// Uses so many clocks from now on.
    fn use_clocks(&self, clocks: usize) {
        self.used.store(clocks, Relaxed);
        for (index, clock) in self.clocks.iter().enumerate() {
            let elsewhere = clock.lock().take_others(|key| key.clock(clocks) == index);
            for slot in elsewhere {
                let (bytes, beside) = (slot.cached.bytes(), slot.cached.beside());
                let to = self.clock(slot.key.clock(clocks));
                let left_over = to.map(|clock| clock.lock().put(slot));
                if !matches!(left_over, Some(None)) {
                    self.count_off(bytes, beside);
                }
            }
        }
    }

    fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Gives pairs their part of what metadata leave.
    fn fit_pairs(&self) {
        self.fit_pairs_in(self.share());
    }

    fn fit_pairs_in(&self, share: u64) {
        self.pairs.fit(share.saturating_sub(self.metadata_bytes.load(Relaxed)));
    }

    /// Gives up what is above `capacity`, and gives its memory back: of that no more than has to be, since what comes
    /// next is filled into it. Whenever as much as a slab has become free between pieces they are drawn together.
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
            self.pool.give_back(above);
        }
    }

    /// Bytes of the pool on pages that pieces lie on.
    fn free_between_pieces(&self) -> u64 {
        self.pool.resident().saturating_sub(self.pool.idle() + self.pool.used())
    }

    /// Copies the pieces of a slab to where others have gone, so that it is idle. Answers whether less is in use then.
    fn draw_together(&self) -> bool {
        let in_use = || self.pool.resident().saturating_sub(self.pool.idle());
        let (before, mut marks) = (in_use(), Vec::new());
        self.pool.sparse(&mut marks);
        // Metadata have two pieces.
        marks.sort_unstable();
        marks.dedup();
        for mark in marks {
            let clock = self.clocks.get(Clock::index_in(mark));
            let Some(old) = clock.and_then(|clock| clock.lock().at(mark)) else { continue };
            let new = old.copied(Home::Cache(self));
            let (bytes, bytes_before) = (new.bytes(), old.bytes());
            let left_over = clock.and_then(|clock| clock.lock().replace(mark, &old, new));
            if left_over.is_some_and(|left_over| left_over.is(&old)) {
                self.held.fetch_add(bytes, Relaxed);
                self.held.fetch_sub(bytes_before, Relaxed);
            }
        }
        in_use() < before
    }

    /// Gives up a piece of the first clock from the `grown`th on that has no less than its part: there is one as long as
    /// there is any piece. Otherwise clocks would grow and wither by chance. Answers whether there was one.
    fn give_up_one(&self, grown: usize) -> bool {
        let used = self.used();
        let part = self.held.load(Relaxed) / used as u64;
        let given_up = (0..CLOCKS_MAX).find_map(|nth| {
            let index = (grown + nth) % CLOCKS_MAX;
            let part = if index < used { part } else { 0 };
            let clock = self.clock(index).map(|clock| clock.lock());
            // It goes behind the lock.
            clock.filter(|clock| clock.bytes() >= part).and_then(|mut clock| clock.evict())
        });
        let Some(slot) = given_up else { return false };
        let (bytes, beside) = (slot.cached.bytes(), slot.cached.beside());
        let before = self.given_up.fetch_add(bytes, Relaxed);
        self.ghosts.note_evicted(slot.key.hash(), before / GHOST_PAGE_BYTES);
        drop(slot);
        self.freed.note(beside);
        self.count_off(bytes, beside);
        true
    }

    /// Counts a piece in a clock: so many bytes, of which the pool has not counted these yet.
    fn count(&self, bytes: u64, beside: u64) {
        self.budget.charge_anyway(beside);
        self.held.fetch_add(bytes, Relaxed);
        self.beside.fetch_add(beside, Relaxed);
    }

    fn count_off(&self, bytes: u64, beside: u64) {
        self.budget.release(beside);
        self.held.fetch_sub(bytes, Relaxed);
        self.beside.fetch_sub(beside, Relaxed);
    }

    /// What it is counted in.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// What it has freed.
    pub(crate) fn freed(&self) -> &Arc<Freed> {
        &self.freed
    }

    /// Bytes that it takes: the pool's that are resident, and what pieces take beside it.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.resident() + self.beside.load(Relaxed)
    }

    /// Of these, those that pieces have.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// From now on counts what `bytes` more would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        let of_pairs = (bytes as f64 * self.pairs.part()) as u64;
        self.pairs.set_ghost_reach(of_pairs);
        self.ghosts.set_reach((bytes - of_pairs).div_ceil(GHOST_PAGE_BYTES));
    }

    /// Blocks that so much more would have saved reading, as counted so far.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.ghosts.hits() + self.pairs.ghost_hits()
    }

    /// Bytes of what is remembered of pieces that are not cached.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        2 * self.ghosts.bytes()
    }

    /// Look-ups that did not find the metadata of a table.
    pub(crate) fn metadata_misses(&self) -> u64 {
        self.metadata_misses.load(Relaxed)
    }

    /// Look-ups that found something, and those that did not.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    fn clock(&self, index: usize) -> Option<&Mutex<Clock>> {
        self.clocks.get(index)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.budget.release(self.beside.load(Relaxed));
    }
}
