//! The skip list against a `BTreeMap`, and with threads that add to it and read it at once.
//!
//! Each test prints its seed; with `SEED=<seed>` and the test's name it is replayed.
#![cfg(not(any(loom, shuttle)))]

mod kept;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::scope;

use kept::Kept;
use thermocline_sync::skip_list::{Entry, SkipList};

/// Key, number.
type Place = (Vec<u8>, Reverse<u64>);
/// As it lies in a map, and perhaps a value.
type Copied = (Place, Option<Vec<u8>>);

/// Numbers of a seed.
struct Random(u64);

impl Random {
    fn new(test: &str) -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(test));
        println!("{test}: to replay, SEED={seed} and this test's name");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// Bytes of which many are alike, and end in zeros: where a key is the beginning of others.
    fn key(&mut self) -> Vec<u8> {
        let len = self.below(20);
        (0..len).map(|_| [0, 0, 1, 255][self.below(4) as usize]).collect()
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let len = match self.below(20) {
            0..3 => return None,
            3 => 100_000,
            _ => 40,
        };
        let (len, byte) = (self.below(len), self.below(256) as u8);
        Some((0..len).map(|at| byte.wrapping_add(at as u8)).collect())
    }
}

fn copied(entry: Entry<'_>) -> Copied {
    let (mut key, mut value) = (vec![7], vec![7]);
    entry.read_key(&mut key);
    assert!(entry.has_key(&key));
    assert_eq!(entry.key_len(), key.len());
    let has_value = entry.read_value(&mut value);
    assert_eq!(entry.value_len(), has_value.then_some(value.len()));
    ((key, Reverse(entry.number())), has_value.then_some(value))
}

fn compare(list: &SkipList, map: &BTreeMap<Place, Option<Vec<u8>>>, at: &Place) {
    let of_map = |found: Option<(&Place, &Option<Vec<u8>>)>| {
        found.map(|(place, value)| (place.clone(), value.clone()))
    };
    let (key, number) = (at.0.as_slice(), at.1.0);
    let behind = map.range(at.clone()..).next();
    assert_eq!(list.seek(key, number).map(copied), of_map(behind));
    let after = map.range((Bound::Excluded(at.clone()), Bound::Unbounded)).next();
    assert_eq!(list.seek_after(key, number).map(copied), of_map(after));
    let before = map.range(..at.clone()).next_back();
    assert_eq!(list.seek_before(key, number).map(copied), of_map(before));
}

#[test]
fn it_is_as_a_map() {
    let mut random = Random::new("it_is_as_a_map");
    let kept = Arc::new(Kept::default());
    for round in 0..120 {
        // Every other one in memory that those before it have left.
        let list = match round % 2 {
            0 => SkipList::new(),
            _ => SkipList::reusing(Arc::clone(&kept) as _),
        };
        let mut map = BTreeMap::new();
        assert!(list.is_empty() && list.first().is_none() && list.last().is_none());
        for _ in 0..random.below(1 << (round / 2 % 11)) {
            let (place, value) = ((random.key(), Reverse(random.below(4))), random.value());
            let is_new = !map.contains_key(&place);
            assert_eq!(list.insert(&place.0, place.1.0, value.as_deref()), is_new);
            map.entry(place).or_insert(value);
            compare(&list, &map, &(random.key(), Reverse(random.below(5))));
        }
        assert_eq!(list.len(), map.len());
        let all: Vec<Copied> =
            map.iter().map(|(place, value)| (place.clone(), value.clone())).collect();
        assert_eq!(list.iter().map(copied).collect::<Vec<_>>(), all);
        assert_eq!(list.last().map(copied).as_ref(), all.last());
        map.keys().for_each(|place| compare(&list, &map, place));
    }
    assert!(kept.found.load(SeqCst) > 0, "some of it was taken again");
    assert_eq!(kept.found.load(SeqCst), kept.filled.load(SeqCst));
}

#[test]
fn the_longest_keys_are_taken() {
    let list = SkipList::new();
    let longest = vec![1; usize::from(u16::MAX)];
    assert!(list.insert(&longest, 1, Some(&[])));
    assert!(list.insert(&longest[1..], 1, None));
    let all: Vec<Copied> = list.iter().map(copied).collect();
    let second = ((longest.clone(), Reverse(1)), Some(Vec::new()));
    assert_eq!(all, [((longest[1..].to_vec(), Reverse(1)), None), second]);
}

#[test]
#[should_panic(expected = "a key of 65536 bytes")]
fn longer_ones_are_not() {
    SkipList::new().insert(&[0; 1 << 16], 1, None);
}

/// What an insertion has returned for is found by all from then on, whatever else comes; and what walks
/// find is in order.
#[test]
fn readers_find_what_was_inserted() {
    const THREADS: u64 = 3;
    const KEYS: u64 = 20_000;
    let random = Random::new("readers_find_what_was_inserted").below(1 << 30);
    // Many writers have the same key in hand.
    let key = |nth: u64| (nth ^ random).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let (list, done) = (SkipList::new(), [const { AtomicU64::new(0) }; THREADS as usize]);
    let inserted = AtomicU64::new(0);
    scope(|scope| {
        for done in &done {
            let (list, inserted) = (&list, &inserted);
            scope.spawn(move || {
                for nth in 0..KEYS {
                    let value = nth.to_be_bytes();
                    inserted.fetch_add(u64::from(list.insert(&key(nth), 1, Some(&value))), SeqCst);
                    done.store(nth + 1, SeqCst);
                }
            });
        }
        let mut value = Vec::new();
        while done.iter().any(|done| done.load(SeqCst) < KEYS) {
            for done in &done {
                let Some(last) = done.load(SeqCst).checked_sub(1) else { continue };
                for nth in [last, last / 2, 0] {
                    let found = list.seek(&key(nth), u64::MAX).expect("it is there");
                    assert!(found.has_key(&key(nth)) && found.read_value(&mut value));
                    assert_eq!(value, nth.to_be_bytes());
                }
            }
            let mut last = None;
            for entry in list.iter().take(1000) {
                let (place, _) = copied(entry);
                assert!(last.replace(place.clone()) < Some(place), "in order");
            }
        }
    });
    assert_eq!(inserted.load(SeqCst), KEYS, "each by one thread alone");
    assert_eq!((list.len() as u64, list.iter().count() as u64), (KEYS, KEYS));
    let mut keys: Vec<[u8; 8]> = (0..KEYS).map(key).collect();
    keys.sort_unstable();
    let found: Vec<Vec<u8>> = list.iter().map(|entry| copied(entry).0.0).collect();
    assert_eq!(found, keys);
}
