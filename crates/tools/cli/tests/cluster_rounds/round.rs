//! One round: clients, a fault, the end of the fault, and the checks then.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use conformance::linearizable::{Call, Value};
use environment::Seed;
use rand::RngExt;

use crate::clients::{self, Door, KEYS, Keys, Recorder, Shared};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::gateway::Gateways;
use crate::history::{self, Event, Operation};
use crate::report::Gaps;
use crate::rust_client::Program;
use crate::time::{await_that, now};

/// Clients of a round. Every other one is a Redis client, and the others are of [`Program`]s.
const CLIENTS: usize = 6;
/// Operations of each client that are acknowledged before the fault, and after it.
const BEFORE: u64 = 10;
const AFTER: u64 = 30;

/// A round, as it follows from the seed and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    index: u64,
    seed: Seed,
    pub(crate) fault: Fault,
}

/// A round that has passed.
pub(crate) struct Passed {
    pub(crate) keys: Keys,
    pub(crate) events: Vec<Event>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) gaps: Gaps,
    /// The particulars of the fault.
    pub(crate) text: String,
}

/// The keys of a round that has passed, and everything that can still happen to them.
pub(crate) struct Settled {
    keys: Keys,
    /// For each key its last value, and the writes of unknown outcome.
    values: Vec<(Value, Vec<Call>)>,
}

impl Round {
    /// Draws a round. Each sequence of rounds that is as long as the list of faults has each of
    /// them, in an order of its own.
    pub(crate) fn draw(seed: Seed, index: u64, can_cut: bool) -> Self {
        let mut left = Fault::all(can_cut);
        let (sequence, place) = (index / left.len() as u64, index % left.len() as u64);
        let mut random = seed.child(sequence).stream("faults");
        let mut fault = left[0];
        for _ in 0..=place {
            fault = left.swap_remove(random.random_range(0..left.len()));
        }
        Self { index, seed: seed.child(index), fault }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// The law that the cluster has broken, with the history of the key.
    pub(crate) fn run(
        &self,
        cluster: &mut Cluster,
        programs: &[Program],
    ) -> Result<Passed, String> {
        let (keys, shared) = (Keys::of(self.index), Shared::new(CLIENTS));
        let doors = self.doors(cluster, programs)?;
        let (disturbed, ended) = thread::scope(|scope| {
            let over = Over(&shared);
            let threads = doors.into_iter().enumerate().map(|(client, mut door)| {
                let (keys, shared) = (&keys, &shared);
                scope.spawn(move || clients::run(client, &mut *door, keys, (shared, self.seed)))
            });
            let threads: Vec<_> = threads.collect();
            let disturbed = self.disturb(cluster, &shared);
            drop(over);
            let ended = threads.into_iter().map(|thread| thread.join());
            let ended = ended.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)));
            (disturbed, ended.collect::<Vec<_>>())
        });
        let (mut events, mut errors) = (Vec::new(), BTreeMap::<String, u64>::new());
        for (recorder, result) in ended {
            result?;
            events.extend(recorder.events);
            for (text, count) in recorder.errors {
                *errors.entry(text).or_default() += count;
            }
        }
        let (text, times) = disturbed?;
        let gaps = Gaps::of(&events, times);
        events.extend(read_back(&keys, cluster, programs)?);
        cluster.check()?;
        for key in 0..KEYS {
            let of_key = history::of_key(&events, key);
            check(&keys, &of_key, key)?;
        }
        Ok(Passed { keys, events, errors, gaps, text })
    }

    /// Returns a way into the cluster for each client.
    fn doors(&self, cluster: &Cluster, programs: &[Program]) -> Result<Vec<Box<dyn Door>>, String> {
        let door = |client: usize| -> Result<Box<dyn Door>, String> {
            if client.is_multiple_of(2) {
                let random = self.seed.child(client as u64).stream("gateways");
                return Ok(Box::new(Gateways::new(cluster.gateways().to_vec(), random)));
            }
            let program = &programs[client / 2 % programs.len()];
            Ok(Box::new(program.door()?))
        };
        (0..CLIENTS).map(door).collect()
    }

    /// Lets the fault happen while clients work. Returns its particulars, and the time from its
    /// begin until all clients are served again.
    fn disturb(
        &self,
        cluster: &mut Cluster,
        shared: &Shared,
    ) -> Result<(String, (u64, u64)), String> {
        let mut random = self.seed.stream("fault");
        await_acknowledged(shared, BEFORE)?;
        let begin = now();
        let text = self.fault.run(cluster, &mut random)?;
        await_acknowledged(shared, AFTER)?;
        Ok((text, (begin, now())))
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)
    }
}

