//! A memtable: versions of keys in memory, in order, written by many threads at the same time.
//!
//! 1. A writer [enters](Memtable::enter) the memtable that the state names for its key. If that
//!    memtable was sealed meanwhile, the state has another one, and the writer looks again. A
//!    memtable is for one Drange and its bounds, for ever: as long as it is not sealed, a writer
//!    that was routed to it was routed correctly.
//! 2. [`Memtable::seal`] waits for the writers that have entered. From then on nothing changes, and
//!    the memtable may be written to a table.
//!
//! Nothing is taken out of a memtable, and no value in it is replaced. So versions are in a skip
//! list that has memory of its own ([`sync::skip_list`]). That memory is released as a whole, to
//! the next memtables (`spare`) or to the system: no version has an allocation of its own, and none
//! leaves a gap between others.
//!
//! # Invariants
//! - M1. Every write that it holds, or ever will, has a number above [`Memtable::floor`], or is
//!   persisted. The floor is not above the last number up to which all writes were finished when
//!   the memtable was made: a later writer holds an unfinished number. Nor is it above the newest
//!   write before: a replay applies writes in order, and the finished number says nothing of it.
//!   Hence, once all older memtables are in tables, everything up to the floor is.
//! - M2. Of two writes of one key, the later one is in the same memtable or a younger one, or in
//!   another one of a Drange with several slots. The older one has returned before the other one
//!   begins (law L6), and a writer that finds a memtable sealed looks for the next one. A write
//!   that is applied a second time in a replay is left out.
//! - M3. The number of an applied write is noted once all its steps are in memtables: a floor that
//!   is requested in between does not pass it.

mod cursor;
mod family;
mod spare;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::SeqNo;
use engine::{Op, Result};
use sync::skip_list::SkipList;
use sync::{RwLock, RwLockReadGuard};

use crate::dranges::Bounds;
use crate::entry::{Found, Target};
use crate::planted::{Planted, is_planted};
pub(crate) use cursor::MemtableCursor;
pub(crate) use family::{Family, SetAside};

/// A memtable; see the file's head.
#[derive(Debug)]
pub(crate) struct Memtable {
    id: u64,
    place: Place,
    entries: SkipList,
    /// Whether it was merged, and waits for others of its Drange instead of a flush.
    rests: bool,
    floor: AtomicU64,
    newest: AtomicU64,
    bytes: AtomicU64,
    /// Versions in it that are tombstones.
    tombstones: AtomicU64,
    /// Whether it is sealed. Writers read, and hold it while they write.
    gate: RwLock<bool>,
    family: Arc<Family>,
}

/// The writes that a memtable is for.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) drange: u64,
    pub(crate) bounds: Arc<Bounds>,
    /// Slots of the Drange.
    pub(crate) slots: usize,
}

/// The right to write to a memtable, which is not sealed meanwhile.
pub(crate) struct Entered<'a> {
    memtable: &'a Memtable,
    _gate: RwLockReadGuard<'a, bool>,
}

impl Memtable {
    /// An empty memtable. Everything up to `floor` is in tables, or was finished before.
    pub(crate) fn new(place: Place, floor: SeqNo, family: &Arc<Family>) -> Arc<Self> {
        Arc::new(Self::of(family.next_id(), place, floor, family))
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let floor = visible.min(self.family.applied()).max(self.floor());
        Self::new(self.place.clone(), floor, &self.family)
    }

