//! A memtable: versions of keys in memory, in order, written by many threads concurrently.
//!
//! 1. A writer [enters](Memtable::enter) the memtable that the state names. If that was sealed
//!    meanwhile, the state already has another one, and the writer looks again.
//! 2. [`Memtable::seal`] waits for writers that have entered. From then on nothing changes, and the
//!    memtable may be committed.
//!
//! Versions are in a skip list with memory of its own ([`sync::skip_list`]), which returns to the
//! system as a whole once no thread reads the memtable any more. A write makes no allocation, and
//! none of its memory is between other allocations.
//!
//! # Invariants
//! - M1. Every write that it holds, or ever will, has a number above [`Memtable::floor`], or is
//!   persisted. The floor is not above the last number up to which all writes were finished when
//!   the memtable was made: a later writer holds an unfinished number. Nor is it above the newest
//!   write before: a replay comes in order, and a finished number says nothing of a replayed write.
//!   Hence, once all older memtables are committed, everything up to the floor is in the space.
//! - M2. Of two writes of one key, the later one is in the same memtable or a younger one. The
//!   older one has returned before the other one begins (law L6), and a writer that finds a
//!   memtable sealed looks for the next one. A write that comes a second time in a replay is left
//!   out.
//! - M3. A write is noted as applied once all its steps are in memtables: a floor that was
//!   requested in between does not pass it.
//! - M4. All steps of a write are in one memtable, so a commit has all of them or none, except
//!   steps that later writes have replaced (M5, M6).
//! - M5. A newer version of a key replaces an older one in the same memtable, in its place, if no
//!   snapshot, present or future, sees the older one: a reader that looks for the newest finds the
//!   newer one. So a key that is written repeatedly takes the memory of one that is written once.
//!   If the newer version has no room in that place, it is put before the old one, which is left
//!   until the memtable is freed, and which no reader uses. The newer version gets one and a half
//!   times the words of the old one, so that this does not happen often.
//! - M6. A version that is marked as replaced has a newer one in a younger memtable, and no
//!   snapshot, present or future, sees it. A commit leaves it out. A reader finds the newer one
//!   first, and after a crash the journal has the newer one, once it has reached
//!   [`Memtable::replaced_by`]. The version stays in memory, for readers whose state does not name
//!   the younger memtable.
//! - M7. A key that is in it, or was, passes its filter (`memtable/filter.rs`): a key that does not
//!   pass needs no search.

mod batch;
mod filter;
mod replaced;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod walk;

use std::sync::Arc;

use codec::SeqNo;
use engine::Op;
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::skip_list::SkipList;
use sync::{RwLock, RwLockReadGuard};

use crate::planted::{Planted, is_planted};
pub(crate) use batch::{Batch, BatchWalker};
use filter::Filter;
use memory_budget::Account;
pub(crate) use walk::{Update, Walker};

/// Whether a snapshot, present or future, may see a version of a number that a newer one replaces.
pub(crate) type IsSeen<'a> = &'a dyn Fn(SeqNo, SeqNo) -> bool;

/// The result of a search for one key; a value was copied to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The write's number; zero if the version is in the space, where none has a number.
    pub(crate) seqno: SeqNo,
    /// Whether it is a value, rather than a tombstone.
    pub(crate) is_value: bool,
}

impl Found {
    /// A value that is in the space.
    pub(crate) const IN_SPACE: Self = Self { seqno: SeqNo::ZERO, is_value: true };

    /// A value that is in the space, copied.
    pub(crate) fn in_space(value: &[u8], into: &mut Vec<u8>) -> Self {
        into.clear();
        into.extend_from_slice(value);
        Self::IN_SPACE
    }
}

/// The state that all memtables of a store share.
#[derive(Debug)]
pub(crate) struct Family {
    /// Bytes of all memtables that are held anywhere.
    pub(crate) account: Arc<Account>,
    next_id: AtomicU64,
    applied: AtomicU64,
}

impl Family {
    pub(crate) fn new(account: Arc<Account>) -> Arc<Self> {
        Arc::new(Self { account, next_id: AtomicU64::new(1), applied: AtomicU64::new(0) })
    }

    /// The newest write that was applied since the store was opened.
    pub(crate) fn applied(&self) -> SeqNo {
        SeqNo::new(self.applied.load(Relaxed))
    }

    /// All of this write is in memtables.
    pub(crate) fn note_applied(&self, seqno: SeqNo) {
        if self.applied.load(Relaxed) < seqno.get() {
            self.applied.fetch_max(seqno.get(), Relaxed);
        }
    }
}

/// A memtable; see the file's head.
#[derive(Debug)]
pub(crate) struct Memtable {
    id: u64,
    entries: SkipList,
    filter: Filter,
    floor: AtomicU64,
    oldest: AtomicU64,
    newest: AtomicU64,
    bytes: AtomicU64,
    /// Deletes that were put into it.
    tombstones: AtomicU64,
    /// M6.
    replaced_by: AtomicU64,
    /// Whether it is sealed. Writers read, and hold it while they write.
    gate: RwLock<bool>,
    family: Arc<Family>,
}

