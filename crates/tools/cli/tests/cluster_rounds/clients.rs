//! The clients of a round: the operations that each one makes, and its record of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use conformance::linearizable::Value;
use environment::{Random, Seed};
use rand::RngExt;

use crate::history::{Event, Operation};
use crate::time::{now, sleep};

/// The first letters of keys, one for each range of the keyspace.
const RANGES: [&str; 3] = ["a", "h", "q"];
/// Keys of each range.
const KEYS_OF_RANGE: usize = 2;
/// Keys that are written one by one.
pub(crate) const SINGLE_KEYS: usize = RANGES.len() * KEYS_OF_RANGE;
/// The place of the twins: two keys of the first range that every write gives the same value. In
/// histories they are one key.
pub(crate) const TWINS: usize = SINGLE_KEYS;
/// All places of keys.
pub(crate) const KEYS: usize = SINGLE_KEYS + 1;
/// Distance of two values that clients write, so that increments of one do not reach another one.
const VALUES_APART: u64 = 1 << 20;
/// The longest pause of a client between two operations, in milliseconds. It bounds the length of
/// histories.
const PAUSE_MS: u64 = 12;

/// The keys of a round. No other round has them, so an operation of an earlier round that is
/// executed late changes nothing here.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    single: Vec<String>,
    twins: [String; 2],
}

impl Keys {
    pub(crate) fn of(round: u64) -> Self {
        let single = |place: usize| format!("{}-{round}-{place}", RANGES[place / KEYS_OF_RANGE]);
        let twin = |name: &str| format!("{}-{round}-twin-{name}", RANGES[0]);
        Self { single: (0..SINGLE_KEYS).map(single).collect(), twins: ["one", "two"].map(twin) }
    }

    /// Returns a key that is written alone.
    pub(crate) fn single(&self, place: usize) -> &[u8] {
        self.single[place].as_bytes()
    }

    pub(crate) fn twins(&self) -> [&[u8]; 2] {
        self.twins.each_ref().map(String::as_bytes)
    }

    /// Returns the beginning that the twins have in common, and no other key has.
    pub(crate) fn twins_prefix(&self) -> &[u8] {
        let [one, _] = self.twins();
        one.strip_suffix(b"one").unwrap()
    }

    /// Returns the name of a key in histories.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.single.get(place).unwrap_or(&self.twins[0])
    }

    /// Returns the number of the range that has a key.
    pub(crate) fn range(place: usize) -> usize {
        if place == TWINS { 0 } else { place / KEYS_OF_RANGE }
    }

    /// Returns the read of a key.
    pub(crate) fn read(place: usize) -> Wish {
        if place == TWINS { Wish::ReadTwins } else { Wish::Get(place) }
    }
}

/// An operation that a client is to make, with the place of its key and the value to write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Get(usize),
    Put(usize, u64),
    Delete(usize),
    Increment(usize),
    /// Replaces the present value, if it is the same in the meantime.
    Swap(usize, u64),
    /// Replaces the value, and returns the one before.
    Exchange(usize, u64),
    ReadTwins,
    /// Writes both twins, as a batch.
    WriteTwins(u64),
    /// The same, if they have their present value in the meantime.
    SwapTwins(u64),
}

impl Wish {
    fn draw(random: &mut Random, value: u64) -> Self {
        let place = random.random_range(0..SINGLE_KEYS);
        match random.random_range(0..20) {
            0..=5 => Self::Get(place),
            6..=8 => Self::Put(place, value),
            9 => Self::Delete(place),
            10..=12 => Self::Increment(place),
            13 | 14 => Self::Swap(place, value),
            15 => Self::Exchange(place, value),
            16 | 17 => Self::ReadTwins,
            18 => Self::WriteTwins(value),
            _ => Self::SwapTwins(value),
        }
    }
}

/// The outcome of an operation.
pub(crate) enum Attempt {
    /// There was a reply.
    Acknowledged(Operation),
    /// It may have happened, or may still happen.
    Unknown(Operation, String),
    /// It has not happened and never will, or it was a read.
    Failed(String),
}

