//! Dynamic ranges (Dranges): they choose the memtable of a write, such that each memtable takes
//! about the same number of writes (the paper's section 4.1).
//!
//! ```text
//!   keys      |--------------- key space ---------------|
//!   Tranges   |  |  | |    |   |  ||  | |  |   |   |    |    count writes
//!   Dranges   |        |         ||         |           |    some Tranges each
//!   slots     [ 0      ][ 1     ][2,3][ 4  ][ 5         ]    one active memtable each
//! ```
//!
//! A Drange that holds one very hot key has several slots (it is *duplicated*); the number of a
//! write selects one of them.
//!
//! # Invariants
//! - D1. Every key is in exactly one Trange, and every Trange in one Drange.
//! - D2. An id belongs to one range of keys and one number of slots, for ever. So memtables of two
//!   ids share a key only if one Drange took the place of the other, and then all memtables of the
//!   one are older than those of the other.
//!
//! A table of Dranges never changes, but for its counters: a reorganisation makes another one
//! (`plan_reorganisation`, `construct`, and `background/reorganise`).

pub(crate) mod construct;
pub(crate) mod plan_reorganisation;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use construct::{Layout, Part};

/// The keys from `start` on, before `end` if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl Bounds {
    /// Returns whether `key` is in it.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.is_before_end(key)
    }

    /// Returns whether some key may be in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.is_before_end(&other.start) && other.is_before_end(&self.start)
    }

    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Dranges {
    tranges: Vec<Trange>,
    dranges: Vec<Drange>,
    /// Writes that the boundaries were made from.
    basis: u64,
}

/// A tiny range: the unit that a reorganisation moves.
#[derive(Debug)]
struct Trange {
    start: Vec<u8>,
    /// The index of its Drange.
    drange: usize,
    writes: AtomicU64,
}

/// A range of keys, and its slots.
#[derive(Debug)]
pub(crate) struct Drange {
    pub(crate) id: u64,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) slots: Range<usize>,
    /// Whether its keys are one hot key and next to nothing.
    is_point: bool,
    tranges: Range<usize>,
}

impl Dranges {
    /// Makes one Drange of all keys, with `slots` slots.
    pub(crate) fn one(slots: usize) -> Self {
        let layout = Layout { parts: vec![Part::whole(slots.max(1))], basis: 0 };
        Self::of(layout, &mut |_, _| None, &mut 0)
    }

    /// Makes the Dranges that follow these, with `layout`: a Drange that did not change keeps its
    /// id.
    pub(crate) fn after(&self, layout: Layout, next_id: &mut u64) -> Self {
        let mut known = |bounds: &Bounds, slots: usize| {
            let mut dranges = self.dranges.iter();
            let same = |drange: &&Drange| *drange.bounds == *bounds && drange.slots.len() == slots;
            dranges.find(same).map(|drange| drange.id)
        };
        Self::of(layout, &mut known, next_id)
    }

    fn of(
        layout: Layout,
        known: &mut dyn FnMut(&Bounds, usize) -> Option<u64>,
        next_id: &mut u64,
    ) -> Self {
        let mut all = Self { tranges: Vec::new(), dranges: Vec::new(), basis: layout.basis };
        let ends: Vec<Option<Vec<u8>>> =
            layout.parts.iter().skip(1).map(|part| Some(part.start().to_vec())).collect();
        let mut first_slot = 0;
        for (index, part) in layout.parts.into_iter().enumerate() {
            let end = ends.get(index).cloned().flatten();
            let bounds = Bounds { start: part.start().to_vec(), end };
            let slots = first_slot..first_slot + part.slots.max(1);
            first_slot = slots.end;
            let id = known(&bounds, slots.len()).unwrap_or_else(|| {
                *next_id += 1;
                *next_id - 1
            });
            let first = all.tranges.len();
            for (start, writes) in part.tranges {
                let writes = AtomicU64::new(writes);
                all.tranges.push(Trange { start, drange: index, writes });
            }
            let tranges = first..all.tranges.len();
            let bounds = Arc::new(bounds);
            all.dranges.push(Drange { id, bounds, slots, is_point: part.is_point, tranges });
        }
        all
    }

    /// The Drange of a key.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn of_key(&self, key: &[u8]) -> Option<&Drange> {
        self.dranges.get(self.index_of(key))
    }

    /// The index of the Drange of a key.
    pub(crate) fn index_of(&self, key: &[u8]) -> usize {
        self.tranges.get(self.trange_of(key)).map_or(0, |trange| trange.drange)
    }

    /// The index of the Drange of the keys right before `key`; of the last ones of all.
    pub(crate) fn index_before(&self, key: Option<&[u8]>) -> usize {
        let is_before =
            |drange: &Drange| key.is_none_or(|key| drange.bounds.start.as_slice() < key);
        self.dranges.partition_point(is_before).saturating_sub(1)
    }

    /// The slot for write `number` of a key, and the key's Trange.
    pub(crate) fn route(&self, key: &[u8], number: u64) -> (usize, usize) {
        let trange = self.trange_of(key);
        let drange = self.tranges.get(trange).and_then(|trange| self.dranges.get(trange.drange));
        let Some(Drange { slots, .. }) = drange else { return (0, trange) };
        (slots.start + (number % slots.len().max(1) as u64) as usize, trange)
    }

    /// Counts a write to a key of a Trange.
    pub(crate) fn count(&self, trange: usize) {
        if let Some(trange) = self.tranges.get(trange) {
            trange.writes.fetch_add(1, Relaxed);
        }
    }

    fn trange_of(&self, key: &[u8]) -> usize {
        let behind = self.tranges.partition_point(|trange| trange.start.as_slice() <= key);
        behind.saturating_sub(1)
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> &[Drange] {
        &self.dranges
    }

    /// How many memtables are written to.
    pub(crate) fn slots(&self) -> usize {
        self.dranges.last().map_or(0, |drange| drange.slots.end)
    }

    /// Whether a Drange is one of these.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.dranges.iter().any(|drange| drange.id == id)
    }

    /// How they are laid out, with the writes that were counted.
    pub(crate) fn layout(&self) -> Layout {
        let part = |drange: &Drange| Part {
            tranges: self.tranges_of(drange).collect(),
            slots: drange.slots.len(),
            is_point: drange.is_point,
        };
        Layout { parts: self.dranges.iter().map(part).collect(), basis: self.basis }
    }

    fn tranges_of(&self, drange: &Drange) -> impl Iterator<Item = (Vec<u8>, u64)> {
        let tranges = self.tranges.get(drange.tranges.clone()).unwrap_or_default();
        tranges.iter().map(|trange| (trange.start.clone(), trange.writes.load(Relaxed)))
    }

    /// Halves the weight of the counts, so that later writes weigh more. Writes that are counted at
    /// that moment may be lost.
    pub(crate) fn decay(&self) {
        for trange in &self.tranges {
            trange.writes.store(trange.writes.load(Relaxed) / 2, Relaxed);
        }
    }
}
