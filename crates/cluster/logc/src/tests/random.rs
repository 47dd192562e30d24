//! Random histories of owners, StoCs and a coordinator that fail.

use std::thread;
use std::time::Duration;

use environment::{Environment, Random};
use rand::RngExt;

use crate::testing::{Behaviour, World};
use crate::{Error, Log};

/// StoCs. At least three of them stay up, except during appends without a quorum.
const STOCS: u32 = 5;
const HISTORIES: u64 = 80;
const STEPS: u32 = 60;

/// The content of the files, as the owner knows it.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Acknowledged bytes of each file.
    files: Vec<(u64, Vec<u8>)>,
    /// The bytes of an append of unknown outcome, behind the newest file.
    unknown: Vec<u8>,
}

/// A history: an owner at a time, and the owners before it.
struct History {
    seed: u64,
    random: Random,
    world: World,
    epoch: u64,
    model: Model,
    log: Log,
    old: Vec<Log>,
    next_file: u64,
    /// Whether StoCs are started again.
    restarts: bool,
}

impl Model {
    /// Compares an opened log with the acknowledged bytes, and takes its bytes for the model.
    fn check(&mut self, log: &Log, seed: u64) {
        let found = log.files();
        let newest = self.files.len().saturating_sub(1);
        for (at, (file, bytes)) in self.files.iter_mut().enumerate() {
            let length = found.iter().find(|(number, _)| number == file).map(|(_, length)| *length);
            let length = match length {
                Some(length) => length,
                // An empty file may be gone.
                None if bytes.is_empty() => 0,
                None => panic!("seed {seed}: file {file} is lost: {found:?}"),
            };
            let read = match length {
                0 => Vec::new(),
                length => log.read(*file, 0, length).expect("all StoCs are up"),
            };
            let most = [&bytes[..], if at == newest { &self.unknown } else { &[] }].concat();
            assert!(read == *bytes || read == most, "seed {seed}: file {file} has other bytes");
            *bytes = read;
        }
        self.files.retain(|(file, _)| found.iter().any(|(number, _)| number == file));
        self.unknown.clear();
        assert_eq!(found.len(), self.files.len(), "seed {seed}: {found:?}");
    }
}

impl History {
    fn new(seed: u64, world: World, restarts: bool) -> Self {
        let random = Environment::seeded(seed).random("history of a log");
        let epoch = 1;
        let log = world.open(epoch);
        let (model, old, next_file) = (Model::default(), Vec::new(), 1);
        Self { seed, random, world, epoch, model, log, old, next_file, restarts }
    }

