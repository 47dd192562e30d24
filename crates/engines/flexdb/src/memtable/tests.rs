//! Memtables against a list of versions, the gate, and the bytes that the budget counts.

use engine::Reservation;
use std::collections::BTreeMap;
use std::ops::Bound;

use engine::Op;
use memory_budget::{Account, MemoryBudget};
use proptest::prelude::*;

use super::*;

fn memtable() -> (Arc<Memtable>, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(1 << 20));
    (Memtable::new(SeqNo::ZERO, &MemtableSet::new(&budget)), budget)
}

fn insert(memtable: &Memtable, key: &[u8], seqno: u64, value: Option<&[u8]>) {
    let op = value.map_or(Op::Delete { key }, |value| Op::Put { key, value });
    memtable.enter().expect("it is not sealed").insert(&op, SeqNo::new(seqno));
}

type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn forward(memtable: &Memtable, range: (u64, u64), from: Bound<&[u8]>) -> Pairs {
    let mut walker = Walker::new(memtable, SeqNo::new(range.0), SeqNo::new(range.1));
    walker.seek(from);
    let mut pairs = Vec::new();
    while let Some(update) = walker.take() {
        pairs.push((update.key().to_vec(), update.value().map(<[u8]>::to_vec)));
    }
    pairs
}

fn backward(memtable: &Memtable, range: (u64, u64), from: Bound<&[u8]>) -> Pairs {
    let mut walker = Walker::new(memtable, SeqNo::new(range.0), SeqNo::new(range.1));
    walker.seek_back(from);
    let mut pairs = Vec::new();
    while let Some(update) = walker.here() {
        pairs.push((update.key().to_vec(), update.value().map(<[u8]>::to_vec)));
        walker.step_back();
    }
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn walks_give_the_newest_version_that_counts(
        versions in prop::collection::btree_map((0..10_u8, 1..20_u64), prop::option::of(any::<u8>()), 0..80),
        (above, upto) in (0..20_u64, 0..21_u64),
        place in 0..11_u8,
    ) {
        let (memtable, _budget) = memtable();
        let mut model: BTreeMap<u8, (u64, Option<u8>)> = BTreeMap::new();
        for ((key, seqno), value) in &versions {
            insert(&memtable, &[*key], *seqno, value.as_ref().map(std::slice::from_ref));
            if *seqno <= upto {
                // Ascending numbers of a key: the last one stays.
                model.insert(*key, (*seqno, *value));
            }
        }
        let newest = |key: u8| model.get(&key).copied();
        for key in 0..11_u8 {
            let mut into = Vec::new();
            let found = memtable.get(&[key], SeqNo::new(upto), &mut into);
            let expected = newest(key).map(|(seqno, value)| (seqno, value.is_some()));
            prop_assert_eq!(found.map(|found| (found.seqno.get(), found.is_value)), expected);
            if let Some(value) = newest(key).and_then(|(_, value)| value) {
                prop_assert_eq!(into, vec![value]);
            }
        }
        let all: Pairs = model
            .iter()
            .filter(|(_, (seqno, _))| *seqno > above)
            .map(|(key, (_, value))| (vec![*key], value.map(|byte| vec![byte])))
            .collect();
        let of = |keep: &dyn Fn(u8) -> bool| -> Pairs {
            all.iter().filter(|(key, _)| keep(key[0])).cloned().collect()
        };
        let reversed = |pairs: Pairs| -> Pairs { pairs.into_iter().rev().collect() };
        let (range, key) = ((above, upto), [place]);
        prop_assert_eq!(forward(&memtable, range, Bound::Unbounded), all.clone());
        prop_assert_eq!(forward(&memtable, range, Bound::Included(&key)), of(&|key| key >= place));
        prop_assert_eq!(forward(&memtable, range, Bound::Excluded(&key)), of(&|key| key > place));
        prop_assert_eq!(backward(&memtable, range, Bound::Unbounded), reversed(all.clone()));
        let upto_place = reversed(of(&|key| key <= place));
        prop_assert_eq!(backward(&memtable, range, Bound::Included(&key)), upto_place);
        let before = reversed(of(&|key| key < place));
        prop_assert_eq!(backward(&memtable, range, Bound::Excluded(&key)), before);
    }
}

#[test]
fn a_version_that_is_there_already_stays() {
    let (memtable, _budget) = memtable();
    insert(&memtable, b"k", 3, Some(b"first"));
    insert(&memtable, b"k", 3, Some(b"again"));
    let mut value = Vec::new();
    memtable.get(b"k", SeqNo::MAX, &mut value).expect("it is there");
    assert_eq!((value.as_slice(), memtable.len()), (&b"first"[..], 1));
}

