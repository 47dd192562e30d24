//! The bound on space: laws H3, H4 and H5.

use std::sync::Arc;

use engine::{BlockingWrites, Demand, Engine, Error, NoJournal, Op, Result, Wait};
use environment::Seed;
use rand::RngExt;

use super::stores::{Bench, key, small};
use crate::{Options, Policy};

/// Bytes of a segment of these tests.
const SEGMENT: u64 = 64 << 10;
const LIMIT: u64 = 32 * SEGMENT;

fn bounded(limit: u64) -> Options {
    Options { disk_bytes_max: Some(limit), ..small() }
}

fn open(options: Options) -> Bench {
    Bench::with(device::memory(), Arc::new(NoJournal), options).expect("it opens")
}

impl Bench {
    /// Writes a pair, or returns the refusal. The bound is kept.
    fn try_put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.try_write(&[Op::Put { key, value }])
    }

    fn try_write(&self, ops: &[Op<'_>]) -> Result<()> {
        let written = self.store.write_next(ops, &self.sequence).map(|_| ());
        self.check_bound();
        written
    }

    /// Law H3. The bound counts the bytes of the segments.
    fn check_bound(&self) {
        let bound = &self.store.shared.values.bound;
        assert!(bound.allocated() <= bound.limit(), "{} of {}", bound.allocated(), bound.limit());
    }

    /// The bound counts the bytes of the segments and volumes, and no promise is left.
    fn check_counted(&self) {
        let values = &self.store.shared.values;
        let unsealed = values.groups.iter().map(|group| {
            let mut state = group.state.lock();
            let unsealed: Vec<u64> = state.unsealed().map(|one| one.segment.number).collect();
            unsealed.len() as u64
        });
        let unsealed: u64 = unsealed.sum();
        let sealed = values
            .groups
            .iter()
            .map(|group| group.state.lock().sealed.values().map(|it| it.end() as u64).sum::<u64>());
        let headers = (values.volumes.count() as u64 + 1) * 4096;
        let counted = sealed.sum::<u64>() + unsealed * SEGMENT + headers;
        assert_eq!(values.bound.allocated(), counted);
        assert_eq!(values.bound.promised(), 0);
    }

    fn live(&self) -> u64 {
        self.detail("live_bytes")
    }
}

