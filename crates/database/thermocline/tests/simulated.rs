//! A database with its real threads, in a simulation: writers, readers, the workers of the engine
//! and of the journal, a disk that takes time, and power cuts and kills at any moment.
//!
//! Each key belongs to one writer, which counts its writes. A get finds a write that is not older
//! than the newest one that was acknowledged before it, and not newer than the newest one that had
//! begun. The same holds after each power cut. Pairs of keys that a batch writes are equal in each
//! snapshot. One seed run twice has one schedule.
//!
//! `THERMOCLINE_SEED` chooses the first seed and `THERMOCLINE_CASES` how many.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use device::{Device, Faults, Latency, SimulatedDisk};
use environment::Random;
use rand::RngExt;
use simulation::{Outcome, Simulation, World};
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Keyspace, KeyspaceOptions, Options, lsm,
};

const WRITERS: usize = 3;
const READERS: usize = 2;
/// Keys of each writer. The last two are written together.
const KEYS: usize = 8;
const LIVES: u64 = 3;
/// The longest time until a kill.
const LIFE: Duration = Duration::from_millis(300);
const VALUE_BYTES: usize = 600;
/// The pause of a reader between two reads.
const PAUSE: Duration = Duration::from_micros(50);
/// Each write with a multiple of this number is a deletion.
const DELETED: u64 = 7;

/// The writes of one key.
#[derive(Debug, Default)]
struct Writes {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

type Keys = Arc<Vec<Writes>>;

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:02}").into_bytes()
}

fn value(write: u64) -> Vec<u8> {
    let mut value = write.to_le_bytes().to_vec();
    value.resize(VALUE_BYTES, write as u8);
    value
}

/// Checks a value that was found against the writes that it may be from.
fn check(found: Option<&[u8]>, oldest: u64, newest: u64, key: usize) {
    match found {
        Some(bytes) => {
            let write = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            assert_eq!(bytes, value(write), "the value is whole");
            assert!((oldest..=newest).contains(&write), "key {key}: {write} of {oldest}-{newest}");
        }
        None => {
            let is_deleted = (oldest..=newest).any(|write| write % DELETED == 0);
            assert!(is_deleted, "key {key}: nothing found of {oldest}-{newest}");
        }
    }
}

fn options(environment: Environment) -> Options {
    let lsm = lsm::Options {
        memtable_bytes_max: 16 << 10,
        table_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        ..lsm::Options::default()
    };
    Options {
        environment,
        memory_bytes: 24 << 20,
        journal_bytes: 256 << 10,
        background_threads: 2,
        sync_interval: Some(Duration::from_millis(20)),
        engines: lsm.into(),
        ..Options::default()
    }
}

/// Writes keys of its own until the end.
fn write(
    (db, space): &(Db, Keyspace),
    keys: &Keys,
    writer: usize,
    mut random: Random,
    ends: &AtomicBool,
) {
    let first = writer * KEYS;
    while !ends.load(Ordering::SeqCst) {
        let number = first + random.random_range(0..KEYS - 1);
        let is_pair = number == first + KEYS - 2;
        let written: &[usize] = if is_pair { &[number, number + 1] } else { &[number] };
        let write = keys[number].begun.load(Ordering::SeqCst) + 1;
        for number in written {
            keys[*number].begun.store(write, Ordering::SeqCst);
        }
        let mut batch = Batch::new();
        for number in written {
            match write.is_multiple_of(DELETED) {
                true => batch.delete(space, &key(*number)),
                false => batch.put(space, &key(*number), &value(write)),
            };
        }
        db.write(&batch).unwrap();
        for number in written {
            keys[*number].acknowledged.store(write, Ordering::SeqCst);
        }
    }
}

/// Reads keys of all writers until the end.
fn read(
    (db, space): &(Db, Keyspace),
    keys: &Keys,
    environment: &Environment,
    mut random: Random,
    ends: &AtomicBool,
) {
    while !ends.load(Ordering::SeqCst) {
        let number = random.random_range(0..WRITERS * KEYS);
        let oldest = keys[number].acknowledged.load(Ordering::SeqCst);
        let found = space.get(&key(number)).unwrap();
        check(found.as_deref(), oldest, keys[number].begun.load(Ordering::SeqCst), number);
        // A read of memory waits for nothing, and a loop of such reads would be all that runs.
        environment.sleep(PAUSE);
        if number.is_multiple_of(KEYS) && space.options().engine.is_ordered() {
            let pair = number + KEYS - 2;
            let snapshot = db.snapshot().unwrap();
            let found = [pair, pair + 1].map(|number| snapshot.get(space, &key(number)).unwrap());
            assert_eq!(found[0], found[1], "a batch is whole");
        }
    }
}

