//! Memtables against a list, the gate, and the bytes that the budget counts.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use engine::{Op, Reservation};
use memory_budget::MemoryBudget;
use proptest::prelude::*;

use super::*;
use lsm_tree::testing::{Versioned, compare_walks, entry_of, in_order};

fn memtable() -> (Arc<Memtable>, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(1 << 20));
    let place = Place { drange: 0, bounds: Arc::default(), slots: 1 };
    (Memtable::new(place, SeqNo::ZERO, &MemtableSet::new(&budget)), budget)
}

fn insert(memtable: &Memtable, (key, seqno, value): &Versioned) {
    let op = match value {
        Some(value) => Op::Put { key, value },
        None => Op::Delete { key },
    };
    memtable.enter().expect("it is not sealed").insert(
        &op,
        SeqNo::new(*seqno),
        &mut Reservation::uncounted(),
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_gives_back_what_went_in(
        entries in prop::collection::vec((0..12_u8, 1..20_u64, prop::option::of(any::<u8>())), 0..80),
        places in prop::collection::vec((0..13_u8, 0..21_u64), 1..10),
    ) {
        let (memtable, _budget) = memtable();
        let first_wins = |entries: &[(u8, u64, Option<u8>)]| {
            let mut all: Vec<Versioned> = Vec::new();
            for (key, seqno, value) in entries {
                all.push((vec![*key], *seqno, value.map(|byte| vec![byte])));
            }
            all
        };
        let all = first_wins(&entries);
        all.iter().for_each(|entry| insert(&memtable, entry));
        let sorted = in_order(all);
        let places: Vec<_> = places.into_iter().map(|(key, seqno)| (vec![key], seqno)).collect();
        for (key, seqno) in &places {
            let to = Target { key, seqno: SeqNo::new(*seqno) };
            let at = sorted.partition_point(|entry| entry_of(entry).target() < to);
            let expected = sorted.get(at).filter(|(found, ..)| found == key);
            let found = memtable.get(to, &mut Vec::new());
            prop_assert_eq!(
                found.map(|found| (found.seqno.get(), found.is_value)),
                expected.map(|(_, seqno, value)| (*seqno, value.is_some()))
            );
        }
        compare_walks(&mut MemtableCursor::new(memtable), &sorted, &places);
    }
}

#[test]
fn a_version_that_is_there_already_stays() {
    let (memtable, _budget) = memtable();
    insert(&memtable, &(b"k".to_vec(), 3, Some(b"first".to_vec())));
    insert(&memtable, &(b"k".to_vec(), 3, Some(b"again".to_vec())));
    let mut value = Vec::new();
    memtable.get(Target::first_of(b"k"), &mut value).expect("it is there");
    assert_eq!(value, b"first");
    assert_eq!(memtable.len(), 1);
}

/// Writes that a replay brings a second time are not counted again.
#[test]
fn a_version_that_is_there_already_takes_nothing() {
    let (memtable, budget) = memtable();
    let entry = (b"k".to_vec(), 3, Some(b"value".to_vec()));
    insert(&memtable, &entry);
    let bytes = memtable.bytes();
    insert(&memtable, &entry);
    let memory = memtable.memtable_set().memory();
    let mut room = memory.reserve_anyway(2 * bytes, &**memory);
    let op = Op::Put { key: b"k", value: b"value" };
    memtable.enter().expect("it is not sealed").insert(&op, SeqNo::new(3), &mut room);
    drop(room);
    assert_eq!((memtable.bytes(), budget.used()), (bytes, bytes));
}

#[test]
fn the_budget_counts_it_until_it_is_gone() {
    let (memtable, budget) = memtable();
    insert(&memtable, &(vec![1; 100], 3, Some(vec![2; 1000])));
    assert_eq!(memtable.bytes(), budget.used());
    assert!((1100..1300).contains(&budget.used()));
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
    assert_eq!(memtable.floor(), SeqNo::new(7));
    assert!(memtable.lift_if_empty(|| SeqNo::new(5)));
    assert_eq!(memtable.floor(), SeqNo::new(7), "it never goes back");
    insert(&memtable, &(b"k".to_vec(), 8, None));
    assert!(!memtable.lift_if_empty(|| SeqNo::new(9)));
    assert_eq!(memtable.floor(), SeqNo::new(7));
    assert_eq!(memtable.newest(), SeqNo::new(8));
}

/// Sealing waits for the writers that have entered: nothing appears in a memtable after it.
#[test]
fn sealing_waits_for_writers() {
    let environment = environment::Environment::real();
    for _ in 0..50 {
        let (memtable, _budget) = memtable();
        let is_sealed = Arc::new(AtomicBool::new(false));
        let (theirs, flag) = (Arc::clone(&memtable), Arc::clone(&is_sealed));
        let writer = environment.spawn("writer", move || {
            for seqno in 1.. {
                let Some(entered) = theirs.enter() else { return seqno - 1 };
                let op = Op::Put { key: b"k", value: b"v" };
                entered.insert(&op, SeqNo::new(seqno), &mut Reservation::uncounted());
                assert!(!flag.load(SeqCst), "a write after the seal");
            }
            unreachable!("it is sealed some time")
        });
        while memtable.len() < 10 {
            std::thread::yield_now();
        }
        memtable.seal();
        let sealed_with = memtable.len() as u64;
        is_sealed.store(true, SeqCst);
        let written = writer.expect("there is a thread").join().expect("it does not panic");
        assert_eq!(sealed_with, written);
    }
}

/// Fills a memtable with values of a page, in memory that is reserved for them.
fn fill(memtable: &Memtable, values: u64) {
    let value = [7; 4096];
    for seqno in 1..=values {
        let op = Op::Put { key: &seqno.to_be_bytes(), value: &value };
        let bytes = entry_bytes(op.key(), op.value());
        let memory = memtable.memtable_set().memory();
        let mut room = memory.reserve_anyway(bytes, &**memory);
        memtable.enter().expect("it is open").insert(&op, SeqNo::new(seqno), &mut room);
    }
}

/// Q1 and Q2.
#[test]
fn memory_that_is_left_is_counted_and_filled_again() {
    let (first, budget) = memtable();
    let (memtables, place) = (Arc::clone(first.memtable_set()), first.place.clone());
    let memory = memtables.memory();
    let new = || Memtable::new(place.clone(), SeqNo::ZERO, &memtables);
    memory.keep_spare(4 << 20, 4 << 20);
    fill(&first, 500);
    let bytes = first.bytes();
    assert_eq!((budget.used(), memory.bytes(), memory.spare_bytes()), (bytes, bytes, 0));
    drop(first);
    let kept = memory.spare_bytes();
    assert!(kept > bytes * 9 / 10 && kept < bytes * 11 / 10, "{kept} of {bytes}");
    assert_eq!((budget.used(), memory.bytes()), (kept, 0));
    // A chunk that is taken counts as a whole from the start.
    let second = new();
    fill(&second, 40);
    let (used, filled) = (budget.used(), second.bytes());
    assert_eq!(used, memory.bytes() + memory.spare_bytes());
    assert!(memory.spare_bytes() < kept && memory.bytes() > filled);
    assert!(used < kept + (256 << 10), "{used} bytes where {kept} are in memory");
    fill(&new(), 0);
    fill(&second, 500);
    assert!(memory.bytes() - second.bytes() < 128 << 10, "all of it is filled");
    // A caller that wants its room gets it.
    let rest = (4 << 20) - memory.bytes();
    assert!(memory.try_reserve(rest, 4 << 20, &**memory).is_some());
    assert_eq!(memory.spare_bytes(), 0);
    drop(second);
    memory.keep_spare(0, 4 << 20);
    assert_eq!((memory.bytes(), memory.spare_bytes(), budget.used()), (0, 0, 0));
    let third = new();
    fill(&third, 500);
    drop(third);
    assert_eq!(budget.used(), 0, "nothing is kept where nothing may be");
}

#[test]
fn no_more_is_kept_than_memtables_leave_of_their_share() {
    let (one, budget) = memtable();
    let (memtables, place) = (Arc::clone(one.memtable_set()), one.place.clone());
    let memory = memtables.memory();
    let other = Memtable::new(place, SeqNo::ZERO, &memtables);
    [&one, &other].into_iter().for_each(|memtable| fill(memtable, 500));
    let share = other.bytes() + (3 << 19);
    memory.keep_spare(u64::MAX, share);
    drop(one);
    assert!(memory.spare_bytes() > 1 << 20, "{}", memory.spare_bytes());
    assert!(budget.used() <= share, "{} of {share}", budget.used());
    memory.keep_spare(u64::MAX, other.bytes());
    assert_eq!(budget.used(), other.bytes());
}
