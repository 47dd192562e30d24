//! Random merges among other writes, alone, in batches and in transactions, on a keyspace of every
//! engine against a map that is plainly right, with values that expire and without.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! seed.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Duration;

use crate::tunings;
use device::{Device, Faults, SimulatedDisk};
use environment::ManualClock;
use rand::RngExt;
use thermocline::{
    Batch, Change, Db, EngineKind, Environment, Expiring, KeyRange, Keyspace, KeyspaceOptions,
    Options, Transaction,
};

use super::{edited, kinds, merged_by, operators, options};

const STEPS: usize = 150;
const KEYS: u8 = 6;

/// Each key's value and its expiry, expired or not.
type Stored = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>, Option<u64>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

fn living(stored: &Stored, key: &[u8], now_ms: u64) -> Option<(Vec<u8>, Option<u64>)> {
    stored.get(key).filter(|(_, end)| end.is_none_or(|end| end > now_ms)).cloned()
}

/// `false` if an operand is refused.
fn apply(stored: &mut Stored, step: &Step, now_ms: u64) -> bool {
    match step {
        Step::Put(key, _, Some(expiry_ms)) if *expiry_ms <= now_ms => drop(stored.remove(key)),
        Step::Put(key, value, expiry_ms) => {
            stored.insert(key.clone(), (value.clone(), *expiry_ms));
        }
        Step::Delete(key) => drop(stored.remove(key)),
        Step::DeleteRange(start, end) => stored.retain(|key, _| key < start || key > end),
        Step::Merge(key, operand) => {
            let old = living(stored, key, now_ms);
            let expiry_ms = old.as_ref().and_then(|(_, end)| *end);
            match edited(old.as_ref().map(|(value, _)| value.as_slice()), operand) {
                Ok(Change::Put(value)) => drop(stored.insert(key.clone(), (value, expiry_ms))),
                Ok(Change::Delete) => drop(stored.remove(key)),
                Ok(Change::Keep) => {}
                Err(_) => return false,
            }
        }
    }
    true
}

struct Run {
    disk: Arc<SimulatedDisk>,
    options: Options,
    clock: Arc<ManualClock>,
    db: Db,
    space: Keyspace,
    of: KeyspaceOptions,
    random: environment::Random,
    stored: Stored,
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn every_engine_agrees_with_a_map() {
    let (first, cases) = (setting("THERMOCLINE_SEED", 1), setting("THERMOCLINE_CASES", 3));
    for seed in first..first + cases {
        for (engine, journaled) in kinds() {
            for expiring in [false, true] {
                println!(
                    "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1, {engine}, journaled: {journaled}, \
                     values that expire: {expiring}"
                );
                let of = merged_by("edit", engine, journaled);
                Run::new(seed, KeyspaceOptions { expiring, ..of }).go();
            }
        }
    }
}

#[test]
fn every_tuned_engine_agrees_with_a_map() {
    let (first, cases) = (setting("THERMOCLINE_SEED", 1), setting("THERMOCLINE_CASES", 1));
    for seed in first..first + cases {
        for (at, settings) in tunings::all().into_iter().enumerate() {
            // Each with a journal by one seed, and without by the next; of both some with values
            // that end.
            let number = seed + at as u64;
            let (journaled, expiring) = (number.is_multiple_of(2), number % 4 > 1);
            println!(
                "THERMOCLINE_SEED={seed}, {settings}, journaled: {journaled}, \
                 values that expire: {expiring}"
            );
            let of = merged_by("edit", tunings::engine(settings), journaled);
            Run::new(seed, KeyspaceOptions { expiring, settings: Some(settings), ..of }).go();
        }
    }
}

impl Run {
    fn new(seed: u64, of: KeyspaceOptions) -> Self {
        let (environment, clock) = Environment::simulated(seed);
        let random = environment.random("merges");
        let options = options(environment, operators());
        let disk = SimulatedDisk::new(seed, Faults::none());
        let device: Arc<dyn Device> = disk.clone();
        let db = Db::open_on(device, "merges", options.clone()).unwrap();
        let space = db.keyspace("s", of).unwrap();
        Self { disk, options, clock, db, space, of, random, stored: Stored::new() }
    }

