//! Random operations on a keyspace of every engine against a map that is plainly right, under a
//! clock that is moved, also back.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! seed.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;

use rand::RngExt;
use thermocline::{
    Batch, BatchStep, Change, Completed, ExpiringChange, KeyRange, Keyspace, KeyspaceOptions,
    SessionGet, SessionRmw, Swap,
};

use super::database::{Bench, kinds, with_ends};
use crate::tunings;

const STEPS: usize = 300;
const KEYS: u8 = 10;

/// The stored state, expired or not: each key's value and its expiry.
type Stored = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

struct Run {
    bench: Bench,
    of: KeyspaceOptions,
    space: Keyspace,
    random: environment::Random,
    stored: Stored,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn every_engine_agrees_with_a_map() {
    let (first, cases) = (number("THERMOCLINE_SEED", 1), number("THERMOCLINE_CASES", 2));
    for seed in first..first + cases {
        for (engine, journaled) in kinds() {
            println!(
                "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1, {engine}, journaled: {journaled}"
            );
            Run::new(seed, with_ends(engine, journaled)).go();
        }
    }
}

#[test]
fn every_tuned_engine_agrees_with_a_map() {
    let (first, cases) = (number("THERMOCLINE_SEED", 1), number("THERMOCLINE_CASES", 1));
    for seed in first..first + cases {
        for (at, settings) in tunings::all().into_iter().enumerate() {
            // Each with a journal by one seed, and without by the next.
            let journaled = (seed + at as u64).is_multiple_of(2);
            println!("THERMOCLINE_SEED={seed}, {settings}, journaled: {journaled}");
            let of = with_ends(tunings::engine(settings), journaled);
            Run::new(seed, KeyspaceOptions { settings: Some(settings), ..of }).go();
        }
    }
}

impl Run {
    fn new(seed: u64, of: KeyspaceOptions) -> Self {
        let bench = Bench::new(seed);
        let space = bench.db.keyspace("s", of).unwrap();
        let random = bench.options().environment.random("model");
        Self { bench, of, space, random, stored: Stored::new() }
    }

    fn reopen(&mut self) {
        self.bench.reopen();
        self.space = self.bench.db.keyspace("s", self.of).unwrap();
    }

