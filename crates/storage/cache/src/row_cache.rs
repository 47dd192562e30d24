//! The cache: its shards, and how pairs are kept and forgotten, within a share of the memory.
//!
//! # Concurrency
//! One lock a shard; a thread never holds two of them.

use std::sync::Arc;

use arena::pieces::{self, Pool};
use memory_budget::{GhostTable, MemoryBudget, MemoryGain};
use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::planted::Planted;
use crate::shard::{HEAD_BYTES, PAGE_BYTES, Pair, Shard, hash, pages_of};
use crate::share::{INSERTIONS_A_ROUND, Share};

/// Shards, at least and at most: one for each MiB of the budget.
const SHARDS_MIN: u64 = 4;
const SHARDS_MAX: u64 = 16;
/// Parts of the budget of which a slab of pages may be one, and its bytes at least and at most.
const SLAB_PARTS: u64 = 64;
const SLAB_BYTES_MIN: u64 = 64 << 10;
const SLAB_BYTES_MAX: u64 = 4 << 20;
/// Bytes of the longest pair that is cached. A block has few longer pairs, or only one.
const PAIR_BYTES_MAX: usize = 4 << 10;
/// Bytes that a get reads if it finds no pair.
const BLOCK_BYTES: u64 = 4096;
/// The value of `number` while no pair may be kept.
const NONE: u64 = u64::MAX;

/// The cache.
#[derive(Debug)]
pub struct RowCache {
    pub(crate) shards: Box<[Mutex<Shard>]>,
    /// The number of the state of which pairs may be kept.
    number: AtomicU64,
    /// The source of the pages of all shards; it counts the resident ones.
    pool: Pool,
    /// Bytes that it may take.
    capacity: AtomicU64,
    /// Bytes that shards take besides pages.
    beside: AtomicU64,
    /// Pairs that gets found below memtables, kept or not.
    offered: AtomicU64,
    hits: AtomicU64,
    /// Blocks that came into the engine's cache of blocks.
    blocks: AtomicU64,
    share: Share,
    /// Pairs that were evicted recently: a larger cache would have had each of them that a get
    /// finds below again.
    ghosts: GhostTable,
    /// Bytes of evicted pairs so far.
    given_up: AtomicU64,
}

/// A commit: while it lives nothing is kept; nor afterwards, unless it is [done](Changing::done).
#[derive(Debug)]
pub struct Changing<'a> {
    pairs: &'a RowCache,
}