    fn go(mut self) {
        for _ in 0..STEPS {
            match self.random.random_range(0..12) {
                0..3 => self.alone(),
                3..6 => self.batch(),
                6..8 => self.transaction_that_reads(),
                8..10 => self.transaction_beside_others(),
                10 => self.clock.advance(Duration::from_millis(self.random.random_range(0..40))),
                _ if self.random.random_range(0..3) == 0 => self.reopen(),
                _ => self.space.flush().unwrap(),
            }
            self.look_at_all();
        }
        self.reopen();
        self.look_at_all();
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        let device: Arc<dyn Device> = self.disk.clone();
        self.db = Db::open_on(device, "merges", self.options.clone()).unwrap();
        self.space = self.db.keyspace("s", self.of).unwrap();
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'k', self.random.random_range(0..KEYS)]
    }

    /// Any step that is not refused.
    fn step(&mut self) -> Step {
        let key = self.key();
        let any = self.random.random_range(0..255);
        match self.random.random_range(0..20) {
            0..3 => {
                let ends = self.of.expiring && self.random.random_range(0..2) == 0;
                let expiry_ms = ends.then(|| self.db.now_ms() + self.random.random_range(0..60));
                Step::Put(key, vec![any; usize::from(any) % 20], expiry_ms)
            }
            3 => Step::Delete(key),
            4 if matches!(self.of.engine, EngineKind::Memory | EngineKind::Lsm) => {
                let other = self.key();
                Step::DeleteRange(key.clone().min(other.clone()), key.max(other))
            }
            5 => Step::Merge(key, b"-".to_vec()),
            6 => Step::Merge(key, b"=".to_vec()),
            _ => Step::Merge(key, vec![b'+', any, any]),
        }
    }

    fn steps(&mut self) -> Vec<Step> {
        (0..self.random.random_range(1..8)).map(|_| self.step()).collect()
    }

    fn alone(&mut self) {
        let step = self.step();
        self.write(&step);
        let now_ms = self.db.now_ms();
        assert!(apply(&mut self.stored, &step, now_ms));
    }

    fn write(&self, step: &Step) {
        let space = &self.space;
        match step {
            Step::Put(key, value, None) => drop(space.put(key, value).unwrap()),
            Step::Put(key, value, Some(end)) => _ = space.expiring().put(key, value, *end).unwrap(),
            Step::Delete(key) => drop(space.delete(key).unwrap()),
            Step::DeleteRange(start, end) => {
                space.delete_range(&KeyRange::of(start.clone()..=end.clone())).unwrap();
            }
            Step::Merge(key, operand) => drop(space.merge(key, operand).unwrap()),
        }
    }

    fn batch(&mut self) {
        let mut steps = self.steps();
        if self.random.random_range(0..6) == 0 {
            let refused = Step::Merge(self.key(), b"!".to_vec());
            steps.push(refused);
        }
        let mut batch = Batch::new();
        for step in &steps {
            match step {
                Step::Put(key, value, None) => batch.put(&self.space, key, value),
                Step::Put(key, value, Some(end)) => {
                    batch.put_with_expiry(&self.space, key, value, *end)
                }
                Step::Delete(key) => batch.delete(&self.space, key),
                Step::DeleteRange(start, end) => {
                    batch.delete_range(&self.space, &KeyRange::of(start.clone()..=end.clone()))
                }
                Step::Merge(key, operand) => batch.merge(&self.space, key, operand),
            };
        }
        let (mut after, now_ms) = (self.stored.clone(), self.db.now_ms());
        let is_taken = steps.iter().all(|step| apply(&mut after, step, now_ms));
        assert_eq!(self.db.write(&batch).is_ok(), is_taken, "{steps:?}");
        if is_taken {
            self.stored = after;
        }
    }

