//! The set against a list, and its bytes.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn deletes() -> impl Strategy<Value = Vec<RangeDelete>> {
    let one = (1..40_u64, 0..20_u8, prop::option::of(0..21_u8));
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let delete = |(seqno, start, end): (u64, u8, Option<u8>)| {
            let end = end.map(|end| vec![end]);
            RangeDelete { seqno: SeqNo::new(seqno), start: vec![start], end }
        };
        let is_one = |one: &RangeDelete| one.end.as_ref().is_none_or(|end| one.start < *end);
        all.into_iter().map(delete).filter(is_one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_set_says_what_a_list_says(
        all in deletes(),
        gone in prop::collection::vec(any::<bool>(), 40),
    ) {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();
        let mut set = RangeDeletes::default();
        for delete in &all {
            set = set.with(Arc::clone(delete), &budget);
            prop_assert!(set.has(delete));
        }
        let over = all.iter().zip(&gone).filter(|(_, gone)| **gone);
        let over: HashSet<_> = over.map(|(one, _)| Arc::as_ptr(one)).collect();
        let stays = |one: &&Arc<RangeDelete>| !over.contains(&Arc::as_ptr(one));
        let left: Vec<_> = all.iter().filter(stays).cloned().collect();
        for (set, list) in [(set.clone(), &all), (set.without(&over, &budget), &left)] {
            prop_assert_eq!(set.len(), list.len());
            prop_assert_eq!(set.is_empty(), list.is_empty());
            let last = list.iter().map(|one| one.seqno).max();
            prop_assert_eq!(set.last(), last.unwrap_or(SeqNo::ZERO));
            for (key, number) in (0..22_u8).flat_map(|key| (0..41).map(move |at| ([key], at))) {
                let number = SeqNo::new(number);
                let covering = || list.iter().filter(|one| one.covers(&key)).map(|one| one.seqno);
                let newest = covering().filter(|one| *one <= number).max();
                prop_assert_eq!(set.newest(&key, number), newest.unwrap_or(SeqNo::ZERO));
                let next = covering().filter(|one| *one > number).min();
                prop_assert_eq!(set.next_above(&key, number), next);
            }
        }
        drop(set);
        prop_assert_eq!(budget.used(), 0);
    }

    #[test]
    fn they_read_back_and_no_bytes_panic(
        all in deletes(),
        noise in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        for delete in &all {
            delete.encode(&mut Writer::new(&mut bytes));
        }
        let mut reader = Reader::new(&bytes);
        for delete in &all {
            let read = RangeDelete::decode(&mut reader).expect("it was just written");
            prop_assert_eq!(&read, delete);
        }
        prop_assert!(reader.is_empty());
        let _ = RangeDelete::decode(&mut Reader::new(&noise));
    }
}

/// Memory and time grow as the number, not as its square: long lists of overlapping ranges are
/// split into tiers.
#[test]
fn many_ranges_that_overlap_take_memory_in_proportion() {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let of = |count: u64| {
        let mut set = RangeDeletes::default();
        for number in 1..=count {
            let start = number.to_be_bytes().to_vec();
            set = set.with(
                Arc::new(RangeDelete { seqno: SeqNo::new(number), start, end: None }),
                &budget,
            );
        }
        set.memory()
    };
    let (few, many) = (of(1024), of(4096));
    assert!(many < 5 * few, "{few} bytes for 1024, {many} for 4096");
}

/// The worked example of `docs/formats/lsm-manifest.md`.
#[test]
fn its_bytes_are_the_documented_ones() {
    let mut bytes = Vec::new();
    let until =
        RangeDelete { seqno: SeqNo::new(300), start: b"a".to_vec(), end: Some(b"c".to_vec()) };
    until.encode(&mut Writer::new(&mut bytes));
    assert_eq!(bytes, [0xac, 0x02, 1, b'a', 1, 1, b'c']);
    for damaged in
        [&[1, 1, b'a', 2][..], &[1, 1, b'c', 1, 1, b'a'], &[1, 1, b'a', 1, 1, b'a'], &[1, 5]]
    {
        assert!(RangeDelete::decode(&mut Reader::new(damaged)).is_err(), "{damaged:?}");
    }
}
