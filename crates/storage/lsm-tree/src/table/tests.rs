//! Tables against lists of entries, in one piece and scattered, whole and damaged.

mod damage;
mod scattered;
mod search;

use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use proptest::prelude::*;

use super::*;
use crate::entry::{Aim, EntryCursor};
use crate::testing::{Versioned, Yard, compare_walks, entry_of, in_order, lookup};
use scattered::Scattered;

/// Removes tables immediately.
#[derive(Debug)]
struct Removes(Arc<dyn TableStore>);

impl ObsoleteFiles for Removes {
    fn note_left(&self, number: u64) {
        self.0.remove(number).expect("memory removes");
    }
}

/// Few letters, so that keys share much and often are equal.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab\x00\xff".to_vec()), 0..8)
}

fn entries() -> impl Strategy<Value = Vec<Versioned>> {
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..60));
    prop::collection::vec((keys(), 1..9_u64, value), 1..200).prop_map(in_order)
}

fn places() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    prop::collection::vec((keys(), 0..10_u64), 1..12)
}

/// Every search finds the entry that a list has, and every walk yields the same entries.
fn compare(table: &Arc<Table>, entries: &[Versioned], places: &[(Vec<u8>, u64)]) {
    let lookups = Lookups::default();
    for (key, seqno) in places {
        let to = Target { key, seqno: SeqNo::new(*seqno) };
        let at = entries.partition_point(|entry| entry_of(entry).target() < to);
        let expected = entries.get(at).filter(|(found, ..)| found == key);
        let mut value = b"left over".to_vec();
        let found = lookup(table, to, &mut value, &lookups);
        assert_eq!(found.map(|found| found.seqno.get()), expected.map(|(_, seqno, _)| *seqno));
        if let Some((_, _, Some(expected))) = expected {
            assert_eq!(&value, expected);
        }
    }
    for reading in [Reading::Cached { level: 1 }, Reading::Ahead(1000)] {
        compare_walks(&mut TableCursor::new(Arc::clone(table), reading), entries, places);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_table_gives_back_what_went_in(
        entries in entries(),
        places in places(),
        compression in prop::sample::select(Compression::ALL.to_vec()),
        is_ribbon in any::<bool>(),
        fragments in 1..4_u32,
    ) {
        let mut yard = if fragments == 1 { Yard::new() } else { Yard::of(Scattered::into_fragments(fragments)) };
        yard.options.filter = if is_ribbon { FilterKind::Ribbon } else { FilterKind::Bloom };
        yard.options.compression = compression;
        compare(&yard.build(1, &entries), &entries, &places);
    }

    #[test]
    fn tables_of_a_level_are_walked_as_one(entries in entries(), places in places(), cut in 1..60_usize) {
        let yard = Yard::new();
        let mut tables = Vec::new();
        let mut rest = entries.as_slice();
        while !rest.is_empty() {
            // Never between two versions of a key (V2).
            let mut at = cut.min(rest.len());
            while at < rest.len() && rest[at].0 == rest[at - 1].0 {
                at += 1;
            }
            let (now, later) = rest.split_at(at);
            tables.push(yard.build(1 + tables.len() as u64, now));
            rest = later;
        }
        compare_walks(&mut LevelCursor::new(Arc::new(tables), Reading::Cached { level: 1 }), &entries, &places);
    }
}

#[test]
fn a_filter_spares_searches_of_absent_keys() {
    let yard = Yard::new();
    let key = |number: u64| format!("key-{number:05}").into_bytes();
    let entries: Vec<Versioned> = (0..1000).map(|at| (key(2 * at), 1, Some(vec![7]))).collect();
    let table = yard.build(1, &entries);
    let lookups = Lookups::default();
    for number in 0..1000 {
        let absent = key(2 * number + 1);
        let to = Target::first_of(&absent);
        let found = lookup(&table, to, &mut Vec::new(), &lookups);
        assert_eq!(found, None);
    }
    let in_vain = lookups.mistaken.load(Relaxed);
    assert!(in_vain < 40, "{in_vain} of 1000 absent keys were searched for, 10 are expected");
    // The last key is behind all of the table, which then need not be searched.
    assert_eq!(lookups.filtered.load(Relaxed) + in_vain, 999);
}

#[test]
fn what_compresses_takes_less_and_what_does_not_takes_no_more() {
    let yard = Yard::new();
    let bytes = |table: &Table| table.summary().properties.fragments.iter().sum::<u64>();
    let same: Vec<Versioned> =
        (0..200_u32).map(|at| (at.to_be_bytes().to_vec(), 1, Some(vec![b'.'; 100]))).collect();
    for compression in [Compression::Lz4, Compression::Zstd] {
        let options = TableOptions { compression, ..yard.options.clone() };
        let yard = Yard { options, ..Yard::new() };
        assert!(bytes(&yard.build(1, &same)) < 200 * 50, "by {compression}");
    }
    let mut state = 1_u64;
    let mut random = || {
        state = codec::hash64(state, b"next");
        state as u8
    };
    let noise: Vec<Versioned> = (0..200_u32)
        .map(|at| (at.to_be_bytes().to_vec(), 1, Some((0..100).map(|_| random()).collect())))
        .collect();
    let none = Yard {
        options: TableOptions { compression: Compression::None, ..yard.options.clone() },
        ..Yard::new()
    };
    let zstd = Yard {
        options: TableOptions { compression: Compression::Zstd, ..yard.options.clone() },
        ..Yard::new()
    };
    let plain = bytes(&none.build(2, &noise));
    for yard in [yard, zstd] {
        assert_eq!(bytes(&yard.build(2, &noise)), plain);
    }
}

#[test]
fn what_a_table_holds_is_in_its_properties() {
    let entries = vec![
        (b"a".to_vec(), 9, Some(b"12".to_vec())),
        (b"a".to_vec(), 4, None),
        (b"cc".to_vec(), 6, Some(b"345".to_vec())),
    ];
    let table = Yard::new().build(5, &entries);
    let properties = &table.summary().properties;
    assert_eq!(
        (properties.smallest.as_slice(), properties.largest.as_slice()),
        (&b"a"[..], &b"cc"[..])
    );
    assert_eq!((properties.entries, properties.tombstones, properties.raw_bytes), (3, 1, 9));
    assert_eq!((properties.oldest, properties.newest), (SeqNo::new(4), SeqNo::new(9)));
    assert_eq!(table.metadata().expect("whole").properties, *properties);
}

#[test]
fn an_obsolete_table_is_removed_when_nobody_reads_it() {
    let yard = Yard::new();
    let table = yard.of_keys(3, &["a", "b"]);
    let mut cursor = TableCursor::new(Arc::clone(&table), Reading::Cached { level: 1 });
    table.delete_on_drop(&(Arc::new(Removes(Arc::clone(&yard.store))) as Arc<dyn ObsoleteFiles>));
    drop(table);
    assert_eq!(yard.store.list().expect("memory lists"), [3], "somebody reads it");
    cursor.seek(Target::START).expect("it is there");
    drop(cursor);
    assert_eq!(yard.store.list().expect("memory lists"), [0_u64; 0]);
}

/// A table of many blocks in some fragments, in a yard whose cache is then empty.
fn of_many_blocks(fragments: u32) -> (Yard, Arc<Table>) {
    let yard = Yard::of(Scattered::into_fragments(fragments));
    let key = |number: u64| format!("key-{number:05}").into_bytes();
    let entries: Vec<Versioned> = (0..400).map(|at| (key(at), 1, Some(vec![7; 40]))).collect();
    let table = yard.build(1, &entries);
    (yard, table)
}

/// Returns the blocks that an aim would read together.
fn aimed(table: &Arc<Table>, aim: Aim<'_>) -> Vec<BlockHandle> {
    let mut cursor = TableCursor::new(Arc::clone(table), Reading::Cached { level: 1 });
    cursor.aim(aim).expect("nothing is damaged").map_or(Vec::new(), |it| it.blocks().collect())
}

/// After walks of some blocks, the next one begins with a read of these and no more than one other,
/// both ways, and ends with its fragment.
#[test]
fn a_walk_begins_with_a_read_of_a_usual_length() {
    for fragments in [1, 3] {
        let (_yard, table) = of_many_blocks(fragments);
        table.metadata().expect("nothing is damaged");
        let begin = Target::first_of(b"key-00050");
        assert_eq!(aimed(&table, Aim::At(begin)).len(), 1, "nothing is known yet");
        // 200 bytes of a block are four of these pairs.
        for at in 0..30 {
            let key = format!("key-{:05}", 100 + 10 * at).into_bytes();
            let mut cursor = TableCursor::new(Arc::clone(&table), Reading::Cached { level: 1 });
            cursor.seek(Target::first_of(&key)).expect("nothing is damaged");
            (0..10).for_each(|_| cursor.next().expect("nothing is damaged"));
        }
        for aim in [Aim::At(begin), Aim::Before(Some(begin))] {
            let blocks = aimed(&table, aim);
            assert!((2..=5).contains(&blocks.len()), "{blocks:?}");
            assert!(blocks.iter().all(|block| block.fragment == blocks[0].fragment), "{blocks:?}");
            let is_forward = matches!(aim, Aim::At(_));
            assert!(blocks.windows(2).all(|two| match is_forward {
                true => two[0].ends_at(two[1]),
                false => two[1].ends_at(two[0]),
            }));
        }
        let other = TableCursor::new(Arc::clone(&table), Reading::Cached { level: 2 });
        assert_eq!(other.expected(), 0, "levels are apart");
    }
}
