//! Power cuts at every operation of a run over several keyspaces, on the simulated disk.
//!
//! A run is made of steps: puts, batches over keyspaces, read-modify-writes, flushes, clearings,
//! drops, checkpoints, reopenings. The model keeps the whole database's content after each step.
//! Whatever a power cut leaves, recovery must give the content after some step no older than the
//! last one that was known durable (prefix recovery, batches whole), the offline check must find
//! nothing, and the database must take writes again.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! one command that replays it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use rand::{Rng, RngExt};
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Environment, Error, KeyRange, KeyspaceOptions,
    Options,
};

/// Steps of one run.
const STEPS: usize = 40;
/// Images taken at each operation of a run.
const IMAGES: u64 = 2;
/// Runs unless `THERMOCLINE_CASES` says otherwise.
const CASES: u64 = 3;
/// Keyspaces by name, and their engines; they come and go.
type Spaces = &'static [(&'static str, EngineKind)];
const IN_MEMORY: Spaces =
    &[("a", EngineKind::Memory), ("b", EngineKind::Memory), ("c", EngineKind::Memory)];
const OF_EACH_ENGINE: Spaces = &[
    ("memory", EngineKind::Memory),
    ("f2", EngineKind::F2),
    ("lsm", EngineKind::Lsm),
    ("flexdb", EngineKind::FlexDb),
];
/// For a keyspace of an engine on disk.
const MEMORY_BYTES: u64 = 2 << 20;

type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A moment of a run: what the database held, and from which operation of the disk on it must not
/// be older than this.
struct Moment {
    content: Content,
    /// The disk's operation count when this step had returned.
    returned_at: u64,
    /// Whether it is durable from then on.
    durable: bool,
}

fn options(seed: u64) -> Options {
    let (environment, _clock) = Environment::simulated(seed);
    Options {
        environment,
        sync_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    }
}

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Result<Db, Error> {
    Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options(seed))
}

fn content(db: &Db) -> Content {
    let pairs = |space: &thermocline::Keyspace| {
        let mut pairs = BTreeMap::new();
        let mut take = |key: &[u8], value: &[u8]| {
            assert!(pairs.insert(key.to_vec(), value.to_vec()).is_none(), "a key is told twice");
            ControlFlow::Continue(())
        };
        space.walk(None, &mut take).unwrap();
        pairs
    };
    db.keyspaces().iter().map(|space| (space.name().to_owned(), pairs(space))).collect()
}

struct Run {
    seed: u64,
    spaces: Spaces,
    random: environment::Random,
    disk: Arc<SimulatedDisk>,
    db: Db,
    content: Content,
    moments: Vec<Moment>,
}

impl Run {
    fn new(seed: u64, spaces: Spaces) -> Self {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let db = open(&disk, seed).unwrap();
        let random = Environment::seeded(seed).random("crash run");
        let (content, moments) = (Content::new(), Vec::new());
        let mut run = Self { seed, spaces, random, disk, db, content, moments };
        run.note(true);
        run
    }