    fn all_up(&self) {
        (1..=STOCS).for_each(|node| self.world.set(node, Behaviour::Up));
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..=2 => self.fail_stocs(),
            3 => {
                let (calls, are_made) = (self.random.random_range(1..4), self.random.random());
                self.world.registry.fail(calls, are_made);
            }
            4 => self.begin_file(),
            5 => self.append_by_old_owner(),
            6 => self.change_owner(),
            7 if self.restarts => self.restart_stoc(),
            _ => self.append(),
        }
    }

    fn fail_stocs(&mut self) {
        self.all_up();
        if self.random.random() {
            self.world.reset(self.random.random_range(1..=STOCS));
        }
        for _ in 0..2 {
            let behaviour = match self.random.random_range(0..3) {
                0 => Behaviour::Up,
                1 => Behaviour::Away,
                _ => Behaviour::Mute,
            };
            self.world.set(self.random.random_range(1..=STOCS), behaviour);
        }
    }

    fn begin_file(&mut self) {
        self.log.begin_file(self.next_file).expect("three StoCs are up");
        self.model.files.push((self.next_file, Vec::new()));
        self.next_file += self.random.random_range(1..3);
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let count = self.random.random_range(1..300);
        (0..count).map(|_| self.random.random()).collect()
    }

    fn end(&self) -> Option<(u64, u64)> {
        let is_begun = self.log.lock().active.is_some();
        self.log.files().last().copied().filter(|_| is_begun)
    }

    fn append(&mut self) {
        let bytes = self.some_bytes();
        let Some((file, length)) = self.end() else { return };
        self.log.append(file, length, &bytes).expect("three StoCs are up");
        if let Some((_, content)) = self.model.files.last_mut() {
            content.extend_from_slice(&bytes);
        }
    }

    fn append_by_old_owner(&self) {
        let Some(log) = self.old.last() else { return };
        let (file, length) = log.files().last().copied().unwrap_or_default();
        let late = log.append(file, length, b"late");
        assert!(late.is_err(), "seed {}: an old owner appends", self.seed);
    }

    /// Closes the log during an append that no quorum acknowledges.
    fn append_without_quorum(&mut self) {
        let bytes = self.some_bytes();
        let Some((file, length)) = self.end() else { return };
        for node in 1..=STOCS {
            let is_mute = self.random.random();
            self.world.set(node, if is_mute { Behaviour::Mute } else { Behaviour::Away });
        }
        let appended = thread::scope(|scope| {
            let appends = scope.spawn(|| self.log.append(file, length, &bytes));
            Environment::real().sleep(Duration::from_millis(2));
            self.log.close();
            appends.join().expect("it does not panic")
        });
        assert_eq!(appended, Err(Error::Closed));
        self.model.unknown = bytes;
        for node in 1..=STOCS {
            let is_up = node <= 3 || self.random.random();
            self.world.set(node, if is_up { Behaviour::Up } else { Behaviour::Away });
        }
    }

    /// Ends a StoC, and starts it again. If that makes segments weak, the files so far are removed:
    /// their content is elsewhere.
    fn restart_stoc(&mut self) {
        self.all_up();
        self.world.registry.fail(0, false);
        self.world.restart(self.random.random_range(1..=STOCS));
        if self.log.weak_segments().is_empty() {
            return;
        }
        self.begin_file();
        let newest = self.model.files.last().map_or(0, |(file, _)| *file);
        self.remove_before(newest);
        self.append();
        self.begin_file();
        self.remove_before(newest + 1);
        assert_eq!(self.log.weak_segments(), [], "seed {}", self.seed);
    }

    fn remove_before(&mut self, file: u64) {
        // The first attempt may find that an earlier change has happened.
        while self.log.remove_before(file).is_err() {}
        self.model.files.retain(|(number, _)| *number >= file);
    }

    fn change_owner(&mut self) {
        if self.random.random() {
            self.append_without_quorum();
        }
        let opened = loop {
            self.epoch += 1;
            match self.world.try_open(self.epoch) {
                Ok(opened) => break opened,
                Err(Error::TooFewReplies { .. } | Error::TooFewStocs { .. }) => self.all_up(),
                Err(Error::Unavailable(_) | Error::Fenced { .. }) => {}
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        };
        self.all_up();
        self.model.check(&opened, self.seed);
        self.old.push(std::mem::replace(&mut self.log, opened));
        let newest = self.model.files.last().map_or(0, |(file, _)| *file);
        self.next_file = self.next_file.max(newest + 1);
        if self.random.random() {
            self.begin_file();
        }
    }
}

fn play(seed: u64, world: World, restarts: bool) {
    let mut history = History::new(seed, world, restarts);
    (0..STEPS).for_each(|_| history.step());
    history.all_up();
    history.world.registry.fail(0, false);
    let opened = history.world.open(history.epoch + 1);
    history.model.check(&opened, seed);
}

#[test]
fn a_log_keeps_what_was_acknowledged() {
    (0..HISTORIES).for_each(|seed| play(seed, World::new(STOCS), false));
}

/// The same with the log in the memories of StoCs, of which one at a time loses its memory.
#[test]
fn a_log_in_memory_keeps_what_was_acknowledged() {
    (0..HISTORIES).for_each(|seed| play(seed, World::in_memory(STOCS), true));
}

/// The same with requests as messages, and connections that end.
#[test]
fn a_log_keeps_what_was_acknowledged_over_a_network() {
    (0..HISTORIES / 8).for_each(|seed| play(seed, World::with_network(STOCS), false));
}