/// Fills a store with new pairs until one is refused. Returns their number.
fn fill(bench: &Bench, bytes: usize) -> u64 {
    for number in 0.. {
        match bench.try_put(&key(number), &vec![number as u8; bytes]) {
            Ok(()) => {}
            Err(Error::NoSpace { live_bytes, held_bytes: 0, limit_bytes, more_bytes }) => {
                assert!(live_bytes < limit_bytes && more_bytes > 0);
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the store has a bound")
}

/// Law H4: a write is refused only if live pairs take all the space, and without a wait then.
#[test]
fn h4_only_a_full_store_refuses() {
    let bench = open(bounded(LIMIT));
    let pairs = fill(&bench, 700);
    // Live pairs cannot use the segments that are open or kept, and the rests of blocks and pages.
    let fixed = bench.store.shared.values.bound.fixed_bytes() + 2 * SEGMENT;
    assert!(bench.live() > (LIMIT - fixed) * 9 / 10, "{} live", bench.live());
    let collections = bench.detail("collections");
    for _ in 0..10 {
        let refused = bench.try_put(b"more", &[0; 700]);
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    }
    assert_eq!(bench.detail("collections"), collections, "a refusal starts no job");
    // Pairs can be replaced, again and again.
    for round in 1..6_u8 {
        for number in 0..pairs {
            let replaced = bench.try_put(&key(number), &[round; 700]);
            replaced.unwrap_or_else(|error| panic!("round {round}, key {number}: {error}"));
        }
    }
    for number in 0..pairs {
        assert_eq!(bench.get(&key(number)), Some(vec![5; 700]), "key {number}");
    }
    // Space that comes back is used.
    for number in 0..20 {
        bench.try_write(&[Op::Delete { key: &key(number) }]).expect("a delete is accepted");
    }
    for number in 0..15 {
        bench.try_put(&key(1000 + number), &[9; 700]).expect("there is space again");
    }
    bench.check_counted();
    bench.end_sound();
}

/// Law H5: one client deletes everything in a full store.
#[test]
fn h5_deletes_of_everything_bring_the_space_back() {
    let bench = open(bounded(16 * SEGMENT));
    let pairs = fill(&bench, 300);
    for number in 0..pairs {
        let deleted = bench.try_write(&[Op::Delete { key: &key(number) }]);
        deleted.unwrap_or_else(|error| panic!("key {number}: {error}"));
    }
    bench.end_segments();
    bench.collect_all();
    assert_eq!(bench.detail("segments"), 0);
    bench.check_counted();
    let again = fill(&bench, 300);
    assert!(again * 10 >= pairs * 9, "{again} of {pairs}");
    bench.end_sound();
}

/// Law H3, for many ways to write, with each policy: the bound is never passed, and later writes
/// are accepted.
#[test]
fn h3_the_bound_is_kept() {
    for policy in Policy::ALL {
        let options = Options { policy, ..bounded(LIMIT) };
        for seed in 0..4 {
            let mut random = Seed::from(seed).stream("hashkv bound");
            let bench = open(options.clone());
            let (mut written, mut refused) = (0, 0);
            for step in 0..1500_u64 {
                let put = random_write(&bench, &mut random, step, seed);
                match put {
                    Ok(()) => written += 1,
                    Err(Error::NoSpace { .. }) => refused += 1,
                    Err(error) => panic!("seed {seed}, step {step}: {error}"),
                }
            }
            assert!(written > 500, "seed {seed}: {written} written, {refused} refused");
            bench.check_counted();
            bench.end_sound();
        }
    }
}

fn random_write(bench: &Bench, random: &mut impl RngExt, step: u64, seed: u64) -> Result<()> {
    let number = match seed {
        // One key for ever.
        0 => 0,
        _ => random.random_range(0..1000_u64),
    };
    // Growing, then shrinking values; some have segments of their own.
    let growth = (step % 500) as usize;
    let bytes = match random.random_range(0..40) {
        0 => 40 << 10,
        1 => 100 << 10,
        _ if seed == 1 => growth * 4,
        _ => random.random_range(0..3000),
    };
    let key = key(number);
    if random.random_bool(0.1) {
        return bench.try_write(&[Op::Delete { key: &key }]);
    }
    if random.random_bool(0.1) {
        let others: Vec<_> = (0..5).map(|_| self::key(random.random_range(0..1000))).collect();
        let value = vec![step as u8; bytes.min(5000)];
        let ops: Vec<_> = others.iter().map(|key| Op::Put { key, value: &value }).collect();
        return bench.try_write(&ops);
    }
    bench.try_put(&key, &vec![step as u8; bytes])
}

/// Records that a snapshot holds cannot be collected. Writes are refused, with the bytes of these
/// records, until the snapshot ends.
#[test]
fn a_snapshot_holds_space() {
    let bench = open(bounded(LIMIT));
    for number in 0..1200 {
        bench.try_put(&key(number), &[1; 700]).expect("there is space");
    }
    let view = bench.view();
    let refusal = (0..2000).find_map(|number| bench.try_put(&key(number % 1200), &[2; 700]).err());
    let Some(Error::NoSpace { held_bytes, .. }) = refusal else { panic!("{refusal:?}") };
    assert!(held_bytes > 100 * 700, "{held_bytes}");
    // Also deletes: they would wait for the client that holds the snapshot.
    let deleted = (0..5000).find_map(|_| bench.try_write(&[Op::Delete { key: &key(0) }]).err());
    assert!(deleted.is_none_or(|error| matches!(error, Error::NoSpace { .. })));
    drop(view);
    for number in 0..1200 {
        bench.try_put(&key(number), &[3; 700]).expect("the space is free again");
    }
    bench.check_counted();
    bench.end_sound();
}

/// Space that a newer snapshot has held is free once that one ends, while an older one stays.
#[test]
fn the_end_of_a_newer_snapshot_frees_space() {
    let bench = open(bounded(LIMIT));
    let _oldest = bench.view();
    for number in 0..1200 {
        bench.try_put(&key(number), &[1; 700]).expect("there is space");
    }
    let newer = bench.view();
    let refusal = (0..2000).find_map(|number| bench.try_put(&key(number % 1200), &[2; 700]).err());
    assert!(matches!(refusal, Some(Error::NoSpace { .. })), "{refusal:?}");
    drop(newer);
    for number in 0..1200 {
        bench.try_put(&key(number), &[3; 700]).expect("the space is free again");
    }
    bench.end_sound();
}

/// Without a fixed bound a store grows while a snapshot holds records, and becomes small again.
#[test]
fn a_store_that_grew_for_a_snapshot_becomes_small_again() {
    let bench = open(small());
    let write = |round: u8| {
        for number in 0..1200 {
            bench.put(&key(number), &[round; 700]);
            bench.crank.run_all();
        }
    };
    write(0);
    write(1);
    let before = bench.detail("volume_bytes");
    let view = bench.view();
    (2..6).for_each(write);
    let most = bench.detail("volume_bytes");
    assert!(most > before + 1200 * 700 / 2, "{most}, and {before} before");
    drop(view);
    (6..12).for_each(write);
    let after = bench.detail("volume_bytes");
    assert!(after <= before * 11 / 10, "{after}, and {before} before the snapshot");
    bench.end_sound();
}

/// A snapshot that holds nothing says nothing about the records that an older one holds.
#[test]
fn records_stay_held_while_other_snapshots_end() {
    let bench = open(small());
    let write = |round: u8| (0..300).for_each(|number| _ = bench.put(&key(number), &[round; 700]));
    write(0);
    let _oldest = bench.view();
    write(1);
    let newer = bench.view();
    bench.end_segments();
    bench.crank.run_all();
    bench.store.shared.collect_all().expect("memory takes it");
    let held = bench.detail("held_bytes");
    assert!(held >= 300 * 700, "{held}");
    drop(newer);
    assert_eq!(bench.detail("held_bytes"), held);
    bench.end_sound();
}

/// A checkpoint keeps jobs away. A store without a fixed bound grows meanwhile.
#[test]
fn a_checkpoint_stops_no_writer_of_a_store_without_a_fixed_bound() {
    let bench = open(Options { reserve_percent: 0, ..small() });
    let write = |round: u8| {
        for number in 0..1200 {
            bench.put(&key(number), &[round; 700]);
            bench.crank.run_all();
        }
    };
    write(0);
    bench.store.flush().expect("memory takes it");
    let rounds = std::cell::Cell::new(1);
    let go_on = || {
        if rounds.get() < 4 {
            write(rounds.replace(rounds.get() + 1));
        }
        Ok(())
    };
    bench.store.checkpoint(device::memory(), &go_on).expect("memory takes it");
    assert_eq!(rounds.get(), 4);
    bench.crank.run_all();
    write(9);
    let (taken, limit) = (bench.detail("volume_bytes"), bench.detail("limit_bytes"));
    assert!(taken <= limit, "{taken} of {limit}");
    bench.end_sound();
}

/// A write that was admitted and never comes returns its space.
#[test]
fn dropped_reservations_return_their_space() {
    let bench = open(bounded(LIMIT));
    let value = vec![1; 20 << 10];
    let long = vec![1; 200 << 10];
    for number in 0..200 {
        let (one, other) = (key(number), key(number + 1000));
        let ops = [
            Op::Put { key: &one, value: &value },
            Op::Put { key: &other, value: &long },
            Op::Delete { key: b"gone" },
        ];
        let demands = [
            Demand::Ops(&ops),
            Demand::Update { key: &one, bytes_max: 100 },
            Demand::Update { key: &one, bytes_max: 100 << 10 },
        ];
        for demand in demands {
            let room = bench.store.reserve(&demand, Wait::Yes).expect("there is space");
            assert!(bench.store.shared.values.bound.promised() > 0);
            drop(room);
            assert_eq!(bench.store.shared.values.bound.promised(), 0);
        }
    }
    bench.check_counted();
    bench.end_sound();
}

/// A value that no bound of this size could hold is refused immediately.
#[test]
fn a_value_beyond_the_bound_is_refused() {
    let bench = open(bounded(16 * SEGMENT));
    let refused = bench.try_put(b"long", &vec![1; 900 << 10]);
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    bench.end_sound();
}

/// A bound below the space that is taken already: the store opens, and accepts writes again once
/// there is space.
#[test]
fn a_bound_below_the_space_taken_refuses_writes() {
    let bench = open(bounded(LIMIT));
    let pairs = fill(&bench, 700);
    let bench = bench.reopen_with(bounded(16 * SEGMENT));
    let refused =
        bench.store.write_next(&[Op::Put { key: b"a", value: &[1; 700] }], &bench.sequence);
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    assert_eq!(bench.get(&key(0)), Some(vec![0; 700]));
    drop(bench.0.end());
    let too_small = Options { disk_bytes_max: Some(15 * SEGMENT), ..small() };
    let refused = Bench::with(device::memory(), Arc::new(NoJournal), too_small).err();
    assert!(matches!(refused, Some(Error::BadOption { option: "disk_bytes_max", .. })), "{pairs}");
}

/// Law H3 with many writers, and a pool with threads: the bound is kept, and each writer ends.
#[test]
fn h3_many_writers_keep_the_bound() {
    let environment = environment::Environment::real();
    let telemetry = telemetry::Registry::default();
    let workers = workers::Pool::start(&environment, 2, &telemetry).expect("it starts");
    let host = engine::Host {
        device: device::memory(),
        environment,
        workers,
        telemetry,
        sequence: Arc::new(engine::Sequence::new()),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(memory_budget::MemoryBudget::new(4 << 20)),
    };
    let sequence = Arc::clone(&host.sequence);
    let store = crate::Store::open_with(host, bounded(LIMIT), super::stores::small_index());
    let store = store.expect("it opens");
    let bound = &store.shared.values.bound;
    std::thread::scope(|scope| {
        for writer in 0..8_u64 {
            let (store, sequence) = (&store, &sequence);
            scope.spawn(move || {
                let mut random = Seed::from(writer).stream("hashkv writers");
                for step in 0..400_u64 {
                    let key = key(random.random_range(0..400));
                    let long = random.random_range(0..50) == 0;
                    let bytes = if long { 50 << 10 } else { random.random_range(0..4000) };
                    let value = vec![step as u8; bytes];
                    let op = match random.random_bool(0.1) {
                        true => Op::Delete { key: &key },
                        false => Op::Put { key: &key, value: &value },
                    };
                    match store.write_next(&[op], sequence) {
                        Ok(_) | Err(Error::NoSpace { .. }) => {}
                        Err(error) => panic!("writer {writer}, step {step}: {error}"),
                    }
                    assert!(bound.allocated() <= bound.limit());
                }
            });
        }
    });
    store.flush().expect("memory takes it");
    assert_eq!(bound.promised(), 0);
    store.close().expect("closes");
}

/// Without a bound of its own a store takes a part of its live bytes for garbage, also none.
#[test]
fn the_bound_follows_the_live_bytes() {
    for reserve_percent in [0, 30] {
        let bench = open(Options { reserve_percent, ..small() });
        let mut random = Seed::from(5).stream("hashkv bound");
        for step in 0..6000_u64 {
            let number = random.random_range(0..1500);
            bench.put(&key(number), &vec![step as u8; 700]);
        }
        let limit = bench.detail("limit_bytes");
        let taken = bench.detail("volume_bytes");
        assert!(taken <= limit, "{taken} of {limit}");
        // With the rests of blocks and pages, and records that were superseded since the last
        // judgement.
        let live = 1500 * 1000;
        let fixed = bench.store.shared.values.bound.fixed_bytes() + 16 * SEGMENT;
        assert!(limit <= fixed + live * (100 + u64::from(reserve_percent)) / 100, "{limit}");
        bench.end_sound();
    }
}
