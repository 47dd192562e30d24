//! Tables and walks for tests, of this crate and of crates above.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use memory_budget::MemoryBudget;
use sync::locks::Mutex;

use crate::cache::{Cached, Key, PieceCache};
use crate::entry::{Entry, EntryCursor, Found, Target};
use crate::range_deletes::Sweep;
use crate::table::{
    Compression, FilterKind, Held, LocalTables, Lookups, Piece, Table, TableBuilder, TableId,
    TableOptions, TableStore, hash,
};
use crate::walk_lengths::WalkLengths;

/// A cache that keeps all pieces.
#[derive(Debug)]
struct KeepsAll {
    pieces: Mutex<HashMap<Key, Cached>>,
    budget: Arc<MemoryBudget>,
    walk_lengths: WalkLengths,
}

impl PieceCache for KeepsAll {
    fn get(&self, key: &Key) -> Option<Cached> {
        self.pieces.lock().get(key).cloned()
    }

    fn has(&self, key: &Key) -> bool {
        self.pieces.lock().contains_key(key)
    }

    fn memory(&self, len: usize) -> Held {
        Held::from(vec![0; len])
    }

    fn insert(&self, key: Key, cached: Cached) {
        self.pieces.lock().insert(key, cached);
    }

    fn note_walked(&self, _: u64) {}

    fn walk_lengths(&self) -> &WalkLengths {
        &self.walk_lengths
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }
}

/// A version: key, number, value.
pub type Versioned = (Vec<u8>, u64, Option<Vec<u8>>);

/// A place in which tests build tables.
pub struct Yard {
    pub store: Arc<dyn TableStore>,
    pub cache: Arc<dyn PieceCache>,
    pub budget: Arc<MemoryBudget>,
    pub options: TableOptions,
}

impl Default for Yard {
    fn default() -> Self {
        Self::new()
    }
}

impl Yard {
    /// Local tables in memory, small blocks.
    pub fn new() -> Self {
        Self::of(LocalTables::on(device::memory()))
    }

    pub fn of(store: Arc<dyn TableStore>) -> Self {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let options = TableOptions {
            block_bytes: 200,
            compression: Compression::default(),
            tally: Arc::default(),
            filter: FilterKind::default(),
            filter_bits_per_key: 10,
            table_bytes: 3000,
            buffer_bytes: 4096,
            sweep: Sweep::default(),
        };
        let (pieces, walk_lengths) = Default::default();
        let cache = Arc::new(KeepsAll { pieces, budget: Arc::clone(&budget), walk_lengths });
        Self { store, cache, budget, options }
    }

    /// Builds a table of entries in order, from the memtable of the same number.
    pub fn build(&self, number: u64, entries: &[Versioned]) -> Arc<Table> {
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
    pub fn of_keys(&self, number: u64, keys: &[&str]) -> Arc<Table> {
        let entry = |key: &&str| (key.as_bytes().to_vec(), number, Some(b"value".to_vec()));
        self.build(number, &keys.iter().map(entry).collect::<Vec<_>>())
    }
}

/// Returns the result of a lookup in one table.
pub fn lookup(
    table: &Arc<Table>,
    to: Target<'_>,
    into: &mut Vec<u8>,
    lookups: &Lookups,
) -> Option<Found> {
    if !table.covers(to.key) {
        return None;
    }
    let metadata = table.metadata().expect("nothing is damaged");
    if !metadata.filter.may_contain(hash(to.key)) {
        lookups.filtered.fetch_add(1, Relaxed);
        return None;
    }
    lookups.searched.fetch_add(1, Relaxed);
    let handle = table.block_for(&metadata, to).expect("nothing is damaged")?;
    let read = table.piece(Piece::Block(handle)).expect("nothing is damaged");
    let Cached::Block(block) = read else { unreachable!("the piece is a block") };
    let found = table.search_block(&block, handle, to, into).expect("nothing is damaged");
    if found.is_none() {
        lookups.mistake(table);
    }
    found
}

/// A version as an entry.
pub fn entry_of((key, seqno, value): &Versioned) -> Entry<'_> {
    Entry { key, seqno: SeqNo::new(*seqno), value: value.as_deref() }
}

/// An entry as a version.
pub fn versioned(entry: Entry<'_>) -> Versioned {
    (entry.key.to_vec(), entry.seqno.get(), entry.value.map(<[u8]>::to_vec))
}

/// Returns the entries of a walk from a place on.
pub fn forward(cursor: &mut dyn EntryCursor, to: Target<'_>) -> Vec<Versioned> {
    let mut found = Vec::new();
    cursor.seek(to).expect("nothing is damaged");
    while let Some(entry) = cursor.entry() {
        found.push(versioned(entry));
        cursor.next().expect("nothing is damaged");
    }
    found
}

/// Returns the entries of a backward walk, from before a place.
pub fn backward(cursor: &mut dyn EntryCursor, to: Option<Target<'_>>) -> Vec<Versioned> {
    let mut found = Vec::new();
    cursor.seek_before(to).expect("nothing is damaged");
    while let Some(entry) = cursor.entry() {
        found.push(versioned(entry));
        cursor.previous().expect("nothing is damaged");
    }
    found
}

/// Holds a walk to a list of all that it should give, from each of some places.
pub fn compare_walks(
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
pub fn in_order(mut entries: Vec<Versioned>) -> Vec<Versioned> {
    entries.sort_by(|a, b| entry_of(a).target().cmp(&entry_of(b).target()));
    entries.dedup_by(|a, b| entry_of(a).target() == entry_of(b).target());
    entries
}