impl RowCache {
    /// Makes an empty cache that may take nothing. It never takes more than `part_max` of the bytes
    /// that it is to [fit](RowCache::fit) in. It keeps nothing before it is [open](RowCache::open).
    pub fn new(ghosts: GhostTable, budget: &Arc<MemoryBudget>, part_max: f64) -> Self {
        let shards = (budget.limit() >> 20).clamp(SHARDS_MIN, SHARDS_MAX);
        let slab_bytes = (budget.limit() / SLAB_PARTS).clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX);
        let meter = Arc::clone(budget) as Arc<dyn pieces::Meter>;
        let pool = Pool::metered(slab_bytes as usize, meter);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(budget, &pool))).collect(),
            pool,
            number: AtomicU64::new(NONE),
            capacity: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            share: Share::new(part_max),
            ghosts,
            given_up: AtomicU64::new(0),
        }
    }

    /// The first state is there, of this number.
    pub fn open(&self, number: u64) {
        self.number.store(number, SeqCst);
    }

    /// Copies the value of `key`'s pair and returns since when the pair holds, if there is one and
    /// that is not behind `upto` (A4). The caller has found nothing in the memtables of a state.
    pub fn get(&self, key: &[u8], upto: u64, into: &mut Vec<u8>) -> Option<u64> {
        if self.pool.used() == 0 {
            return None;
        }
        let hash = hash(key);
        let since = self.shard(hash)?.lock().get(hash, key, 0..=upto, into)?;
        self.hits.fetch_add(1, Relaxed);
        Some(since)
    }

    /// Copies the value of `key`'s pair if the pair holds since exactly `since`. Returns whether it
    /// does.
    pub fn get_of(&self, key: &[u8], since: u64, into: &mut Vec<u8>) -> bool {
        if self.pool.used() == 0 {
            return false;
        }
        let hash = hash(key);
        let Some(shard) = self.shard(hash) else { return false };
        let is_found = shard.lock().get(hash, key, since..=since, into).is_some();
        self.hits.fetch_add(u64::from(is_found), Relaxed);
        is_found
    }

    /// Keeps a pair that a get found below memtables in the state of this number, and since when it
    /// holds. Returns whether the pairs take more bytes than before.
    pub fn keep(&self, number: u64, key: &[u8], since: u64, value: &[u8]) -> bool {
        self.keep_unless(number, &Pair { since, is_read: false, key, value }, |_| false)
    }

    /// Does the same, unless the key has a pair that holds since later.
    pub fn keep_newest(&self, number: u64, key: &[u8], since: u64, value: &[u8]) -> bool {
        let is_older =
            |shard: &Shard| shard.since(hash(key), key).is_some_and(|there| there > since);
        self.keep_unless(number, &Pair { since, is_read: false, key, value }, is_older)
    }

    fn keep_unless(
        &self,
        number: u64,
        pair: &Pair<'_>,
        is_unwanted: impl FnOnce(&Shard) -> bool,
    ) -> bool {
        let Pair { key, value, .. } = *pair;
        self.offered.fetch_add(1, Relaxed);
        let capacity = self.capacity.load(Relaxed) as usize / self.shards.len();
        if pages_of(capacity) == 0 || HEAD_BYTES + key.len() + value.len() > PAIR_BYTES_MAX {
            return false;
        }
        let before = self.bytes();
        let hash = hash(key);
        self.ghosts.note_read(hash, MemoryGain::blocks(BLOCK_BYTES));
        let Some(shard) = self.shard(hash) else { return false };
        let mut shard = shard.lock();
        // A1: under the lock, so that a thread that forgets the key later finds it.
        let is_old = self.number.load(SeqCst) != number;
        if sync::mutant!(Planted::OldKept, is_old, false) {
            return false;
        }
        if is_unwanted(&shard) {
            return false;
        }
        shard.forget(hash, key);
        shard.append(hash, pair);
        shard.shrink(capacity, &mut |hash, bytes| self.note_gone(hash, bytes));
        self.count(&mut shard);
        drop(shard);
        self.release(self.capacity.load(Relaxed));
        self.bytes() > before
    }

    /// Releases the memory of pages that shards have left, except for one page if it is within
    /// `capacity`.
    fn release(&self, capacity: u64) {
        let above = self.bytes().saturating_sub(capacity);
        let idle = self.pool.idle().saturating_sub(PAGE_BYTES as u64);
        if above > 0 || idle > 0 {
            self.pool.release(above.max(idle));
        }
    }

    /// Notes that a pair was evicted.
    fn note_gone(&self, hash: u64, bytes: usize) {
        let bytes = self.given_up.fetch_add(bytes as u64, Relaxed);
        self.ghosts.note_evicted(hash, bytes / BLOCK_BYTES);
    }

    /// Begins a commit of another state. The caller keeps other commits out.
    pub fn change(&self) -> Changing<'_> {
        sync::mutant!(Planted::KeptBesideCommit, self.number.store(NONE, SeqCst), ());
        Changing { pairs: self }
    }

    /// Counts blocks that were read for walks.
    pub fn note_walked(&self, blocks: u64) {
        self.share.note_walked(blocks);
    }

    /// From now on takes its part of `bytes`: the share that gets have in the reads below
    /// memtables, which are those of gets and walks, as counted so far.
    pub fn fit(&self, bytes: u64) {
        // Before any lock: a model switches threads here.
        let offered = self.offered.load(Relaxed);
        self.share.look_again(offered);
        self.set_capacity((bytes as f64 * self.part()) as u64);
    }

    /// Returns the part that it takes of the bytes that it fits in.
    pub fn part(&self) -> f64 {
        self.share.part()
    }

    /// From now on it may take `bytes` bytes.
    pub fn set_capacity(&self, bytes: u64) {
        let before = self.capacity.swap(bytes, Relaxed);
        if bytes < before {
            let capacity = bytes as usize / self.shards.len();
            for shard in &self.shards {
                let mut shard = shard.lock();
                shard.shrink(capacity, &mut |hash, bytes| self.note_gone(hash, bytes));
                self.count(&mut shard);
            }
            self.release(bytes);
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.pool.resident() + self.beside.load(Relaxed)
    }

    /// From now on counts what `bytes` more would have saved.
    pub fn set_ghost_reach(&self, bytes: u64) {
        self.ghosts.set_reach(bytes.div_ceil(BLOCK_BYTES));
    }

    /// From now on counts what its part of `bytes` more would have saved. Returns the rest, which
    /// is the blocks'.
    pub fn divide_ghost_reach(&self, bytes: u64) -> u64 {
        let own = (bytes as f64 * self.part()) as u64;
        self.set_ghost_reach(own);
        bytes - own
    }

    /// Counts a block that comes into the engine's cache of blocks. Returns true when the part has
    /// to be computed again ([`RowCache::fit`]), which is once in [`INSERTIONS_A_ROUND`] blocks.
    pub fn note_block(&self) -> bool {
        self.blocks.fetch_add(1, Relaxed).is_multiple_of(INSERTIONS_A_ROUND)
    }

    /// Returns the number of blocks that came into the engine's cache of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Reads that so much more would have saved, as counted so far.
    pub fn ghost_hits(&self) -> u64 {
        self.ghosts.hits()
    }

    /// Returns the bytes of the table of evicted pairs.
    pub fn ghost_bytes(&self) -> u64 {
        self.ghosts.bytes()
    }

    /// Gets that it answered.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    fn shard(&self, hash: u64) -> Option<&Mutex<Shard>> {
        // By bits that the index of a shard does not go by.
        self.shards.get((hash >> 32) as usize % self.shards.len())
    }

    /// A3, after the shard has changed.
    fn count(&self, shard: &mut Shard) {
        let (now, before) = shard.count();
        self.beside.fetch_add(now, Relaxed);
        self.beside.fetch_sub(before, Relaxed);
    }
}

impl Changing<'_> {
    /// The key may have another pair below memtables.
    pub fn forget(&self, key: &[u8]) {
        // Also if nothing is counted yet: another thread may be about to keep the first pair.
        let hash = hash(key);
        if let Some(shard) = self.pairs.shard(hash) {
            shard.lock().forget(hash, key);
        }
    }

    /// Any key may have.
    pub fn forget_all(&self) {
        for shard in &self.pairs.shards {
            let mut shard = shard.lock();
            shard.forget_all();
            self.pairs.count(&mut shard);
        }
        self.pairs.pool.release(u64::MAX);
    }

    /// The next state is there, of this number.
    pub fn done(self, number: u64) {
        self.pairs.number.store(number, SeqCst);
    }
}
