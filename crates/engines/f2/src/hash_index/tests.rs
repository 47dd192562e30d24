//! The index on one thread, step by step; against a map; and on many threads.

mod against_map;
mod threads;

use super::{ChainId, Figures, HashIndex, LEVEL_MAX, Trimmed};
use crate::address::LogAddress;
use crate::key_hash::KeyHash;

fn at(address: u64) -> LogAddress {
    LogAddress::new(address)
}

/// Doubles the table and waits for it.
fn double(index: &HashIndex) {
    assert!(index.grow(), "no growth under way");
    while index.split_some(8) {}
}

/// Links `address` in the chain, whatever was there.
fn link(index: &HashIndex, hash: KeyHash, address: LogAddress) {
    while index.find_or_create(hash).compare_exchange(address).is_err() {}
}

/// All chains, as a walk meets them.
fn walk(index: &HashIndex) -> Vec<(ChainId, LogAddress)> {
    std::iter::successors(index.next_chain(None), |(id, _)| index.next_chain(Some(*id))).collect()
}

#[test]
fn an_entry_is_found_once_it_is_made() {
    let index = HashIndex::new(4);
    let hash = KeyHash::from_parts(3, 77);
    assert!(index.find(hash).is_none());
    let slot = index.find_or_create(hash);
    assert_eq!(slot.address(), LogAddress::NONE);
    assert_eq!(index.find(hash).expect("made").address(), LogAddress::NONE);
    slot.compare_exchange(at(64)).expect("nobody else");
    slot.compare_exchange(at(72)).expect_err("it has changed");
    assert_eq!(index.find(hash).expect("linked").address(), at(64));
    assert!(index.find(KeyHash::from_parts(3, 78)).is_none(), "another tag");
    assert!(index.find(KeyHash::from_parts(4, 77)).is_none(), "another bucket");
    let Figures { buckets, entries, overflow_buckets, .. } = index.figures();
    assert_eq!((buckets, entries, overflow_buckets), (16, 1, 0));
}

#[test]
fn the_widest_address_and_tag_leave_each_other_alone() {
    let index = HashIndex::new(0);
    let widest = at((1 << LogAddress::BITS) - 1);
    let hash = KeyHash::from_parts(0, (1 << crate::key_hash::TAG_BITS) - 1);
    link(&index, hash, widest);
    link(&index, KeyHash::from_parts(0, 0), at(8));
    double(&index);
    assert_eq!(index.find(hash).expect("linked").address(), widest);
    assert_eq!(index.find(KeyHash::from_parts(0, 0)).expect("linked").address(), at(8));
    assert!(index.find(KeyHash::from_parts(0, 1)).is_none());
}

#[test]
fn a_slot_found_before_a_split_does_not_change_anything_after_it() {
    let index = HashIndex::new(0);
    let [stays, moves] = [KeyHash::from_parts(0, 2), KeyHash::from_parts(0, 3)];
    link(&index, stays, at(64));
    link(&index, moves, at(72));
    let slots = [index.find(stays).expect("linked"), index.find(moves).expect("linked")];
    double(&index);
    slots[0].compare_exchange(at(80)).expect("it is where it was");
    slots[1].compare_exchange(at(88)).expect_err("it is elsewhere");
    assert_eq!(index.find(stays).expect("linked").address(), at(80));
    assert_eq!(index.find(moves).expect("linked").address(), at(72));
}

#[test]
fn a_table_doubles_ten_times_and_no_more() {
    let index = HashIndex::new(1);
    let hashes: Vec<_> = (0..4000).map(|i| KeyHash::from_parts(i & 1, (i >> 1) as u16)).collect();
    for (i, &hash) in hashes.iter().enumerate() {
        link(&index, hash, at(64 + i as u64));
    }
    for _ in 0..LEVEL_MAX {
        assert!(index.should_grow() || index.figures().entries < 5 * index.figures().buckets);
        double(&index);
        for (i, &hash) in hashes.iter().enumerate() {
            assert_eq!(index.find(hash).expect("linked").address(), at(64 + i as u64));
        }
    }
    assert!(!index.grow() && !index.should_grow() && !index.split_some(1));
    assert_eq!((index.buckets(), index.figures().entries), (2 << LEVEL_MAX, 4000));
    assert_eq!(walk(&index).len(), 4000);
}