#[test]
fn the_budget_counts_it_until_it_is_gone() {
    let (memtable, budget) = memtable();
    let filter_bytes = budget.used();
    assert!((100..1000).contains(&filter_bytes), "{filter_bytes}");
    insert(&memtable, &[1; 100], 3, Some(&[2; 1000]));
    assert_eq!(memtable.bytes(), budget.used() - filter_bytes);
    assert!((1100..1300).contains(&memtable.bytes()));
    drop(memtable);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_sealed_memtable_lets_nobody_in() {
    let (memtable, _budget) = memtable();
    assert!(memtable.enter().is_some());
    memtable.seal();
    assert!(memtable.enter().is_none());
}

#[test]
fn the_floor_is_lifted_while_it_is_empty_only() {
    let (memtable, _budget) = memtable();
    assert!(memtable.lift_if_empty(|| SeqNo::new(7)));
    assert!(memtable.lift_if_empty(|| SeqNo::new(5)));
    assert_eq!(memtable.floor(), SeqNo::new(7), "it never goes back");
    insert(&memtable, b"k", 8, None);
    assert!(!memtable.lift_if_empty(|| SeqNo::new(9)));
    assert_eq!((memtable.floor(), memtable.newest()), (SeqNo::new(7), SeqNo::new(8)));
    assert_eq!(memtable.oldest(), SeqNo::new(8));
}

#[test]
fn a_key_that_is_written_over_and_over_takes_the_memory_of_one_version() {
    let (memtable, budget) = memtable();
    let put = |seqno: u64, seen: u64| {
        let op = Op::Put { key: b"k", value: &[7; 100] };
        // A snapshot is at `seen`.
        let is_seen = |older: SeqNo, newer: SeqNo| (older.get()..newer.get()).contains(&seen);
        memtable.enter().expect("it is not sealed").put(
            &op,
            SeqNo::new(seqno),
            &is_seen,
            &mut Reservation::uncounted(),
        );
    };
    let filter_bytes = budget.used();
    put(1, 0);
    let one = budget.used() - filter_bytes;
    (2..50).for_each(|seqno| put(seqno, 0));
    assert_eq!((memtable.len(), memtable.bytes(), budget.used()), (1, one, one + filter_bytes));
    (50..60).for_each(|seqno| put(seqno, 49));
    assert_eq!((memtable.len(), memtable.bytes()), (2, 2 * one), "the snapshot's, and the newest");
    let at =
        |seqno| memtable.get(b"k", SeqNo::new(seqno), &mut Vec::new()).expect("it is there").seqno;
    assert_eq!((at(49), at(u64::MAX)), (SeqNo::new(49), SeqNo::new(59)));
    drop(memtable);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_value_that_has_no_room_in_the_place_of_another_one_hides_it() {
    let (memtable, _budget) = memtable();
    let put = |key: &[u8], seqno: u64, bytes: usize| {
        let op = Op::Put { key, value: &vec![seqno as u8; bytes] };
        memtable.enter().expect("it is not sealed").put(
            &op,
            SeqNo::new(seqno),
            &|_, _| false,
            &mut Reservation::uncounted(),
        );
    };
    put(b"j", 1, 1);
    put(b"k", 2, 10);
    put(b"l", 3, 1);
    let before = memtable.bytes();
    put(b"k", 4, 100);
    let room = memtable.bytes() - before;
    assert_eq!((memtable.len(), room), (4, SkipList::put_bytes(1, 100)));
    put(b"k", 5, 20);
    assert_eq!(memtable.len(), 4, "there is room again");
    put(b"k", 6, 105);
    let more = memtable.bytes() - before - room;
    assert_eq!((memtable.len(), more), (5, SkipList::put_bytes(1, 19 * 8)), "half as much again");
    let all = [(b"j", vec![1]), (b"k", vec![6; 105]), (b"l", vec![3])];
    let all = all.map(|(key, value)| (key.to_vec(), Some(value)));
    assert_eq!(forward(&memtable, (0, u64::MAX), Bound::Unbounded), all);
    let mut reversed = backward(&memtable, (0, u64::MAX), Bound::Unbounded);
    reversed.reverse();
    assert_eq!(reversed, all);
    let mut keys = Vec::new();
    memtable.each_key(&mut |key| keys.extend_from_slice(key));
    assert_eq!(keys, b"jkkkl");
    let younger = memtable.successor(SeqNo::ZERO);
    insert(&younger, b"k", 7, None);
    assert_eq!(memtable.mark_replaced(&younger, &|_, _| false), 1);
    let left = taken(Batch::of(vec![memtable]).walker(SeqNo::ZERO, SeqNo::MAX), Bound::Unbounded);
    assert_eq!(left, [all[0].clone(), all[2].clone()], "nor is what it hides committed");
}

/// Counts the puts that make a memtable full, of a store of four times its memory, whose keys are
/// drawn by Zipf's law. In a memtable that only grows each put would take its own 187 bytes, and
/// 2,800 would make it full.
#[test]
fn what_is_written_often_is_absorbed() {
    const KEYS: u64 = 217_000;
    const FULL: u64 = (8 << 20) / 16;
    let shares: Vec<f64> = (1..=KEYS).map(|rank| (rank as f64).powf(-0.99)).collect();
    let shares: Vec<f64> = shares
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let puts_of = |bytes_of: &dyn Fn(u64) -> usize| {
        let (memtable, _budget) = memtable();
        let mut puts = 0;
        while memtable.bytes() < FULL {
            puts += 1;
            let draw = codec::hash64(11, &u64::to_le_bytes(puts)) as f64 / u64::MAX as f64;
            let rank = shares.partition_point(|share| *share < draw * shares[KEYS as usize - 1]);
            let key = format!("user{rank:023}");
            let op = Op::Put { key: key.as_bytes(), value: &[1; 254][..bytes_of(puts)] };
            memtable.enter().expect("it is not sealed").put(
                &op,
                SeqNo::new(puts),
                &|_, _| false,
                &mut Reservation::uncounted(),
            );
        }
        println!("{puts} puts, {} versions", memtable.len());
        puts
    };
    let alike = puts_of(&|_| 127);
    assert!(alike > 4_500, "{alike} puts of values of one length");
    let of_all_lengths = puts_of(&|nth| (codec::hash64(12, &nth.to_le_bytes()) % 255) as usize);
    assert!(of_all_lengths > 3_500, "{of_all_lengths} puts of values of all lengths");
}

#[test]
fn a_commit_leaves_out_what_a_younger_memtable_replaces_and_no_snapshot_sees() {
    let (older, _budget) = memtable();
    let younger = older.successor(SeqNo::ZERO);
    for (seqno, key) in [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d"), (5, b"e")] {
        insert(&older, key, seqno, Some(b"old"));
    }
    insert(&older, b"b", 6, Some(b"newer"));
    // A snapshot is at 4: it sees a, c and d.
    for (seqno, key) in [(7, b"b"), (8, b"d"), (9, b"e"), (10, b"f")] {
        insert(&younger, key, seqno, None);
    }
    let is_seen = |older: SeqNo, newer: SeqNo| (older.get()..newer.get()).contains(&4);
    assert_eq!(older.replaced_by(), SeqNo::ZERO);
    assert_eq!(older.mark_replaced(&younger, &is_seen), 2);
    assert_eq!(older.mark_replaced(&younger, &is_seen), 0, "they are marked");
    assert_eq!(older.replaced_by(), SeqNo::new(9));
    let mut walker = Walker::of_commit(&older, SeqNo::ZERO, SeqNo::MAX);
    walker.seek(Bound::Unbounded);
    let mut left = Vec::new();
    while let Some(update) = walker.take() {
        left.push(update.key().to_vec());
    }
    assert_eq!(left, [b"a", b"c", b"d"]);
    assert_eq!(forward(&older, (0, u64::MAX), Bound::Unbounded).len(), 5, "readers see all");
    // Nothing is left out of the part up to the snapshot.
    let mut walker = Walker::of_commit(&older, SeqNo::ZERO, SeqNo::new(4));
    walker.seek(Bound::Included(b"b"));
    assert_eq!(walker.take().map(|update| update.key().to_vec()), Some(b"b".to_vec()));
}

fn batch_of(versions: &[(u8, u64, Option<u8>)], cuts: [u64; 2]) -> (Batch, Arc<MemoryBudget>) {
    let (oldest, budget) = memtable();
    let middle = oldest.successor(SeqNo::ZERO);
    let youngest = middle.successor(SeqNo::ZERO);
    let [first, second] = cuts;
    for (key, seqno, value) in versions {
        let into = match *seqno {
            seqno if seqno < first => &oldest,
            seqno if seqno < second => &middle,
            _ => &youngest,
        };
        insert(into, &[*key], *seqno, value.as_ref().map(std::slice::from_ref));
    }
    (Batch::of(vec![youngest, middle, oldest]), budget)
}

/// The keys and the lengths of the values, of a walk that takes no update.
fn passed(mut walker: BatchWalker<'_>, from: Bound<&[u8]>) -> Vec<(Vec<u8>, usize)> {
    walker.seek(from);
    let mut lengths = Vec::new();
    while let Some(here) = walker.here() {
        lengths.push((here.key.to_vec(), here.value_bytes));
        assert!(walker.pass());
    }
    assert!(!walker.pass());
    lengths
}

fn lengths(pairs: &Pairs) -> Vec<(Vec<u8>, usize)> {
    pairs.iter().map(|(key, value)| (key.clone(), value.as_ref().map_or(0, Vec::len))).collect()
}

fn taken(mut walker: BatchWalker<'_>, from: Bound<&[u8]>) -> Pairs {
    walker.seek(from);
    let mut pairs = Vec::new();
    while let Some(key) = walker.here().map(|here| here.key.to_vec()) {
        let update = walker.take().expect("where it stands");
        assert_eq!(update.key(), key);
        pairs.push((key, update.value().map(<[u8]>::to_vec)));
    }
    assert!(walker.take().is_none());
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Three memtables that are committed as one put what a single one with all of their versions
    /// does.
    #[test]
    fn memtables_that_are_committed_as_one_put_the_newest_version_of_each_key(
        versions in prop::collection::vec((0..10_u8, prop::option::of(any::<u8>())), 0..60),
        cuts in (0..61_u64, 0..61_u64),
        (above, upto) in (0..61_u64, 0..62_u64),
        place in 0..11_u8,
    ) {
        let numbered = (1..).zip(&versions).map(|(seqno, (key, value))| (*key, seqno, *value));
        let versions: Vec<_> = numbered.collect();
        let (batch, _budget) = batch_of(&versions, [cuts.0.min(cuts.1), cuts.0.max(cuts.1)]);
        let (single, _one_budget) = memtable();
        for (key, seqno, value) in &versions {
            insert(&single, &[*key], *seqno, value.as_ref().map(std::slice::from_ref));
        }
        prop_assert_eq!(batch.newest(), single.newest());
        let walker = || batch.walker(SeqNo::new(above), SeqNo::new(upto));
        let place = [place];
        for from in [Bound::Unbounded, Bound::Included(&place[..]), Bound::Excluded(&place[..])] {
            prop_assert_eq!(taken(walker(), from), forward(&single, (above, upto), from));
            prop_assert_eq!(passed(walker(), from), lengths(&taken(walker(), from)));
        }
    }
}

#[test]
fn memtables_that_are_committed_as_one_leave_out_what_is_replaced_in_any_of_them() {
    let versions =
        [(1, 1, Some(1)), (2, 2, Some(1)), (1, 3, Some(2)), (3, 4, Some(2)), (4, 5, None)];
    let (batch, _budget) = batch_of(&versions, [3, 5]);
    let [youngest, middle, oldest] = batch.memtables() else { panic!("three of them") };
    let replacing = youngest.successor(SeqNo::ZERO);
    insert(&replacing, &[1], 6, Some(&[3]));
    insert(&replacing, &[4], 7, Some(&[3]));
    for memtable in [oldest, middle, youngest] {
        memtable.mark_replaced(&replacing, &|_, _| false);
    }
    let left = taken(batch.walker(SeqNo::ZERO, SeqNo::MAX), Bound::Unbounded);
    assert_eq!(left, [(vec![2], Some(vec![1])), (vec![3], Some(vec![2]))]);
    assert_eq!((batch.replaced_by(), batch.newest()), (SeqNo::new(7), SeqNo::new(5)));
    assert_eq!(batch.ids(), (oldest.id(), youngest.id()));
    let bytes: u64 = batch.memtables().iter().map(|memtable| memtable.bytes()).sum();
    assert_eq!(batch.bytes(), bytes);
}

#[test]
fn a_filter_has_all_that_was_added_and_little_else() {
    let budget = Arc::new(MemoryBudget::new(64 << 20));
    let account = Arc::new(Account::new(&budget));
    let filter = filter::Filter::new(budget.limit(), &account);
    assert_eq!(account.bytes() >> 10, 32);
    let key = |number: u64| format!("user{number:023}").into_bytes();
    assert!((0..1000).all(|number| !filter.may_have(&key(number))), "an empty one has nothing");
    // The number of pairs of 27 and 127 bytes that a memtable has under this budget.
    let count = (4 << 20) / SkipList::put_bytes(key(0).len(), 127);
    (0..count).for_each(|number| filter.add(&key(number)));
    assert!((0..count).all(|number| filter.may_have(&key(number))));
    let others = (count..11 * count).filter(|number| filter.may_have(&key(*number))).count() as u64;
    assert!(others < count / 2, "{others} of {} others", 10 * count);
    drop(filter);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_get_of_another_key_is_answered_by_the_filter() {
    let (memtable, _budget) = memtable();
    insert(&memtable, b"there", 1, Some(b"value"));
    let mut into = Vec::new();
    assert!(memtable.get(b"there", SeqNo::MAX, &mut into).is_some());
    let others = (0..100_u8).filter(|number| memtable.filter.may_have(&[*number])).count();
    assert!(others < 5, "{others} of 100");
    assert!((0..100).all(|number| memtable.get(&[number], SeqNo::MAX, &mut into).is_none()));
}
