//! Tables for tests: entries, built and opened in memory.

use std::sync::Arc;

use codec::SeqNo;
use memory_budget::MemoryBudget;
use memtable::MemtableMemory;

use crate::cache::Cache;
use crate::entry::{Entry, EntryCursor, Found, Target};
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::range_index::Partition;
use crate::search::{Progress, Search};
use crate::table::{LocalTables, Lookups, Table, TableBuilder, TableId, TableOptions, TableStore};
use crate::version::{Change, Version};

/// A version: key, number, value.
pub(crate) type Versioned = (Vec<u8>, u64, Option<Vec<u8>>);

/// A place in which tests build tables.
pub(crate) struct Yard {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) options: TableOptions,
}

impl Yard {
    /// Local tables in memory, small blocks.
    pub(crate) fn new() -> Self {
        Self::of(LocalTables::on(device::memory()))
    }

    pub(crate) fn of(store: Arc<dyn TableStore>) -> Self {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let options = Options { block_bytes: 200, table_bytes: 3000, ..Options::default() };
        let cache =
            Arc::new(Cache::new(&budget, &options, &Arc::new(MemtableMemory::new(&budget))));
        Self {
            store,
            cache,
            budget,
            options: options.tables(&MemorySplit::of(1 << 20, &options), 0),
        }
    }

    /// Builds a table of entries in order, from the memtable of the same number.
    pub(crate) fn build(&self, number: u64, entries: &[Versioned]) -> Arc<Table> {
        let id = TableId { number, nonce: number * 77 };
        let memtables = (number, number);
        let builder =
            TableBuilder::create(&*self.store, id, memtables, &self.options, &self.budget);
        let mut builder = builder.expect("memory takes it");
        for entry in entries {
            builder.push(&entry_of(entry)).expect("memory takes it");
        }
        let summary = builder.finish().expect("memory takes it");
        Table::open(summary, &self.store, &self.cache).expect("it was just written")
    }

    /// A table of one value for each key.
    pub(crate) fn of_keys(&self, number: u64, keys: &[&str]) -> Arc<Table> {
        let entry = |key: &&str| (key.as_bytes().to_vec(), number, Some(b"value".to_vec()));
        self.build(number, &keys.iter().map(entry).collect::<Vec<_>>())
    }
}

/// Returns the result of a lookup in one table.
pub(crate) fn look_up(
    table: &Arc<Table>,
    to: Target<'_>,
    into: &mut Vec<u8>,
    lookups: &Lookups,
) -> Option<Found> {
    let added = vec![(0, Arc::clone(table))];
    let version = Version::default().after(&Change { removed: Vec::new(), added });
    let all = Partition::of(&Arc::default(), std::iter::empty(), version.level(0));
    let mut search = Search::new(to.key, to.seqno, &Arc::new(version), &Arc::new(all));
    let read = |table: &Table, piece| table.piece(piece).map(Some);
    match search.advance(None, into, (lookups, table.cache()), &read).expect("nothing is damaged") {
        Progress::Found(found) => Some(found),
        Progress::Absent => None,
        Progress::Waits(..) => unreachable!("whatever it needs is read"),
    }
}

/// A version as an entry.
pub(crate) fn entry_of((key, seqno, value): &Versioned) -> Entry<'_> {
    Entry { key, seqno: SeqNo::new(*seqno), value: value.as_deref() }
}

/// An entry as a version.
pub(crate) fn versioned(entry: Entry<'_>) -> Versioned {
    (entry.key.to_vec(), entry.seqno.get(), entry.value.map(<[u8]>::to_vec))
}

/// Returns the entries of a walk from a place on.
pub(crate) fn forward(cursor: &mut dyn EntryCursor, to: Target<'_>) -> Vec<Versioned> {
    let mut found = Vec::new();
    cursor.seek(to).expect("nothing is damaged");
    while let Some(entry) = cursor.entry() {
        found.push(versioned(entry));
        cursor.next().expect("nothing is damaged");
    }
    found
}

/// Returns the entries of a backward walk, from before a place.
pub(crate) fn backward(cursor: &mut dyn EntryCursor, to: Option<Target<'_>>) -> Vec<Versioned> {
    let mut found = Vec::new();
    cursor.seek_before(to).expect("nothing is damaged");
    while let Some(entry) = cursor.entry() {
        found.push(versioned(entry));
        cursor.previous().expect("nothing is damaged");
    }
    found
}

/// Holds a walk to a list of all that it should give, from each of some places.
pub(crate) fn compare_walks(
    cursor: &mut dyn EntryCursor,
    entries: &[Versioned],
    places: &[(Vec<u8>, u64)],
) {
    for (key, seqno) in places {
        let to = Target { key, seqno: SeqNo::new(*seqno) };
        let at = entries.partition_point(|entry| entry_of(entry).target() < to);
        let (before, behind) = entries.split_at(at);
        assert_eq!(forward(cursor, to), behind, "forward from {to:?}");
        let reversed: Vec<_> = before.iter().rev().cloned().collect();
        assert_eq!(backward(cursor, Some(to)), reversed, "backward from {to:?}");
    }
    let reversed: Vec<_> = entries.iter().rev().cloned().collect();
    assert_eq!(backward(cursor, None), reversed, "backward from the end");
}

/// Sorts versions, one for each key and number.
pub(crate) fn in_order(mut entries: Vec<Versioned>) -> Vec<Versioned> {
    entries.sort_by(|a, b| entry_of(a).target().cmp(&entry_of(b).target()));
    entries.dedup_by(|a, b| entry_of(a).target() == entry_of(b).target());
    entries
}