    fn note(&mut self, durable: bool) {
        let (content, returned_at) = (self.content.clone(), self.disk.operations());
        self.moments.push(Moment { content, returned_at, durable });
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'k', self.random.random_range(0..8)]
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 20, 600, 5000][self.random.random_range(0..5)];
        let mut value = vec![0; len];
        self.random.fill_bytes(&mut value);
        value
    }

    fn space(&mut self) -> thermocline::Keyspace {
        let (name, engine) = self.spaces[self.random.random_range(0..self.spaces.len())];
        if !self.content.contains_key(name) {
            let memory_bytes = (engine != EngineKind::Memory).then_some(MEMORY_BYTES);
            let options = KeyspaceOptions { engine, memory_bytes, ..KeyspaceOptions::default() };
            self.db.keyspace(name, options).unwrap();
            self.content.insert(name.to_owned(), BTreeMap::new());
            self.note(true);
        }
        self.db.existing_keyspace(name).unwrap()
    }

    fn durability(&mut self) -> Durability {
        let all = [Durability::Buffered, Durability::Flushed, Durability::Synced];
        all[self.random.random_range(0..3)]
    }

    fn step(&mut self) {
        match self.random.random_range(0..20) {
            0..=6 => self.put_or_delete(),
            7..=11 => self.batch(),
            12..=13 => self.rmw(),
            14 => self.maintain(Db::flush),
            15 => self.maintain(Db::sync),
            16 => self.reopen(),
            17 => {
                let space = self.space();
                space.clear().unwrap();
                self.content.insert(space.name().to_owned(), BTreeMap::new());
                self.note(true);
            }
            18 => {
                let space = self.space();
                self.db.drop_keyspace(space.name()).unwrap();
                self.content.remove(space.name());
                drop(space);
                self.note(true);
            }
            _ => self.maintain(|db| {
                let copy = SimulatedDisk::new(1, Faults::none());
                db.checkpoint_on(copy.clone(), "copy")?;
                assert_eq!(content(&open(&copy, 1)?), content(db), "the checkpoint differs");
                Ok(())
            }),
        }
    }

    fn put_or_delete(&mut self) {
        let (durability, key) = (self.durability(), self.key());
        let space = self.space().durability(durability);
        let pairs = self.content.entry(space.name().to_owned()).or_default();
        if self.random.random_range(0..4) == 0 {
            pairs.remove(&key);
            space.delete(&key).unwrap();
        } else {
            let value = self.value();
            self.content
                .entry(space.name().to_owned())
                .or_default()
                .insert(key.clone(), value.clone());
            space.put(&key, &value).unwrap();
        }
        self.note(durability == Durability::Synced);
    }

    fn batch(&mut self) {
        let durability = self.durability();
        let mut batch = Batch::new();
        for _ in 0..self.random.random_range(1..6) {
            let (space, key, value) = (self.space(), self.key(), self.value());
            batch.put(&space, &key, &value);
        }
        if self.random.random_range(0..3) == 0 {
            let (space, one, other) = (self.space(), self.key(), self.key());
            let range = KeyRange::of(one.clone().min(other.clone())..=one.max(other));
            // The others refuse it.
            if matches!(space.options().engine, EngineKind::Memory | EngineKind::Lsm) {
                batch.delete_range(&space, &range);
            }
        }
        let (space, key) = (self.space(), self.key());
        batch.put(&space, &key, b"last").delete(&space, b"never there");
        // Only now: making a keyspace is a step of its own.
        let mut after = self.content.clone();
        apply(&batch, &mut after);
        self.db.durability(durability).write(&batch).unwrap();
        self.content = after;
        self.note(durability == Durability::Synced);
    }

    fn rmw(&mut self) {
        let (durability, key) = (self.durability(), self.key());
        let space = self.space().durability(durability);
        let grow = |old: Option<&[u8]>| [old.unwrap_or_default(), &b"+"[..]].concat();
        space.rmw(&key, |old| Change::Put(grow(old))).unwrap();
        let pairs = self.content.entry(space.name().to_owned()).or_default();
        let value = grow(pairs.get(&key).map(Vec::as_slice));
        pairs.insert(key, value);
        self.note(durability == Durability::Synced);
    }

    fn maintain(&mut self, work: impl FnOnce(&Db) -> Result<(), Error>) {
        work(&self.db).unwrap();
        let durable = self.db.sync().is_ok();
        self.note(durable);
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = open(&self.disk, self.seed).unwrap();
        assert_eq!(content(&self.db), self.content, "after a clean reopening");
        self.note(true);
    }

    /// Opens what a power cut after `operation` left, and compares.
    fn judge(&self, image: &Arc<SimulatedDisk>, operation: u64) -> Result<(), String> {
        let settled = self
            .moments
            .iter()
            .rposition(|moment| moment.durable && moment.returned_at <= operation);
        let begun = self.moments.iter().take_while(|one| one.returned_at <= operation).count();
        // Again and again: a crash in the middle of recovery must change nothing.
        let mut image = Arc::clone(image);
        for nested in 0..2 {
            let before = image.operations();
            let db = open(&image, self.seed).map_err(|e| format!("recovery {nested}: {e}"))?;
            let found = content(&db);
            let first = settled.unwrap_or(0);
            let last = (begun + 1).min(self.moments.len());
            let matches = |moment: &Moment| moment.content == found;
            let fresh = settled.is_none() && found.is_empty();
            if !fresh && !self.moments[first..last].iter().any(matches) {
                return Err(format!(
                    "recovery {nested}: the content is none of steps {first} to {last}:\n{}",
                    describe(&found)
                ));
            }
            drop(db);
            let report =
                thermocline::check_on(image.clone(), "image").map_err(|e| e.to_string())?;
            if !report.is_whole() {
                return Err(format!("the check found {:?}", report.damage));
            }
            image = image.crash(self.seed ^ before);
        }
        let db = open(&image, self.seed).map_err(|error| error.to_string())?;
        let space = db.keyspace("after", KeyspaceOptions::default()).map_err(|e| e.to_string())?;
        space.put(b"k", b"v").map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn apply(batch: &Batch, content: &mut Content) {
    for (space, op) in batch.iter() {
        let pairs = content.entry(space.to_owned()).or_default();
        pairs.retain(|key, _| !op.decides(key));
        if let Some(value) = op.value() {
            pairs.insert(op.key().to_vec(), value.to_vec());
        }
    }
}

fn describe(content: &Content) -> String {
    let mut text = String::new();
    for (space, pairs) in content {
        for (key, value) in pairs {
            text += &format!("{space} {} = {} bytes\n", key.escape_ascii(), value.len());
        }
    }
    text
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_power_cut_leaves_a_prefix_and_whole_batches() {
    judge_all(IN_MEMORY, CASES, STEPS);
}

#[test]
fn every_power_cut_leaves_batches_over_engines_whole() {
    judge_all(OF_EACH_ENGINE, 1, STEPS / 2);
}

fn judge_all(spaces: Spaces, cases: u64, steps: usize) {
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(cases);
    let mut crashes = 0;
    for seed in first..first + cases {
        let mut run = Run::new(seed, spaces);
        for _ in 0..steps {
            run.step();
        }
        let history = run.disk.history();
        let mut replay = history.replay();
        for operation in 0..=history.last_operation() {
            replay.advance_to(operation);
            for image in 0..IMAGES {
                let image_seed = seed ^ (operation << 8) ^ image;
                crashes += 1;
                if let Err(what) = run.judge(&replay.crash(image_seed), operation) {
                    panic!(
                        "seed {seed}, power cut after operation {operation}, image {image}: {what}\n\
                         replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
                         cargo test -p thermocline --test crash"
                    );
                }
            }
        }
    }
    println!("{crashes} power cuts, each followed by two more during recovery");
    assert!(crashes > 0);
}
