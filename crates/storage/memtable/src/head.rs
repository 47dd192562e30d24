//! The part of one memtable that does not depend on how it stores its entries.

use std::ops::Deref;
use std::sync::Arc;

use codec::SeqNo;
use engine::Reservation;
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{RwLock, RwLockReadGuard};

use crate::memtable_set::MemtableSet;

/// The id, floor, gate and bytes of a memtable.
#[derive(Debug)]
pub struct Head {
    id: u64,
    floor: AtomicU64,
    oldest: AtomicU64,
    newest: AtomicU64,
    bytes: AtomicU64,
    tombstones: AtomicU64,
    /// Whether it is sealed. Writers read, and hold it while they write.
    gate: RwLock<bool>,
    memtable_set: Arc<MemtableSet>,
}

/// Keeps a memtable from being sealed by another thread, unless it is sealed already.
#[derive(Debug)]
pub struct Gate<'a>(RwLockReadGuard<'a, bool>);

impl Gate<'_> {
    /// Returns whether the memtable is sealed: then no writer may enter.
    pub fn is_sealed(&self) -> bool {
        *self.0.deref()
    }
}

impl Head {
    /// Returns the head of an empty memtable. Everything up to `floor` is persisted, or was
    /// finished before. (M1)
    pub fn new(id: u64, floor: SeqNo, memtable_set: &Arc<MemtableSet>) -> Self {
        Self {
            id,
            floor: AtomicU64::new(floor.get()),
            oldest: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            gate: RwLock::new(false),
            memtable_set: Arc::clone(memtable_set),
        }
    }

    /// Returns its number; younger memtables have larger ones.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the state that it shares with the other memtables of its store.
    pub fn memtable_set(&self) -> &Arc<MemtableSet> {
        &self.memtable_set
    }

    /// Returns the number below which it has no write that is not persisted. (M1)
    pub fn floor(&self) -> SeqNo {
        SeqNo::new(self.floor.load(Relaxed))
    }

    /// Returns the smallest number in it; the largest of all if it is empty.
    pub fn oldest(&self) -> SeqNo {
        SeqNo::new(self.oldest.load(Relaxed))
    }

    /// Returns the largest number in it; zero if it is empty.
    pub fn newest(&self) -> SeqNo {
        SeqNo::new(self.newest.load(Relaxed))
    }

    /// Returns the bytes of memory that are counted for its entries.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the deletes that were put into it.
    pub fn tombstones(&self) -> u64 {
        self.tombstones.load(Relaxed)
    }

    /// Keeps the memtable from being sealed as long as the result lives.
    pub fn gate(&self) -> Gate<'_> {
        Gate(self.gate.read())
    }

    /// Lets no new writer enter, and waits for the writers that have entered.
    pub fn seal(&self) {
        *self.gate.write() = true;
    }

    /// Moves the floor to `visible()` if nothing is in the memtable, and returns whether that was
    /// so. Meanwhile no writer is between entering and writing, and a writer that enters later
    /// holds an unfinished number.
    pub fn lift_if(
        &self,
        is_empty: impl FnOnce() -> bool,
        visible: impl FnOnce() -> SeqNo,
    ) -> bool {
        let _gate = self.gate.write();
        let is_empty = is_empty();
        if is_empty {
            self.floor.fetch_max(visible().get(), Relaxed);
        }
        is_empty
    }

    /// Notes that an entry of the write `seqno` is about to be added.
    pub fn note_write(&self, seqno: SeqNo) {
        self.oldest.fetch_min(seqno.get(), Relaxed);
        self.newest.fetch_max(seqno.get(), Relaxed);
    }

    /// Counts an entry that was added and takes `bytes`. They come out of `room`; what it lacks is
    /// charged.
    pub fn note_entry(&self, bytes: u64, is_tombstone: bool, room: &mut Reservation<'_>) {
        self.memtable_set.memory().fill(bytes, room);
        self.bytes.fetch_add(bytes, Relaxed);
        if is_tombstone {
            self.tombstones.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.memtable_set.memory().release(self.bytes.load(Relaxed));
    }
}
