//! Clients of the simulation, and the histories of their calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use client::{Cluster, Error, Keyspace, Outcome, Pair, Write};
use conformance::linearizable::{Action, Call, check};
use environment::Random;
use rand::RngExt;
use sync::Mutex;
use thermocline::{Change, Expiring, KeyRange};
use wire::Role;

use super::world::{CLUSTER, COORDINATORS, Own, coordinator_place, identity};

/// The ranges of the keyspace, whose numbers begin with 1.
pub(crate) const RANGES: u32 = 4;
/// Keys with a history each, in all ranges.
const REGISTERS: [&[u8]; 5] = [b"a", b"b", b"h", b"o", b"u"];
/// Keys of one range that are written together, and have one history.
const PAIR: [&[u8]; 2] = [b"p1", b"p2"];
/// Longest pauses of the clients between two calls. The last one reads and writes the pair alone.
/// The slow ones miss changes of owners, and use what they knew before.
const PAUSES_MAX: [Duration; 6] = [
    Duration::from_millis(60),
    Duration::from_millis(60),
    Duration::from_secs(4),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_millis(20),
];
/// Clients that make calls.
pub(crate) const CLIENTS: u32 = PAUSES_MAX.len() as u32;

/// The calls of all clients, by key.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    calls: Mutex<BTreeMap<Vec<u8>, Vec<Call>>>,
    clock: AtomicU64,
    values: AtomicU64,
    /// Calls that have succeeded, and calls of unknown outcome.
    pub(crate) done: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

/// A client, as its calls need it.
struct Caller<'a> {
    number: usize,
    data: &'a Keyspace,
    histories: &'a Histories,
    /// The value that it has seen last of each key.
    seen: BTreeMap<Vec<u8>, Option<u64>>,
}

fn number_in(value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| u64::from_le_bytes(value.try_into().expect("a value is a number")))
}

fn splits() -> Vec<Vec<u8>> {
    [b"g", b"n", b"t"].map(|split| split.to_vec()).to_vec()
}

impl Histories {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn value(&self) -> u64 {
        self.values.fetch_add(1, SeqCst) + 1
    }

    fn note(&self, key: &[u8], call: Call) {
        self.calls.lock().entry(key.to_vec()).or_default().push(call);
    }

    /// Checks each history.
    pub(crate) fn check(&self) {
        for (key, calls) in self.calls.lock().iter() {
            if let Err(around) = check(calls, None) {
                let lines: Vec<String> = around.iter().map(Call::to_string).collect();
                let key = key.escape_ascii();
                panic!("key {key} has no order of its calls:\n  {}", lines.join("\n  "));
            }
        }
    }
}

