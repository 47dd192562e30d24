//! A store with very little memory, and the comparison of its whole content with the script.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use conformance::session::{KeyLocks, Session};
use engine::{BlockingWrites, Demand, Engine, Host, NoJournal, Op, Operator, Sequence, Wait};
use environment::{Environment, Seed};
use memory_budget::MemoryBudget;
use rand::RngExt;
use reads::BlockingReads;
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::Pool;

use crate::script::{COUNTERS, Owner, State, Step, THREADS, Value, Way, Write, counter, key, note};

/// Bytes of memory of a store whose memory moves.
pub(crate) const LIMIT: u64 = 2 << 20;
/// Keys that one `multi_get` asks for.
const AT_ONCE: usize = 100;

pub(crate) struct Open {
    pub(crate) store: Store,
    pub(crate) sequence: Arc<Sequence>,
    /// The locks of its sessions.
    pub(crate) locks: KeyLocks,
    memory: Arc<MemoryBudget>,
    _pool: Pool,
}

/// The part of a thread's next step, after its last whole one, that is in the store.
#[derive(Default)]
pub(crate) struct UnderWay {
    pub(crate) counted: BTreeSet<usize>,
    /// Keys that have the value that the step writes.
    pub(crate) written: BTreeSet<usize>,
}

impl Open {
    pub(crate) fn new(path: &Path, seed: Seed) -> Self {
        let environment = Environment::real();
        let telemetry = Registry::default();
        let pool = Pool::start(&environment, 3, &telemetry).unwrap();
        let sequence = Arc::new(Sequence::new());
        let options = options(seed);
        let is_adaptive = options.log_memory_bytes.is_none();
        let host = Host {
            device: device::open(path, device::Options::default()).unwrap(),
            workers: pool.clone(),
            telemetry,
            environment,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(if is_adaptive { LIMIT } else { u64::MAX })),
        };
        let memory = Arc::clone(&host.memory);
        let store = Store::open(host, options).unwrap();
        Self { store, sequence, locks: KeyLocks::default(), memory, _pool: pool }
    }

    /// Returns a session with room for `depth` pending calls.
    pub(crate) fn session(&self, depth: usize) -> Session<'_> {
        Session::new(&self.store, &self.sequence, &self.locks, &self.memory, depth)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.store.get(key, &mut value).unwrap().then_some(value)
    }

    /// Reads all keys with one call, in order.
    pub(crate) fn multi_get(&self, names: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; names.len()];
        let mut told = vec![0; names.len()];
        let mut found = |index: usize, value: Option<&[u8]>| {
            values[index] = value.map(<[u8]>::to_vec);
            told[index] += 1;
        };
        self.store.multi_get(&names, &mut found).unwrap();
        assert!(told.iter().all(|times| *times == 1), "keys of a multi_get told {told:?} times");
        values
    }

    /// Updates a key as its sessions do, and waits for the device.
    pub(crate) fn rmw(&self, key: &[u8], operator: &mut dyn Operator) {
        self.locks.rmw(&self.store, &self.sequence, key, operator).unwrap();
    }

    pub(crate) fn write(&self, ops: &[Op<'_>]) {
        self.store.reserve(&Demand::Ops(ops), Wait::Yes).map(drop).unwrap();
        self.store.write_next(ops, &self.sequence).unwrap();
    }

    /// Returns the number of steps of each thread that were done wholly.
    pub(crate) fn recovered(&self) -> [u64; THREADS] {
        std::array::from_fn(|thread| {
            let note = self.get(&note(thread));
            note.map_or(0, |note| u64::from_le_bytes(note.try_into().unwrap()))
        })
    }

    /// Compares a thread's share with its state. Returns the part of the next step that is there,
    /// and adds it to the state.
    pub(crate) fn verify(&self, state: &mut State, next: &Step) -> UnderWay {
        let thread = state.thread;
        let names: Vec<Vec<u8>> = (0..COUNTERS).map(counter).collect();
        let counts: Vec<u64> = names.iter().map(|name| count_in(self.get(name), thread)).collect();
        let mut counted = BTreeSet::new();
        for (number, (count, wanted)) in counts.into_iter().zip(&state.counts).enumerate() {
            if count == wanted + 1 && next.counters.contains(&number) {
                counted.insert(number);
                continue;
            }
            assert_eq!(count, *wanted, "thread {thread}, counter {number}");
        }
        let names: Vec<Vec<u8>> = (0..state.keys.len()).map(|number| key(thread, number)).collect();
        let found: Vec<Option<Vec<u8>>> =
            names.chunks(AT_ONCE).flat_map(|names| self.multi_get(names)).collect();
        let before = state.keys.clone();
        let written = written(state, next, &found);
        let has_written = before != state.keys;
        let may_write = counted.len() == next.counters.len();
        assert!(!has_written || may_write, "thread {thread} wrote before it had counted");
        counted.iter().for_each(|counter| state.counts[*counter] += 1);
        UnderWay { counted, written }
    }

    /// Walks over all pairs, or over the pairs from one key of the thread on. Compares the pairs of
    /// the thread, which writes nothing meanwhile.
    pub(crate) fn verify_by_walk(&self, state: &State, from: Option<usize>) {
        let thread = state.thread;
        let from = from.map(|number| key(thread, number));
        let place = |name: &[u8]| (self.store.position(name), name.to_vec());
        let first = from.as_deref().map(place);
        let is_within = |name: &[u8]| first.as_ref().is_none_or(|first| place(name) >= *first);
        let mut met = BTreeSet::new();
        let mut last = None;
        let mut visit = |name: &[u8], value: &[u8]| {
            let here = Some(place(name));
            assert!(last < here, "{name:?} is met behind {last:?}");
            last = here;
            let owner = Owner::of(name);
            match owner {
                Owner::Thread(whose, number) if whose == thread => {
                    let wanted = state.value(number);
                    assert_eq!(
                        Some(value),
                        wanted.as_deref(),
                        "walk: thread {thread}, key {number}"
                    );
                }
                Owner::Counter(number) => {
                    let count = count_in(Some(value.to_vec()), thread);
                    assert_eq!(
                        count, state.counts[number],
                        "walk: thread {thread}, counter {number}"
                    );
                }
                _ => return ControlFlow::Continue(()),
            }
            met.insert(owner);
            ControlFlow::Continue(())
        };
        self.store.walk(from.as_deref(), &mut visit).unwrap();
        let keys = (0..state.keys.len()).filter(|number| state.keys[*number].is_some());
        for number in keys.filter(|number| is_within(&key(thread, *number))) {
            let owner = Owner::Thread(thread, number);
            assert!(met.contains(&owner), "walk: thread {thread}, key {number} is missing");
        }
        let counters = (0..COUNTERS).filter(|number| state.counts[*number] > 0);
        for number in counters.filter(|number| is_within(&counter(*number))) {
            assert!(met.contains(&Owner::Counter(number)), "walk: counter {number} is missing");
        }
    }
}

