//! The cache of pairs against a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_budget::{GhostTable, MemoryBudget};
use proptest::prelude::*;

use crate::{PART_MAX, RowCache};

#[derive(Clone, Debug)]
enum Step {
    Keep { key: u8, value_bytes: usize },
    Get { key: u8 },
    Commit { changed: Vec<u8> },
    KeepOfOld { key: u8 },
    Resize { bytes: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..200_u8;
    prop_oneof![
        8 => (key.clone(), 0..3000_usize).prop_map(|(key, value_bytes)| Step::Keep { key, value_bytes }),
        8 => key.clone().prop_map(|key| Step::Get { key }),
        1 => prop::collection::vec(key.clone(), 0..20).prop_map(|changed| Step::Commit { changed }),
        1 => key.prop_map(|key| Step::KeepOfOld { key }),
        1 => (0..2_u64 << 20).prop_map(|bytes| Step::Resize { bytes }),
    ]
}

fn value_of(key: u8, since: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![key; bytes];
    value.extend_from_slice(&since.to_le_bytes());
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_has_what_was_kept_last_or_nothing(steps in prop::collection::vec(step(), 1..600)) {
        let budget = Arc::new(MemoryBudget::new(16 << 20));
        let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
        pairs.open(1);
        pairs.set_capacity(1 << 20);
        let mut capacity = 1 << 20;
        let mut kept: BTreeMap<u8, (u64, Vec<u8>)> = BTreeMap::new();
        let mut version = 1;
        for (at, step) in (1_u64..).zip(steps) {
            match step {
                Step::Keep { key, value_bytes } => {
                    let value = value_of(key, at, value_bytes);
                    pairs.keep(version, &[key], at, &value);
                    kept.insert(key, (at, value));
                }
                Step::KeepOfOld { key } => {
                    pairs.keep(version - 1, &[key], at, b"of tables that are gone");
                }
                Step::Get { key } => {
                    let mut value = b"left over".to_vec();
                    if let Some(since) = pairs.get(&[key], u64::MAX, &mut value) {
                        prop_assert_eq!(kept.get(&key), Some(&(since, value)));
                        prop_assert_eq!(pairs.get(&[key], since - 1, &mut Vec::new()), None);
                    }
                }
                Step::Commit { changed } => {
                    let changing = pairs.change();
                    for key in changed {
                        changing.forget(&[key]);
                        kept.remove(&key);
                        pairs.keep(version, &[key], at, b"beside the commit");
                    }
                    version += 1;
                    changing.done(version);
                }
                Step::Resize { bytes } => {
                    pairs.set_capacity(bytes);
                    capacity = bytes;
                }
            }
            prop_assert!(pairs.bytes() <= capacity);
            prop_assert!(pairs.shards.iter().all(|shard| shard.lock().is_sound()));
            prop_assert_eq!(pairs.bytes(), budget.used());
        }
        drop(pairs);
        prop_assert_eq!(budget.used(), 0);
    }
}

/// Pairs of 8 and 100 bytes: some are read again and again, next to many that are read once.
#[test]
fn what_is_read_again_stays() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
    pairs.open(1);
    pairs.set_capacity(2 << 20);
    let key = |number: u64| codec::hash64(3, &number.to_le_bytes()).to_le_bytes();
    let mut value = Vec::new();
    let hot = 5000_u64;
    for number in 0..200_000 {
        for number in [number % hot, hot + number] {
            if pairs.get(&key(number), u64::MAX, &mut value).is_none() {
                pairs.keep(1, &key(number), 1, &[7; 100]);
            }
        }
    }
    assert!(pairs.shards.iter().all(|shard| shard.lock().is_sound()));
    let is_there = |number: &u64| pairs.get(&key(*number), u64::MAX, &mut Vec::new()).is_some();
    let hot_there = (0..hot).filter(is_there).count() as u64;
    assert!(hot_there * 100 > hot * 95, "{hot_there} of {hot} are there");
    let all = (0..hot + 200_000).filter(is_there).count() as u64;
    let each = pairs.bytes() / all;
    // Of all pages one in a hundred is free, to be filled next.
    assert!(each < 142, "a pair of 108 bytes takes {each}");
}

#[test]
fn it_gives_memory_back() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
    pairs.open(1);
    pairs.set_capacity(4 << 20);
    for number in 0..20_000_u64 {
        pairs.keep(1, &number.to_le_bytes(), 1, &[7; 100]);
    }
    assert!(budget.used() > 2 << 20);
    pairs.set_capacity(1 << 20);
    assert!(budget.used() <= 1 << 20);
    let changing = pairs.change();
    changing.forget_all();
    changing.done(2);
    assert_eq!((pairs.bytes(), budget.used()), (0, 0));
}

#[test]
fn a_pair_that_takes_memory_is_reported() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
    pairs.open(1);
    pairs.fit(8 << 20);
    let before = pairs.bytes();
    assert!(pairs.keep(1, b"first", 1, &[7; 100]), "it takes a page");
    assert!(pairs.bytes() > before);
    assert!(!pairs.keep(1, b"first", 1, &[8; 100]), "the page has room");
    assert!(!pairs.keep(2, b"second", 1, &[7; 100]), "it is of another state");
}

/// It takes a half before anything is known, and then follows the reads, up to its maximum.
#[test]
fn its_part_follows_gets_and_walks() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let part = |part_max: f64, gets: u64, walked: u64| {
        let pairs = RowCache::new(GhostTable::new(64), &budget, part_max);
        pairs.open(1);
        pairs.fit(8 << 20);
        assert!((pairs.part() - part_max.min(0.5)).abs() < 1e-9, "{}", pairs.part());
        for _ in 0..8 {
            (0..gets).for_each(|number| _ = pairs.keep(1, &number.to_le_bytes(), 1, &[7; 100]));
            pairs.note_walked(walked);
            pairs.fit(1 << 20);
            assert!(pairs.bytes() <= ((1 << 20) as f64 * pairs.part()) as u64);
        }
        (pairs.part(), pairs.bytes())
    };
    let (gets_alone, walks_alone) = (part(PART_MAX, 5000, 0), part(PART_MAX, 0, 5000));
    assert!(gets_alone.0 == PART_MAX && gets_alone.1 > 1 << 19, "{gets_alone:?}");
    assert!(walks_alone.0 < 0.01 && walks_alone.1 == 0, "{walks_alone:?}");
    let (both, _) = part(PART_MAX, 3000, 9000);
    assert!((0.24..0.26).contains(&both), "{both}");
    assert_eq!(part(0.0, 5000, 0), (0.0, 0), "it may take nothing");
    assert_eq!(budget.used(), 0);
}

/// After a commit that was broken off nothing may be kept: the pairs below are not known.
#[test]
fn a_commit_that_is_not_done_forbids_to_keep() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
    pairs.open(1);
    pairs.set_capacity(1 << 20);
    pairs.keep(1, b"k", 1, b"v");
    pairs.change().forget(b"another");
    pairs.keep(1, b"other", 1, b"v");
    assert_eq!(pairs.get(b"other", u64::MAX, &mut Vec::new()), None);
    assert_eq!(pairs.get(b"k", u64::MAX, &mut Vec::new()), Some(1), "it is not forgotten");
}
