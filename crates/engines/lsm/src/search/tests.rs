//! Lookups in tables against a model, through the store's cache.

use std::collections::BTreeMap;

use lsm_tree::cache::PieceCache;
use lsm_tree::testing::{Versioned, Yard, in_order};
use lsm_tree::version::Change;
use memory_budget::MemoryBudget;
use proptest::prelude::*;

use super::*;
use crate::dranges::Bounds;
use crate::{Options, cache};
use ::memtable::MemtableMemory;

/// Tables of Level 0.
const LEVEL0_TABLES: usize = 3;
/// Different keys.
const KEYS: u8 = 40;

fn key(number: u8) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}

/// The number of a version, and its value unless it is a tombstone.
type Numbered = (u64, Option<Vec<u8>>);

/// Versions in tables, and the cache that their pieces go through.
struct Bench {
    yard: Yard,
    cache: Arc<Cache>,
    version: Arc<Version>,
    partition: Arc<Partition>,
    /// The versions of each key, the oldest first.
    model: BTreeMap<Vec<u8>, Vec<Numbered>>,
    /// The newest version of each key that is in Level 0, and its memtable.
    hints: BTreeMap<Vec<u8>, Hint>,
}

impl Bench {
    /// Puts these versions, the oldest first, into the levels 2, 1 and 0.
    fn new(writes: &[(u8, bool)], cache_bytes: u64) -> Self {
        let budget = Arc::new(MemoryBudget::new(cache_bytes));
        let options = Options::default();
        let memtables = Arc::new(MemtableMemory::new(&budget));
        let cache = Arc::new(cache::Cache::new(&budget, &options, &memtables));
        let yard = Yard { cache: Arc::clone(&cache) as Arc<dyn PieceCache>, ..Yard::new() };
        let numbered = (1_u64..).zip(writes);
        let versions: Vec<Versioned> = numbered
            .map(|(number, (at, is_value))| {
                (key(*at), number, is_value.then(|| format!("value{number}").into_bytes()))
            })
            .collect();
        let mut model: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, number, value) in &versions {
            model.entry(key.clone()).or_default().push((*number, value.clone()));
        }
        let (mut added, mut hints) = (Vec::new(), BTreeMap::new());
        let part = versions.len().div_ceil(2 + LEVEL0_TABLES).max(1);
        let mut table_number = 0;
        for (index, part) in versions.chunks(part).enumerate() {
            let level = 2_usize.saturating_sub(index);
            let sorted = in_order(part.to_vec());
            // A level below Level 0 has disjoint tables: one for each 16 versions or more.
            let mut rest = sorted.as_slice();
            while !rest.is_empty() {
                let full = if level == 0 { rest.len() } else { rest.len().min(16) };
                let last = &rest[full - 1].0;
                let count = rest.partition_point(|(key, ..)| key <= last);
                table_number += 1;
                added.push((level, yard.build(table_number, &rest[..count])));
                if level == 0 {
                    for (key, number, _) in part {
                        let hint = Hint { seqno: SeqNo::new(*number), memtable: table_number };
                        hints.insert(key.clone(), hint);
                    }
                }
                rest = &rest[count..];
            }
        }
        let version = Version::default().after(&Change { removed: Vec::new(), added });
        let all = Arc::new(Bounds { start: Vec::new(), end: None });
        let partition = Partition::of(&all, std::iter::empty(), version.level(0));
        let (version, partition) = (Arc::new(version), Arc::new(partition));
        Self { yard, cache, version, partition, model, hints }
    }

    /// Looks up `key`, and reads each piece that the search waits for.
    fn search(&self, key: &[u8], at: SeqNo, hidden: SeqNo, hint: Option<Hint>) -> Option<Found> {
        let (lookups, mut into) = (Lookups::default(), Vec::new());
        let search = Search::new(key, at, &self.version, &self.partition);
        let mut search = search.hidden_below(hidden).led_by(hint);
        let cached = |table: &Table, piece| -> Result<Option<Cached>> { Ok(table.cached(piece)) };
        let mut given = None;
        loop {
            let progress =
                search.advance(given.take(), &mut into, (&lookups, &*self.cache), &cached);
            match progress.expect("nothing is damaged") {
                Progress::Found(found) => {
                    if found.is_value {
                        let expected = self.expected(key, at, hidden).and_then(|(_, value)| value);
                        assert_eq!(Some(into), expected, "the value of version {:?}", found.seqno);
                    }
                    return Some(found);
                }
                Progress::Absent => return None,
                Progress::Waits(table, piece) => {
                    given = Some(table.piece(piece).expect("nothing is damaged"));
                }
            }
        }
    }

    /// Returns the newest version of the model at or below `at`, if no range delete hides it.
    fn expected(&self, key: &[u8], at: SeqNo, hidden: SeqNo) -> Option<Numbered> {
        let versions = self.model.get(key)?;
        let newest = versions.iter().rev().find(|(number, _)| *number <= at.get())?;
        Some(newest.clone()).filter(|(number, _)| *number >= hidden.get())
    }

    fn compare(&self, key: &[u8], at: SeqNo, hidden: SeqNo, hint: Option<Hint>) {
        let found = self.search(key, at, hidden, hint).filter(|found| found.is_value);
        let expected = self.expected(key, at, hidden).filter(|(_, value)| value.is_some());
        let numbers = (found.map(|found| found.seqno.get()), expected.map(|(number, _)| number));
        assert_eq!(numbers.0, numbers.1, "{key:?} at {at:?}, hidden below {hidden:?}, {hint:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A cache of this size loses pieces between the steps of a lookup.
    #[test]
    fn a_search_finds_the_newest_version_that_is_visible(
        writes in prop::collection::vec((0..KEYS, prop::bool::weighted(0.8)), 1..400),
        hidden in 0..400_u64,
        ats in prop::collection::vec(0..450_u64, 4),
        cache_bytes in prop::sample::select(vec![1_u64 << 10, 64 << 10, 16 << 20]),
    ) {
        let bench = Bench::new(&writes, cache_bytes);
        for number in 0..KEYS + 2 {
            let key = key(number);
            for at in ats.iter().copied().map(SeqNo::new).chain([SeqNo::MAX]) {
                for hidden in [SeqNo::ZERO, SeqNo::new(hidden)] {
                    let newest = bench.hints.get(&key).copied();
                    let outdated = newest.map(|hint| Hint { seqno: SeqNo::new(500), ..hint });
                    for hint in [None, newest, outdated] {
                        bench.compare(&key, at, hidden, hint);
                    }
                }
            }
        }
        prop_assert!(bench.yard.budget.used() <= bench.yard.budget.limit());
    }
}

#[test]
fn the_hint_spares_the_younger_tables() {
    let writes: Vec<(u8, bool)> = (0..KEYS).cycle().take(200).map(|key| (key, true)).collect();
    let bench = Bench::new(&writes, 16 << 20);
    let searched = |hint: Option<Hint>| {
        let (lookups, mut into) = (Lookups::default(), Vec::new());
        let key = key(3);
        let search = Search::new(key.as_slice(), SeqNo::MAX, &bench.version, &bench.partition);
        let read = |table: &Table, piece| table.piece(piece).map(Some);
        let found = search.led_by(hint).advance(None, &mut into, (&lookups, &*bench.cache), &read);
        assert!(matches!(found, Ok(Progress::Found(found)) if found.is_value));
        lookups.led_to_tables.load(Relaxed)
    };
    assert_eq!(searched(None), 0);
    assert_eq!(searched(bench.hints.get(&key(3)).copied()), 1);
}