impl Attempt {
    /// Returns the outcome of an operation without a usable reply. `write` is its effect, if it has
    /// one.
    pub(crate) fn lost(write: Option<Operation>, cause: String) -> Self {
        match write {
            Some(operation) => Self::Unknown(operation, cause),
            None => Self::Failed(cause),
        }
    }
}

/// The record of a client.
pub(crate) struct Recorder<'a> {
    client: usize,
    pub(crate) events: Vec<Event>,
    /// Errors that it has seen, and how often.
    pub(crate) errors: BTreeMap<String, u64>,
    acknowledged: &'a AtomicU64,
}

impl<'a> Recorder<'a> {
    /// Returns an empty record. Acknowledged operations are counted in `acknowledged`, too.
    pub(crate) fn new(client: usize, acknowledged: &'a AtomicU64) -> Self {
        Self { client, events: Vec::new(), errors: BTreeMap::new(), acknowledged }
    }

    /// Records an operation that began at `invoked` and has ended now.
    pub(crate) fn note(&mut self, key: usize, invoked: u64, attempt: Attempt) {
        let returned = now();
        let client = self.client;
        let mut add = |returned, operation| {
            self.events.push(Event { key, client, invoked, returned, operation });
        };
        match attempt {
            Attempt::Acknowledged(operation) => {
                add(Some(returned), operation);
                self.acknowledged.fetch_add(1, SeqCst);
            }
            Attempt::Unknown(operation, cause) => {
                add(None, operation);
                self.note_error(&cause);
            }
            Attempt::Failed(cause) => self.note_error(&cause),
        }
    }

    /// Counts an error, without the numbers in its text.
    fn note_error(&mut self, text: &str) {
        let text = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        *self.errors.entry(text).or_default() += 1;
    }

    /// Returns the number of acknowledged operations.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(SeqCst)
    }
}

/// Returns the number that a value of a key is.
///
/// # Errors
/// The value is none that a client has written.
pub(crate) fn number(value: Option<&[u8]>) -> Result<Value, String> {
    let parse = |value: &[u8]| {
        let text = std::str::from_utf8(value).ok();
        let number = text.and_then(|text| text.parse::<u64>().ok());
        number
            .ok_or_else(|| format!("the value {:?} is no number", value.escape_ascii().to_string()))
    };
    value.map(parse).transpose()
}

/// A way into the cluster.
pub(crate) trait Door: Send {
    /// Makes an operation, and records it.
    ///
    /// # Errors
    /// A reply that no correct cluster gives.
    fn perform(
        &mut self,
        wish: Wish,
        keys: &Keys,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String>;
}

/// The part of a round that all its clients see.
pub(crate) struct Shared {
    /// The number of acknowledged operations of each client.
    pub(crate) acknowledged: Vec<AtomicU64>,
    pub(crate) is_over: AtomicBool,
    /// Whether a client has seen a reply that no correct cluster gives.
    pub(crate) has_failed: AtomicBool,
    values: AtomicU64,
}

impl Shared {
    pub(crate) fn new(clients: usize) -> Self {
        let (is_over, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let acknowledged = (0..clients).map(|_| AtomicU64::new(0)).collect();
        Self { acknowledged, is_over, has_failed, values: AtomicU64::new(1) }
    }

    /// Returns a value that no other operation of the round writes.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, SeqCst) * VALUES_APART
    }
}

/// Makes operations until the round is over. Returns the record, and the first reply that no
/// correct cluster gives.
pub(crate) fn run<'a>(
    client: usize,
    door: &mut dyn Door,
    keys: &Keys,
    (shared, seed): (&'a Shared, Seed),
) -> (Recorder<'a>, Result<(), String>) {
    let mut random = seed.child(client as u64).stream("client");
    let mut recorder = Recorder::new(client, &shared.acknowledged[client]);
    while !shared.is_over.load(SeqCst) {
        let wish = Wish::draw(&mut random, shared.value());
        if let Err(fault) = door.perform(wish, keys, &mut recorder) {
            shared.has_failed.store(true, SeqCst);
            return (recorder, Err(format!("client {client}, {wish:?}: {fault}")));
        }
        sleep(Duration::from_millis(random.random_range(0..PAUSE_MS)));
    }
    (recorder, Ok(()))
}
