//! The store compacts Level 0 while there are no writes, and then in proportion to earlier writes.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use engine::{Engine, NoJournal};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::Options;
use lsm_tree::plan::compaction::Job;

const KEYS: u64 = 3_000;

/// Level 1 takes all of it, and Level 0 waits until it is as large as that.
fn options() -> Options {
    Options {
        level0_tables: 4,
        level0_tables_slow: 36,
        level1_bytes: 4 << 20,
        compression: vec![crate::Compression::None],
        ..small()
    }
}

fn open(device: Arc<dyn Device>, options: Options) -> Bench {
    let opened = Bench::with_options(device, Arc::new(NoJournal), 1 << 20, options);
    opened.expect("it opens")
}

/// Puts pairs in no order, with all that the store does meanwhile.
fn put(bench: &Bench, numbers: std::ops::Range<u64>, byte: u8) {
    for number in numbers {
        bench.put(&key(number * 1_999 % KEYS), &[byte; 100]);
        bench.crank.run_all();
    }
}

fn loaded(options: Options) -> Bench {
    loaded_on(device::memory(), options)
}

fn loaded_on(device: Arc<dyn Device>, options: Options) -> Bench {
    let bench = open(device, options);
    put(&bench, 0..KEYS, 1);
    bench.run_background();
    assert!(bench.detail("level0_tables") > 1 && bench.detail("level1_tables") > 1);
    bench
}

/// Passes a second, and does what it has to be done in it.
fn pass_a_second(bench: &Bench) {
    bench.store.shared.compact_if_idle();
    bench.crank.run_all();
}

/// Passes seconds, more than it takes to be idle.
fn be_idle(bench: &Bench) {
    (0..4).for_each(|_| pass_a_second(bench));
}

/// Returns the bytes that were flushed to Level 0 since the store was opened.
fn came(bench: &Bench) -> u64 {
    bench.detail("flushed_bytes")
}

fn written(bench: &Bench) -> u64 {
    bench.detail("idle_compacted_bytes")
}

#[test]
fn level_0_is_compacted_once_nobody_has_written_for_two_looks() {
    let bench = loaded(options());
    let (pairs, tables) = (bench.pairs(), bench.detail("level0_tables"));
    for _ in 0..2 {
        pass_a_second(&bench);
        assert_eq!(bench.detail("level0_tables"), tables);
    }
    pass_a_second(&bench);
    assert_eq!(bench.detail("level0_tables"), 0);
    assert!(bench.detail("idle_compactions") > 0 && written(&bench) <= 2 * came(&bench), "W1");
    let compactions = bench.detail("compactions");
    be_idle(&bench);
    assert_eq!(bench.detail("compactions"), compactions, "W2");
    assert_eq!(bench.pairs(), pairs);
    // It is found so.
    let bench = open(Arc::clone(&bench.device), options());
    be_idle(&bench);
    assert_eq!((bench.detail("level0_tables"), bench.detail("compactions")), (0, 0));
}

#[test]
fn the_pool_has_it_done_once_a_second() {
    for is_compacted in [true, false] {
        let bench = loaded(Options { compacts_when_idle: is_compacted, ..options() });
        for _ in 0..6 {
            bench.clock.advance(Duration::from_millis(500));
            bench.crank.run_all();
        }
        assert_eq!(bench.detail("level0_tables") == 0, is_compacted);
        assert_eq!(written(&bench) > 0, is_compacted);
    }
}

#[test]
fn a_store_that_is_written_to_is_left_alone() {
    let bench = loaded(options());
    let tables = bench.detail("level0_tables");
    for second in 0..10 {
        pass_a_second(&bench);
        if second % 2 == 0 {
            bench.put(&key(second), b"again");
        }
    }
    assert_eq!((bench.detail("level0_tables"), written(&bench)), (tables, 0));
}

/// A store that was not compacted before it was closed is, for twice what Level 0 has.
#[test]
fn a_store_that_is_opened_may_write_for_what_level_0_has() {
    let bench = loaded(options());
    let (level0, level1) = (bench.detail("level0_bytes"), bench.detail("level1_bytes"));
    assert!(level0 < level1, "{level0} over {level1}");
    bench.store.close().expect("closes");
    let bench = open(Arc::clone(&bench.device), options());
    be_idle(&bench);
    assert!(written(&bench) <= 2 * level0, "{} for {level0}", written(&bench));
    put(&bench, 0..KEYS, 2);
    bench.run_background();
    be_idle(&bench);
    assert!(bench.detail("level0_tables") <= 1, "{}", bench.detail("level0_tables"));
    assert!(written(&bench) <= 2 * (level0 + came(&bench)), "W1");
}