/// Returns the writes of the step that are there, and applies them to the state.
fn written(state: &mut State, next: &Step, found: &[Option<Vec<u8>>]) -> BTreeSet<usize> {
    let is_there = |key: usize, value: Option<Value>| found[key] == value.map(Value::bytes);
    let mut written = BTreeSet::new();
    let mut is_one_missing = false;
    for Write { key, value } in &next.writes {
        if !is_there(*key, *value) {
            is_one_missing = true;
            continue;
        }
        let has_changed = !is_there(*key, state.keys[*key]);
        let may_be = !has_changed || !is_one_missing || next.way == Way::Batches;
        assert!(may_be, "thread {}, key {key}: one that was written before is not", state.thread);
        state.keys[*key] = *value;
        written.insert(*key);
    }
    for (key, found) in found.iter().enumerate() {
        let wanted = state.value(key);
        assert!(*found == wanted, "thread {}, key {key}: {found:?}, not {wanted:?}", state.thread);
    }
    written
}

pub(crate) fn count_in(value: Option<Vec<u8>>, thread: usize) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[8 * thread..][..8].try_into().unwrap()))
}

/// Returns the options of a voyage: in every other one memory moves within a budget, and digests of
/// chunks are made.
fn options(seed: Seed) -> Options {
    let mut random = seed.stream("options");
    let tight = Options {
        segment_bytes: 64 << 10,
        disk_bytes_max: Some(1 << 20),
        cold_disk_bytes_max: random.random_ratio(1, 2).then_some(3 << 20),
        ..Options::default()
    };
    if seed.get().is_multiple_of(2) {
        return Options { page_bytes: Some(4096), ..tight };
    }
    Options {
        log_memory_bytes: Some(512 << 10),
        read_cache_bytes: Some(128 << 10),
        page_bytes: Some(16 << 10),
        index_bits: Some(4),
        ..tight
    }
}