    fn go(mut self) {
        for _ in 0..STEPS {
            match self.random.random_range(0..22) {
                0..8 => self.write(),
                8..16 => self.update(),
                16..19 => self.pass(),
                19 => self.write_many(),
                20 => self.remove_expired(),
                _ => self.turn_over(),
            }
            self.look_at_one();
        }
        self.look_at_all();
        self.reopen();
        self.look_at_all();
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'k', self.random.random_range(0..KEYS)]
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 8, 300][self.random.random_range(0..4)];
        vec![self.random.random_range(0..255); len]
    }

    fn expiry_ms(&mut self) -> u64 {
        let now_ms = self.bench.now_ms();
        match self.random.random_range(0..8) {
            0 => 0,
            1 => now_ms,
            2 => now_ms + 1,
            3 => u64::MAX,
            _ => now_ms + self.random.random_range(0..200),
        }
    }

    fn maybe_expiry_ms(&mut self) -> Option<u64> {
        let has_end = self.random.random_range(0..3) > 0;
        has_end.then(|| self.expiry_ms())
    }

    /// Returns the value that a reader sees for `key`.
    fn living(&self, key: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        let now_ms = self.bench.now_ms();
        self.stored.get(key).filter(|(_, end)| end.is_none_or(|end| end > now_ms)).cloned()
    }

    fn all_living(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self.stored.keys();
        keys.filter_map(|key| Some((key.clone(), self.living(key)?.0))).collect()
    }

    fn set(&mut self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= self.bench.now_ms()) {
            self.stored.remove(key);
        } else {
            self.stored.insert(key.to_vec(), (value.to_vec(), expiry_ms));
        }
    }

    fn write(&mut self) {
        let (key, value, expiry_ms) = (self.key(), self.value(), self.expiry_ms());
        match self.random.random_range(0..6) {
            0 => {
                self.space.put(&key, &value).unwrap();
                self.set(&key, &value, None);
            }
            1 => {
                self.space.delete(&key).unwrap();
                self.stored.remove(&key);
            }
            2 => {
                let had = self.living(&key);
                assert_eq!(self.space.expiring().expire_at(&key, expiry_ms), Ok(had.is_some()));
                if let Some((value, _)) = had {
                    self.set(&key, &value, Some(expiry_ms));
                }
            }
            3 => {
                let had = self.living(&key);
                let had_end = had.as_ref().is_some_and(|(_, end)| end.is_some());
                assert_eq!(self.space.expiring().persist(&key), Ok(had_end));
                if let Some((value, _)) = had {
                    self.set(&key, &value, None);
                }
            }
            _ => {
                self.space.expiring().put(&key, &value, expiry_ms).unwrap();
                self.set(&key, &value, Some(expiry_ms));
            }
        }
    }

    fn update(&mut self) {
        let (key, value) = (self.key(), self.value());
        let had = self.living(&key);
        match self.random.random_range(0..6) {
            0 => {
                let mut seen = None;
                self.space
                    .rmw(&key, |old| {
                        seen = old.map(<[u8]>::to_vec);
                        Change::Put(value.clone())
                    })
                    .unwrap();
                assert_eq!(seen, had.clone().map(|(value, _)| value));
                self.set(&key, &value, had.and_then(|(_, end)| end));
            }
            1 => {
                let done = self.space.rmw(&key, |_| Change::Delete).unwrap();
                assert_eq!(done.is_some(), had.is_some());
                if had.is_some() {
                    self.stored.remove(&key);
                }
            }
            2 => self.update_with_end(&key, &value, had),
            3 => self.swap(&key, &value, had),
            4 => self.update_in_session(&key, &value, had),
            _ => {
                let expiry_ms = self.maybe_expiry_ms();
                self.bench
                    .db
                    .atomically(&[(&self.space, &key)], |section| {
                        assert_eq!(section.get(0)?, had.as_ref().map(|(value, _)| value.clone()));
                        match expiry_ms {
                            Some(expiry_ms) => section.put_with_expiry(0, &value, expiry_ms)?,
                            None => section.put(0, value.clone())?,
                        }
                        let is_there =
                            expiry_ms.is_none_or(|expiry_ms| expiry_ms > self.bench.now_ms());
                        assert_eq!(section.get(0)?, is_there.then(|| value.clone()));
                        Ok(())
                    })
                    .unwrap();
                self.set(&key, &value, expiry_ms);
            }
        }
    }

    fn update_with_end(&mut self, key: &[u8], value: &[u8], had: Option<(Vec<u8>, Option<u64>)>) {
        let expiry_ms = self.maybe_expiry_ms();
        let is_delete = self.random.random_range(0..4) == 0;
        let mut seen = None;
        self.space
            .expiring()
            .rmw(key, |old| {
                seen = old.map(|old| (old.value.to_vec(), old.expiry_ms));
                match is_delete {
                    true => ExpiringChange::Delete,
                    false => ExpiringChange::Put { value: value.to_vec(), expiry_ms },
                }
            })
            .unwrap();
        assert_eq!(seen, had);
        match is_delete {
            true if had.is_some() => drop(self.stored.remove(key)),
            true => {}
            false => self.set(key, value, expiry_ms),
        }
    }

    fn swap(&mut self, key: &[u8], value: &[u8], had: Option<(Vec<u8>, Option<u64>)>) {
        let present = had.as_ref().map(|(value, _)| value.clone());
        let expected = match self.random.random_range(0..3) {
            0 => None,
            1 => Some(b"another".to_vec()),
            _ => present.clone(),
        };
        let expiry_ms = self.maybe_expiry_ms();
        let swap = match expiry_ms {
            Some(expiry_ms) => {
                self.space.expiring().compare_and_swap(key, expected.as_deref(), value, expiry_ms)
            }
            None => self.space.compare_and_swap(key, expected.as_deref(), Some(value)),
        };
        if expected == present {
            assert!(swap.unwrap().is_done());
            self.set(key, value, expiry_ms.or(had.and_then(|(_, end)| end)));
        } else {
            assert_eq!(swap, Ok(Swap::Refused { present }));
        }
    }

    fn update_in_session(&mut self, key: &[u8], value: &[u8], had: Option<(Vec<u8>, Option<u64>)>) {
        let mut session = self.space.session(4).unwrap();
        let (mut into, mut told) = (Vec::new(), None);
        match session.begin_get(1, key, &mut into).unwrap() {
            SessionGet::Found => told = Some(Some(into)),
            SessionGet::Absent => told = Some(None),
            SessionGet::Pending => {}
            SessionGet::Full => panic!("nothing is pending"),
        }
        let new = value.to_vec();
        let begun =
            session.begin_rmw(2, key, Box::new(move |_: Option<&[u8]>| Change::Put(new.clone())));
        let is_pending = matches!(begun.unwrap(), SessionRmw::Pending);
        assert!(told.is_some() || is_pending, "what a get waits for an update waits for, too");
        while session.pending() > 0 {
            session
                .complete(true, &mut |_, outcome| {
                    if let Completed::Value(value) = outcome.unwrap() {
                        told = Some(value.map(<[u8]>::to_vec));
                    }
                })
                .unwrap();
        }
        assert_eq!(told, Some(had.as_ref().map(|(value, _)| value.clone())));
        self.set(key, value, had.and_then(|(_, end)| end));
    }

    /// A batch or a transaction.
    fn write_many(&mut self) {
        let all: Vec<_> =
            (0..4).map(|_| (self.key(), self.value(), self.maybe_expiry_ms())).collect();
        if self.random.random_range(0..2) == 0 {
            let mut batch = Batch::new();
            for (key, value, expiry_ms) in &all {
                match expiry_ms {
                    Some(expiry_ms) => batch.put_with_expiry(&self.space, key, value, *expiry_ms),
                    None => batch.put(&self.space, key, value),
                };
            }
            let is_given = |step: BatchStep<'_>, value: &[u8]| matches!(step, BatchStep::Write(op) if op.value() == Some(value));
            assert!(batch.iter().zip(&all).all(|((_, step), (_, value, _))| is_given(step, value)));
            self.bench.db.write(&batch).unwrap();
        } else {
            let transaction = self.bench.db.begin().unwrap();
            for (key, value, expiry_ms) in &all {
                match expiry_ms {
                    Some(expiry_ms) => {
                        transaction.put_with_expiry(&self.space, key, value, *expiry_ms).unwrap();
                    }
                    None => transaction.put(&self.space, key, value).unwrap(),
                }
                let is_there = expiry_ms.is_none_or(|expiry_ms| expiry_ms > self.bench.now_ms());
                let own = transaction.get(&self.space, key).unwrap();
                assert_eq!(own, is_there.then(|| value.clone()));
            }
            transaction.commit().unwrap();
        }
        for (key, value, expiry_ms) in all {
            self.set(&key, &value, expiry_ms);
        }
    }

    /// Time passes, or is set back.
    fn pass(&mut self) {
        let ms = self.random.random_range(0..60);
        if self.random.random_range(0..6) == 0 {
            self.bench.set(self.bench.now_ms() - ms);
        } else {
            self.bench.pass(ms);
        }
    }

    fn remove_expired(&mut self) {
        let now_ms = self.bench.now_ms();
        let before = self.stored.len();
        self.stored.retain(|_, (_, end)| end.is_none_or(|end| end > now_ms));
        assert_eq!(self.space.expiring().remove_expired(), Ok((before - self.stored.len()) as u64));
    }

    fn turn_over(&mut self) {
        match self.random.random_range(0..3) {
            0 => self.space.flush().unwrap(),
            1 => {
                self.space.clear().unwrap();
                self.stored.clear();
            }
            _ => self.reopen(),
        }
    }

    fn look_at_one(&mut self) {
        let key = self.key();
        assert_eq!(self.space.expiring().get(&key).unwrap(), self.living(&key), "{key:?}");
        assert_eq!(self.space.get(&key).unwrap(), self.living(&key).map(|(value, _)| value));
        if self.random.random_range(0..8) == 0 {
            self.look_at_all();
        }
    }

    fn look_at_all(&self) {
        let expected = self.all_living();
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| vec![b'k', number]).collect();
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let many = self.space.multi_get(&borrowed).unwrap();
        let found = keys.iter().zip(many).filter_map(|(key, value)| Some((key.clone(), value?)));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let mut walked = Vec::new();
        self.space
            .walk(None, |key, value| {
                walked.push((key.to_vec(), value.to_vec()));
                Continue(())
            })
            .unwrap();
        walked.sort();
        assert_eq!(walked, expected);
        if !self.space.is_ordered() {
            return;
        }
        let all = |scan: thermocline::Scan| scan.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(all(self.space.scan(KeyRange::all()).unwrap()), expected);
        let snapshot = self.bench.db.snapshot().unwrap();
        assert_eq!(all(snapshot.scan(&self.space, KeyRange::all()).unwrap()), expected);
        let backwards: Vec<_> = expected.iter().rev().cloned().collect();
        assert_eq!(all(self.space.scan_reverse(KeyRange::all()).unwrap()), backwards);
    }
}
