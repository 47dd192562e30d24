//! A version: which tables there are, and in which level. It never changes; changing it makes
//! another.
//!
//! # Invariants
//! - V1. Level 0 is ordered by age, the youngest first, and tables overlap. Of two versions of a
//!   key in two of them, the younger table has the later one: memtables are flushed in the order of
//!   their ids.
//! - V2. In every other level the tables' ranges of keys are disjoint, and ordered.
//! - V3. Of two versions of a key in two levels, the upper level has the later one: what moves down
//!   from Level 0 takes all that is older and overlaps with it.

use std::sync::Arc;

use crate::entry::EntryCursor;
use crate::table::{LevelCursor, Reading, Table, TableCursor};

/// Levels, Level 0 included. At a ratio of ten the last one begins at 6 TiB.
pub(crate) const LEVELS: usize = 7;

/// See the file's head.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    levels: Vec<Vec<Arc<Table>>>,
}

/// What makes another version of one.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Level and number of each table that goes.
    pub(crate) removed: Vec<(usize, u64)>,
    /// What comes.
    pub(crate) added: Vec<(usize, Arc<Table>)>,
}

impl Default for Version {
    fn default() -> Self {
        Self { levels: vec![Vec::new(); LEVELS] }
    }
}

impl Version {
    /// The version after `change`.
    pub(crate) fn after(&self, change: &Change) -> Self {
        let mut levels = self.levels.clone();
        for (index, level) in levels.iter_mut().enumerate() {
            let stays = |number| !change.removed.contains(&(index, number));
            level.retain(|table| stays(table.summary().id.number));
            let added = change.added.iter().filter(|(at, _)| *at == index);
            level.extend(added.map(|(_, table)| Arc::clone(table)));
            if index == 0 {
                level.sort_by_key(|table| {
                    std::cmp::Reverse(table.summary().properties.last_memtable)
                });
            } else {
                level.sort_by(|a, b| smallest(a).cmp(smallest(b)));
            }
        }
        Self { levels }
    }

    /// The tables of a level, as V1 and V2 order them.
    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// Every table, with its level.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Bytes of a level on the device.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.level(level).iter().map(|table| table.summary().stored_bytes).sum()
    }

    /// The tables of a level whose ranges overlap with this one.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> Vec<Arc<Table>> {
        let overlaps = |table: &&Arc<Table>| table.summary().overlaps(smallest, largest);
        self.level(level).iter().filter(overlaps).cloned().collect()
    }

    /// The only table of a level below Level 0 that may have `key`.
    pub(crate) fn candidate(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let tables = self.level(level);
        tables.get(tables.partition_point(|table| largest(table) < key))
    }

    /// Whether a level below `level` has a table whose range `key` lies in.
    pub(crate) fn is_below(&self, level: usize, key: &[u8]) -> bool {
        (level + 1..LEVELS)
            .any(|below| self.candidate(below, key).is_some_and(|table| table.covers(key)))
    }

    /// Walks over all tables.
    pub(crate) fn cursors(&self, reading: Reading) -> Vec<Box<dyn EntryCursor>> {
        let mut cursors: Vec<Box<dyn EntryCursor>> = Vec::new();
        for table in self.level(0) {
            cursors.push(Box::new(TableCursor::new(Arc::clone(table), reading)));
        }
        for level in 1..LEVELS {
            if !self.level(level).is_empty() {
                cursors.push(Box::new(LevelCursor::new(self.level(level).to_vec(), reading)));
            }
        }
        cursors
    }
}

fn smallest(table: &Table) -> &[u8] {
    &table.summary().properties.smallest
}

fn largest(table: &Table) -> &[u8] {
    &table.summary().properties.largest
}
