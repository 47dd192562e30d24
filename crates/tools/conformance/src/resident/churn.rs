//! Puts and deletes of values of very different lengths, at the limit of a store's memory.

use engine::{Demand, Engine, Error, Op, Wait};

use super::Watched;

/// Bytes of the shortest value and of the longest.
const VALUE_BYTES: (u64, u64) = (8, 12_000);

/// Writers that keep a store at its limit.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Keys that are written to.
    pub keys: u64,
    /// Threads, each with keys of its own.
    pub threads: u64,
    /// Bytes of values that they write in all.
    pub bytes: u64,
}

/// A source of numbers: the same for each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        codec::hash64(11, &self.0.to_le_bytes())
    }

    /// Returns a length of a value: each doubling, from 8 to 16 bytes up to 4 to 8 KiB, is equally
    /// likely.
    fn value_bytes(&mut self) -> usize {
        let doublings = (VALUE_BYTES.1 / VALUE_BYTES.0).ilog2() + 1;
        let least = VALUE_BYTES.0 << (self.next() % u64::from(doublings));
        (least + self.next() % least).min(VALUE_BYTES.1) as usize
    }
}

impl Churn {
    /// Writes until the bytes are written. A put that is refused for lack of memory is followed by
    /// deletes of other keys.
    ///
    /// # Panics
    /// If a write fails for another reason.
    pub fn run<S: Engine>(&self, watched: &Watched<S>, seed: u64) {
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                scope.spawn(move || self.write(watched, thread, seed));
            }
        });
    }

    fn write<S: Engine>(&self, watched: &Watched<S>, thread: u64, seed: u64) {
        let mut numbers = Numbers((seed * self.threads + thread) << 40);
        let value = vec![b'v'; VALUE_BYTES.1 as usize];
        let key = |number: u64| {
            let number = number % (self.keys / self.threads) * self.threads + thread;
            codec::hash64(7, &number.to_le_bytes()).to_be_bytes()
        };
        let mut left = self.bytes / self.threads;
        while left > 0 {
            let bytes = numbers.value_bytes();
            let key_of_put = key(numbers.next());
            let put = Op::Put { key: &key_of_put, value: &value[..bytes] };
            if apply(watched, put) {
                left = left.saturating_sub(bytes as u64);
                continue;
            }
            for _ in 0..8 {
                assert!(apply(watched, Op::Delete { key: &key(numbers.next()) }), "a delete");
            }
        }
    }
}

/// Writes one step; `false` if the store has no memory for it.
fn apply<S: Engine>(watched: &Watched<S>, op: Op<'_>) -> bool {
    let mut room = match watched.store().reserve(&Demand::Ops(&[op]), Wait::Yes) {
        Ok(room) => room.expect("a caller that waits gets room"),
        Err(Error::OutOfMemory { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    let ticket = watched.sequence().begin();
    watched.store().apply(&[op], ticket.seqno(), &mut room).expect("room was granted");
    true
}
