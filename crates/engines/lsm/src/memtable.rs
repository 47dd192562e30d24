//! A memtable: versions of keys in memory, in order, written by many threads at the same time.
//!
//! The crate `memtable` has its floor, its gate and its memory. A writer enters the memtable that
//! the state names for its key. A memtable is for one Drange and its bounds, for ever: until it
//! is sealed, a writer that was routed to it was routed correctly. A sealed memtable may be
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
mod entered;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use arena::skip_list::SkipList;
use codec::SeqNo;
use engine::Result;
use memtable::{Head, MemtableSet, Versions};

use crate::dranges::Bounds;
pub(crate) use cursor::MemtableCursor;
pub(crate) use entered::Entered;
use lsm_tree::entry::{Found, Target};

/// A memtable of one Drange.
#[derive(Debug)]
pub(crate) struct Memtable {
    versions: Versions,
    place: Place,
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

impl Memtable {
    /// An empty memtable. Everything up to `floor` is in tables, or was finished before.
    pub(crate) fn new(place: Place, floor: SeqNo, memtables: &Arc<MemtableSet>) -> Arc<Self> {
        Arc::new(Self::of(memtables.next_id(), place, floor, memtables))
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let floor = visible.min(self.memtable_set().applied()).max(self.floor());
        Self::new(self.place.clone(), floor, self.memtable_set())
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
        let place = youngest.place.clone();
        let mut merged = Self::of(youngest.id(), place, floor, youngest.memtable_set());
        merged.rests = true;
        merged.enter().map_or(Ok(()), |entered| fill(&entered))?;
        merged.seal();
        Ok((!merged.is_empty()).then(|| Arc::new(merged)))
    }

    fn of(id: u64, place: Place, floor: SeqNo, memtables: &Arc<MemtableSet>) -> Self {
        Self {
            versions: Versions::new(
                Head::new(id, floor, memtables),
                SkipList::reusing(Arc::clone(memtables.memory()) as _),
            ),
            place,
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

    /// The number of the newest version at or behind `to`, of the same key. If that is above
    /// `above`, it is copied, and `best` from now on.
    pub(crate) fn find_above(
        &self,
        to: Target<'_>,
        above: SeqNo,
        into: &mut Vec<u8>,
        best: &mut Option<Found>,
    ) -> Option<SeqNo> {
        let found = self.entries().seek(to.key, to.seqno.get())?;
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

    /// Bytes of every `stride`th key, once for each of its versions.
    pub(crate) fn key_bytes(&self, stride: usize) -> u64 {
        let keys = self.entries().iter().step_by(stride.max(1));
        keys.map(|entry| entry.key_len() as u64).sum()
    }

    /// Adds every `stride`th key to `sample`, once for each of its versions.
    pub(crate) fn sample(&self, stride: usize, sample: &mut Vec<Vec<u8>>) {
        let keys = self.entries().iter().step_by(stride.max(1));
        sample.extend(keys.map(|entry| {
            let mut key = Vec::new();
            entry.read_key(&mut key);
            key
        }));
    }
}

impl Deref for Memtable {
    type Target = Versions;

    fn deref(&self) -> &Versions {
        &self.versions
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