    fn add(&self, transaction: &Transaction, step: &Step) {
        let space = &self.space;
        match step {
            Step::Put(key, value, None) => transaction.put(space, key, value).unwrap(),
            Step::Put(key, value, Some(end)) => {
                transaction.put_with_expiry(space, key, value, *end).unwrap();
            }
            Step::Delete(key) => transaction.delete(space, key).unwrap(),
            Step::DeleteRange(start, end) => {
                let range = KeyRange::of(start.clone()..=end.clone());
                transaction.delete_range(space, &range).unwrap();
            }
            Step::Merge(key, operand) => transaction.merge(space, key, operand).unwrap(),
        }
    }

    /// It sees its own merges, by gets and scans, also in their stored form.
    fn transaction_that_reads(&mut self) {
        let (steps, now_ms) = (self.steps(), self.db.now_ms());
        let transaction = self.db.begin().unwrap();
        let mut after = self.stored.clone();
        for step in &steps {
            self.add(&transaction, step);
            assert!(apply(&mut after, step, now_ms));
            let key = self.key();
            let seen = transaction.get(&self.space, &key).unwrap();
            assert_eq!(seen, living(&after, &key, now_ms).map(|(value, _)| value), "{steps:?}");
        }
        if self.space.is_ordered() {
            for (space, is_stored) in [(&self.space, false), (&self.space.expiring().raw(), true)] {
                let scan = transaction.scan_reverse(space, KeyRange::all()).unwrap();
                let is_stored = is_stored && self.of.expiring;
                let shown = |pair: Result<_, _>| living_pair(is_stored, pair.unwrap(), now_ms);
                let mut seen: Vec<_> = scan.filter_map(shown).collect();
                seen.reverse();
                assert_eq!(seen, all_living(&after, now_ms), "{steps:?}");
            }
        }
        if self.random.random_range(0..4) == 0 {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            self.stored = after;
        }
    }

    /// It has read nothing, so it commits whatever others write meanwhile, and merges into that.
    fn transaction_beside_others(&mut self) {
        let (steps, others, now_ms) = (self.steps(), self.steps(), self.db.now_ms());
        let transaction = self.db.begin().unwrap();
        for step in &steps {
            self.add(&transaction, step);
        }
        for step in &others {
            self.write(step);
        }
        transaction.commit().unwrap();
        for step in others.iter().chain(&steps) {
            assert!(apply(&mut self.stored, step, now_ms));
        }
    }

    fn look_at_all(&self) {
        let (now_ms, mut seen) = (self.db.now_ms(), BTreeMap::new());
        let mut take = |key: &[u8], value: &[u8]| {
            assert!(seen.insert(key.to_vec(), value.to_vec()).is_none(), "told twice");
            Continue(())
        };
        self.space.walk(None, &mut take).unwrap();
        let seen: Vec<_> = seen.into_iter().collect();
        assert_eq!(seen, all_living(&self.stored, now_ms));
        if self.of.expiring {
            for number in 0..KEYS {
                let key = [b'k', number];
                let found = self.space.expiring().get(&key).unwrap();
                assert_eq!(found, living(&self.stored, &key, now_ms));
            }
        }
    }
}

fn all_living(stored: &Stored, now_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keys = stored.keys();
    keys.filter_map(|key| Some((key.clone(), living(stored, key, now_ms)?.0))).collect()
}

/// A pair as users know it, unless it has expired.
fn living_pair(
    is_stored: bool,
    (key, value): (Vec<u8>, Vec<u8>),
    now_ms: u64,
) -> Option<(Vec<u8>, Vec<u8>)> {
    if !is_stored {
        return Some((key, value));
    }
    let whole = Expiring::decode(&value).unwrap();
    (!whole.is_expired(now_ms)).then(|| (key, whole.value.to_vec()))
}
