//! The cache of pairs against a map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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

fn value_of(key: u8, seqno: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![key; bytes];
    value.extend_from_slice(&seqno.to_le_bytes());
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_has_what_was_kept_last_or_nothing(steps in prop::collection::vec(step(), 1..600)) {
        let budget = Arc::new(MemoryBudget::new(16 << 20));
        let pairs = Pairs::new(Ghosts::new(64), &budget);
        pairs.open(1);
        pairs.set_capacity(1 << 20);
        let mut capacity = 1 << 20;
        let mut kept: BTreeMap<u8, (SeqNo, Vec<u8>)> = BTreeMap::new();
        let mut version = 1;
        for (at, step) in (1_u64..).zip(steps) {
            match step {
                Step::Keep { key, value_bytes } => {
                    let value = value_of(key, at, value_bytes);
                    pairs.keep(version, &[key], SeqNo::new(at), &value);
                    kept.insert(key, (SeqNo::new(at), value));
                }
                Step::KeepOfOld { key } => {
                    pairs.keep(version - 1, &[key], SeqNo::new(at), b"of tables that are gone");
                }
                Step::Get { key } => {
                    let mut value = b"left over".to_vec();
                    if let Some(seqno) = pairs.get(&[key], SeqNo::MAX, &mut value) {
                        prop_assert_eq!(kept.get(&key), Some(&(seqno, value)));
                        prop_assert_eq!(pairs.get(&[key], SeqNo::new(seqno.get() - 1), &mut Vec::new()), None);
                    }
                }
                Step::Commit { changed } => {
                    let changing = pairs.change();
                    for key in changed {
                        changing.forget(&[key]);
                        kept.remove(&key);
                        pairs.keep(version, &[key], SeqNo::new(at), b"beside the commit");
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

/// Pairs of 8 and 100 bytes, of which some are read again and again beside many that are read once.
#[test]
fn what_is_read_again_stays() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = Pairs::new(Ghosts::new(64), &budget);
    pairs.open(1);
    pairs.set_capacity(2 << 20);
    let key = |number: u64| codec::hash64(3, &number.to_le_bytes()).to_le_bytes();
    let mut value = Vec::new();
    let hot = 5000_u64;
    for number in 0..200_000 {
        for number in [number % hot, hot + number] {
            if pairs.get(&key(number), SeqNo::MAX, &mut value).is_none() {
                pairs.keep(1, &key(number), SeqNo::new(1), &[7; 100]);
            }
        }
    }
    assert!(pairs.shards.iter().all(|shard| shard.lock().is_sound()));
    let is_there = |number: &u64| pairs.get(&key(*number), SeqNo::MAX, &mut Vec::new()).is_some();
    let hot_there = (0..hot).filter(is_there).count() as u64;
    assert!(hot_there * 100 > hot * 95, "{hot_there} of {hot} are there");
    let all = (0..hot + 200_000).filter(is_there).count() as u64;
    let each = pairs.bytes() / all;
    assert!(each < 140, "a pair of 108 bytes takes {each}");
}

#[test]
fn it_gives_memory_back() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let pairs = Pairs::new(Ghosts::new(64), &budget);
    pairs.open(1);
    pairs.set_capacity(4 << 20);
    for number in 0..20_000_u64 {
        pairs.keep(1, &number.to_le_bytes(), SeqNo::new(1), &[7; 100]);
    }
    assert!(budget.used() > 2 << 20);
    pairs.set_capacity(1 << 20);
    assert!(budget.used() <= 1 << 20);
    let changing = pairs.change();
    changing.forget_all();
    changing.done(2);
    assert_eq!((pairs.bytes(), budget.used()), (0, 0));
}
