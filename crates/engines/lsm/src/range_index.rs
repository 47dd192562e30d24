//! The range index: which memtables, and which tables of Level 0, have keys of a part of the key
//! space (the paper's section 4.1.2).
//!
//! A partition is the range of a Drange. It names all memtables whose bounds overlap with it, and
//! all tables of Level 0 whose keys do. A get or a walk in it looks at nothing else of them.
//!
//! # Invariants
//! - X1. Everything that a state has of a key is in the partition that covers the key. Partitions
//!   are made from all of the state, and never change. A memtable is in a state before anything is
//!   written to it, under the bounds of everything that it may ever hold.
//!
//! Each partition is made when it is first requested. A state without reads costs nothing. A state
//! that differs only in range deletes has the partitions of the state before it.

use std::sync::{Arc, OnceLock};

use sync::mutant;

use crate::dranges::Bounds;
use crate::memtable::Memtable;
use crate::planted::Planted;
use lsm_tree::table::Table;

/// The partitions of a state, in order.
#[derive(Debug, Default)]
pub(crate) struct RangeIndex {
    partitions: Vec<OnceLock<Arc<Partition>>>,
}

/// The memtables and tables of Level 0 that have keys of a part of the key space.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) bounds: Arc<Bounds>,
    /// The active memtables, then the sealed ones, the youngest first.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    /// The youngest first.
    pub(crate) level0: Vec<Arc<Table>>,
}

impl RangeIndex {
    /// Makes an index of this number of partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Self { partitions: (0..partitions).map(|_| OnceLock::new()).collect() }
    }

    /// Returns a partition. If it does not exist yet, `make` makes it.
    pub(crate) fn partition(
        &self,
        index: usize,
        make: impl FnOnce() -> Partition,
    ) -> Option<&Arc<Partition>> {
        Some(self.partitions.get(index)?.get_or_init(|| Arc::new(make())))
    }
}

impl Partition {
    /// Makes a partition of the memtables and tables that have keys within `bounds`. Both sequences
    /// must have the youngest first, and the partition keeps their order.
    pub(crate) fn of<'a>(
        bounds: &Arc<Bounds>,
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        level0: &[Arc<Table>],
    ) -> Self {
        let memtables = memtables.filter(|memtable| {
            let all = memtable.bounds();
            mutant!(Planted::IndexedUnderStart, all.overlaps(bounds), bounds.covers(&all.start))
        });
        let overlaps = |table: &&Arc<Table>| {
            let properties = &table.summary().properties;
            bounds.is_before_end(&properties.smallest) && bounds.start <= properties.largest
        };
        Self {
            bounds: Arc::clone(bounds),
            memtables: memtables.cloned().collect(),
            level0: level0.iter().filter(overlaps).cloned().collect(),
        }
    }
}
