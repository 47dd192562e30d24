//! Many threads on one index while it grows: every chain exactly once, no change lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::walk;
use crate::address::LogAddress;
use crate::hash_index::{HashIndex, LEVEL_MAX, Trimmed};
use crate::key_hash::KeyHash;
use sync::epoch::Epochs;

/// Chain `i`, spread over all buckets and tags.
fn chain(i: u64) -> KeyHash {
    KeyHash::of(&i.to_le_bytes(), 42)
}

fn count_up(index: &HashIndex, hash: KeyHash) {
    loop {
        let slot = index.find_or_create(hash);
        if slot.compare_exchange(slot.address().plus(1)).is_ok() {
            return;
        }
    }
}

/// Doubles whenever it may, and splits in small slices.
fn grow_until(index: &HashIndex, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if index.should_grow() {
            index.grow();
        }
        index.split_some(3);
        thread::yield_now();
    }
}

#[test]
fn every_count_arrives_while_the_table_doubles() {
    const CHAINS: u64 = 20_000;
    const WRITERS: u64 = 4;
    let index = &HashIndex::new(4);
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| grow_until(index, done));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    // Half of them go backwards, so that they meet.
                    for i in 0..CHAINS {
                        let i = if writer % 2 == 0 { i } else { CHAINS - 1 - i };
                        count_up(index, chain(i));
                        assert!(index.find(chain(i)).is_some(), "just made");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("ends");
        }
        done.store(true, Ordering::Relaxed);
    });
    // Seven times, if the thread that doubles gets its share of a busy machine.
    assert!(index.level() >= 2, "it has doubled {} times only", index.level());
    let mut expected = std::collections::BTreeMap::<_, u64>::new();
    for i in 0..CHAINS {
        *expected.entry(index.chain(chain(i)).id()).or_default() += WRITERS;
    }
    let met: Vec<_> = walk(index).into_iter().map(|(id, address)| (id, address.get())).collect();
    assert_eq!(met, expected.into_iter().collect::<Vec<_>>());
    assert_eq!(index.figures().entries, met.len() as u64);
}

#[test]
fn what_was_there_is_found_and_met_while_others_come_and_go() {
    const OLD: u64 = 500;
    let index = &HashIndex::new(2);
    let done = &AtomicBool::new(false);
    (0..OLD).for_each(|i| count_up(index, chain(i)));
    let old: Vec<_> = walk(index).into_iter().map(|(id, _)| id).collect();
    let old_tags: Vec<_> = (0..OLD).map(chain).collect();
    thread::scope(|scope| {
        let comes_and_goes = |first: u64| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                let i = first + round % 300;
                let hash = chain(i);
                // Chains that share a tag with an old one stay.
                if old.binary_search(&index.chain(hash).id()).is_err() {
                    let slot = index.find_or_create(hash);
                    index.retire(hash, slot, crate::address::LogAddress::new(1));
                }
            }
        };
        scope.spawn(move || comes_and_goes(1 << 20));
        scope.spawn(move || comes_and_goes((1 << 20) + 150));
        scope.spawn(|| {
            for _ in 0..LEVEL_MAX {
                while !index.grow() {
                    thread::yield_now();
                }
                while index.split_some(1) {
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            for &hash in &old_tags {
                assert!(index.find(hash).is_some(), "an old chain was not found");
            }
            let met = walk(index);
            assert!(met.is_sorted_by(|a, b| a.0 < b.0), "not in order, or twice");
            let met = met.iter().filter(|(id, _)| old.binary_search(id).is_ok()).count();
            assert_eq!(met, old.len(), "a walk has not met every old chain");
        }
    });
    assert_eq!(walk(index).len() as u64, index.figures().entries);
}

/// Trims as upkeep does, and counts the removed buckets in `taken`.
fn trim_until(index: &Arc<HashIndex>, epochs: &Epochs, done: &AtomicBool, taken: &AtomicUsize) {
    while !done.load(Ordering::Relaxed) {
        let (mut from, mut trimmed) = (Some(0), Trimmed::default());
        while let Some(bucket) = from {
            let _guard = epochs.protect();
            from = index.trim(bucket, 4, &mut trimmed);
        }
        taken.fetch_add(trimmed.len(), Ordering::Relaxed);
        let index = Arc::clone(index);
        trimmed.when_unseen(epochs, move |trimmed| index.release_trimmed(trimmed));
    }
}

#[test]
fn no_chain_is_lost_while_overflow_buckets_go_from_chain_to_chain() {
    const OLD: u64 = 100;
    const OWN: u64 = 100;
    const ROUNDS: u64 = 300;
    const WRITERS: u64 = 3;
    let (index, epochs) = (Arc::new(HashIndex::new(3)), Epochs::new());
    (0..OLD).for_each(|i| count_up(&index, chain(i)));
    let (index, epochs) = (&index, &epochs);
    let (done, taken) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| trim_until(index, epochs, done, taken));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                // Chains of its own, by tags that no other has.
                let own =
                    move |i: u64| KeyHash::from_parts(i % 8, (1000 * (writer + 1) + i / 8) as u16);
                scope.spawn(move || {
                    // On a busy machine the trimmer takes more rounds until it has run once.
                    let is_enough = |round| round >= ROUNDS && taken.load(Ordering::Relaxed) > 0;
                    for _ in (0..).take_while(|round| !is_enough(*round)) {
                        for i in 0..OWN {
                            let _guard = epochs.protect();
                            count_up(index, own(i));
                        }
                        for i in 0..OWN {
                            let _guard = epochs.protect();
                            let slot = index.find(own(i)).expect("made, and nobody else frees it");
                            assert!(index.retire(own(i), slot, LogAddress::new(2)));
                            assert!(index.find(chain(i % OLD)).is_some(), "there all the while");
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("ends");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(index.figures().entries, OLD);
    assert_eq!(walk(index).len() as u64, OLD);
}