    /// Makes a memtable in the place of `inputs`, all of one Drange and sealed, to which `fill`
    /// adds their content. It is as old as the youngest of them, and no other thread writes to it.
    /// Returns `None` if it stays empty.
    pub(crate) fn merged(
        inputs: &[Arc<Self>],
        fill: impl FnOnce(&Entered<'_>) -> Result<()>,
    ) -> Result<Option<Arc<Self>>> {
        let Some(youngest) = inputs.iter().max_by_key(|input| input.id) else { return Ok(None) };
        let floor = inputs.iter().map(|input| input.floor()).min().unwrap_or(SeqNo::ZERO);
        let floor = match is_planted(Planted::MergedFloorRaised) {
            true => youngest.floor(),
            false => floor,
        };
        let place = youngest.place.clone();
        let mut merged = Self::of(youngest.id, place, floor, &youngest.family);
        merged.rests = true;
        fill(&Entered { memtable: &merged, _gate: merged.gate.read() })?;
        *merged.gate.write() = true;
        Ok((!merged.is_empty()).then(|| Arc::new(merged)))
    }

    fn of(id: u64, place: Place, floor: SeqNo, family: &Arc<Family>) -> Self {
        Self {
            id,
            place,
            rests: false,
            entries: SkipList::reusing(Arc::clone(family) as _),
            floor: AtomicU64::new(floor.get()),
            newest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            gate: RwLock::new(false),
            family: Arc::clone(family),
        }
    }

    /// Its number; younger ones have larger ones.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The Drange whose writes it takes, or took.
    pub(crate) fn drange(&self) -> u64 {
        self.place.drange
    }

    /// Returns the range of the keys that it holds, or may ever hold.
    pub(crate) fn bounds(&self) -> &Arc<Bounds> {
        &self.place.bounds
    }

    /// Whether other memtables may be written to, for the same keys at the same time.
    pub(crate) fn is_one_of_many(&self) -> bool {
        self.place.slots > 1
    }

    /// Whether it was merged, and waits for others.
    pub(crate) fn rests(&self) -> bool {
        self.rests
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

    /// Tombstones in it.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones.load(Relaxed)
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
        let may_enter = !*gate || is_planted(Planted::SealedEntered);
        may_enter.then_some(Entered { memtable: self, _gate: gate })
    }

    /// Lets no new writer enter, and waits for the writers that have entered.
    pub(crate) fn seal(&self) {
        *self.gate.write() = true;
    }

    /// Moves the floor to `visible()`, if nothing is in the memtable; returns whether that was so.
    /// Meanwhile no writer is between entering and writing, and a writer that enters later holds an
    /// unfinished number.
    pub(crate) fn lift_if_empty(&self, visible: impl FnOnce() -> SeqNo) -> bool {
        let _gate = self.gate.write();
        let is_empty = self.is_empty();
        if is_empty {
            self.floor.fetch_max(visible().get(), Relaxed);
        }
        is_empty
    }

    /// The number of the newest version at or behind `to`, of the same key. If that is above
    /// `above`, it is copied, and `best` from now on.
    pub(crate) fn find_above(
        &self,
        to: Target<'_>,
        above: SeqNo,
        into: &mut Vec<u8>,
        best: &mut Option<Found>,
    ) -> Option<SeqNo> {
        let found = self.entries.seek(to.key, to.seqno.get())?;
        if !found.has_key(to.key) {
            return None;
        }
        let seqno = SeqNo::new(found.number());
        if seqno > above {
            *best = Some(Found { seqno, is_value: found.read_value(into) });
        }
        Some(seqno)
    }

    /// The same, and nothing else was found before.
    pub(crate) fn get(&self, to: Target<'_>, into: &mut Vec<u8>) -> Option<Found> {
        let mut best = None;
        self.find_above(to, SeqNo::ZERO, into, &mut best);
        best
    }

    /// Calls back with each key, once or for each of its versions.
    pub(crate) fn each_key(&self, tell: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::new();
        self.entries.iter().for_each(|entry| {
            entry.read_key(&mut key);
            tell(&key);
        });
    }

    /// Bytes of every `stride`th key, once for each of its versions.
    pub(crate) fn key_bytes(&self, stride: usize) -> u64 {
        let keys = self.entries.iter().step_by(stride.max(1));
        keys.map(|entry| entry.key_len() as u64).sum()
    }

    /// Adds every `stride`th key to `sample`, once for each of its versions.
    pub(crate) fn sample(&self, stride: usize, sample: &mut Vec<Vec<u8>>) {
        let keys = self.entries.iter().step_by(stride.max(1));
        sample.extend(keys.map(|entry| {
            let mut key = Vec::new();
            entry.read_key(&mut key);
            key
        }));
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
        let bytes = self.add(op, seqno);
        self.memtable.family.charge(bytes);
    }

    /// Adds the version that `op` makes, in memory that was reserved for it.
    pub(crate) fn insert_from(&self, aside: &mut SetAside<'_>, op: &Op<'_>, seqno: SeqNo) {
        let bytes = self.add(op, seqno);
        aside.spend(bytes);
    }

    /// Adds the version, unless it is there; returns the bytes that are counted from now on. They
    /// are in the budget before the memtable can be released.
    fn add(&self, op: &Op<'_>, seqno: SeqNo) -> u64 {
        let memtable = self.memtable;
        debug_assert!(memtable.place.bounds.covers(op.key()), "who enters was routed here");
        memtable.newest.fetch_max(seqno.get(), Relaxed);
        if !memtable.entries.insert(op.key(), seqno.get(), op.value()) {
            return 0;
        }
        let bytes = entry_bytes(op.key(), op.value());
        memtable.bytes.fetch_add(bytes, Relaxed);
        if op.value().is_none() {
            memtable.tombstones.fetch_add(1, Relaxed);
        }
        bytes
    }
}

/// Returns the bytes of memory that are counted for an entry.
pub(crate) fn entry_bytes(key: &[u8], value: Option<&[u8]>) -> u64 {
    SkipList::entry_bytes(key.len(), value.map_or(0, <[u8]>::len))
}