/// Ends the clients of a round when it is dropped, also by a panic.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

/// Waits until each client has further operations that are acknowledged, or one has failed.
fn await_acknowledged(shared: &Shared, count: u64) -> Result<(), String> {
    let read = || shared.acknowledged.iter().map(|count| count.load(SeqCst));
    let wanted: Vec<u64> = read().map(|before| before + count).collect();
    await_that("each client is served", || {
        let is_served = read().zip(&wanted).all(|(now, wanted)| now >= *wanted);
        Ok(is_served || shared.has_failed.load(SeqCst))
    })
}

/// Reads all keys through each gateway and through a program. The reads are acknowledged.
fn read_back(keys: &Keys, cluster: &Cluster, programs: &[Program]) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    let random = || Seed::from(0).stream("read back");
    let mut doors: Vec<Box<dyn Door>> = Vec::new();
    for address in cluster.gateways() {
        doors.push(Box::new(Gateways::new(vec![*address], random())));
    }
    for program in programs {
        doors.push(Box::new(program.door()?));
    }
    for (index, mut door) in doors.into_iter().enumerate() {
        let acknowledged = AtomicU64::new(0);
        let mut recorder = Recorder::new(CLIENTS + index, &acknowledged);
        for key in 0..KEYS {
            read(&mut *door, keys, key, &mut recorder)?;
        }
        events.extend(recorder.events);
    }
    Ok(events)
}

/// Reads a key until there is a reply.
fn read(
    door: &mut dyn Door,
    keys: &Keys,
    key: usize,
    recorder: &mut Recorder<'_>,
) -> Result<(), String> {
    let before = recorder.acknowledged();
    await_that(&format!("{} is read", keys.name(key)), || {
        door.perform(Keys::read(key), keys, recorder)?;
        Ok(recorder.acknowledged() > before)
    })
}

/// Checks the history of a key.
fn check(keys: &Keys, events: &[Event], key: usize) -> Result<(), String> {
    let calls: Vec<Call> = events.iter().map(Event::call).collect();
    history::check(&calls, None).map_err(|fault| {
        let lines: Vec<String> = events.iter().map(Event::to_string).collect();
        format!("key {}: {fault}\nits history:\n  {}", keys.name(key), lines.join("\n  "))
    })
}

impl Passed {
    /// Returns what can still happen to the keys.
    pub(crate) fn settle(&self) -> Settled {
        let value = |key| {
            let events = history::of_key(&self.events, key);
            let last = events.iter().rev().find_map(|event| match event.operation {
                Operation::Get { saw } => Some(saw),
                _ => None,
            });
            let unknown = events.iter().filter(|event| event.returned.is_none());
            (last.unwrap(), unknown.map(Event::call).collect())
        };
        Settled { keys: self.keys.clone(), values: (0..KEYS).map(value).collect() }
    }
}

impl Settled {
    /// Reads all keys again. Returns the reads.
    ///
    /// # Errors
    /// A key has lost its value since the end of its round.
    pub(crate) fn check(&self, program: &Program) -> Result<(&Keys, Vec<Event>), String> {
        let (mut door, acknowledged) = (program.door()?, AtomicU64::new(0));
        let mut recorder = Recorder::new(CLIENTS, &acknowledged);
        for key in 0..KEYS {
            read(&mut door, &self.keys, key, &mut recorder)?;
        }
        for (key, (value, unknown)) in self.values.iter().enumerate() {
            let reads = history::of_key(&recorder.events, key);
            let calls = unknown.iter().copied().chain(reads.iter().map(Event::call));
            let calls: Vec<Call> = calls.collect();
            history::check(&calls, *value).map_err(|fault| {
                format!("key {}, which had {value:?}: {fault}", self.keys.name(key))
            })?;
        }
        Ok((&self.keys, recorder.events))
    }
}
