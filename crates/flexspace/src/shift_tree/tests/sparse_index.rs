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

/// Makes the interval at `offset` longer or shorter, as a pair in it is.
fn resize(index: &mut Index, offset: u64, old: u32, new: u32) {
    if new >= old {
        let room = Room { entries: 0, bytes: new - old, side: Side::At };
        index.edit(offset, room, |leaf, spot| {
            let interval = leaf.entry(spot.index).clone();
            leaf.splice(spot.index, spot.index + 1, [(new, interval)]);
        });
    } else {
        index.remove(offset + u64::from(new), offset + u64::from(old));
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
    let first = Interval { first_key: String::new() };
    let room = Room { entries: 1, bytes: 1000, side: Side::End };
    index.edit(0, room, |leaf, _| leaf.splice(0, 0, [(1000, first)]));
    let mut model = vec![(String::new(), 1000_u32)];

    for step in 0..20_000 {
        let Some((key, place)) = draw(&model, &mut random) else { continue };
        let offset: u64 = model[..place].iter().map(|(_, length)| u64::from(*length)).sum();
        let length = model[place].1;
        let found = find(&index, &key).expect("there is an interval for each key");
        assert_eq!((found.offset, found.length), (offset, length), "step {step}, {key}");
        assert_eq!(found.entry.first_key, model[place].0, "step {step}, {key}");
        match random.random_range(0..10) {
            0..4 if length > 1 && model.len() < 200 => {
                let at = random.random_range(1..length);
                split(&mut index, offset, length, at, key.clone());
                model[place].1 = at;
                model.insert(place + 1, (key, length - at));
            }
            4 if place > 0 => {
                // All pairs of the interval are gone.
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
                resize(&mut index, offset, length, u32::MAX);
                index.check().unwrap_or_else(|fault| panic!("step {step}: {fault}"));
                resize(&mut index, offset, u32::MAX, length);
            }
            _ => {
                let new = random.random_range(1..2000);
                resize(&mut index, offset, length, new);
                model[place].1 = new;
            }
        }
        index.check().unwrap_or_else(|fault| panic!("step {step}: {fault}"));
        let pivots = index.check_pivots(|interval| interval.first_key.as_str(), String::as_str);
        pivots.unwrap_or_else(|fault| panic!("step {step}: {fault}"));
    }
    let found: Vec<_> = index
        .now()
        .range(0..u64::MAX)
        .map(|found| (found.entry.first_key.clone(), found.length))
        .collect();
    assert_eq!(found, model);
    assert!(model.len() > 20, "the test has made {} intervals", model.len());
}
