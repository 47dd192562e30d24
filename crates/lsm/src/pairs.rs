//! The cache of pairs: single values that gets found in tables, within a share of the cache's memory.
//!
//! Of a block a skewed load wants one pair. A kept pair takes its own bytes instead of a block's, so more
//! of what is wanted is in memory. Pairs lie in pages, one behind the other. The oldest page is given up;
//! what was read since it came there is written to the newest page again (a second chance).
//!
//! # Invariants
//! - A1. A pair that is kept is the newest version of its key in the tables of the present state. What a
//!   get found in the tables of one version is kept only while that is the present one, and a commit
//!   forbids keeping before it forgets what it changes, and allows it again after the next state is
//!   there: of that version's tables alone.
//! - A2. What changes a key in tables makes it forgotten: the flush of a memtable its keys, an ingestion
//!   and the end of a range delete everything. A compaction changes no newest version that is not hidden.
//! - A3. The budget counts the pages and the index.
//!
//! # Concurrency
//! One lock a shard; no two are held at once.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Charge, Ghosts, MemoryBudget, MemoryGain};
use hashbrown::HashTable;
use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::planted::{Planted, is_planted};

/// Shards, at least and at most: one for each MiB of the budget.
const SHARDS_MIN: u64 = 4;
const SHARDS_MAX: u64 = 16;
/// Bytes of a page: an offset in one has 16 bits.
const PAGE_BYTES: usize = 16 << 10;
/// Pages of a shard, at most: a page's number has 16 bits, and one is written before another goes.
const PAGES_MAX: usize = u16::MAX as usize - 1;
/// What is longer lies in few pairs of a block, or in one.
const PAIR_BYTES_MAX: usize = 4 << 10;
/// Before a pair's key: its number, two lengths, and whether it was read.
const HEAD_BYTES: usize = 8 + 2 + 2 + 1;
/// Where in the head it says whether the pair was read.
const IS_READ_AT: usize = HEAD_BYTES - 1;
/// A get that finds no pair reads as much.
const BLOCK_BYTES: u64 = 4096;
/// Stands for the number of a version while none may be kept of.
const NONE: u64 = u64::MAX;

/// The cache.
#[derive(Debug)]
pub(crate) struct Pairs {
    shards: Box<[Mutex<Shard>]>,
    /// The number of the version of whose tables pairs may be kept.
    version: AtomicU64,
    /// Bytes that it may take.
    capacity: AtomicU64,
    bytes: AtomicU64,
    /// What gets found in tables, kept or not.
    offered: AtomicU64,
    hits: AtomicU64,
    /// What was given up not long ago: what of it is found in tables again a larger cache would have had.
    ghosts: Ghosts,
    /// Bytes of pages given up so far.
    given_up: AtomicU64,
}

/// Some of the keys.
#[derive(Debug)]
struct Shard {
    /// The oldest first. None is empty.
    pages: VecDeque<Vec<u8>>,
    /// The number of the oldest; they are counted round and round.
    first: u16,
    index: HashTable<Place>,
    charge: Charge,
    bytes: u64,
}

/// Where a pair lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    page: u16,
    offset: u16,
}

/// A pair in its page.
struct Pair<'a> {
    seqno: SeqNo,
    is_read: bool,
    key: &'a [u8],
    value: &'a [u8],
}

impl Pair<'_> {
    fn bytes(&self) -> usize {
        HEAD_BYTES + self.key.len() + self.value.len()
    }
}

/// A commit: as long as it lives nothing is kept.
pub(crate) struct Changing<'a> {
    pairs: &'a Pairs,
}

impl Pairs {
    /// An empty one that may take nothing. Nothing may be kept before a first version is there.
    pub(crate) fn new(ghosts: Ghosts, budget: &Arc<MemoryBudget>) -> Self {
        let shards = (budget.limit() >> 20).clamp(SHARDS_MIN, SHARDS_MAX);
        let shard = || Shard {
            pages: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            charge: Charge::new(budget),
            bytes: 0,
        };
        Self {
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            version: AtomicU64::new(NONE),
            capacity: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            ghosts,
            given_up: AtomicU64::new(0),
        }
    }

    /// The first version is there.
    pub(crate) fn open(&self, version: u64) {
        self.version.store(version, SeqCst);
    }

