//! A version: which tables there are, and in which level. It never changes; changing it makes
//! another.
//!
//! # Invariants
//! - V1. Level 0 is ordered by age, the youngest first, and tables overlap. Of two versions of a
//!   key in two of them, the younger table has the later one. Memtables that may share a key are
//!   flushed in the order of their ids, or all together (`lsm::background::flush`, E1 and E2).
//! - V2. In every other level the tables' ranges of keys are disjoint, and ordered.
//! - V3. Of two versions of a key in two levels, the upper level has the later one: a table that
//!   moves down from Level 0 takes along everything older that overlaps with it.

use std::collections::HashSet;
use std::sync::Arc;

use codec::SeqNo;

use crate::entry::EntryCursor;
use crate::range_deletes::RangeDelete;
use crate::table::{LevelCursor, Reading, Summary, Table, TableCursor};

/// Levels, Level 0 included. At a ratio of ten the last one begins at a hundred thousand times
/// Level 1.
pub const LEVELS: usize = 7;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Version {
    levels: Vec<Arc<Vec<Arc<Table>>>>,
    level0_depth: usize,
    /// Stored bytes of each level.
    level_bytes: [u64; LEVELS],
    /// How many came before it.
    number: u64,
    /// The newest write that has ingested a table, whether or not the table is still there.
    newest_ingested: SeqNo,
}

/// The difference from one version to the next.
#[derive(Debug, Default)]
pub struct Change {
    /// Level and number of each table that goes.
    pub removed: Vec<(usize, u64)>,
    /// Level of each table that is added, and the table.
    pub added: Vec<(usize, Arc<Table>)>,
}

impl Default for Version {
    fn default() -> Self {
        Self {
            levels: vec![Arc::default(); LEVELS],
            level0_depth: 0,
            level_bytes: [0; LEVELS],
            number: 0,
            newest_ingested: SeqNo::ZERO,
        }
    }
}

impl Version {
    /// Returns the version after `change`.
    pub fn after(&self, change: &Change) -> Self {
        let (mut levels, mut level_bytes) = (self.levels.clone(), self.level_bytes);
        for (index, level) in levels.iter_mut().enumerate() {
            let is_removed = |(at, _): &(usize, u64)| *at == index;
            let is_added = |(at, _): &&(usize, Arc<Table>)| *at == index;
            if !change.removed.iter().any(is_removed)
                && !change.added.iter().any(|at| is_added(&at))
            {
                continue;
            }
            let removed: HashSet<u64> = change
                .removed
                .iter()
                .filter(|at| is_removed(at))
                .map(|(_, number)| *number)
                .collect();
            let level = Arc::make_mut(level);
            level.retain(|table| !removed.contains(&table.summary().id.number));
            let added = change.added.iter().filter(is_added);
            level.extend(added.map(|(_, table)| Arc::clone(table)));
            if index == 0 {
                level.sort_by_key(|table| {
                    std::cmp::Reverse(table.summary().properties.last_memtable)
                });
            } else {
                level.sort_by(|a, b| smallest(a).cmp(smallest(b)));
            }
            level_bytes[index] = level.iter().map(|table| table.summary().stored_bytes).sum();
        }
        let level0_depth = levels.first().map_or(0, |tables| depth(tables));
        let ingested = change.added.iter().filter_map(|(_, table)| table.summary().ingested);
        let newest_ingested = ingested.fold(self.newest_ingested, SeqNo::max);
        Self { levels, level0_depth, level_bytes, number: self.number + 1, newest_ingested }
    }

    /// Returns how many versions came before it.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the bytes of the metadata of all tables, and of the largest, to the extent that they
    /// were counted when the tables were written.
    pub fn metadata_bytes(&self) -> (u64, u64) {
        let of = |table: &Arc<Table>| {
            let summary = table.summary();
            summary.stored_bytes.saturating_sub(summary.properties.fragments.iter().sum())
        };
        let add = |(sum, most): (u64, u64), bytes: u64| (sum + bytes, most.max(bytes));
        self.tables().map(|(_, table)| of(table)).fold((0, 0), add)
    }

    /// Returns the number below which the lookup index may be wrong about the newest version of a
    /// key. A table that was ingested, or one that a compaction made from it, may have a newer
    /// version.
    #[inline]
    pub fn newest_ingested(&self) -> SeqNo {
        self.newest_ingested
    }

    /// Returns the weight of Level 0, in tables: the most tables that one key is in, or the bytes
    /// of the level in units of `table_bytes`, whichever is more.
    pub fn level0_weight(&self, table_bytes: u64) -> usize {
        self.level0_depth.max((self.level_bytes(0) / table_bytes.max(1)) as usize)
    }

    /// Returns the tables of a level, in the order of V1 and V2.
    #[inline]
    pub fn level(&self, level: usize) -> &[Arc<Table>] {
        self.levels.get(level).map_or(&[], |tables| tables.as_slice())
    }

    /// Returns the tables of a level, to be kept.
    fn shared(&self, level: usize) -> Arc<Vec<Arc<Table>>> {
        self.levels.get(level).map(Arc::clone).unwrap_or_default()
    }