/// The content that Level 0 has then counts as allowed, although none was added since.
#[test]
fn a_store_that_is_opened_is_compacted_though_nobody_writes() {
    let bench = open(device::memory(), options());
    for round in 0..3 {
        put(&bench, 0..20, round);
        bench.store.flush().expect("memory takes it");
    }
    bench.crank.run_all();
    assert_eq!((bench.detail("level0_tables"), bench.detail("level1_tables")), (3, 0));
    let (pairs, level0) = (bench.pairs(), bench.detail("level0_bytes"));
    bench.store.close().expect("closes");
    let bench = open(Arc::clone(&bench.device), options());
    be_idle(&bench);
    assert_eq!((bench.detail("level0_tables"), bench.detail("idle_compactions")), (0, 1));
    assert!((1..=2 * level0).contains(&written(&bench)), "{} for {level0}", written(&bench));
    assert_eq!(bench.pairs(), pairs);
}

/// Writes again and again, each time flushed and followed by seconds without writes.
fn trickle(options: Options, keys: u64, puts: u64, rounds: u64) -> [u64; 3] {
    let bench = open(device::memory(), options);
    let put = |numbers: std::ops::Range<u64>, byte: u8| {
        for number in numbers {
            bench.put(&key(number * 1_999 % keys), &[byte; 100]);
            bench.crank.run_all();
        }
    };
    put(0..keys, 1);
    bench.run_background();
    be_idle(&bench);
    let figures = || {
        ["flushed_bytes", "compacted_bytes", "idle_compacted_bytes"].map(|name| bench.detail(name))
    };
    let (before, mut passes) = (figures(), 0);
    for round in 0..rounds {
        let compactions = bench.detail("idle_compactions");
        put(puts * round..puts * (round + 1), round as u8);
        bench.run_background();
        be_idle(&bench);
        passes += u64::from(bench.detail("idle_compactions") > compactions);
    }
    let after = figures();
    let [flushed, compacted, idle] = [0, 1, 2].map(|at| after[at] - before[at]);
    println!(
        "{puts} puts to {keys} pairs, {rounds} times: {flushed} bytes flushed, {compacted} compacted, \
         {idle} of these while idle, in {passes} rounds"
    );
    assert_eq!(bench.pairs().len() as u64, keys);
    assert!(idle <= 2 * flushed, "W1: {idle} for {flushed}");
    [flushed, compacted, idle]
}

#[test]
fn a_trickle_of_writes_is_not_rewritten_repeatedly() {
    let both = |options: Options, keys, puts, rounds| {
        let [flushed, compacted, idle] = trickle(options.clone(), keys, puts, rounds);
        let options = Options { compacts_when_idle: false, ..options };
        let [flushed_without, compacted_without, idle_without] =
            trickle(options, keys, puts, rounds);
        assert_eq!((flushed_without, idle_without), (flushed, 0));
        // A byte more for each that is flushed; what goes down in these jobs goes down in no
        // others.
        assert!(compacted <= compacted_without + flushed, "{compacted}, {compacted_without}");
        idle
    };
    // Few compared with the tables that they overlap: Level 0 has too many tables before it has
    // that many bytes.
    assert_eq!(both(options(), KEYS, 10, 300), 0);
    // Half of it each time: every second time that is worth it, and three tables are too few to be
    // due.
    let options = Options { memtable_bytes_max: 128 << 10, level0_tables: 8, ..options() };
    assert!(both(options, 800, 400, 60) > 0);
}