    /// The number of the version of `key` that it has, if it is at or below `seqno`; its value is copied.
    pub(crate) fn get(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Option<SeqNo> {
        if self.bytes.load(Relaxed) == 0 {
            return None;
        }
        let hash = hash(key);
        let found = self.shard(hash)?.lock().get(hash, key, seqno, into)?;
        self.hits.fetch_add(1, Relaxed);
        Some(found)
    }

    /// Keeps what a get found in the tables of the version of this number: the newest version of a key.
    pub(crate) fn keep(&self, version: u64, key: &[u8], seqno: SeqNo, value: &[u8]) {
        self.offered.fetch_add(1, Relaxed);
        let capacity = self.capacity.load(Relaxed) as usize / self.shards.len();
        let pages = (capacity / PAGE_BYTES).min(PAGES_MAX);
        if pages == 0 || HEAD_BYTES + key.len() + value.len() > PAIR_BYTES_MAX {
            return;
        }
        let hash = hash(key);
        self.ghosts.note_read(hash, MemoryGain::blocks(BLOCK_BYTES));
        let Some(shard) = self.shard(hash) else { return };
        let mut shard = shard.lock();
        // A1: under the lock, so that whoever forgets the key later finds it.
        if self.version.load(SeqCst) != version && !is_planted(Planted::PairsOfOldTablesKept) {
            return;
        }
        shard.forget(hash, key);
        shard.append(hash, &Pair { seqno, is_read: false, key, value });
        shard.shrink(pages, capacity, &mut |hash, bytes| self.note_gone(hash, bytes));
        self.count(&mut shard);
    }

    /// A pair was given up.
    fn note_gone(&self, hash: u64, bytes: usize) {
        let bytes = self.given_up.fetch_add(bytes as u64, Relaxed);
        self.ghosts.note_evicted(hash, bytes / BLOCK_BYTES);
    }

    /// Begins a commit of another version.
    pub(crate) fn change(&self) -> Changing<'_> {
        self.version.store(NONE, SeqCst);
        Changing { pairs: self }
    }

    /// From now on it may take so many bytes.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        let before = self.capacity.swap(bytes, Relaxed);
        if bytes < before {
            let capacity = bytes as usize / self.shards.len();
            for shard in &self.shards {
                let mut shard = shard.lock();
                let pages = (capacity / PAGE_BYTES).min(PAGES_MAX);
                shard.shrink(pages, capacity, &mut |hash, bytes| self.note_gone(hash, bytes));
                self.count(&mut shard);
            }
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Values that gets found in tables.
    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Relaxed)
    }

    /// From now on counts what `bytes` more would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.ghosts.set_reach(bytes.div_ceil(BLOCK_BYTES));
    }

    /// Reads that so much more would have saved, as counted so far.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.ghosts.hits()
    }

    /// Gets that it answered.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    fn shard(&self, hash: u64) -> Option<&Mutex<Shard>> {
        // By bits that the index of a shard does not go by.
        self.shards.get((hash >> 32) as usize % self.shards.len())
    }

    /// A3, after the shard has changed.
    fn count(&self, shard: &mut Shard) {
        let bytes = shard.memory();
        self.bytes.fetch_add(bytes, Relaxed);
        self.bytes.fetch_sub(shard.bytes, Relaxed);
        shard.bytes = bytes;
        shard.charge.set(bytes as usize);
    }
}

impl Changing<'_> {
    /// The key has another newest version in tables.
    pub(crate) fn forget(&self, key: &[u8]) {
        // Also where nothing is counted yet: somebody may be about to keep the first pair.
        let hash = hash(key);
        if let Some(shard) = self.pairs.shard(hash) {
            shard.lock().forget(hash, key);
        }
    }

    /// Any key may have another newest version in tables.
    pub(crate) fn forget_all(&self) {
        for shard in &self.pairs.shards {
            let mut shard = shard.lock();
            shard.pages.clear();
            shard.index = HashTable::new();
            self.pairs.count(&mut shard);
        }
    }

    /// The state has the version of this number.
    pub(crate) fn done(self, version: u64) {
        self.pairs.version.store(version, SeqCst);
    }
}