#[test]
fn growth_is_asked_for_when_buckets_are_full_and_not_while_it_runs() {
    let index = HashIndex::new(3);
    let mut chains = 0..;
    let mut insert = || {
        let i: u64 = chains.next().expect("endless");
        index.find_or_create(KeyHash::from_parts(i % 8, (i / 8) as u16));
    };
    (0..40).for_each(|_| insert());
    assert!(!index.should_grow(), "five of seven");
    insert();
    assert!(index.should_grow());
    assert!(index.grow() && index.is_growing() && !index.should_grow());
    assert!(!index.grow(), "one at a time");
    assert!(index.split_some(7));
    assert!(!index.split_some(7), "eight buckets are split");
    assert!(!index.is_growing() && !index.should_grow());
}

#[test]
fn growth_is_asked_for_when_few_buckets_have_most_of_the_chains() {
    let index = HashIndex::new(3);
    for tag in 0..22 {
        index.find_or_create(KeyHash::from_parts(0, tag));
    }
    assert_eq!(index.figures().overflow_buckets, 3, "22 chains take four lines of seven");
    assert!(index.should_grow());
}

#[test]
fn operations_split_the_buckets_they_need() {
    let index = HashIndex::new(2);
    for tag in 0..20 {
        link(&index, KeyHash::from_parts(1, tag), at(64 + u64::from(tag)));
    }
    assert!(index.grow());
    for tag in 0..20 {
        let slot = index.find(KeyHash::from_parts(1, tag)).expect("linked");
        assert_eq!(slot.address(), at(64 + u64::from(tag)));
    }
    assert!(index.is_growing(), "the three others are as they were");
    for bucket in 0..4 {
        index.find_or_create(KeyHash::from_parts(bucket, 99));
    }
    assert!(!index.is_growing());
}

#[test]
fn retiring_frees_what_is_below_the_beginning() {
    let index = HashIndex::new(0);
    let hash = KeyHash::from_parts(0, 5);
    link(&index, hash, at(640));
    let slot = index.find(hash).expect("linked");
    assert!(!index.retire(hash, slot, at(640)), "the beginning itself is not below it");
    link(&index, hash, at(648));
    assert!(!index.retire(hash, slot, at(1000)), "it has changed since");
    assert!(index.retire(hash, index.find(hash).expect("linked"), at(1000)));
    assert!(index.find(hash).is_none());
    assert_eq!(index.figures().entries, 0);
}

#[test]
fn scrubbing_visits_every_bucket_also_in_the_middle_of_a_doubling() {
    let index = HashIndex::new(3);
    for i in 0..200 {
        link(&index, KeyHash::from_parts(i % 8, (i / 8) as u16), at(i + 1));
    }
    let (mut from, mut slices) = (Some(0), 0);
    while let Some(bucket) = from {
        from = index.scrub(at(101), bucket, 3);
        slices += 1;
        if slices == 2 {
            assert!(index.grow());
        }
    }
    assert_eq!(slices, 6, "16 buckets, three at a time");
    assert_eq!(index.figures().entries, 100);
    assert!(walk(&index).iter().all(|(_, address)| *address >= at(101)));
    assert!(index.find_or_create(KeyHash::from_parts(0, 0)).address() == LogAddress::NONE);
}

#[test]
fn recovery_keeps_the_newest_record_in_any_order() {
    let index = HashIndex::new(0);
    for (tag, address) in [(1, 64), (2, 72), (1, 56), (2, 80), (1, 64)] {
        index.restore(KeyHash::from_parts(0, tag), at(address));
    }
    let newest = |tag| index.find(KeyHash::from_parts(0, tag)).expect("restored").address();
    assert_eq!((newest(1), newest(2)), (at(64), at(80)));
}

#[test]
fn an_index_that_is_restored_is_the_same_whatever_its_size() {
    let hash = |i: u64| KeyHash::from_parts(i * 7 % 16, (i * 31 % 16384) as u16);
    let (index, again) = (HashIndex::new(4), HashIndex::new(4));
    (0..500).for_each(|i| link(&index, hash(i), at(64 + i)));
    double(&index);
    let chains = walk(&index);
    (0..500).rev().for_each(|i| again.restore(hash(i), at(64 + i)));
    assert_eq!(walk(&again), chains);
    assert_eq!(again.figures().entries, chains.len() as u64);
    double(&again);
    assert_eq!(walk(&again), chains);
}

