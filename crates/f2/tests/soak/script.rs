//! What each thread does, step by step, and what must be there afterwards.
//!
//! Step `n` follows from the seed, the thread and `n`: it counts in a counter that all threads share,
//! each in a place of its own; it puts or deletes a key of the thread's; and it notes `n`. So the note
//! says how many steps were done wholly, and of the one behind it the count may be there, or the
//! count and the key.

use environment::Seed;
use rand::RngExt;

pub(crate) const THREADS: usize = 4;
pub(crate) const COUNTERS: u64 = 500;
/// Of each thread.
pub(crate) const KEYS: usize = 3_000;

pub(crate) struct Step {
    pub(crate) counter: u64,
    pub(crate) key: usize,
    /// Words of the value; nothing is a delete.
    pub(crate) words: Option<usize>,
    /// A key that is read back.
    pub(crate) read: usize,
}

/// The state of a thread's share of the store after some steps.
pub(crate) struct State {
    pub(crate) thread: usize,
    /// How often the thread has counted in each counter.
    pub(crate) counts: Vec<u64>,
    /// The step, and the words, that each key was put by last.
    pub(crate) keys: Vec<Option<(u64, usize)>>,
}

impl Step {
    pub(crate) fn of(seed: Seed, thread: usize, number: u64) -> Self {
        let mut random = seed.child((thread as u64) << 48 | number).stream("step");
        let counters = if random.random_ratio(1, 2) { 5 } else { COUNTERS };
        // Most writes are of few keys, so some are in place; all keys have their turn.
        let keys = if random.random_ratio(1, 2) { 50 } else { KEYS };
        Self {
            counter: random.random_range(0..counters),
            key: random.random_range(0..keys),
            words: random.random_ratio(7, 8).then(|| random.random_range(1..20)),
            read: random.random_range(0..KEYS),
        }
    }
}

impl State {
    /// After the first `steps`.
    pub(crate) fn after(seed: Seed, thread: usize, steps: u64) -> Self {
        let (counts, keys) = (vec![0; COUNTERS as usize], vec![None; KEYS]);
        let mut state = Self { thread, counts, keys };
        for number in 1..=steps {
            let step = Step::of(seed, thread, number);
            state.counts[step.counter as usize] += 1;
            state.put(&step, number);
        }
        state
    }

    pub(crate) fn put(&mut self, step: &Step, number: u64) {
        self.keys[step.key] = step.words.map(|words| (number, words));
    }

    /// The value of one of its keys.
    pub(crate) fn value(&self, key: usize) -> Option<Vec<u8>> {
        self.keys[key].map(|(number, words)| value(number, words))
    }
}

pub(crate) fn value(number: u64, words: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(words)
}

pub(crate) fn key(thread: usize, key: usize) -> Vec<u8> {
    format!("{thread}:{key}").into_bytes()
}

pub(crate) fn counter(number: u64) -> Vec<u8> {
    format!("counter:{number}").into_bytes()
}

pub(crate) fn note(thread: usize) -> Vec<u8> {
    format!("note:{thread}").into_bytes()
}
