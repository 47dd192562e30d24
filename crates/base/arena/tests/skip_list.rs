//! The skip list against a `BTreeMap`, and with threads that add to it and read it concurrently.
//!
//! Each test prints its seed; with `SEED=<seed>` and the test's name it is replayed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::scope;

use crate::kept::Kept;
use crate::random::Random;
use thermocline_arena::skip_list::{Entry, SkipList};

/// Key, number.
type Place = (Vec<u8>, Reverse<u64>);
/// A place as in the map, and perhaps a value.
type Copied = (Place, Option<Vec<u8>>);

/// Returns bytes of which many are alike, and end in zeros: then a key is the beginning of others.
fn random_key(random: &mut Random) -> Vec<u8> {
    let len = random.below(20);
    (0..len).map(|_| [0, 0, 1, 255][random.below(4)]).collect()
}

fn random_value(random: &mut Random) -> Option<Vec<u8>> {
    let len = match random.below(20) {
        0..3 => return None,
        3 => 100_000,
        _ => 40,
    };
    let (len, byte) = (random.below(len), random.below(256) as u8);
    Some((0..len).map(|at| byte.wrapping_add(at as u8)).collect())
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
        // Every other one in memory that earlier ones have left.
        let list = match round % 2 {
            0 => SkipList::new(),
            _ => SkipList::reusing(Arc::clone(&kept) as _),
        };
        let mut map = BTreeMap::new();
        assert!(list.is_empty() && list.first().is_none() && list.last().is_none());
        for _ in 0..random.below(1 << (round / 2 % 11)) {
            let (place, value) = (
                (random_key(&mut random), Reverse(random.below(4) as u64)),
                random_value(&mut random),
            );
            let is_new = !map.contains_key(&place);
            assert_eq!(list.insert(&place.0, place.1.0, value.as_deref()), is_new);
            map.entry(place).or_insert(value);
            compare(&list, &map, &(random_key(&mut random), Reverse(random.below(5) as u64)));
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

/// A put replaces an entry that no reader sees, and nothing else: the holder of a number finds the
/// entries of that moment.
#[test]
fn what_is_put_is_as_a_map_of_all_versions() {
    let mut random = Random::new("what_is_put_is_as_a_map_of_all_versions");
    let (mut versions, mut entries) = (0, 0);
    for _ in 0..60 {
        let (list, mut map, mut held) = (SkipList::new(), BTreeMap::new(), Vec::new());
        for number in 1..random.below(300) as u64 + 2 {
            let key = [random.below(12) as u8];
            let value = random_value(&mut random);
            let is_unseen = |older| !held.iter().any(|held| (older..number).contains(held));
            list.put(&key, number, value.as_deref(), is_unseen);
            assert_eq!(list.put(&key, number, None, is_unseen), 0, "it is there");
            map.insert((key.to_vec(), Reverse(number)), value);
            if random.below(40) == 0 {
                held.push(number);
            }
            let key = [random.below(12) as u8];
            for moment in held.iter().copied().chain([u64::MAX - 1]) {
                let at = (key.to_vec(), Reverse(moment));
                let of_map = map.range(at..).next().filter(|(place, _)| place.0 == key);
                let found = list.seek(&key, moment).filter(|found| found.has_key(&key));
                let of_map = of_map.map(|(place, value)| (place.clone(), value.clone()));
                assert_eq!(found.map(copied), of_map);
            }
        }
        let places: Vec<Place> = list.iter().map(|entry| copied(entry).0).collect();
        assert!(places.is_sorted_by(|left, right| left < right), "in order, none twice");
        versions += map.len();
        entries += list.len();
    }
    assert!(entries < versions / 2, "{entries} of {versions} are left");
}

/// Values of all lengths that come in no order: some are added for lack of room, ever fewer.
#[test]
fn what_is_put_over_and_over_takes_a_few_times_its_longest_value() {
    let mut random = Random::new("what_is_put_over_and_over_takes_a_few_times_its_longest_value");
    let list = SkipList::new();
    let put = |number: u64, bytes: usize| {
        let value = vec![number as u8; bytes];
        let taken = list.put(b"key", number, Some(&value), |_| true);
        let mut into = Vec::new();
        let newest = list.first().expect("it is there");
        assert_eq!((newest.append_version(&mut into), into), ((number, true), value));
        taken
    };
    let growing: u64 = (1..1000).map(|number| put(number, number as usize)).sum();
    let most = SkipList::put_bytes(3, 1000);
    assert!(growing < 5 * most + 20 * SkipList::put_bytes(3, 0), "{growing} bytes");
    let later: u64 = (1000..20_000).map(|it| put(it, random.below(1000))).sum();
    assert_eq!(later, 0, "there is room for all of them");
    assert!(list.len() < 20, "{} entries", list.len());
    let deleted = list.put(b"key", 20_000, None, |_| true);
    let newest = list.first().expect("it is there");
    assert_eq!((deleted, newest.value_len(), newest.number()), (0, None, 20_000));
    assert!(newest.mark() && !newest.mark() && newest.is_marked());
}

/// A reader of an entry that is replaced again and again finds one of the values that were put,
/// whole, and none that is older than one found before.
#[test]
fn readers_find_whole_entries_while_these_are_replaced() {
    const KEYS: u64 = 4;
    const PUTS: u64 = 300_000;
    // So long that many are met while they are replaced.
    let value = |number: u64| vec![number as u8; (number * 97 % 3000) as usize];
    let (list, done) = (SkipList::new(), AtomicU64::new(0));
    scope(|scope| {
        for writer in 0..2 {
            let (list, done) = (&list, &done);
            scope.spawn(move || {
                for number in 1..=PUTS {
                    let key = [(number % (KEYS / 2) * 2 + writer) as u8];
                    list.put(&key, number, Some(&value(number)), |_| true);
                }
                done.fetch_add(1, SeqCst);
            });
        }
        let (mut last, mut into) = ([0; KEYS as usize], Vec::new());
        while done.load(SeqCst) < 2 {
            for (key, last) in last.iter_mut().enumerate() {
                let Some(newest) = list.seek(&[key as u8], u64::MAX) else { continue };
                if !newest.has_key(&[key as u8]) {
                    continue;
                }
                into.clear();
                let (number, has_value) = newest.append_version(&mut into);
                assert!(has_value && into == value(number), "{number}: {into:?}");
                assert!(*last <= number, "{number} after {last}");
                *last = number;
            }
        }
    });
    assert!(list.len() < 60, "{} entries", list.len());
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

/// All readers find an entry from the return of its insertion on, whatever else is added; and walks
/// find entries in order.
#[test]
fn readers_find_what_was_inserted() {
    const THREADS: u64 = 3;
    const KEYS: u64 = 20_000;
    let random = Random::new("readers_find_what_was_inserted").below(1 << 30) as u64;
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
