//! Intervals of which the cache has parts: an update alone, the bytes before all updates, and both.

use std::collections::BTreeMap;

use environment::Random;
use rand::{RngExt, SeedableRng};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::Options;
use crate::commit::TAIL_MAX;
use crate::index::Tail;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn bench() -> Bench {
    Bench::of(1 << 20, Options { interval_pairs: 64, tail_pairs_max: 15, ..small() })
}

/// Nothing is cached any more, so that updates are appended without looking, and gets are cold.
fn forget(bench: &Bench) {
    bench.store.shared.cache.shrink(0);
}

fn put(bench: &Bench, model: &mut Model, key: &[u8], value: &[u8]) {
    bench.put(key, value);
    model.insert(key.to_vec(), value.to_vec());
}

fn delete(bench: &Bench, model: &mut Model, key: &[u8]) {
    bench.delete(key);
    model.remove(key);
}

fn commit(bench: &Bench) {
    bench.flush();
    forget(bench);
}

#[track_caller]
fn check(bench: &Bench, model: &Model, key: &[u8]) {
    assert_eq!(bench.get(key), model.get(key).cloned(), "{}", String::from_utf8_lossy(key));
}

#[test]
fn parts_in_any_order_are_the_interval() {
    for seed in 0..200 {
        let mut random = Random::seed_from_u64(seed);
        let (bench, mut model) = (bench(), Model::new());
        for number in 0..20 {
            put(&bench, &mut model, &key(2 * number), b"first");
        }
        commit(&bench);
        for round in 0..random.random_range(1..5_u8) {
            for _ in 0..random.random_range(1..4) {
                let key = key(random.random_range(0..41));
                if random.random_bool(0.4) {
                    delete(&bench, &mut model, &key);
                } else {
                    put(&bench, &mut model, &key, &[round; 20]);
                }
            }
            bench.flush();
            if random.random_bool(0.7) {
                forget(&bench);
            }
            for _ in 0..random.random_range(0..60) {
                let number = random.random_range(0..42);
                assert_eq!(
                    bench.get(&key(number)),
                    model.get(&key(number)).cloned(),
                    "seed {seed}"
                );
                if random.random_bool(0.03) {
                    forget(&bench);
                }
            }
        }
        assert_eq!(bench.pairs(), model.into_iter().collect::<Vec<_>>(), "seed {seed}");
        assert!(bench.detail("intervals_appended") > 0, "seed {seed}");
    }
}

/// Keys of which an appended update's place does not tell the one from the other.
#[test]
fn keys_that_are_alike_are_not_taken_for_one_another() {
    let alike = |number: &u64| {
        let update = Tail::default().appended(0, &[(1, &key(0))]).expect("few");
        update.part_of(&key(*number)) == update.part_of(&key(0))
    };
    let [updated, first, absent] = *(0..).filter(alike).take(3).collect::<Vec<u64>>() else {
        panic!("there are many")
    };
    for reads in [[updated, first, absent], [absent, first, updated], [first, absent, updated]] {
        let (bench, mut model) = (bench(), Model::new());
        put(&bench, &mut model, &key(updated), b"old");
        put(&bench, &mut model, &key(first), b"first");
        put(&bench, &mut model, &key(first + 1), b"other");
        commit(&bench);
        put(&bench, &mut model, &key(updated), b"new");
        commit(&bench);
        for number in reads {
            check(&bench, &model, &key(number));
            check(&bench, &model, &key(number));
        }
        forget(&bench);
        let keys = reads.map(key);
        let keys = keys.each_ref().map(Vec::as_slice);
        let mut found = Model::new();
        let mut tell = |index: usize, value: Option<&[u8]>| {
            let value = value.map(<[u8]>::to_vec);
            found.extend(value.map(|value| (keys[index].to_vec(), value)));
        };
        bench.store.multi_get(&keys, &mut tell).expect("nothing is damaged");
        model.remove(&key(first + 1));
        assert_eq!(found, model);
    }
}

/// Even if the options allow more, no more updates are appended than can have known places.
#[test]
fn a_tail_has_no_more_updates_than_are_known() {
    let options = Options { tail_pairs_max: 1000, fragments_max: 1000, ..small() };
    let options = Options { interval_pairs: 256, interval_bytes: 16 << 10, ..options };
    let (bench, mut model) = (Bench::of(1 << 20, options), Model::new());
    (0..20).for_each(|number| put(&bench, &mut model, &key(number), b"first"));
    commit(&bench);
    let mut longest = 0;
    for round in 0..150 {
        put(&bench, &mut model, &key(round % 23), &[round as u8; 5]);
        bench.flush();
        let committer = bench.store.shared.committer.lock();
        for found in committer.index().now().range(0..u64::MAX) {
            let head = found.entry.head().expect("it stands for an interval");
            assert!(head.lie.tail <= TAIL_MAX, "{} updates", head.lie.tail);
            assert!(!head.wants_tail(), "after {round} updates nobody knows where they lie");
            longest = longest.max(head.lie.tail);
        }
        drop(committer);
        // Parts are cached now, and dropped with the next update.
        for number in [round % 23, round % 7, 22] {
            check(&bench, &model, &key(number));
        }
        if round % 10 == 0 {
            forget(&bench);
        }
    }
    assert_eq!(longest, TAIL_MAX, "no tail was as long as it may be");
}

/// An update that is deleted again is not cached alone: nothing would be left that hides the pair.
#[test]
fn a_tombstone_hides_the_pair_whatever_is_read_first() {
    for first in [3, 4, 5] {
        let (bench, mut model) = (bench(), Model::new());
        (0..10).for_each(|number| put(&bench, &mut model, &key(number), b"first"));
        commit(&bench);
        delete(&bench, &mut model, &key(3));
        put(&bench, &mut model, &key(4), b"second");
        commit(&bench);
        for number in [first, 3, 4, 5, 3] {
            check(&bench, &model, &key(number));
        }
    }
}
