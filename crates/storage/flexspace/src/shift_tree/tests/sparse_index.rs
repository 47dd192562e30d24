//! A sparse index of intervals, as FlexDB has one (Flex 5.1): the tree with keys as pivots, whose
//! offsets shift by the same code.

use environment::Random;
use rand::RngExt;

use crate::seed::seed;
use crate::{Entry, Found, Room, ShiftTree, Side};

/// The first key of an interval; how long it is the tree knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Interval {
    first_key: String,
}

impl Entry for Interval {
    type Pivot = String;

    fn pivot(&self) -> String {
        self.first_key.clone()
    }

    fn tail(&self, _: u32) -> Self {
        self.clone()
    }
}

type Index = ShiftTree<Interval, 4, 6>;

fn find<'a>(index: &'a Index, key: &str) -> Option<Found<'a, Interval>> {
    index.now().get_by_key(key, |interval| interval.first_key.as_str(), String::as_str)
}

/// Puts an interval between two, or at one end.
fn put(index: &mut Index, offset: u64, length: u32, first_key: &str) {
    let room = Room { entries: 1, bytes: length, side: Side::Before };
    index.edit(offset, room, |leaf, spot| {
        let at = if spot.inside == 0 { 0 } else { spot.index + 1 };
        leaf.splice(at, at, [(length, Interval { first_key: first_key.to_owned() })]);
    });
}

fn check(index: &Index) -> Result<(), String> {
    index.check()?;
    index.check_pivots(|interval| interval.first_key.as_str(), String::as_str)
}

/// Intervals that need a leaf of their own each, because they are long. The order of their
/// insertion puts the leaf before, between and behind the others.
#[test]
fn an_interval_with_a_leaf_of_its_own_is_found_by_its_key() {
    const LONG: u32 = u32::MAX;
    let rows: [&[(u64, u32, &str)]; 4] = [
        &[(0, 1000, ""), (1000, LONG, "m")],
        &[(0, LONG - 10, ""), (LONG as u64 - 10, 1000, "m"), (LONG as u64 - 10, 1000, "c")],
        &[(0, LONG, "b"), (0, 1000, "a")],
        &[(0, 10, "c"), (0, 10, "b"), (0, LONG, "a")],
    ];
    for intervals in rows {
        let mut index = Index::default();
        for (offset, length, key) in intervals {
            put(&mut index, *offset, *length, key);
            check(&index).unwrap_or_else(|fault| panic!("{key} of {intervals:?}: {fault}"));
        }
        for (_, length, key) in intervals {
            for sought in [(*key).to_owned(), format!("{key}a")] {
                let found = find(&index, &sought).expect("there is one for each key");
                assert_eq!((found.length, found.entry.first_key.as_str()), (*length, *key));
            }
        }
    }
}

/// Makes two intervals of one.
fn split(index: &mut Index, offset: u64, length: u32, at: u32, first_key: String) {
    let room = Room { entries: 1, bytes: 0, side: Side::At };
    index.edit(offset, room, |leaf, spot| {
        let left = leaf.entry(spot.index).clone();
        let right = Interval { first_key };
        leaf.splice(spot.index, spot.index + 1, [(at, left), (length - at, right)]);
    });
}

/// Draws a key that is none of an interval's, and its interval's place in the model.
fn draw(model: &[(String, u32)], random: &mut Random) -> Option<(String, usize)> {
    let key = format!("{:05}", random.random_range(0..100_000));
    let behind = model.partition_point(|(first, _)| *first <= key);
    let place = behind.checked_sub(1)?;
    (model[place].0 != key).then_some((key, place))
}

#[test]
fn an_index_of_intervals_is_the_same_tree() {
    let mut random = seed("an_index_of_intervals_is_the_same_tree", "").stream("sparse index");
    let mut index = Index::default();
    assert!(find(&index, "any").is_none());
    put(&mut index, 0, 1000, "");
    let mut model = vec![(String::new(), 1000_u32)];

    for step in 0..20_000 {
        let Some((key, place)) = draw(&model, &mut random) else { continue };
        let offset: u64 = model[..place].iter().map(|(_, length)| u64::from(*length)).sum();
        let length = model[place].1;
        let found = find(&index, &key).expect("there is an interval for each key");
        assert_eq!((found.offset, found.length), (offset, length), "step {step}, {key}");
        assert_eq!(found.entry.first_key, model[place].0, "step {step}, {key}");
        match random.random_range(0..11) {
            0..4 if length > 1 && model.len() < 200 => {
                let at = random.random_range(1..length);
                split(&mut index, offset, length, at, key.clone());
                model[place].1 = at;
                model.insert(place + 1, (key, length - at));
            }
            4 if place > 0 => {
                // All pairs of the interval are removed.
                index.remove(offset, offset + u64::from(length));
                model.remove(place);
            }
            6 if place > 0 && random.random_range(0..20) == 0 => {
                // A range of keys is deleted, with all intervals of it.
                let last = (place + random.random_range(1..40)).min(model.len());
                let gone = model.drain(place..last).map(|(_, length)| u64::from(length));
                index.remove(offset, offset + gone.sum::<u64>());
            }
            5 => {
                // So long that it needs a leaf of its own, and back.
                index.resize(offset, u32::MAX);
                check(&index).unwrap_or_else(|fault| panic!("step {step}: {fault}"));
                index.resize(offset, length);
            }
            10 if model.len() < 200 => {
                // One that is so long from the start, and is cut short then.
                let (at, new) = (offset + u64::from(length), random.random_range(1..2000));
                put(&mut index, at, u32::MAX, &key);
                check(&index).unwrap_or_else(|fault| panic!("step {step}: {fault}"));
                index.resize(at + 1, new);
                model.insert(place + 1, (key, new));
            }
            _ => {
                let new = random.random_range(1..2000);
                index.resize(offset, new);
                model[place].1 = new;
            }
        }
        check(&index).unwrap_or_else(|fault| panic!("step {step}: {fault}"));
    }
    let found: Vec<_> = index
        .now()
        .range(0..u64::MAX)
        .map(|found| (found.entry.first_key.clone(), found.length))
        .collect();
    assert_eq!(found, model);
    assert!(model.len() > 20, "the test has made {} intervals", model.len());
}

/// Which is why an interval is made shorter by `resize`.
#[test]
fn two_intervals_of_one_key_are_a_fault() {
    let mut index = Index::default();
    put(&mut index, 0, 1000, "");
    index.resize(0, 500);
    check(&index).expect("there is one interval");
    index.remove(100, 200);
    let fault = check(&index).expect_err("there are two of one key");
    assert!(fault.starts_with("N3"), "{fault}");
}

#[test]
#[should_panic(expected = "half of a leaf")]
fn a_change_may_not_add_half_a_leaf() {
    let room = Room { entries: 2, bytes: 2, side: Side::End };
    Index::default().edit(0, room, |_, _| ());
}

#[test]
#[should_panic(expected = "grows its leaf as it said")]
fn a_change_that_splits_a_leaf_adds_the_bytes_it_said() {
    let mut index = Index::default();
    for (offset, key) in ["", "a", "b", "c"].into_iter().enumerate() {
        put(&mut index, offset as u64, 1, key);
    }
    let room = Room { entries: 1, bytes: 1, side: Side::End };
    index.edit(4, room, |leaf, spot| {
        leaf.splice(spot.index + 1, spot.index + 1, [(2, Interval { first_key: "d".to_owned() })]);
    });
}
