//! The power is cut at every operation of the disk that a step makes (`scenarios.rs`).
//!
//! A step is a commit of each kind, a split, a join, a checkpoint, a close, a collection, intervals
//! written as one, or another budget.
//!
//! 1. A store is prepared on a simulated disk, which keeps its history from then on; the step is
//!    made. Each write is noted with how far the disk was, and how many writes were durable.
//! 2. For each operation there are several images: all data that were not synced are lost, or none,
//!    or some of them.
//! 3. On each image the store has the pairs of exactly the writes that it reports as persisted: no
//!    fewer than were durable, no more than were made. It is sound, before it is opened and
//!    afterwards.
//! 4. The power is cut again at each operation of that opening: the result is the same.
//! 5. The other writes are made again, as a journal would repeat them. Then the store has all
//!    pairs, and still has them once it was closed and opened.
//!
//! `THERMOCLINE_SEED=7 cargo test -p thermocline-flexdb --lib every_io` draws other images.

mod scenarios;

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, Replay, SimulatedDisk};
use engine::{Barrier, Engine, NoJournal, Op};

use super::stores::Bench;
use crate::Options;
use conformance::Pairs;

/// Images whose remaining data are drawn at random, for each operation of a step and of an opening.
const DRAWN: u64 = 4;
const DRAWN_AGAIN: u64 = 1;

/// A step, and the store with which it is made.
struct Scenario {
    options: Options,
    memory_bytes: u64,
    prepare: fn(&mut Run),
    /// Also checks that it has met the events that it is for.
    step: fn(&mut Run),
}

/// A write, and how many operations the disk had made before it.
struct Write {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    begun: u64,
}

/// A store and the operations on it.
struct Run {
    bench: Bench,
    disk: Arc<SimulatedDisk>,
    writes: Vec<Write>,
    /// How many operations the disk had made, and how many writes were durable.
    durable: Vec<(u64, u64)>,
}

impl Run {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.write(key, Some(value));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.write(key, None);
    }

    fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let write = Write { key, value, begun: self.disk.operations() };
        make(&self.bench, &write);
        self.writes.push(write);
        self.note();
    }

    fn flush(&mut self) {
        self.bench.flush();
        assert_eq!(self.bench.store.persisted().get(), self.writes.len() as u64);
        self.note();
    }

    /// Notes the writes that are durable now.
    fn note(&mut self) {
        self.durable.push((self.disk.operations(), self.bench.store.persisted().get()));
    }

    /// Nothing is cached any more.
    fn forget(&self) {
        self.bench.store.shared.cache.shrink(0);
    }

    fn detail(&self, name: &str) -> u64 {
        self.bench.detail(name)
    }

    /// Returns the pairs of a store that has the first `count` writes.
    fn pairs(&self, count: u64) -> Pairs {
        let mut model = BTreeMap::new();
        for Write { key, value, .. } in &self.writes[..count as usize] {
            match value {
                Some(value) => _ = model.insert(key.clone(), value.clone()),
                None => _ = model.remove(key),
            }
        }
        model.into_iter().collect()
    }

    /// Returns how many writes are durable, at least, and how many were made when the disk had made
    /// `operation` operations.
    fn bounds(&self, operation: u64) -> (u64, u64) {
        let ended = self.durable.iter().filter(|(at, _)| *at <= operation);
        let durable = ended.map(|(_, writes)| *writes).max().unwrap_or(0);
        let made = self.writes.partition_point(|write| write.begun <= operation);
        (durable, made as u64)
    }
}

fn make(bench: &Bench, write: &Write) {
    let op = match &write.value {
        Some(value) => Op::Put { key: &write.key, value },
        None => Op::Delete { key: &write.key },
    };
    bench.apply(&[op]);
}

/// Counts of the images that were checked, and of those opened with a stored index.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    images: u64,
    again: u64,
    stored: u64,
}

impl Scenario {
    fn open(&self, disk: &Arc<SimulatedDisk>) -> Result<Bench, String> {
        let device = Arc::clone(disk) as Arc<dyn Device>;
        let barrier: Arc<dyn Barrier> = Arc::new(NoJournal);
        let opened = Bench::with(device, barrier, self.memory_bytes, self.options.clone());
        opened.map_err(|error| format!("opening: {error}"))
    }

