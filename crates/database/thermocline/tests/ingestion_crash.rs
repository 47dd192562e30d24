//! Power cuts at every operation of ingestions next to writes, flushes and compactions.
//!
//! The disk is the simulated one.
//!
//! A run is a list of writes: puts, and ingestions of many pairs, to a keyspace of `lsm` and to one
//! of `memory` next to it. An image of a power cut is the result of a prefix of them, and has all
//! that were durable; an ingestion is durable when it returns. Then the store continues, and loses
//! power once more.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! one command that replays it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use rand::{Rng, RngExt};
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Error, KeyRange, Keyspace, KeyspaceOptions,
    Options,
};

/// Writes of one run.
const STEPS: usize = 30;
/// Runs unless `THERMOCLINE_CASES` says otherwise.
const CASES: u64 = 4;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Result<Db, Error> {
    let (environment, _clock) = Environment::simulated(seed);
    let options = Options {
        environment,
        memory_bytes: 32 << 20,
        sync_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    };
    Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options)
}

fn spaces(db: &Db) -> Result<(Keyspace, Keyspace), Error> {
    let options = |engine| KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let lsm = db.keyspace("lsm", options(EngineKind::Lsm))?;
    Ok((lsm, db.keyspace("memory", options(EngineKind::Memory))?))
}

/// One write: its pairs, and whether they are ingested.
struct Write {
    pairs: Map,
    ingests: bool,
}

impl Write {
    fn random(random: &mut impl Rng, step: usize) -> Self {
        let ingests = random.random_range(0..3) == 0;
        let (from, count) = (random.random_range(0..40_u64), random.random_range(1..30_u64));
        let value = vec![step as u8; [10, 300, 2000][random.random_range(0..3)]];
        let key = |number: u64| format!("key-{number:04}").into_bytes();
        let pairs = (from..from + count).map(|number| (key(number), value.clone())).collect();
        Self { pairs, ingests }
    }

    /// Notes its step in the other keyspace with the same write, where it is one batch.
    fn apply(&self, db: &Db, step: usize) -> Result<(), Error> {
        let (lsm, memory) = spaces(db)?;
        if self.ingests {
            return lsm.ingest(&self.pairs).map(drop);
        }
        let mut batch = Batch::new();
        for (key, value) in &self.pairs {
            batch.put(&lsm, key, value);
        }
        batch.put(&memory, b"step", &step.to_be_bytes());
        db.write(&batch).map(drop)
    }
}

/// Returns the result of the first `count` writes, and the step that the other keyspace has.
fn after(writes: &[Write], count: usize) -> (Map, Option<usize>) {
    let (mut map, mut noted) = (Map::new(), None);
    for (step, write) in writes[..count].iter().enumerate() {
        map.extend(write.pairs.clone());
        noted = if write.ingests { noted } else { Some(step) };
    }
    (map, noted)
}

fn found(db: &Db) -> Result<(Map, Option<usize>), Error> {
    let (lsm, memory) = spaces(db)?;
    let map = lsm.scan(KeyRange::all())?.collect::<Result<Map, _>>()?;
    for (key, value) in &map {
        assert_eq!(lsm.get(key)?.as_ref(), Some(value), "gets and scans agree");
    }
    let noted = memory.get(b"step")?.map(|step| usize::from_be_bytes(step.try_into().unwrap()));
    Ok((map, noted))
}

/// A moment: the disk's operations until then, the number of writes that had returned, and the
/// number of durable ones.
struct Returned {
    returned_at: u64,
    durable: usize,
}

fn judge(
    image: &Arc<SimulatedDisk>,
    seed: u64,
    writes: &[Write],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<(), String> {
    let mut image = Arc::clone(image);
    let mut allowed: Vec<_> = counts.map(|count| after(writes, count)).collect();
    for nested in 0..2_u64 {
        let before = image.operations();
        let db = open(&image, seed).map_err(|error| format!("recovery {nested}: {error}"))?;
        let now = found(&db).map_err(|error| error.to_string())?;
        if !allowed.contains(&now) {
            return Err(format!("recovery {nested}: no such state was there: step {:?}", now.1));
        }
        let (mut map, noted) = now;
        let more = Write {
            pairs: [(b"key-0007x".to_vec(), vec![nested as u8; 50])].into(),
            ingests: true,
        };
        more.apply(&db, 0).map_err(|error| format!("recovery {nested}: {error}"))?;
        map.extend(more.pairs);
        allowed = vec![(map, noted)];
        drop(db);
        image = image.crash(seed ^ before);
    }
    Ok(())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_power_cut_leaves_whole_ingestions() {
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(CASES);
    let mut crashes = 0;
    for seed in first..first + cases {
        println!(
            "to replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
             cargo test -p thermocline --test all ingestion_crash"
        );
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let mut random = Environment::seeded(seed).random("ingestions");
        let db = open(&disk, seed).unwrap();
        spaces(&db).unwrap();
        let mut moments = vec![Returned { returned_at: disk.operations(), durable: 0 }];
        let mut writes: Vec<Write> = Vec::new();
        for step in 0..STEPS {
            let write = Write::random(&mut random, step);
            let all = [Durability::Buffered, Durability::Flushed, Durability::Synced];
            let durability = all[random.random_range(0..3)];
            write.apply(&db.durability(durability), step).unwrap();
            let is_durable = write.ingests || durability == Durability::Synced;
            writes.push(write);
            let before = moments.last().map_or(0, |moment| moment.durable);
            let durable = if is_durable { writes.len() } else { before };
            moments.push(Returned { returned_at: disk.operations(), durable });
            if random.random_range(0..6) == 0 {
                spaces(&db).unwrap().0.flush().unwrap();
            }
        }
        let history = disk.history();
        let mut replay = history.replay();
        for operation in moments[0].returned_at..=history.last_operation() {
            replay.advance_to(operation);
            let returned = moments.iter().take_while(|moment| moment.returned_at <= operation);
            let begun = returned.clone().count().min(STEPS);
            let durable = returned.last().map_or(0, |moment| moment.durable);
            crashes += 1;
            let image = replay.crash(seed ^ (operation << 8));
            if let Err(what) = judge(&image, seed, &writes, durable..=begun) {
                panic!("seed {seed}, power cut after operation {operation}: {what}");
            }
        }
    }
    println!("{crashes} power cuts, each followed by another after one more ingestion");
    assert!(crashes > 0);
}
