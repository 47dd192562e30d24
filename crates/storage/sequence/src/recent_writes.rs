//! Keys that were written since a moment, kept as long as there is a watch.
//!
//! 1. A thread that wants to write by its reads begins a [`Watch`], and only then pins the moment
//!    that it reads ([`crate::Sequence::pin`]).
//! 2. A writer takes its number, asks [`RecentWrites::is_watched`], and if so notes its keys, all
//!    before it applies the write.
//! 3. A thread checks in the notes whether a key, or any key of a range, was written after the
//!    moment. If it keeps writers of the key out meanwhile, the result stays true. If not, it finds
//!    at least every write whose effect it may have seen.
//! 4. Each note drops a few that no watch needs any more. If there is no room left, the oldest are
//!    forgotten, and a watch from before them gets an error. When the last watch ends, all notes
//!    are dropped.
//!
//! # Invariants
//! - W1. A write numbered above the moment of a watch is noted before it is applied. Its writer has
//!   its number when it checks for watches. If it found none, the watch began after that, and its
//!   pin has waited for the write and is above it. All of these accesses are in one total order,
//!   like those of the sequence.
//! - W2. A note is dropped only if it is not above the moment of any watch, present or future.
//!   Otherwise watches whose moment is below it get [`WriteConflict::Forgotten`].
//! - W3. Each key has at most one note, and those of keys take at most the bytes that they were
//!   given; those of ranges a sixteenth of it more.
//!
//! # Concurrency
//! Lock order: `open`, then one shard, or the ranges. Writers lock one of them at a time, and
//! nothing else.

#[cfg(all(test, shuttle))]
mod models;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;
use sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use sync::{CachePadded, Mutex};

use crate::KeyRange;
use crate::Sequence;
use ranges::Ranges;

/// So that writers of different keys seldom wait for each other; a power of two.
const SHARDS: usize = if cfg!(shuttle) { 1 } else { 16 };
/// Bytes of a note in addition to its key: two places of it, and its part of a tree's node.
const NOTE_BYTES: usize = 128;
/// Notes that are dropped with each that is made: more than one, so that they become fewer.
const DROPS_PER_NOTE: usize = 2;

/// Reason why the read data may not be valid any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteConflict {
    /// This key was written.
    Written {
        /// The key.
        key: Vec<u8>,
    },
    /// The writes were too many to remember all of them.
    Forgotten,
}

/// Notes of writes, by keyspace and key, and of ranges that were deleted.
#[derive(Debug)]
pub struct RecentWrites {
    watches: AtomicUsize,
    /// A number that is not above the moment of each watch that is held.
    open: Mutex<BTreeMap<u64, usize>>,
    /// At most the least number in `open`. No watch needs the notes up to this number.
    oldest: AtomicU64,
    /// Whether there may be notes.
    has_notes: AtomicBool,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    shard_bytes_max: usize,
    /// Whether `ranges` may have any, so that a check of keys need not lock it.
    has_ranges: AtomicBool,
    ranges: Mutex<Ranges>,
}

#[derive(Debug, Default)]
struct Shard {
    /// By keyspace: the number of each key's newest write.
    newest: BTreeMap<u32, BTreeMap<Arc<[u8]>, u64>>,
    /// Every key once, the oldest first; its number here is its newest or an older one.
    order: VecDeque<(u64, u32, Arc<[u8]>)>,
    bytes: usize,
    /// The newest write that was forgotten for lack of room.
    forgotten: u64,
    /// Notes taken so far.
    noted: u64,
}

/// A guard that has writes noted while it lives.
#[derive(Debug)]
pub struct Watch {
    /// None once it has ended.
    recent: Option<Arc<RecentWrites>>,
    /// Not above the moment of the watching thread.
    floor: u64,
}

/// Notes that no watch needs. Dropping them may take a while.
#[derive(Debug, Default)]
#[must_use = "drop it where no other thread waits"]
pub struct ForgottenWrites {
    _shards: Vec<Shard>,
    _ranges: Ranges,
}

