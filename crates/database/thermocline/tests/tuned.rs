//! Random operations on keyspaces with settings of their own, against a plainly right map.
//!
//! The operations are puts, deletes, batches, merges, transactions, deletes of ranges, clearings,
//! flushes, and reopenings between which settings are added and removed. At the end the files are
//! whole.
//!
//! Parts are small, so that the tuned options are used: tables and their filters are written and
//! merged, intervals split, and logs compacted.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Duration;

use crate::{small_parts, tunings};
use device::{Device, Faults, SimulatedDisk};
use environment::ManualClock;
use rand::RngExt;
use thermocline::{
    Batch, Change, Db, Direction, Durability, EngineKind, Environment, KeyRange, Keyspace,
    KeyspaceOptions, MergeOperators, Options, Settings, check_on,
};

const STEPS: usize = 500;
const KEYS: u16 = 300;
/// Steps between two comparisons of everything.
const LOOK_EVERY: usize = 50;
/// Bytes of a value that does not grow further.
const BYTES_MAX: usize = 3000;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    settings: Settings,
    of: KeyspaceOptions,
    disk: Arc<SimulatedDisk>,
    options: Options,
    clock: Arc<ManualClock>,
    db: Db,
    space: Keyspace,
    random: environment::Random,
    content: Content,
}

