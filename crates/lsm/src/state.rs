//! What there is at one moment: memtables and tables. It never changes; each step makes the next
//! one.
//!
//! # Invariants
//! - S1. Whatever was written and not replaced is in one of the memtables or in the version. A
//!   flush puts the table in and takes the memtable out in one step, so a reader who holds a state
//!   misses nothing.
//! - S2. The first memtable is the one that is written to; the others are sealed, the youngest
//!   first.

use std::sync::Arc;

use crate::entry::{Found, Target};
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::Merged;
use crate::table::Reading;
use crate::version::Version;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct State {
    /// Larger for each next state; walks ask for it to see whether theirs is old.
    pub(crate) generation: u64,
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl State {
    /// A state of one memtable.
    pub(crate) fn new(active: Arc<Memtable>, version: Version) -> Self {
        Self { generation: 0, memtables: vec![active], version: Arc::new(version) }
    }

    /// The memtable that is written to; `None` once the store is closed.
    pub(crate) fn active(&self) -> Option<&Arc<Memtable>> {
        self.memtables.first()
    }

    /// How many memtables wait for their flush.
    pub(crate) fn sealed(&self) -> usize {
        self.memtables.len().saturating_sub(1)
    }

    /// The oldest memtable that waits for its flush, and the one that was begun after it.
    pub(crate) fn oldest_sealed(&self) -> Option<(&Arc<Memtable>, &Arc<Memtable>)> {
        match self.memtables.as_slice() {
            [.., next, oldest] => Some((oldest, next)),
            _ => None,
        }
    }

    /// The next state, with a memtable to write to.
    pub(crate) fn with_active(&self, active: Arc<Memtable>) -> Self {
        let mut memtables = vec![active];
        memtables.extend(self.memtables.iter().cloned());
        Self { memtables, version: Arc::clone(&self.version), generation: self.generation + 1 }
    }

    /// The next state, with this version; `flushed` is in it from now on.
    pub(crate) fn with_version(&self, version: Version, flushed: Option<u64>) -> Self {
        let stays = |memtable: &&Arc<Memtable>| Some(memtable.id()) != flushed;
        Self {
            memtables: self.memtables.iter().filter(stays).cloned().collect(),
            version: Arc::new(version),
            generation: self.generation + 1,
        }
    }

    /// What is left once the store is closed.
    pub(crate) fn closed(&self) -> Self {
        Self {
            generation: self.generation + 1,
            memtables: Vec::new(),
            version: Arc::new(Version::default()),
        }
    }

    /// The first version at or behind `to`, of the same key, that a memtable has: the newest such.
    pub(crate) fn find_in_memory(&self, to: Target<'_>, into: &mut Vec<u8>) -> Option<Found> {
        self.memtables.iter().find_map(|memtable| memtable.get(to, into))
    }

    /// A walk over everything.
    pub(crate) fn merged(&self) -> Merged {
        let mut sources = self.version.cursors(Reading::Cached);
        for memtable in &self.memtables {
            sources.push(Box::new(MemtableCursor::new(Arc::clone(memtable))));
        }
        Merged::new(sources)
    }
}