impl RecentWrites {
    /// Returns no notes. They will take about `bytes_max` bytes at most.
    pub fn new(bytes_max: u64) -> Self {
        let shards: Box<[_]> = (0..SHARDS).map(|_| CachePadded::default()).collect();
        Self {
            watches: AtomicUsize::new(0),
            open: Mutex::default(),
            oldest: AtomicU64::new(0),
            has_notes: AtomicBool::new(false),
            shards,
            shard_bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX) / SHARDS,
            has_ranges: AtomicBool::new(false),
            ranges: Mutex::default(),
        }
    }

    /// Has writes noted from now on. The moment that the caller reads at is one that it pins later.
    pub fn watch(self: &Arc<Self>, sequence: &Sequence) -> Watch {
        self.watches.fetch_add(1, SeqCst);
        let mut open = self.open.lock();
        let floor = sequence.visible().get();
        *open.entry(floor).or_default() += 1;
        self.publish_oldest(&open);
        Watch { recent: Some(Arc::clone(self)), floor }
    }

    /// Returns whether a write that has its number, and is not applied yet, must be noted. (W1)
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watches.load(SeqCst) > 0
    }

    /// Notes that `key` of `keyspace` is about to be written.
    pub fn note(&self, keyspace: u32, key: &[u8], seqno: SeqNo) {
        let mut shard = self.shard(keyspace, key).lock();
        shard.note(keyspace, key, seqno.get());
        shard.drop_through(self.oldest.load(SeqCst));
        shard.forget_above(self.shard_bytes_max);
        // Set after the note, so that a thread that sees it finds the note.
        if !self.has_notes.load(SeqCst) {
            self.has_notes.store(true, SeqCst);
        }
    }

    /// Notes that all of `keyspace` from `start` on, before `end` if there is one, is about to be
    /// deleted.
    pub fn note_range(&self, keyspace: u32, start: &[u8], end: Option<&[u8]>, seqno: SeqNo) {
        let mut ranges = self.ranges.lock();
        let limits = (self.oldest.load(SeqCst), self.shard_bytes_max);
        ranges.note(keyspace, (start, end), seqno, limits);
        self.has_ranges.store(true, SeqCst);
        drop(ranges);
        self.has_notes.store(true, SeqCst);
    }

    /// Checks that `key` has not been written since `moment`, which a watch of the caller's keeps.
    ///
    /// # Errors
    /// That it was, or that this is not known.
    pub fn check_key(&self, keyspace: u32, key: &[u8], moment: SeqNo) -> Result<(), WriteConflict> {
        if self.has_ranges.load(SeqCst) {
            self.ranges.lock().check_key(keyspace, key, moment)?;
        }
        let shard = self.shard(keyspace, key).lock();
        let newest = shard.newest.get(&keyspace).and_then(|keys| keys.get(key));
        if newest.is_some_and(|newest| *newest > moment.get()) {
            return Err(WriteConflict::Written { key: key.to_vec() });
        }
        shard.check_memory(moment)
    }

    /// Checks the same for all keys of `range`. Visits each note of a key in it.
    ///
    /// # Errors
    /// One that was written, or that this is not known.
    pub fn check_range(
        &self,
        keyspace: u32,
        range: &KeyRange,
        moment: SeqNo,
    ) -> Result<(), WriteConflict> {
        if range.is_empty() {
            return Ok(());
        }
        if self.has_ranges.load(SeqCst) {
            self.ranges.lock().check_range(keyspace, range, moment)?;
        }
        let bounds = (as_slice(&range.start), as_slice(&range.end));
        for shard in &self.shards {
            let shard = shard.lock();
            let keys = shard.newest.get(&keyspace);
            let mut inside = keys.into_iter().flat_map(|keys| keys.range::<[u8], _>(bounds));
            if let Some((key, _)) = inside.find(|(_, newest)| **newest > moment.get()) {
                return Err(WriteConflict::Written { key: key.to_vec() });
            }
            shard.check_memory(moment)?;
        }
        Ok(())
    }

    /// Notes taken so far, for tests and figures.
    pub fn noted(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().noted).sum()
    }

    /// Returns the bytes that notes take now, about.
    pub fn bytes(&self) -> u64 {
        let of_keys = self.shards.iter().map(|shard| shard.lock().bytes as u64).sum::<u64>();
        of_keys + self.ranges.lock().bytes() as u64
    }

    fn shard(&self, keyspace: u32, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[codec::hash64(u64::from(keyspace), key) as usize % SHARDS]
    }

    fn publish_oldest(&self, open: &BTreeMap<u64, usize>) {
        // With none open nothing is dropped by it: all of it is about to go.
        self.oldest.store(open.keys().next().copied().unwrap_or(0), SeqCst);
    }

    fn end(&self, floor: u64) -> ForgottenWrites {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&floor) {
            *count -= 1;
            if *count == 0 {
                open.remove(&floor);
            }
        }
        self.publish_oldest(&open);
        self.watches.fetch_sub(1, SeqCst);
        if !open.is_empty() || !self.has_notes.swap(false, SeqCst) {
            return ForgottenWrites::default();
        }
        // A watch that begins now waits for `open`, and its pin for all writers that have noted
        // anything: so it is above all notes that are dropped here [W2].
        let _shards = self.shards.iter().map(|shard| shard.lock().take()).collect();
        let mut ranges = self.ranges.lock();
        self.has_ranges.store(false, SeqCst);
        ForgottenWrites { _shards, _ranges: std::mem::take(&mut *ranges) }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Shard {
    fn note(&mut self, keyspace: u32, key: &[u8], seqno: u64) {
        self.noted += 1;
        let keys = self.newest.entry(keyspace).or_default();
        if let Some(newest) = keys.get_mut(key) {
            *newest = seqno.max(*newest);
            return;
        }
        let key: Arc<[u8]> = key.into();
        self.bytes += NOTE_BYTES + key.len();
        keys.insert(Arc::clone(&key), seqno);
        self.order.push_back((seqno, keyspace, key));
    }

    /// Drops some of the notes up to `oldest`.
    fn drop_through(&mut self, oldest: u64) {
        for _ in 0..DROPS_PER_NOTE {
            if self.order.front().is_none_or(|(seqno, ..)| *seqno > oldest) {
                return;
            }
            self.drop_first();
        }
    }

    fn forget_above(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && !self.order.is_empty() {
            self.forgotten = self.drop_first().max(self.forgotten);
        }
    }

    /// Drops the first note and returns its number; a renewed note moves to the end instead.
    fn drop_first(&mut self) -> u64 {
        let Some((seqno, keyspace, key)) = self.order.pop_front() else { return 0 };
        let Some(keys) = self.newest.get_mut(&keyspace) else { return 0 };
        let newest = keys.get(&key).copied().unwrap_or(seqno);
        if newest > seqno {
            self.order.push_back((newest, keyspace, key));
            return 0;
        }
        keys.remove(&key);
        if keys.is_empty() {
            self.newest.remove(&keyspace);
        }
        self.bytes -= NOTE_BYTES + key.len();
        newest
    }

    fn check_memory(&self, moment: SeqNo) -> Result<(), WriteConflict> {
        if self.forgotten > moment.get() { Err(WriteConflict::Forgotten) } else { Ok(()) }
    }

    /// Returns all notes; the count of them stays.
    fn take(&mut self) -> Self {
        let noted = self.noted;
        std::mem::replace(self, Self { noted, ..Self::default() })
    }
}

impl Watch {
    /// Ends it, for a caller that blocks others meanwhile.
    pub fn end(mut self) -> ForgottenWrites {
        self.recent.take().map_or_else(ForgottenWrites::default, |recent| recent.end(self.floor))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(recent) = self.recent.take() {
            drop(recent.end(self.floor));
        }
    }
}
