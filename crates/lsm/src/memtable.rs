//! A memtable: versions of keys in memory, in order, written by many threads at once.
//!
//! 1. A writer [enters](Memtable::enter) the memtable that the state names for its key. If that has
//!    been sealed meanwhile, the state has another by now, and the writer looks again.
//! 2. [`Memtable::seal`] waits for those who have entered. From then on nothing changes, and it may
//!    be written to a table.
//!
//! # Invariants
//! - M1. Every write that it holds, or ever will, has a number above [`Memtable::floor`], or is
//!   persisted. The floor is not above the last number up to which all writes were finished when
//!   the memtable was made: whoever writes later holds an unfinished number. Nor is it above the
//!   newest write before: a replay comes in order, and what is finished says nothing of it. Hence,
//!   once all older memtables are in tables, everything up to the floor is.
//! - M2. Of two writes of one key, the later one is in the same memtable or a younger one: the
//!   older one has returned before the other one begins (law L6), and whoever finds a memtable
//!   sealed looks for the next one. A write that comes a second time in a replay is left out.
//! - M3. A batch is wholly in one memtable, since its writer entered once.

mod cursor;
mod family;
mod key;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::SeqNo;
use crossbeam_skiplist::SkipMap;
use engine::Op;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::entry::{Entry, Found, Target};
pub(crate) use cursor::MemtableCursor;
pub(crate) use family::Family;
use key::{AsTarget, EntryKey};

/// What an entry takes beside its key and value: the node of the skip list, two allocations.
const ENTRY_OVERHEAD_BYTES: u64 = 104;

/// A memtable; see the file's head.
#[derive(Debug)]
pub(crate) struct Memtable {
    id: u64,
    entries: SkipMap<EntryKey, Option<Box<[u8]>>>,
    floor: AtomicU64,
    newest: AtomicU64,
    bytes: AtomicU64,
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
    /// The first memtable of a store. Everything up to `floor` is in tables.
    pub(crate) fn first(floor: SeqNo, family: &Arc<Family>) -> Arc<Self> {
        Self::new(floor, family)
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let floor = visible.min(self.family.applied()).max(self.floor());
        Self::new(floor, &self.family)
    }

    fn new(floor: SeqNo, family: &Arc<Family>) -> Arc<Self> {
        Arc::new(Self {
            id: family.next_id(),
            entries: SkipMap::new(),
            floor: AtomicU64::new(floor.get()),
            newest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            gate: RwLock::new(false),
            family: Arc::clone(family),
        })
    }

    /// Its number; younger ones have larger ones.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// M1.
    pub(crate) fn floor(&self) -> SeqNo {
        SeqNo::new(self.floor.load(Relaxed))
    }

    /// The largest number in it; zero if it is empty.
    pub(crate) fn newest(&self) -> SeqNo {
        SeqNo::new(self.newest.load(Relaxed))
    }

    /// Bytes of memory, as the budget counts them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Versions in it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The right to write, unless it is sealed.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let gate = self.gate.read();
        (!*gate).then_some(Entered { memtable: self, _gate: gate })
    }

    /// Lets nobody write any more. Waits for those who do.
    pub(crate) fn seal(&self) {
        *self.gate.write() = true;
    }

    /// Moves the floor to `visible()`, if nothing is in it; answers whether that was so. Nobody is
    /// in between entering and writing meanwhile, and who enters later holds an unfinished number.
    pub(crate) fn lift_if_empty(&self, visible: impl FnOnce() -> SeqNo) -> bool {
        let _gate = self.gate.write();
        let is_empty = self.is_empty();
        if is_empty {
            self.floor.fetch_max(visible().get(), Relaxed);
        }
        is_empty
    }

    /// The newest version at or behind `to`, of the same key.
    pub(crate) fn get(&self, to: Target<'_>, into: &mut Vec<u8>) -> Option<Found> {
        let found = self.entries.lower_bound(Bound::Included(&to as &dyn AsTarget))?;
        let entry = entry_of(&found);
        (entry.key == to.key).then(|| Found::copy(&entry, into))
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.family.release(self.bytes.load(Relaxed));
    }
}

impl Entered<'_> {
    /// Adds the version that `op` makes. A version that is there already stays (replay).
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo) {
        let memtable = self.memtable;
        let value: Option<Box<[u8]>> = op.value().map(Into::into);
        let value_bytes = value.as_ref().map_or(0, |value| value.len());
        let bytes = (op.key().len() + value_bytes) as u64 + ENTRY_OVERHEAD_BYTES;
        memtable.family.charge(bytes);
        memtable.bytes.fetch_add(bytes, Relaxed);
        memtable.newest.fetch_max(seqno.get(), Relaxed);
        memtable.entries.get_or_insert(EntryKey::new(op.key(), seqno), value);
    }
}

/// What an entry of the skip list holds.
fn entry_of<'a>(
    found: &'a crossbeam_skiplist::map::Entry<'_, EntryKey, Option<Box<[u8]>>>,
) -> Entry<'a> {
    let Target { key, seqno } = found.key().target();
    Entry { key, seqno, value: found.value().as_deref() }
}
