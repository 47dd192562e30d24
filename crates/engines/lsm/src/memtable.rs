//! A memtable: versions of keys in memory, in order, written by many threads at the same time.
//!
//! The crate `memtable` has its floor, its gate and its memory. A writer enters the memtable that
//! the state names for its key. A memtable is for one Drange and its bounds, for ever: as long as
//! it is not sealed, a writer that was routed to it was routed correctly. A sealed memtable may be
//! written to a table.
//!
//! Nothing is taken out of a memtable, and no value in it is replaced. So versions are in a skip
//! list that has memory of its own ([`arena::skip_list`]). That memory is released as a whole, to
//! the next memtables or to the system: no version has an allocation of its own, and none leaves a
//! gap between others.
//!
//! # Invariants
//! - M1 and M3 are those of the crate `memtable`.
//! - M2. Of two writes of one key, the later one is in the same memtable or a younger one, or in
//!   another one of a Drange with several slots. The older one has returned before the other one
//!   begins (law L6), and a writer that finds a memtable sealed looks for the next one. A write
//!   that is applied a second time in a replay is left out.

mod cursor;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use arena::skip_list::SkipList;
use codec::SeqNo;
use engine::{Op, Reservation, Result};
use memtable::{Family, Gate, Head};

use crate::dranges::Bounds;
use crate::planted::{Planted, is_planted};
pub(crate) use cursor::MemtableCursor;
use lsm_tree::entry::{Found, Target};

/// A memtable of one Drange.
#[derive(Debug)]
pub(crate) struct Memtable {
    /// Before the entries: its bytes are released when they leave their memory to others.
    head: Head,
    place: Place,
    entries: SkipList,
    /// Whether it was merged, and waits for others of its Drange instead of a flush.
    rests: bool,
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
    _gate: Gate<'a>,
}

impl Memtable {
    /// An empty memtable. Everything up to `floor` is in tables, or was finished before.
    pub(crate) fn new(place: Place, floor: SeqNo, family: &Arc<Family>) -> Arc<Self> {
        Arc::new(Self::of(family.next_id(), place, floor, family))
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let floor = visible.min(self.family().applied()).max(self.floor());
        Self::new(self.place.clone(), floor, self.family())
    }

    /// Makes a memtable in the place of `inputs`, all of one Drange and sealed, to which `fill`
    /// adds their content. It is as old as the youngest of them, and no other thread writes to it.
    /// Returns `None` if it stays empty.
    pub(crate) fn merged(
        inputs: &[Arc<Self>],
        fill: impl FnOnce(&Entered<'_>) -> Result<()>,
    ) -> Result<Option<Arc<Self>>> {
        let Some(youngest) = inputs.iter().max_by_key(|input| input.id()) else { return Ok(None) };
        let floor = inputs.iter().map(|input| input.floor()).min().unwrap_or(SeqNo::ZERO);
        let floor = match is_planted(Planted::MergedFloorRaised) {
            true => youngest.floor(),
            false => floor,
        };
        let place = youngest.place.clone();
        let mut merged = Self::of(youngest.id(), place, floor, youngest.family());
        merged.rests = true;
        fill(&Entered { memtable: &merged, _gate: merged.gate() })?;
        merged.seal();
        Ok((!merged.is_empty()).then(|| Arc::new(merged)))
    }

    fn of(id: u64, place: Place, floor: SeqNo, family: &Arc<Family>) -> Self {
        Self {
            head: Head::new(id, floor, family),
            place,
            entries: SkipList::reusing(Arc::clone(family.memory()) as _),
            rests: false,
        }
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
        let gate = self.gate();
        let may_enter = !gate.is_sealed() || is_planted(Planted::SealedEntered);
        may_enter.then_some(Entered { memtable: self, _gate: gate })
    }

    /// Moves the floor to `visible()`, if nothing is in the memtable; returns whether that was so.
    pub(crate) fn lift_if_empty(&self, visible: impl FnOnce() -> SeqNo) -> bool {
        self.lift_if(|| self.is_empty(), visible)
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

impl Deref for Memtable {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Entered<'_> {
    /// Adds the version that `op` makes, in memory that was reserved for it. A version that is
    /// there already stays (replay).
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo, room: &mut Reservation<'_>) {
        let memtable = self.memtable;
        debug_assert!(memtable.place.bounds.covers(op.key()), "a writer was routed here");
        memtable.note_write(seqno);
        if memtable.entries.insert(op.key(), seqno.get(), op.value()) {
            let bytes = entry_bytes(op.key(), op.value());
            memtable.note_entry(bytes, op.value().is_none(), room);
        }
    }
}

/// Returns the bytes of memory that are counted for an entry.
pub(crate) fn entry_bytes(key: &[u8], value: Option<&[u8]>) -> u64 {
    bytes_of_entry(key.len(), value.map_or(0, <[u8]>::len))
}

/// The same for an entry of these lengths.
pub(crate) fn bytes_of_entry(key_len: usize, value_len: usize) -> u64 {
    SkipList::entry_bytes(key_len, value_len)
}