    /// Returns every table, with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Returns the bytes of a level on the device.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.level_bytes.get(level).copied().unwrap_or(0)
    }

    /// Returns the tables of a level whose ranges overlap with this one.
    pub fn overlapping(&self, level: usize, smallest: &[u8], largest: &[u8]) -> Vec<Arc<Table>> {
        let overlaps = |table: &&Arc<Table>| table.summary().overlaps(smallest, largest);
        let tables = self.level(level);
        if level == 0 {
            return tables.iter().filter(overlaps).cloned().collect();
        }
        let first = tables.partition_point(|table| self::largest(table) < smallest);
        tables.iter().skip(first).take_while(overlaps).cloned().collect()
    }

    /// Returns the tables of a level that overlap with the range of a range delete.
    pub fn in_range<'a>(
        &'a self,
        level: usize,
        delete: &'a RangeDelete,
    ) -> impl Iterator<Item = &'a Arc<Table>> {
        let tables = self.level(level);
        let is_before = |table: &Arc<Table>| largest(table) < delete.start.as_slice();
        let first = if level == 0 { 0 } else { tables.partition_point(is_before) };
        let last = match level {
            0 => tables.len(),
            _ => tables.partition_point(|table| delete.is_before_end(smallest(table))),
        };
        let some = tables.get(first..last.max(first)).unwrap_or_default();
        some.iter().filter(move |table| !is_before(table) && delete.is_before_end(smallest(table)))
    }

    /// Returns whether a range delete hides a whole table. If it does, few tables are searched: in
    /// each level, at most two are on the edges of its range.
    pub fn has_hidden(&self, delete: &RangeDelete) -> bool {
        (0..LEVELS).any(|level| {
            let mut tables = self.in_range(level, delete);
            tables.any(|table| delete.hides_all_of(&table.summary().properties))
        })
    }

    /// Returns whether a table may have something that a range delete hides.
    pub fn may_hide(&self, delete: &RangeDelete) -> bool {
        (0..LEVELS).any(|level| {
            let mut tables = self.in_range(level, delete);
            tables.any(|table| delete.may_hide_in(&table.summary().properties))
        })
    }

    /// Returns the only table of a level below Level 0 that may have `key`.
    #[inline]
    pub fn candidate(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let tables = self.level(level);
        tables.get(tables.partition_point(|table| largest(table) < key))
    }

    /// Returns whether a level below `level` has a table whose range includes `key`.
    pub fn is_below(&self, level: usize, key: &[u8]) -> bool {
        (level + 1..LEVELS)
            .any(|below| self.candidate(below, key).is_some_and(|table| table.covers(key)))
    }

    /// Estimates the bytes that `tombstones` hide in the tables from level `from` on for which
    /// `overlaps` returns true: an entry of mean length for each.
    pub fn covered_bytes(
        &self,
        from: usize,
        tombstones: u64,
        overlaps: &dyn Fn(&Summary) -> bool,
    ) -> u64 {
        let tables =
            self.tables().filter(|(level, table)| *level >= from && overlaps(table.summary()));
        let (bytes, values) = tables.fold((0, 0), |(bytes, values), (_, table)| {
            let Summary { stored_bytes, properties, .. } = table.summary();
            (bytes + stored_bytes, values + properties.entries - properties.tombstones)
        });
        let share = u128::from(tombstones.min(values)) * u128::from(bytes);
        (share / u128::from(values.max(1))) as u64
    }

    /// Returns whether some table's range includes `key`.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.level(0).iter().any(|table| table.covers(key)) || self.is_below(0, key)
    }

    /// Returns a reader's walks over these tables of Level 0, and over all other levels.
    pub fn cursors(&self, level0: &[Arc<Table>]) -> Vec<Box<dyn EntryCursor>> {
        let mut cursors: Vec<Box<dyn EntryCursor>> = Vec::new();
        for table in level0 {
            let reading = Reading::Cached { level: 0 };
            cursors.push(Box::new(TableCursor::new(Arc::clone(table), reading)));
        }
        for level in 1..LEVELS {
            if !self.level(level).is_empty() {
                let reading = Reading::Cached { level };
                cursors.push(Box::new(LevelCursor::new(self.shared(level), reading)));
            }
        }
        cursors
    }
}

/// Returns the most tables that one key is in.
fn depth(tables: &[Arc<Table>]) -> usize {
    // The beginning of a table sorts before the end of another table at the same key: both have it.
    let begin = tables.iter().map(|table| (smallest(table), false));
    let mut ends: Vec<_> = begin.chain(tables.iter().map(|table| (largest(table), true))).collect();
    ends.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, is_end) in ends {
        now = if is_end { now.saturating_sub(1) } else { now + 1 };
        most = most.max(now);
    }
    most
}

fn smallest(table: &Table) -> &[u8] {
    &table.summary().properties.smallest
}

fn largest(table: &Table) -> &[u8] {
    &table.summary().properties.largest
}
