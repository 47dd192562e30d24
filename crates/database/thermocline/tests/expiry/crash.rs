//! Power cuts in a run over keyspaces whose values end, and recoveries under any clock.
//!
//! The model keeps the stored values after each step, with their ends. From every image of a power
//! cut, recovery must give the values of some step no older than the last durable one. Values that
//! had expired at the cut may be missing, since they may have been removed. The clock at the
//! recovery does not matter.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, SimulatedDisk};
use rand::RngExt;
use thermocline::{Batch, Change, Db, Durability, EngineKind, Environment, Expiring, Keyspace};

use super::database::Bench;

const STEPS: usize = 40;
/// Power cuts of a run.
const CUTS: u64 = 60;

type Content = BTreeMap<(EngineName, Vec<u8>), (Vec<u8>, Option<u64>)>;
type EngineName = &'static str;

struct Returned {
    content: Content,
    now_ms: u64,
    returned_at: u64,
    is_durable: bool,
}

struct Run {
    seed: u64,
    random: environment::Random,
    bench: Bench,
    spaces: Vec<Keyspace>,
    content: Content,
    moments: Vec<Returned>,
}

fn stored(db: &Db) -> Content {
    let mut content = Content::new();
    for space in db.keyspaces() {
        let engine = space.options().engine.name();
        space
            .expiring()
            .raw()
            .walk(None, |key, stored| {
                let Expiring { value, expiry_ms } = Expiring::decode(stored).unwrap();
                content.insert((engine, key.to_vec()), (value.to_vec(), expiry_ms));
                Continue(())
            })
            .unwrap();
    }
    content
}

impl Run {
    fn new(seed: u64) -> Self {
        let bench = Bench::new(seed);
        bench.disk.keep_history();
        let spaces: Vec<Keyspace> =
            EngineKind::ALL.iter().map(|engine| bench.space(*engine, true)).collect();
        bench.db.sync().unwrap();
        let random = Environment::seeded(seed).random("expiry crash run");
        let (content, moments) = Default::default();
        let mut run = Self { seed, random, bench, spaces, content, moments };
        run.note(true);
        run
    }

    fn note(&mut self, is_durable: bool) {
        self.moments.push(Returned {
            content: self.content.clone(),
            now_ms: self.bench.now_ms(),
            returned_at: self.bench.disk.operations(),
            is_durable,
        });
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'k', self.random.random_range(0..6)]
    }

    fn expiry_ms(&mut self) -> u64 {
        self.bench.now_ms() + self.random.random_range(1..60)
    }

    fn set(&mut self, space: &Keyspace, key: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        let engine = space.options().engine.name();
        self.content.insert((engine, key.to_vec()), (value.to_vec(), expiry_ms));
    }

    fn living(&self, space: &Keyspace, key: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        let found = self.content.get(&(space.options().engine.name(), key.to_vec()))?;
        found.1.is_none_or(|expiry_ms| expiry_ms > self.bench.now_ms()).then(|| found.clone())
    }

    fn step(&mut self) {
        let durability = [Durability::Buffered, Durability::Synced][self.random.random_range(0..2)];
        let space = self.spaces[self.random.random_range(0..self.spaces.len())].clone();
        let space = space.durability(durability);
        let (key, expiry_ms) = (self.key(), self.expiry_ms());
        let value =
            vec![self.random.random_range(0..255); [1, 30, 3000][self.random.random_range(0..3)]];
        let is_durable = durability == Durability::Synced;
        match self.random.random_range(0..12) {
            0..3 => {
                self.set(&space, &key, &value, Some(expiry_ms));
                space.expiring().put(&key, &value, expiry_ms).unwrap();
            }
            3 => {
                let old = self.living(&space, &key);
                let expiry_ms = old.and_then(|(_, expiry_ms)| expiry_ms);
                self.set(&space, &key, &value, expiry_ms);
                space.rmw(&key, |_| Change::Put(value.clone())).unwrap();
            }
            4 => {
                if let Some((value, _)) = self.living(&space, &key) {
                    self.set(&space, &key, &value, Some(expiry_ms));
                }
                let had = space.expiring().expire_at(&key, expiry_ms).unwrap();
                return self.note(is_durable && had);
            }
            5..7 => {
                let mut batch = Batch::new();
                for space in self.spaces.clone() {
                    batch.put_with_expiry(&space, &key, &value, expiry_ms);
                    self.set(&space, &key, &value, Some(expiry_ms));
                }
                self.bench.db.durability(durability).write(&batch).unwrap();
            }
            7..10 => {
                self.bench.pass(self.random.random_range(1..40));
                // From now on more may be missing.
                self.note(false);
                space.expiring().remove_expired().unwrap();
                return self.note(false);
            }
            10 => {
                space.flush().unwrap();
                return self.note(false);
            }
            _ => {
                self.bench.db.sync().unwrap();
                return self.note(true);
            }
        }
        self.note(is_durable);
    }

    /// Opens an image of a power cut after `operation`, under another clock, and compares.
    fn judge(&self, image: &Arc<SimulatedDisk>, operation: u64) {
        let durable =
            self.moments.iter().rposition(|one| one.is_durable && one.returned_at <= operation);
        let begun = self.moments.iter().take_while(|one| one.returned_at <= operation).count();
        let options = self.bench.options();
        let (environment, clock) = Environment::simulated(self.seed ^ operation);
        let years = [1, 40, 90][operation as usize % 3];
        clock.set_wall(Duration::from_secs(years * 366 * 24 * 3600));
        let options = thermocline::Options { environment, ..options };
        let device = Arc::clone(image) as Arc<dyn Device>;
        let db = Db::open_on(device, "image", options).unwrap();
        let found = stored(&db);
        let moments = &self.moments[durable.unwrap_or(0)..(begun + 1).min(self.moments.len())];
        let is_one = moments.iter().any(|moment| moment.allows(&found));
        assert!(
            is_one || durable.is_none() && found.is_empty(),
            "seed {}, power cut after operation {operation}: none of {} steps stored {found:?}",
            self.seed,
            moments.len()
        );
        drop(db);
    }
}

impl Returned {
    /// Returns whether `found` has the stored values, without some that had expired.
    fn allows(&self, found: &Content) -> bool {
        let has_ended = |end: &Option<u64>| end.is_some_and(|expiry_ms| expiry_ms <= self.now_ms);
        let is_there = found.iter().all(|(key, value)| self.content.get(key) == Some(value));
        let gone = self.content.iter().filter(|(key, _)| !found.contains_key(*key));
        is_there && gone.map(|(_, (_, end))| end).all(has_ended)
    }
}

#[test]
fn every_power_cut_leaves_what_was_stored_whatever_the_clock_says() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases: u64 = setting("THERMOCLINE_CASES").unwrap_or(8);
    for seed in first..first + cases {
        let mut run = Run::new(seed);
        let begun_at = run.bench.disk.operations();
        for _ in 0..STEPS {
            run.step();
        }
        let history = run.bench.disk.history();
        let mut replay = history.replay();
        let last = history.last_operation();
        let apart = ((last - begun_at) / CUTS).max(1);
        for operation in (begun_at..=last).step_by(apart as usize) {
            replay.advance_to(operation);
            run.judge(&replay.crash(seed ^ (operation << 8)), operation);
        }
    }
}
