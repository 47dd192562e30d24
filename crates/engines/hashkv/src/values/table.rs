//! The segment table as an open store has it: committed edits, and changes for the next commit.

use std::collections::BTreeSet;

use codec::SeqNo;
use edits::Chain;
use engine::Result;

use crate::segment_table::{All, Described, Edit, Geometry, Range};

/// The chain of edits of the segment table, and the changes that it does not have yet.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) chain: Chain<Edit>,
    pub(super) pending: Edit,
    /// All contents, with the pending changes.
    pub(crate) all: All,
    /// The numbers of the segments that the chain has, without pending removals.
    committed: BTreeSet<u64>,
    /// Numbers below this are reserved, durably. (G2)
    pub(super) floor: u64,
}

impl Table {
    /// Returns the table that a chain has.
    pub(crate) fn new(chain: Chain<Edit>, all: All) -> Self {
        let floor = all.floor;
        let committed = all.segments.keys().copied().collect();
        Self { chain, pending: Edit::default(), all, committed, floor }
    }

    /// Notes a segment for the next commit.
    pub(crate) fn put(&mut self, segment: Described) {
        self.pending.put.retain(|pending| pending.number != segment.number);
        self.pending.put.push(segment);
        self.all.segments.insert(segment.number, segment);
    }

    /// Removes a segment with the next commit.
    pub(crate) fn remove(&mut self, number: u64) {
        self.pending.put.retain(|pending| pending.number != number);
        self.all.segments.remove(&number);
        if self.committed.remove(&number) {
            self.pending.removed.push(number);
        }
    }

    /// Notes that there is an index, for the next commit: without it the store is damaged, also if
    /// there is no segment.
    pub(super) fn note_index(&mut self) {
        self.pending.has_index |= !self.all.has_index;
        self.all.has_index = true;
    }

    /// Commits an edit that adds segments and removes others. All earlier changes are committed.
    ///
    /// # Errors
    /// The device's. Then nothing has changed.
    pub(crate) fn exchange(&mut self, added: Vec<Described>, removed: &[Described]) -> Result<()> {
        // A job needs an index that is durable.
        self.note_index();
        added.iter().for_each(|described| self.put(*described));
        removed.iter().for_each(|described| self.remove(described.number));
        let committed = self.commit();
        if committed.is_err() {
            let has_index = self.pending.has_index;
            self.pending = Edit { has_index, ..Edit::default() };
            for described in added {
                self.all.segments.remove(&described.number);
            }
            self.committed.extend(removed.iter().map(|described| described.number));
            self.all
                .segments
                .extend(removed.iter().map(|described| (described.number, *described)));
        }
        committed
    }

    /// Commits the geometry and the groups of a new store.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn begin(&mut self, geometry: Geometry, ranges: Vec<Range>) -> Result<()> {
        self.pending.geometry = Some(geometry);
        self.pending.ranges = Some(ranges.clone());
        self.all = All { geometry: Some(geometry), ranges, ..All::default() };
        self.commit()
    }

    /// Commits the changes, durably. The caller has synced the volumes.
    pub(super) fn commit(&mut self) -> Result<()> {
        if edits::Edit::is_empty(&self.pending) {
            return Ok(());
        }
        self.chain.commit(&self.pending, SeqNo::ZERO, || self.all.as_edit())?;
        let committed = std::mem::take(&mut self.pending);
        self.committed.extend(committed.put.iter().map(|segment| segment.number));
        self.floor = self.all.floor;
        Ok(())
    }
}