    /// Makes the step, and cuts the power at each of its operations.
    fn crash(&self) -> Met {
        let setting = std::env::var("THERMOCLINE_SEED").ok();
        let seed = setting.and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
        println!("THERMOCLINE_SEED={seed} replays it");
        let disk = SimulatedDisk::new(seed, Faults::none());
        let bench = self.open(&disk).expect("an honest disk");
        let (writes, durable) = (Vec::new(), Vec::new());
        let mut run = Run { bench, disk: Arc::clone(&disk), writes, durable };
        (self.prepare)(&mut run);
        run.note();
        disk.keep_history();
        let before = disk.operations();
        (self.step)(&mut run);
        let history = disk.history();
        assert!(history.last_operation() > before, "the step writes nothing");
        let (mut replay, mut met) = (history.replay(), Met::default());
        for operation in before..=history.last_operation() {
            replay.advance_to(operation);
            for (number, image) in images(&replay, (seed, operation), DRAWN).iter().enumerate() {
                let judged = self.judge(&run, operation, image, &mut met);
                let of = history.last_operation();
                judged.unwrap_or_else(|what| {
                    panic!("power cut after operation {operation} of {before} to {of}, image {number}: {what}")
                });
            }
        }
        println!("operations {before} to {}: {met:?}", history.last_operation());
        met
    }

    /// 3 to 5 of an image.
    fn judge(
        &self,
        run: &Run,
        operation: u64,
        image: &Arc<SimulatedDisk>,
        met: &mut Met,
    ) -> Result<(), String> {
        sound(image, "before it is opened")?;
        image.keep_history();
        let bench = self.open(image)?;
        let opening = image.history();
        met.images += 1;
        let persisted = bench.store.persisted().get();
        let (durable, made) = run.bounds(operation);
        if !(durable..=made).contains(&persisted) {
            return Err(format!("{persisted} writes persisted, {durable} durable, {made} made"));
        }
        let there = run.pairs(persisted);
        same(&bench, &there, "what is persisted")?;
        met.stored += u64::from(bench.detail("opening_keys") == 0 && !there.is_empty());
        let mut replay = opening.replay();
        for operation in 0..=opening.last_operation() {
            replay.advance_to(operation);
            for again in images(&replay, (persisted, operation), DRAWN_AGAIN) {
                let found = self.open(&again).map_err(|what| format!("again, {what}"))?;
                met.again += 1;
                if found.store.persisted().get() != persisted {
                    return Err(format!(
                        "crashed again, {} are persisted",
                        found.store.persisted()
                    ));
                }
                same(&found, &there, "crashed again")?;
            }
        }
        for write in &run.writes[persisted as usize..made as usize] {
            make(&bench, write);
        }
        let all = run.pairs(made);
        same(&bench, &all, "what was made again")?;
        bench.store.flush().map_err(|error| format!("flushing: {error}"))?;
        same(&bench, &all, "what was flushed")?;
        bench.store.close().map_err(|error| format!("closing: {error}"))?;
        sound(image, "after it was closed")?;
        same(&self.open(image)?, &all, "what was closed")
    }
}

/// Returns images that a crash may leave: nothing, all, and `drawn` random ones.
fn images(replay: &Replay<'_>, seed: (u64, u64), drawn: u64) -> Vec<Arc<SimulatedDisk>> {
    let mut images = vec![replay.crash_losing_all(), replay.crash_losing_nothing()];
    let seed = environment::Seed::from(seed.0).child(seed.1);
    images.extend((0..drawn).map(|image| replay.crash(seed.child(image).get())));
    images
}

/// The offline check finds nothing.
fn sound(disk: &Arc<SimulatedDisk>, when: &str) -> Result<(), String> {
    let report = crate::check(&(Arc::clone(disk) as Arc<dyn Device>));
    let damage = report.map_err(|error| format!("checked {when}: {error}"))?.damage;
    if damage.is_empty() { Ok(()) } else { Err(format!("{when}: {damage:?}")) }
}

fn same(bench: &Bench, expected: &Pairs, what: &str) -> Result<(), String> {
    bench.check();
    let found = bench.pairs();
    if found == *expected {
        return Ok(());
    }
    let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
    let counts = (found.len(), expected.len());
    Err(format!("{what}: {} pairs of {}, {wrong} are others", counts.0, counts.1))
}