/// Appends the operand, or begins again if the value is already long.
fn appended(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let value = value.filter(|value| value.len() < BYTES_MAX).unwrap_or_default();
    [value, operand].concat()
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn every_tuned_engine_agrees_with_a_map() {
    let (first, cases) = (setting("THERMOCLINE_SEED", 1), setting("THERMOCLINE_CASES", 1));
    for seed in first..first + cases {
        for (number, settings) in tunings::all().into_iter().enumerate() {
            // Each with a journal by one seed, and without by the next.
            let journaled = (seed + number as u64).is_multiple_of(2);
            println!("THERMOCLINE_SEED={seed}, {settings}, journaled: {journaled}");
            Run::new(seed, settings, journaled).go();
        }
    }
}

impl Run {
    fn new(seed: u64, settings: Settings, journaled: bool) -> Self {
        let (environment, clock) = Environment::simulated(seed);
        let random = environment.random("tuned");
        let append = "append".parse().unwrap();
        let merge_operators = MergeOperators::new()
            .with(append, |_, value, operand| Ok(Change::Put(appended(value, operand))));
        let options = small_parts::with_small_parts(Options {
            environment,
            merge_operators,
            sync_interval: None,
            background_threads: 1,
            durability: Durability::Buffered,
            ..Options::default()
        });
        let of = KeyspaceOptions {
            engine: tunings::engine(settings),
            journaled,
            memory_bytes: Some(2 << 20),
            merge: Some(append),
            settings: Some(settings),
            ..KeyspaceOptions::default()
        };
        let disk = SimulatedDisk::new(seed, Faults::none());
        let db = Db::open_on(disk.clone() as Arc<dyn Device>, "tuned", options.clone()).unwrap();
        let space = db.keyspace("s", of).unwrap();
        let content = Content::new();
        Self { settings, of, disk, options, clock, db, space, random, content }
    }

    fn go(mut self) {
        for step in 1..=STEPS {
            match self.random.random_range(0..40) {
                0..16 => self.write(),
                16..24 => self.batch(),
                24..30 => self.update(),
                30..34 => self.transaction(),
                34..36 => self.delete_range(),
                36 => self.space.flush().unwrap(),
                37 => self.reopen(),
                // Data that is to be tuned has to grow first.
                38 if self.random.random_ratio(1, 10) => {
                    self.space.clear().unwrap();
                    self.content.clear();
                }
                _ => self.clock.advance(Duration::from_millis(self.random.random_range(0..200))),
            }
            self.look_at_one();
            if step.is_multiple_of(LOOK_EVERY) {
                self.look_at_all();
            }
        }
        self.reopen();
        self.look_at_all();
        self.db.close().unwrap();
        let report = check_on(self.disk.clone(), "tuned").unwrap();
        assert!(report.is_whole(), "{}: {:?}", self.settings, report.damage);
    }

    fn key(&mut self) -> Vec<u8> {
        self.random.random_range(0..KEYS).to_be_bytes().to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 30, 400, 1500][self.random.random_range(0..5)];
        let (one, other) = (self.random.random_range(0..255), self.random.random_range(0..255));
        // Half of it can be compressed.
        let byte = |at: usize| if at.is_multiple_of(2) { one } else { other ^ (at * at) as u8 };
        (0..len).map(byte).collect()
    }

    fn write(&mut self) {
        let (key, value) = (self.key(), self.value());
        if self.random.random_ratio(1, 4) {
            self.space.delete(&key).unwrap();
            self.content.remove(&key);
        } else {
            self.space.put(&key, &value).unwrap();
            self.content.insert(key, value);
        }
    }

    fn batch(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..self.random.random_range(1..8) {
            let (key, value) = (self.key(), self.value());
            match self.random.random_range(0..6) {
                0 => {
                    batch.delete(&self.space, &key);
                    self.content.remove(&key);
                }
                1 => {
                    batch.merge(&self.space, &key, &value);
                    self.append(key, &value);
                }
                _ => {
                    batch.put(&self.space, &key, &value);
                    self.content.insert(key, value);
                }
            }
        }
        self.db.write(&batch).unwrap();
    }

    fn append(&mut self, key: Vec<u8>, operand: &[u8]) {
        let value = appended(self.content.get(&key).map(Vec::as_slice), operand);
        self.content.insert(key, value);
    }

    fn update(&mut self) {
        let (key, operand) = (self.key(), self.value());
        if self.random.random_ratio(1, 2) {
            self.space.merge(&key, &operand).unwrap();
        } else {
            self.space.rmw(&key, |old| Change::Put(appended(old, &operand))).unwrap();
        }
        self.append(key, &operand);
    }

    fn transaction(&mut self) {
        let (one, other) = (self.key(), self.key());
        let transaction = self.db.begin().unwrap();
        let found = transaction.get(&self.space, &one).unwrap();
        assert_eq!(found, self.content.get(&one).cloned(), "{}", self.settings);
        let value = appended(found.as_deref(), b"t");
        transaction.put(&self.space, &one, &value).unwrap();
        self.content.insert(one, value);
        transaction.merge(&self.space, &other, b"m").unwrap();
        self.append(other, b"m");
        transaction.commit().unwrap();
    }

    fn delete_range(&mut self) {
        let start = self.random.random_range(0..KEYS);
        let end = (start + self.random.random_range(1..20)).to_be_bytes();
        let start = start.to_be_bytes();
        // The others refuse it.
        if self.of.engine == EngineKind::Lsm {
            self.space.delete_range(&KeyRange::of(start.to_vec()..end.to_vec())).unwrap();
            self.content.retain(|key, _| key[..] < start[..] || key[..] >= end[..]);
        }
    }

    /// Opens it again, with the settings or without.
    fn reopen(&mut self) {
        let nothing = tunings::engine(self.settings).settings();
        let told = if self.random.random_ratio(2, 3) { self.settings } else { nothing };
        let told = KeyspaceOptions { settings: Some(told), ..self.of };
        self.db.keyspace("s", told).unwrap();
        self.db.close().unwrap();
        let device: Arc<dyn Device> = self.disk.clone();
        self.db = Db::open_on(device, "tuned", self.options.clone()).unwrap();
        self.space = self.db.existing_keyspace("s").unwrap();
        let (found, said) = (self.space.options().settings, told.settings);
        // An option that is fixed for life stays although it is not given again.
        let stays = self.settings.get("chunk_bytes").is_some();
        let is_kept = found == said.filter(|said| *said != nothing);
        assert!(is_kept || stays, "{}: {found:?} instead of {said:?}", self.settings);
    }

    fn look_at_one(&mut self) {
        let key = self.key();
        let found = self.space.get(&key).unwrap();
        assert!(found.as_ref() == self.content.get(&key), "{}: {key:?}", self.settings);
    }

    fn look_at_all(&self) {
        let mut seen = Content::new();
        let mut take = |key: &[u8], value: &[u8]| {
            assert!(seen.insert(key.to_vec(), value.to_vec()).is_none(), "told twice");
            Continue(())
        };
        self.space.walk(None, &mut take).unwrap();
        assert!(seen == self.content, "{}: a walk sees something else", self.settings);
        if self.space.is_ordered() {
            let scan = self.space.scan_in(KeyRange::all(), Direction::Backward).unwrap();
            let backward = scan.map(|pair| pair.unwrap());
            let own = self.content.iter().rev().map(|(key, value)| (key.clone(), value.clone()));
            assert!(backward.eq(own), "{}: a scan sees something else", self.settings);
        }
    }
}