#[test]
fn a_walk_goes_on_where_it_was_after_the_table_has_doubled() {
    let index = HashIndex::new(2);
    for i in 0..300 {
        link(&index, KeyHash::from_parts(i % 4, (i * 53 % 16384) as u16), at(64 + i));
    }
    let expected = walk(&index);
    let mut met: Vec<(ChainId, LogAddress)> = Vec::new();
    while let Some(next) = index.next_chain(met.last().map(|(id, _)| *id)) {
        met.push(next);
        if met.len().is_multiple_of(60) {
            double(&index);
        } else if met.len().is_multiple_of(30) {
            index.split_some(5);
        }
    }
    assert_eq!(index.level(), 5);
    assert_eq!(met, expected);
}

#[test]
fn a_small_index_has_little_memory() {
    let index = HashIndex::new(6);
    let empty = index.figures().bytes;
    assert!(empty < 12 * 1024, "64 buckets of 64 bytes, and {empty} in all");
    for tag in 0..8 {
        index.find_or_create(KeyHash::from_parts(0, tag));
    }
    let Figures { overflow_buckets, bytes, .. } = index.figures();
    assert_eq!((overflow_buckets, bytes - empty), (1, 64 * 64), "a segment of 64 buckets");
}

#[test]
fn an_overflow_bucket_that_was_not_linked_is_taken_again() {
    let pool = super::OverflowPool::new();
    let numbers: Vec<u32> = (0..200).map(|_| pool.take().0).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "each once: {numbers:?}");
    assert_eq!(pool.used(), 200);
    numbers[..3].iter().for_each(|&number| pool.release(number));
    assert_eq!(pool.used(), 197);
    let mut again: Vec<u32> = (0..3).map(|_| pool.take().0).collect();
    again.sort_unstable();
    assert_eq!(again, numbers[..3]);
    assert!(!numbers.contains(&pool.take().0), "then new ones");
}

/// Trims all buckets, without any other thread.
fn trim(index: &HashIndex) -> usize {
    let (mut from, mut trimmed) = (Some(0), Trimmed::default());
    while let Some(bucket) = from {
        from = index.trim(bucket, 3, &mut trimmed);
    }
    let taken = trimmed.len();
    index.note_trim(&trimmed);
    index.release_trimmed(trimmed);
    taken
}

#[test]
fn empty_overflow_buckets_are_taken_out_and_used_again() {
    let index = HashIndex::new(4);
    let chain = |bucket: u64, tag: u16| KeyHash::from_parts(bucket, tag);
    let fill = |tags: std::ops::Range<u16>| {
        for (bucket, tag) in (0..16).flat_map(|bucket| tags.clone().map(move |tag| (bucket, tag))) {
            link(&index, chain(bucket, tag), at(u64::from(tag) + 1));
        }
    };
    assert!(!index.should_trim());
    fill(0..70);
    let Figures { overflow_buckets, bytes, .. } = index.figures();
    assert_eq!(overflow_buckets, 16 * 9, "seventy entries in tens of seven");
    assert!(index.should_trim());
    assert_eq!(trim(&index), 0, "none is empty");
    assert!(!index.should_trim(), "it was of no use");
    // Tags below 30 and from 49 on are removed: some of the lines in the middle are empty, too.
    for (bucket, tag) in (0..16).flat_map(|bucket| (0..70).map(move |tag| (bucket, tag))) {
        let slot = index.find(chain(bucket, tag)).expect("linked");
        let is_kept = (30..49).contains(&tag);
        assert_eq!(
            index.retire(chain(bucket, tag), slot, at(if is_kept { 0 } else { 100 })),
            !is_kept
        );
    }
    assert_eq!(trim(&index), 16 * 6, "tags 30 to 48 are in four lines, none of them the first");
    assert_eq!(index.figures().overflow_buckets, 16 * 3);
    for tag in 0..70 {
        let found = index.find(chain(5, tag)).map(|slot| slot.address().get());
        assert_eq!(found, (30..49).contains(&tag).then_some(u64::from(tag) + 1));
    }
    fill(100..151);
    assert_eq!(walk(&index).len(), 16 * 70);
    assert_eq!(index.figures().bytes, bytes, "what was given back is used again");
}

#[test]
fn nothing_is_trimmed_beside_a_doubling() {
    let index = HashIndex::new(2);
    (0..40).for_each(|tag| link(&index, KeyHash::from_parts(1, tag), at(8)));
    index.scrub(at(9), 0, 4);
    assert!(index.grow());
    assert_eq!(trim(&index), 0);
    while index.split_some(8) {}
    assert_eq!(trim(&index), 5);
}