/// The part that it has written so far is removed, and counted.
#[test]
fn a_job_gives_way_to_a_memtable_that_waits() {
    let device = FaultDevice::new(device::memory());
    let bench = loaded_on(device.clone(), options());
    let shared = &bench.store.shared;
    let files = || bench.device.list("").expect("memory lists").len();
    let level0 = shared.state.load().version.level(0).to_vec();
    let job = || {
        let version = Arc::clone(&shared.state.load().version);
        let (upper, lower) = (level0.clone(), version.level(1).to_vec());
        Job { from: 0, to: 1, upper, lower, drops: false, yields: true }
    };
    bench.put(&key(1), &[1; 100]);
    let figures =
        || ["idle_compactions", "compactions", "level0_tables"].map(|name| bench.detail(name));
    let (pairs, before) = (bench.pairs(), (files(), figures()));
    // In the midst of the job, when it makes its second table.
    let sealing = Arc::clone(shared);
    let seal = move || drop(sealing.seal_where(&|active| !active.is_empty()));
    let then = device.clone();
    device.interpose(OperationKind::Open, move || then.interpose(OperationKind::Open, seal));
    shared.compact(job(), &shared.background.group.token()).expect("it gives way");
    assert_eq!(shared.state.load().due(), 1);
    assert_eq!((files(), figures()), before);
    let (some, all) = (written(&bench), job().bytes());
    assert!(some > 0 && some < all, "{some} of {all}");
    // It stops immediately, as long as the sealed memtable waits.
    shared.compact(job(), &shared.background.group.token()).expect("it gives way");
    assert_eq!((figures(), written(&bench)), (before.1, some));
    bench.crank.run_all();
    shared.compact(job(), &shared.background.group.token()).expect("memory takes it");
    assert_eq!(bench.detail("idle_compactions"), 1);
    assert_eq!(bench.pairs(), pairs);
}

/// All bytes that are written in vain were allowed: the work ends.
#[test]
fn jobs_that_give_way_each_time_are_not_begun_for_ever() {
    let bench = loaded(options());
    let shared = &bench.store.shared;
    let version = Arc::clone(&shared.state.load().version);
    let (mut begun, mut written) = (0, 0);
    while let Some(job) = shared.idle_job(&version, &[]) {
        begun += 1;
        written += job.bytes() / 2;
        shared.note_idle_job(&job, job.bytes() / 2, false);
        assert!(begun < 1000);
    }
    let (came, job) = (came(&bench), version.level_bytes(0) + version.level_bytes(1));
    assert!(begun > 1 && written <= 2 * came && written + job > came, "{written} for {came}");
    // Failed work is not repeated forever either: nothing of it returns.
    put(&bench, 0..KEYS, 2);
    bench.run_background();
    let version = Arc::clone(&shared.state.load().version);
    let jobs = std::iter::from_fn(|| shared.idle_job(&version, &[])).take(1000);
    let failed: u64 = jobs.map(|job| job.bytes()).sum();
    assert!(failed > 0 && written + failed <= 2 * self::came(&bench), "{failed} more");
}

/// Tasks that run while a second passes.
fn tasks_in_a_second(bench: &Bench) -> usize {
    bench.clock.advance(Duration::from_secs(1));
    bench.crank.run_all()
}

/// Passes seconds until the store does nothing any more.
fn sleeps(bench: &Bench) -> bool {
    (0..60).any(|_| (0..3).all(|_| tasks_in_a_second(bench) == 0))
}

#[test]
fn an_idle_store_runs_no_task_until_something_wakes_it() {
    let bench = loaded(options());
    assert!(sleeps(&bench), "a task runs each second");
    assert!((0..60).all(|_| tasks_in_a_second(&bench) == 0));
    assert_eq!(bench.detail("level0_tables"), 0, "the idle jobs are done");
    let view = bench.store.view(bench.sequence.pin());
    let wakes: [(&str, &dyn Fn()); 4] = [
        ("a put", &|| _ = bench.put(&key(1), &[3; 100])),
        ("a flush", &|| bench.store.flush().expect("flushes")),
        ("a compaction", &|| {
            let ranges = bench.store.ranges().expect("it has an order");
            ranges.compact(&engine::KeyRange::all()).expect("compacts");
        }),
        ("a long run of dead entries", &|| bench.store.shared.note_dead_run(1_000)),
    ];
    bench.put(&key(1), &[2; 100]);
    assert!(!sleeps(&bench), "the snapshot may hold something");
    drop(view);
    assert!(sleeps(&bench));
    for (what, wake) in wakes {
        wake();
        assert!(tasks_in_a_second(&bench) > 0, "{what} wakes it");
        assert!(sleeps(&bench), "after {what}");
    }
}
