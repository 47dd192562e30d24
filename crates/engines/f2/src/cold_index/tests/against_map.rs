//! Random groups of changes, doublings, compactions and reopenings against a map of lists.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{Bench, TINY, at, go_on};
use crate::address::LogAddress;
use crate::cold_index::Change;
use crate::cold_index::walk::Walked;
use crate::position::Position;

/// The addresses of each prefix, the newest first.
type Model = BTreeMap<u64, Vec<LogAddress>>;

fn prefix(position: Position) -> u64 {
    position.get() >> 32
}

/// Applies a group of changes to the model; returns how often there is nothing to change.
fn apply(model: &mut Model, changes: &[Change]) -> usize {
    let mut missed = 0;
    for change in changes {
        let list = model.entry(prefix(change.position)).or_default();
        let place = |address| list.iter().position(|known| *known == address);
        match (change.old, change.new) {
            (LogAddress::NONE, new) if place(new).is_some() => {}
            (LogAddress::NONE, new) => list.insert(0, new),
            (old, new) => match place(old) {
                None => missed += 1,
                Some(place) if new == LogAddress::NONE => {
                    list.remove(place);
                }
                Some(place) => list[place] = new,
            },
        }
    }
    model.retain(|_, list| !list.is_empty());
    missed
}

/// A position of which there are few, so that keys and prefixes meet.
fn some_position(random: &mut impl Rng) -> Position {
    let few = super::position(random.random_range(0..3_000));
    let further = random.random_range(0_u64..4) << 2;
    Position::of_number(few.get() & !0xff | further)
}

fn some_changes(random: &mut impl Rng, model: &Model, newest: &mut u64) -> Vec<Change> {
    let count = random.random_range(1..400);
    let mut changes = Vec::new();
    for _ in 0..count {
        let position = some_position(random);
        let known = model.get(&prefix(position)).map_or(&[][..], Vec::as_slice);
        let old = match known.len() {
            0 => at(random.random_range(1..*newest + 2)),
            len => known[random.random_range(0..len)],
        };
        *newest += 1;
        let (old, new) = match random.random_range(0..5) {
            0 | 1 => (LogAddress::NONE, at(*newest)),
            2 => (old, LogAddress::NONE),
            3 => (LogAddress::NONE, old),
            _ => (old, at(*newest)),
        };
        changes.push(Change { position, old, new });
    }
    changes
}

fn compare(bench: &Bench, model: &Model) {
    let mut items: Vec<(Position, u64)> = (0..3_000)
        .map(|number| Position::of_number(super::position(number).get() & !0xff))
        .map(|position| (position, prefix(position)))
        .collect();
    let told_max = items.len();
    let mut told = 0;
    let visited = bench.index.visit(&mut items, &go_on(), &mut |prefix, addresses| {
        told += 1;
        assert_eq!(addresses, model.get(prefix).map_or(&[][..], Vec::as_slice));
        Ok(())
    });
    assert!(visited.expect("all are read"), "nobody stops it");
    assert_eq!(told, told_max);
    for number in 0..50 {
        let position = super::position(number * 61);
        let expected = model.get(&prefix(position)).cloned().unwrap_or_default();
        assert_eq!(bench.find(position), expected);
    }
    assert_eq!(walk(bench, 1), *model);
    assert_eq!(walk(bench, 1_000), *model);
}

fn walk(bench: &Bench, chunks: usize) -> Model {
    let mut met = Model::new();
    let mut from = Some(Position::of_number(0));
    while let Some(first) = from {
        let walked = bench.index.next_chunks(first, chunks).expect("the chunks are read");
        let Walked { entries, next } = walked;
        for (position, address) in entries {
            assert!(position >= first && next.is_none_or(|next| position < next));
            met.entry(prefix(position)).or_default().push(address);
        }
        from = next;
    }
    met
}

#[test]
fn the_index_is_a_map_of_lists() {
    for seed in 0..4 {
        println!("seed {seed}");
        let random = &mut SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new(TINY);
        let (mut model, mut newest, mut level) = (Model::new(), 0, 0);
        for _ in 0..60 {
            let mut changes = some_changes(random, &model, &mut newest);
            let applied = bench.index.apply(&mut changes, &go_on()).expect("they are taken");
            assert_eq!(applied.missed.len(), apply(&mut model, &changes));
            let entries: usize = model.values().map(Vec::len).sum();
            match random.random_range(0..14) {
                12 | 13 => bench.snapshot(),
                0 => {
                    bench = bench.reopen();
                    assert_eq!(bench.index.figures().entries, entries as u64);
                }
                1 => drop(bench.flush()),
                2 => {
                    let until = bench.log.flushed();
                    assert!(bench.index.compact(until, &go_on(), &|_| ()).expect("compacts"));
                    assert_eq!(bench.log.begin(), until);
                    bench.flush();
                }
                3 if level < 3 => {
                    let present = bench.index.directory.level();
                    assert!(bench.index.directory.double(present));
                    level += 1;
                }
                4 | 5 => compare(&bench, &model),
                _ => {}
            }
        }
        let bench = bench.reopen();
        compare(&bench, &model);
    }
}

#[test]
fn a_compacted_log_holds_what_is_named_and_little_else() {
    const KEYS: u64 = 4_000;
    let bench = Bench::new(TINY);
    for round in 0..20_u64 {
        let changes = (0..KEYS).map(|key| match round {
            0 => super::put(key, at(key + 1)),
            _ => super::replace(key, at((round - 1) * KEYS + key + 1), at(round * KEYS + key + 1)),
        });
        let applied = bench.apply(changes.collect());
        assert_eq!(applied.missed, []);
        while let Some(until) = bench.index.compaction_due() {
            assert!(bench.index.compact(until, &go_on(), &|_| ()).expect("compacts"));
        }
        bench.flush();
    }
    let figures = bench.index.figures();
    assert_eq!(figures.entries, KEYS);
    let bound = 2 * figures.live_bytes + 5 * TINY.segment_bytes;
    assert!(figures.log_bytes <= bound, "{figures:?}");
    let bench = bench.reopen();
    for key in 0..KEYS {
        assert_eq!(bench.find(super::position(key)), [at(19 * KEYS + key + 1)]);
    }
}

#[test]
fn chunks_that_have_become_empty_are_forgotten() {
    const KEYS: u64 = 3_000;
    let bench = Bench::new(TINY);
    bench.apply((0..KEYS).map(|key| super::put(key, at(key + 1))).collect());
    let applied = bench.apply((0..KEYS).map(|key| super::take(key, at(key + 1))).collect());
    assert_eq!((applied.taken, bench.index.figures().entries), (KEYS, 0));
    let end = bench.flush();
    assert!(bench.index.compact(end, &go_on(), &|_| ()).expect("compacts"));
    assert!(bench.log.is_at(end), "nothing is left to copy");
    let bench = bench.reopen();
    assert_eq!(walk(&bench, 64), Model::new());
}