impl Caller<'_> {
    /// Notes the end of a write that began at `invoked`. (A write that failed otherwise has not
    /// happened.)
    fn end<T>(&self, key: &[u8], invoked: u64, action: Action, result: &Result<T, Error>) {
        let returned = match result {
            Ok(_) => Some(self.histories.tick()),
            Err(Error::Unknown(_)) => None,
            Err(_) => return,
        };
        let counter =
            if returned.is_some() { &self.histories.done } else { &self.histories.unknown };
        counter.fetch_add(1, SeqCst);
        self.histories.note(key, Call { client: self.number, invoked, returned, action });
    }

    fn get(&mut self, key: &[u8]) {
        let invoked = self.histories.tick();
        let found = self.data.get(key);
        if let Ok(value) = &found {
            let value = number_in(value.as_deref());
            self.seen.insert(key.to_vec(), value);
            self.end(key, invoked, Action::Read(value), &found);
        }
    }

    fn put(&mut self, key: &[u8]) {
        let (value, invoked) = (self.histories.value(), self.histories.tick());
        let result = self.data.put(key, &value.to_le_bytes());
        self.end(key, invoked, Action::Write(Some(value)), &result);
    }

    fn delete(&mut self, key: &[u8]) {
        let invoked = self.histories.tick();
        let result = self.data.delete(key);
        self.end(key, invoked, Action::Write(None), &result);
    }

    fn compare_and_swap(&mut self, key: &[u8]) {
        let saw = self.seen.get(key).copied().flatten();
        let (left, invoked) = (self.histories.value(), self.histories.tick());
        let (expected, new) = (saw.map(u64::to_le_bytes), left.to_le_bytes());
        let expected = expected.as_ref().map(|bytes| &bytes[..]);
        let result = self.data.compare_and_swap(key, expected, Some(&new));
        if !matches!(result, Ok(false)) {
            self.end(key, invoked, Action::Rmw { saw, left: Some(left) }, &result);
        }
    }

    fn rmw(&mut self, key: &[u8]) {
        let (left, invoked) = (self.histories.value(), self.histories.tick());
        let mut saw = None;
        let result = self.data.rmw(key, |old| {
            saw = number_in(old);
            Change::Put(left.to_le_bytes().to_vec())
        });
        self.end(key, invoked, Action::Rmw { saw, left: Some(left) }, &result);
    }

    fn put_pair(&mut self) {
        let (value, invoked) = (self.histories.value(), self.histories.tick());
        let bytes = value.to_le_bytes();
        let stored = Expiring { value: &bytes, expiry_ms: None }.to_stored();
        let steps = PAIR.map(|key| Pair { key: key.to_vec(), value: Some(stored.clone()) });
        let result = self.data.write(Write { expects: Vec::new(), steps: steps.to_vec() });
        assert_ne!(result, Ok(Outcome::Differs), "it expects nothing");
        self.end(b"p", invoked, Action::Write(Some(value)), &result);
    }

    fn get_pair(&mut self) {
        let invoked = self.histories.tick();
        let found = self.data.multi_get(&PAIR);
        if let Ok(values) = &found {
            assert_eq!(values.first(), values.last(), "a write is whole");
            let value = number_in(values.first().and_then(|value| value.as_deref()));
            self.end(b"p", invoked, Action::Read(value), &found);
        }
    }

    /// Reads all keys in order.
    fn scan(&mut self) {
        let invoked = self.histories.tick();
        let found = self.data.scan(&KeyRange::all()).collect::<Result<Vec<_>, Error>>();
        let Ok(pairs) = &found else { return };
        assert!(pairs.is_sorted(), "a scan is in order");
        let pairs: BTreeMap<&[u8], &[u8]> =
            pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
        for key in REGISTERS {
            let value = number_in(pairs.get(key).copied());
            self.end(key, invoked, Action::Read(value), &found);
        }
        let [first, second] = PAIR.map(|key| pairs.get(key));
        assert_eq!(first, second, "a write is whole");
    }

    fn call(&mut self, random: &mut Random) {
        let key = REGISTERS[random.random_range(0..REGISTERS.len())];
        match random.random_range(0..14) {
            0..4 => self.get(key),
            4..8 => self.put(key),
            8 => self.delete(key),
            9 => self.compare_and_swap(key),
            10 => self.rmw(key),
            11 => self.put_pair(),
            12 => self.get_pair(),
            _ => self.scan(),
        }
    }
}

/// Connects, and calls `work` with the keyspace.
fn with_keyspace(own: &Own, number: u32, work: impl FnOnce(&Keyspace)) {
    let member = own.node(identity(Role::Client, number), None);
    let places = (1..=COORDINATORS).map(coordinator_place).collect();
    let mut options = client::Options::new(CLUSTER, places);
    options.environment = own.environment.clone();
    let cluster = own.reach(|| Cluster::connect(Arc::clone(&member.node), &options));
    let data = own.reach(|| cluster.make_keyspace_with_log("data", &splits(), own.world.log()));
    work(&data);
    cluster.stop();
    member.node.stop();
}

/// Makes calls until the end.
pub(crate) fn run(own: &Own, number: u32, histories: &Histories, ends: &AtomicBool) {
    let mut random = own.environment.random("calls");
    with_keyspace(own, number, |data| {
        let seen = BTreeMap::new();
        let mut caller = Caller { number: number as usize, data, histories, seen };
        let longest = PAUSES_MAX[number as usize - 1];
        while !ends.load(SeqCst) {
            match number {
                CLIENTS if random.random_bool(0.5) => caller.put_pair(),
                CLIENTS => caller.get_pair(),
                _ => caller.call(&mut random),
            }
            let pause = random.random_range(0..longest.as_micros() as u64);
            own.environment.sleep(Duration::from_micros(pause));
        }
    });
}

/// Reads all keys once the faults are over.
pub(crate) fn read_all(own: &Own, number: u32, histories: &Histories) {
    with_keyspace(own, number, |data| {
        let seen = BTreeMap::new();
        let mut caller = Caller { number: number as usize, data, histories, seen };
        for key in REGISTERS {
            let before = caller.histories.done.load(SeqCst);
            for _ in 0..6 {
                caller.get(key);
                if caller.histories.done.load(SeqCst) > before {
                    break;
                }
            }
            let is_served = caller.histories.done.load(SeqCst) > before;
            assert!(is_served, "the range of {} is served again", key.escape_ascii());
        }
        caller.get_pair();
        caller.scan();
    });
}
