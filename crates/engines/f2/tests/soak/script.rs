//! The steps of each thread, and the content that the store must have afterwards.
//!
//! Step `n` follows from the seed, the thread and `n`. It counts in some counters that all threads
//! share, each thread in a place of its own, in any order. Then it writes some keys of the
//! thread's, one by one or in one batch. Then it notes `n`. So the note is the number of steps that
//! were done wholly. Some counts of the step after it may be there. If all of them are, the first
//! of its writes may be there too, or any writes of a batch.

use environment::Seed;
use rand::RngExt;

pub(crate) const THREADS: usize = 4;
pub(crate) const COUNTERS: usize = 500;

/// The most counters, and the most keys, of a step.
const BREADTH: usize = 12;

pub(crate) struct Step {
    /// None of them twice.
    pub(crate) counters: Vec<usize>,
    /// None of them twice.
    pub(crate) writes: Vec<Write>,
    /// Keys that are read back before the writes.
    pub(crate) reads: Vec<usize>,
    pub(crate) way: Way,
}

/// The calls that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The calls of the contract, with one key each; each call waits for its own result.
    Calls,
    /// Reads by `multi_get`, writes in one batch.
    Batches,
    /// A session, on which several gets and read-modify-writes are pending at the same time.
    Session,
    /// The same; the session is dropped with pending operations, and a new one begins.
    BrokenSession,
    /// Reads with lookups in flight; writes by read-modify-writes, which get the old value.
    InFlight,
}

/// A put, or a delete if there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) key: usize,
    pub(crate) value: Option<Value>,
}

/// The value of one write, unlike that of any other of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    number: u64,
    words: usize,
}

impl Value {
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.number.to_le_bytes().repeat(self.words)
    }
}

/// The state of a thread's share of the store after some steps.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) thread: usize,
    /// How often the thread has counted in each counter.
    pub(crate) counts: Vec<u64>,
    pub(crate) keys: Vec<Option<Value>>,
}

impl Step {
    /// Returns step `number` of a thread with `keys` keys.
    pub(crate) fn of(seed: Seed, thread: usize, number: u64, keys: usize) -> Self {
        let mut random = seed.child((thread as u64) << 48 | number).stream("step");
        // Half of the choices are among few keys, so that some writes are in place; every key can
        // be chosen.
        let mut some = |few: usize, all: usize, count: usize| {
            let mut chosen: Vec<usize> = Vec::with_capacity(count);
            for _ in 0..count {
                let among = if random.random_ratio(1, 2) { few.min(all) } else { all };
                let one = random.random_range(0..among);
                if !chosen.contains(&one) {
                    chosen.push(one);
                }
            }
            chosen
        };
        let mut sizes = seed.child((thread as u64) << 48 | number).stream("sizes");
        let mut count = || sizes.random_range(1..=BREADTH);
        let counters = some(5, COUNTERS, count());
        let written = some(50, keys, count());
        let reads = some(50, keys, count());
        let writes = written.into_iter().enumerate().map(|(index, key)| {
            let words = if sizes.random_ratio(1, 8) { 40 } else { 20 };
            let words = sizes.random_ratio(7, 8).then(|| sizes.random_range(1..words));
            let number = number * BREADTH as u64 + index as u64;
            Write { key, value: words.map(|words| Value { number, words }) }
        });
        let writes = writes.collect();
        let way = match sizes.random_range(0..64) {
            0 => Way::BrokenSession,
            1..28 => Way::Session,
            28..40 => Way::Calls,
            40..52 => Way::Batches,
            _ => Way::InFlight,
        };
        Self { counters, writes, reads, way }
    }
}

impl State {
    /// Returns the state after the first `steps` steps.
    pub(crate) fn after(seed: Seed, thread: usize, steps: u64, keys: usize) -> Self {
        let (counts, keys) = (vec![0; COUNTERS], vec![None; keys]);
        let mut state = Self { thread, counts, keys };
        for number in 1..=steps {
            let step = Step::of(seed, thread, number, state.keys.len());
            state.advance(&step);
        }
        state
    }

    pub(crate) fn advance(&mut self, step: &Step) {
        step.counters.iter().for_each(|counter| self.counts[*counter] += 1);
        step.writes.iter().for_each(|write| self.keys[write.key] = write.value);
    }

    /// Returns the value of one of its keys.
    pub(crate) fn value(&self, key: usize) -> Option<Vec<u8>> {
        self.keys[key].map(Value::bytes)
    }
}

pub(crate) fn key(thread: usize, key: usize) -> Vec<u8> {
    format!("{thread}:{key}").into_bytes()
}

pub(crate) fn counter(number: usize) -> Vec<u8> {
    format!("counter:{number}").into_bytes()
}

pub(crate) fn note(thread: usize) -> Vec<u8> {
    format!("note:{thread}").into_bytes()
}

/// The owner of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Thread(usize, usize),
    Counter(usize),
    Note(usize),
}

impl Owner {
    /// # Panics
    ///
    /// If the key has no owner.
    pub(crate) fn of(name: &[u8]) -> Self {
        let known = std::str::from_utf8(name).ok().and_then(|name| {
            let (whose, number) = name.split_once(':')?;
            let number = number.parse().ok()?;
            Some(match whose {
                "counter" => Self::Counter(number),
                "note" => Self::Note(number),
                thread => Self::Thread(thread.parse().ok()?, number),
            })
        });
        known.unwrap_or_else(|| panic!("a key that nobody wrote: {name:?}"))
    }
}
