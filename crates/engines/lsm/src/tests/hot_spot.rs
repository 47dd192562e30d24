//! A whole store whose hot spot moves: Dranges follow it, so that all memtables again take about
//! the same number of writes, and no write is lost by that.

use std::collections::BTreeMap;

use engine::{Direction, Engine, KeyRange};
use environment::{Random, Seed};
use rand::RngExt;
use reads::BlockingReads;

use super::stores::{Bench, key, scan, small};
use crate::Options;
use conformance::Pairs;

const SLOTS: usize = 8;
const KEYS: u64 = 20_000;
/// Keys of the hot spot, which four of five writes go to.
const HOT_KEYS: u64 = 200;
/// Positions of the hot spot, in order, and the writes there. Boundaries are rebuilt for four times
/// the writes that they were made from, so each place has five times the writes of the one before.
const PLACES: [(u64, usize); 3] = [(3_000, 12_000), (15_000, 60_000), (9_000, 300_000)];
/// Writes of which it is counted where they would go to.
const COUNTED: usize = 20_000;

struct Load {
    bench: Bench,
    random: Random,
    expected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Load {
    fn new(options: Options) -> Self {
        let bench = Bench::of(options);
        Self { bench, random: Seed::from(1).stream("hot spot"), expected: BTreeMap::new() }
    }

    fn draw(random: &mut Random, place: u64) -> Vec<u8> {
        match random.random_bool(0.8) {
            true => key(place + random.random_range(0..HOT_KEYS)),
            false => key(random.random_range(0..KEYS)),
        }
    }

    fn write(&mut self, place: u64, count: usize) {
        for _ in 0..count {
            let key = Self::draw(&mut self.random, place);
            self.write_to(key);
        }
    }

    /// Writes to all keys alike.
    fn write_scattered(&mut self, count: usize) {
        for _ in 0..count {
            let key = key(self.random.random_range(0..KEYS));
            self.write_to(key);
        }
    }

    fn write_to(&mut self, key: Vec<u8>) {
        let number = self.random.random_range(0..20);
        if number == 0 {
            self.bench.delete(&key);
            self.expected.remove(&key);
        } else {
            let value = self.random.random::<u64>().to_le_bytes().repeat(5);
            self.bench.put(&key, &value);
            self.expected.insert(key, value);
        }
        if number < 2 {
            self.bench.crank.run_one();
        }
    }

    /// The largest part of the writes to a place that one memtable would take, as the Dranges are
    /// now.
    fn largest_share(&self, place: u64) -> f64 {
        let mut random = Seed::from(2).stream("counted");
        let state = self.bench.store.shared.state.load_full();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        let next = self.bench.sequence.last().get();
        for (_, seqno) in (0..COUNTED).zip(next..) {
            let key = Self::draw(&mut random, place);
            let active = state.active(&key, codec::SeqNo::new(seqno));
            *counts.entry(active.expect("the store is open").0.id()).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0) as f64 / COUNTED as f64
    }

    fn pairs(&self) -> Pairs {
        self.expected.clone().into_iter().collect()
    }

    fn verify(&self) {
        let view = self.bench.view();
        assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), self.pairs());
        for number in
            (0..KEYS).step_by(7).chain(PLACES.into_iter().flat_map(|(at, _)| at..at + HOT_KEYS))
        {
            assert_eq!(self.bench.get(&key(number)), self.expected.get(&key(number)).cloned());
        }
    }
}

impl Load {
    /// Writes to a place until no memtable takes twice its share of the writes there. Returns the
    /// number of writes, if it is at most `most`.
    fn writes_until_shared_out(&mut self, place: u64, most: usize) -> Option<usize> {
        let mut writes = 0;
        while self.largest_share(place) >= 2.0 / SLOTS as f64 {
            if writes >= most {
                return None;
            }
            self.write(place, 500);
            writes += 500;
        }
        Some(writes)
    }
}

/// All of it is within one Trange of boundaries that were made from many writes.
#[test]
fn a_hot_spot_within_one_trange_is_shared_out_long_before_as_many_writes_came_again() {
    const BEFORE: usize = 200_000;
    let mut load = Load::new(Options { slots_max: SLOTS, merging: false, ..small() });
    load.write_scattered(BEFORE);
    for place in [3_000, 15_000] {
        let share = load.largest_share(place);
        assert!(share > 0.6, "one memtable would take {share} of all writes to {place}");
        let early = load.bench.detail("reorganisations_early");
        let writes = load.writes_until_shared_out(place, 2 * BEFORE);
        println!("at {place}: {writes:?} writes until no memtable takes twice its share");
        assert!(writes.is_some_and(|writes| writes <= BEFORE / 10), "{writes:?} writes");
        assert!(load.bench.detail("reorganisations_early") > early);
        load.verify();
        load.write(place, BEFORE / 2);
    }
}

/// Boundaries that are useless right after they are made are not made again and again.
#[test]
fn a_hot_spot_that_never_stays_is_followed_less_and_less() {
    const MOVES: u64 = 50;
    let mut load = Load::new(Options { slots_max: SLOTS, merging: false, ..small() });
    load.write_scattered(50_000);
    let figures =
        |load: &Load| ["reorganisations_early", "flushes"].map(|name| load.bench.detail(name));
    let before = figures(&load);
    for place in 0..MOVES {
        load.write(place * 7_919 % (KEYS - HOT_KEYS), 4_000);
    }
    let after = figures(&load);
    let (early, flushes) = (after[0] - before[0], after[1] - before[1]);
    println!("{early} early ones for {MOVES} moves, beside {flushes} flushes");
    assert!((2..MOVES / 4).contains(&early), "{early} for {MOVES} moves");
    load.verify();
}

#[test]
fn a_hot_spot_that_moves_is_shared_out_again_and_nothing_is_lost() {
    for merging in [true, false] {
        let mut load = Load::new(Options { slots_max: SLOTS, merging, ..small() });
        let mut pins = Vec::new();
        let reorganisations = |load: &Load| {
            load.bench.detail("reorganisations_major") + load.bench.detail("reorganisations_minor")
        };
        for (place, writes) in PLACES {
            let (before, came) = (load.largest_share(place), reorganisations(&load));
            assert!(before > 0.6, "one memtable would take {before} of all writes to {place}");
            pins.push((load.bench.sequence.pin(), load.pairs()));
            load.write(place, writes);
            let after = load.largest_share(place);
            println!("merging {merging}, at {place}: {before:.3} before, {after:.3} after");
            assert!(after < 2.0 / SLOTS as f64, "one memtable takes {after} of all writes");
            assert!(reorganisations(&load) > came, "without a reorganisation");
            load.verify();
        }
        for (pin, expected) in pins.drain(..) {
            let view = load.bench.store.view(pin);
            assert_eq!(scan(&view, KeyRange::all(), Direction::Backward).len(), expected.len());
            assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), expected);
        }
        load.bench.store.flush().expect("memory takes it");
        assert_eq!(load.bench.store.persisted(), load.bench.sequence.visible());
        let expected = load.pairs();
        assert_eq!(load.bench.reopen().pairs(), expected);
    }
}