impl Shard {
    fn get(&mut self, hash: u64, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Option<SeqNo> {
        let Self { pages, first, index, .. } = self;
        let is_it = |place: &Place| pair(pages, *first, *place).is_some_and(|it| it.key == key);
        let place = *index.find(hash, is_it)?;
        let pair = pair(pages, *first, place).filter(|pair| pair.seqno <= seqno)?;
        into.clear();
        into.extend_from_slice(pair.value);
        let found = pair.seqno;
        let page = pages.get_mut(usize::from(place.page.wrapping_sub(*first)))?;
        *page.get_mut(usize::from(place.offset) + IS_READ_AT)? = 1;
        Some(found)
    }

    /// Takes a key out of the index; its bytes go with their page.
    fn forget(&mut self, hash: u64, key: &[u8]) {
        let Self { pages, first, index, .. } = self;
        let is_it = |place: &Place| pair(pages, *first, *place).is_some_and(|it| it.key == key);
        if let Ok(found) = index.find_entry(hash, is_it) {
            found.remove();
        }
    }

    /// Adds a pair whose key the index does not have.
    fn append(&mut self, own_hash: u64, new: &Pair<'_>) {
        let has_room = |page: &Vec<u8>| page.len() + new.bytes() <= PAGE_BYTES;
        if !self.pages.back().is_some_and(has_room) {
            self.pages.push_back(Vec::with_capacity(PAGE_BYTES));
        }
        let page = self.first.wrapping_add(self.pages.len() as u16).wrapping_sub(1);
        let Self { pages, first, index, .. } = self;
        let Some(last) = pages.back_mut() else { return };
        let place = Place { page, offset: last.len() as u16 };
        last.extend_from_slice(&new.seqno.get().to_le_bytes());
        last.extend_from_slice(&(new.key.len() as u16).to_le_bytes());
        last.extend_from_slice(&(new.value.len() as u16).to_le_bytes());
        last.push(u8::from(new.is_read));
        last.extend_from_slice(new.key);
        last.extend_from_slice(new.value);
        let of = |place: &Place| pair(pages, *first, *place).map_or(0, |pair| hash(pair.key));
        index.insert_unique(own_hash, place, of);
    }

    /// Gives up the oldest pages until there are no more than `pages`, and they take with the index no
    /// more than `capacity`. `gone` is told of pairs and their bytes.
    fn shrink(&mut self, pages: usize, capacity: usize, gone: &mut dyn FnMut(u64, usize)) {
        while self.pages.len() > pages || self.memory() > capacity as u64 {
            let Some(oldest) = self.pages.pop_front() else {
                self.index = HashTable::new();
                return;
            };
            let number = self.first;
            self.first = number.wrapping_add(1);
            // All of them leave the index before any comes back: an index that grows looks at every pair.
            let (mut offset, mut again) = (0, Vec::new());
            while let Some(old) = pair_at(&oldest, offset) {
                let place = Place { page: number, offset: offset as u16 };
                let hash = hash(old.key);
                if let Ok(found) = self.index.find_entry(hash, |it| *it == place) {
                    found.remove();
                    // With no page left there is nothing to be a newest one.
                    if old.is_read && pages > 0 {
                        again.push((offset, hash));
                    } else {
                        gone(hash, old.bytes());
                    }
                }
                offset += old.bytes();
            }
            for (offset, hash) in again {
                if let Some(old) = pair_at(&oldest, offset) {
                    self.append(hash, &Pair { is_read: false, ..old });
                }
            }
            if self.index.capacity() > 4 * self.index.len().max(64) {
                let Self { pages, first, index, .. } = self;
                let of = |place: &Place| {
                    pair(pages, *first, *place).map_or(0, |pair| self::hash(pair.key))
                };
                index.shrink_to_fit(of);
            }
        }
    }

    /// Bytes of the pages and of the index.
    fn memory(&self) -> u64 {
        // An index is at most seven eighths full, and has a byte more for each place.
        let places = self.index.capacity() * 8 / 7;
        let of_pages = self.pages.len() * (PAGE_BYTES + size_of::<Vec<u8>>());
        (of_pages + places * (size_of::<Place>() + 1)) as u64
    }
}

#[cfg(test)]
impl Shard {
    /// Whether every place of the index has a pair, and is found by its key.
    fn is_sound(&self) -> bool {
        self.index.iter().all(|place| {
            let pair = pair(&self.pages, self.first, *place);
            pair.is_some_and(|pair| {
                self.index.find(hash(pair.key), |other| other == place) == Some(place)
            })
        })
    }
}

fn hash(key: &[u8]) -> u64 {
    codec::hash64(0x70, key)
}

fn pair(pages: &VecDeque<Vec<u8>>, first: u16, place: Place) -> Option<Pair<'_>> {
    let page = pages.get(usize::from(place.page.wrapping_sub(first)))?;
    pair_at(page, usize::from(place.offset))
}

fn pair_at(page: &[u8], offset: usize) -> Option<Pair<'_>> {
    let (head, rest) = page.get(offset..)?.split_at_checked(HEAD_BYTES)?;
    let number = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let seqno = SeqNo::new(u64::from_le_bytes(*head.first_chunk()?));
    let (key, rest) = rest.split_at_checked(usize::from(number(8)?))?;
    let value = rest.get(..usize::from(number(10)?))?;
    Some(Pair { seqno, is_read: head.last() == Some(&1), key, value })
}