/// Opens the database, checks what it holds, and runs until the end.
fn live(
    db: &Db,
    engine: EngineKind,
    keys: &Keys,
    environment: &Environment,
    ends: &Arc<AtomicBool>,
) {
    let space = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let space = db.keyspace("space", space).unwrap();
    let of_database = (db.durability(Durability::Synced), space.clone());
    for (number, writes) in keys.iter().enumerate() {
        let found = space.get(&key(number)).unwrap();
        let (begun, acknowledged) = (&writes.begun, &writes.acknowledged);
        let oldest = acknowledged.load(Ordering::SeqCst);
        check(found.as_deref(), oldest, begun.load(Ordering::SeqCst), number);
    }
    let start = |name: String, work: Box<dyn FnOnce(Random) + Send>| {
        let random = environment.random(&name);
        environment.spawn(&name, move || work(random)).unwrap()
    };
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (handles, keys, ends) = (of_database.clone(), Arc::clone(keys), Arc::clone(ends));
        let work = move |random| write(&handles, &keys, writer, random, &ends);
        threads.push(start(format!("writer-{writer}"), Box::new(work)));
    }
    for reader in 0..READERS {
        let (handles, keys, ends) = (of_database.clone(), Arc::clone(keys), Arc::clone(ends));
        let own = environment.clone();
        let work = move |random| read(&handles, &keys, &own, random, &ends);
        threads.push(start(format!("reader-{reader}"), Box::new(work)));
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Returns the writes that were acknowledged.
fn run(world: &World, engine: EngineKind, seed: u64, faults: Faults) -> u64 {
    let environment = world.environment();
    let mut random = environment.random("lives");
    let keys: Keys = Arc::new((0..WRITERS * KEYS).map(|_| Writes::default()).collect());
    let mut disk = SimulatedDisk::new(seed, faults);
    for life in 0..LIVES {
        let is_last = life + 1 == LIVES;
        let process = world.process(&format!("life-{life}"));
        let latency = Latency {
            read_max: Duration::from_micros(200),
            write_max: Duration::from_micros(100),
            sync_max: Duration::from_millis(2),
            stall_ppm: 200,
            stall: Duration::from_millis(80),
        };
        disk.set_latency(&process.environment(), latency);
        let ends = Arc::new(AtomicBool::new(false));
        let (device, keys_of_life) = (Arc::clone(&disk), Arc::clone(&keys));
        let (own, ended) = (process.environment(), Arc::clone(&ends));
        let main = process.spawn("main", move || {
            let db = Db::open_on(device as Arc<dyn Device>, "simulated", options(own.clone()));
            let db = db.unwrap();
            live(&db, engine, &keys_of_life, &own, &ended);
            db.close().unwrap();
        });
        let micros = random.random_range(0..LIFE.as_micros() as u64);
        environment.sleep(LIFE / 2 * u32::from(is_last) + Duration::from_micros(micros));
        if is_last {
            ends.store(true, Ordering::SeqCst);
            main.unwrap().join().unwrap();
        } else {
            process.kill();
            disk = match random.random_range(0..3) {
                0 => disk.kill(),
                _ => disk.crash(seed + life),
            };
        }
    }
    keys.iter().map(|writes| writes.acknowledged.load(Ordering::SeqCst)).sum()
}

fn simulate(engine: EngineKind, seed: u64, is_twice: bool) -> Outcome<u64> {
    println!("THERMOCLINE_SEED={seed} {engine}");
    let test = move |world: &World| run(world, engine, seed, Faults::none());
    match is_twice {
        true => Simulation::new(seed).run_twice(test),
        false => Simulation::new(seed).run(test),
    }
}

/// Returns the number in a variable of the environment.
fn number_in(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seeds(otherwise: u64) -> std::ops::Range<u64> {
    let first = number_in("THERMOCLINE_SEED", 1);
    first..first + number_in("THERMOCLINE_CASES", otherwise)
}

/// Runs all seeds, and the first one twice.
fn conforms(engine: EngineKind, cases: u64) {
    let first = seeds(cases).start;
    let outcomes = seeds(cases).map(|seed| simulate(engine, seed, seed == first));
    let acknowledged: u64 = outcomes.map(|outcome| outcome.value).sum();
    assert!(acknowledged > 0, "writes are acknowledged");
}

#[test]
fn lsm_loses_nothing_under_any_schedule() {
    conforms(EngineKind::Lsm, 12);
}

#[test]
fn memory_loses_nothing_under_any_schedule() {
    conforms(EngineKind::Memory, 4);
}

#[test]
fn flexdb_loses_nothing_under_any_schedule() {
    conforms(EngineKind::FlexDb, 4);
}

#[test]
fn f2_loses_nothing_under_any_schedule() {
    conforms(EngineKind::F2, 4);
}

#[test]
fn hashkv_loses_nothing_under_any_schedule() {
    conforms(EngineKind::HashKv, 4);
}

/// A disk that acknowledges syncs and makes nothing durable.
#[test]
fn writes_that_are_lost_are_found() {
    let faults = Faults { lying_flush: true, ..Faults::none() };
    let is_found = |seed| {
        let faults = faults.clone();
        let test = move |world: &World| run(world, EngineKind::Lsm, seed, faults);
        catch_unwind(|| Simulation::new(seed).run(test)).is_err()
    };
    assert!((1..10).any(is_found), "a seed loses a write");
}