/// The right to write to a memtable, which is not sealed meanwhile.
pub(crate) struct Entered<'a> {
    memtable: &'a Memtable,
    _gate: RwLockReadGuard<'a, bool>,
}

impl Memtable {
    /// An empty memtable. Everything up to `floor` is in the space, or was finished before.
    pub(crate) fn new(floor: SeqNo, family: &Arc<Family>) -> Arc<Self> {
        Arc::new(Self {
            id: family.next_id.fetch_add(1, Relaxed),
            entries: SkipList::new(),
            filter: Filter::new(family.account.budget_bytes(), &family.account),
            floor: AtomicU64::new(floor.get()),
            oldest: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            replaced_by: AtomicU64::new(0),
            gate: RwLock::new(false),
            family: Arc::clone(family),
        })
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let applied = self.family.applied();
        let finished = match is_planted(Planted::FloorPassesOpen) {
            true => applied,
            false => visible.min(applied),
        };
        let floor = finished.max(self.floor());
        Self::new(floor, &self.family)
    }

    /// Its number; younger ones have larger ones.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// M1.
    pub(crate) fn floor(&self) -> SeqNo {
        SeqNo::new(self.floor.load(Relaxed))
    }

    /// The smallest number in it; the largest of all if it is empty.
    pub(crate) fn oldest(&self) -> SeqNo {
        SeqNo::new(self.oldest.load(Relaxed))
    }

    /// The largest number in it; zero if it is empty.
    pub(crate) fn newest(&self) -> SeqNo {
        SeqNo::new(self.newest.load(Relaxed))
    }

    /// Bytes of memory, as the budget counts them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Deletes that were put into it, those included that later writes have replaced.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones.load(Relaxed)
    }

    /// Calls `tell` with the key of each tombstone among every `stride`th of its versions.
    pub(crate) fn sample_tombstones(&self, stride: usize, tell: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::new();
        let sampled = self.entries.iter().step_by(stride.max(1));
        sampled.filter(|entry| entry.value_len().is_none()).for_each(|entry| {
            entry.read_key(&mut key);
            tell(&key);
        });
    }

    /// Versions in it, including the ones whose place had no room for the version that replaced
    /// them.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The right to write, unless it is sealed.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let gate = self.gate.read();
        let may_enter = !*gate || is_planted(Planted::SealedEntered);
        may_enter.then_some(Entered { memtable: self, _gate: gate })
    }

    /// Seals it against writers, and waits for writers that have entered.
    pub(crate) fn seal(&self) {
        *self.gate.write() = true;
    }

    /// Moves the floor to `visible()` if it is empty, and returns whether it was. Meanwhile no
    /// writer is between entering and writing, and a writer that enters later holds an unfinished
    /// number.
    pub(crate) fn lift_if_empty(&self, visible: impl FnOnce() -> SeqNo) -> bool {
        let _gate = self.gate.write();
        let is_empty = self.entries.is_empty();
        if is_empty {
            self.floor.fetch_max(visible().get(), Relaxed);
        }
        is_empty
    }

    /// Calls `tell` with each key, once or for each of its versions.
    pub(crate) fn each_key(&self, tell: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::new();
        self.entries.iter().for_each(|entry| {
            entry.read_key(&mut key);
            tell(&key);
        });
    }

    /// The newest version of `key` at or below `seqno`, its value copied.
    pub(crate) fn get(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Option<Found> {
        if !self.filter.may_have(key) {
            return None;
        }
        let found = self.entries.seek(key, seqno.get()).filter(|found| found.has_key(key))?;
        into.clear();
        let (number, is_value) = found.append_version(into);
        Some(Found { seqno: SeqNo::new(number), is_value })
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.family.account.release(self.bytes.load(Relaxed));
    }
}

impl Entered<'_> {
    /// Adds the version that `op` makes. A version that is there already stays (replay).
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo) {
        self.put(op, seqno, &|_, _| true);
    }

    /// The same, in the place of the version before it, unless `is_seen` says that a snapshot,
    /// present or future, is between their numbers (M5). The caller holds the ticket of `seqno`,
    /// and no other ticket of the same key is held (law L6).
    pub(crate) fn put(&self, op: &Op<'_>, seqno: SeqNo, is_seen: IsSeen<'_>) {
        let memtable = self.memtable;
        memtable.oldest.fetch_min(seqno.get(), Relaxed);
        memtable.newest.fetch_max(seqno.get(), Relaxed);
        memtable.filter.add(op.key());
        if op.value().is_none() {
            memtable.tombstones.fetch_add(1, Relaxed);
        }
        let is_unseen = |older| !is_seen(SeqNo::new(older), seqno);
        let bytes = memtable.entries.put(op.key(), seqno.get(), op.value(), is_unseen);
        if bytes > 0 {
            memtable.family.account.add(bytes);
            memtable.bytes.fetch_add(bytes, Relaxed);
        }
    }
}
