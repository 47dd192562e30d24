//! Writers that wait for room, concurrently with flushes, a section, a pin, a caller that does not
//! wait, and a close: the threads of an engine's models under shuttle.
//!
//! 1. A *writer* puts the next number of its key. It waits for room first, and then for the lock of
//!    the key.
//! 2. A *section* puts one number for two keys as one write, with all keys locked. It asks for room
//!    without waiting. If there is none it unlocks the keys, waits for room, and begins again.
//! 3. A *worker* is a thread of the pool. It runs tasks until all writers have ended.
//!
//! The oracle is always the same. A get or a scan never misses a write that was acknowledged before
//! it began. After a close the store has all writes that were flushed before, and no write that was
//! never made. A writer whose wake-up is lost never ends. Neither does a writer that waits with a
//! key locked. Shuttle reports the deadlock, or a schedule that is too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{Demand, Direction, Engine, Error, KeyRange, Op, Result, Wait};
use reads::BlockingReads;
use sync::Mutex;
use sync::thread::{JoinHandle, spawn, yield_now};

use crate::bench::{Cranked, Pairs, scan};

/// Keys of the writers.
const KEYS: [&[u8]; 2] = [b"c", b"p"];
/// Keys that a section writes together.
const PAIR: [&[u8]; 2] = [b"d", b"q"];
/// Writes of a writer.
const WRITES: u64 = 3;
/// Writes of a section.
const SECTIONS: u64 = 2;

/// A store, and the threads that write to it.
pub struct WaitingWriters<S> {
    /// The store.
    pub bench: Cranked<S>,
    /// Returns the bytes of the value of a number. Each value of a pair has half of them.
    value_bytes: fn(u64) -> usize,
    /// The newest acknowledged number of each key, and of the pair.
    acknowledged: [AtomicU64; KEYS.len()],
    acknowledged_pair: AtomicU64,
    /// The numbers that were acknowledged when the last flush began that has succeeded.
    flushed: [AtomicU64; KEYS.len()],
    /// Law L6: the writer of a key holds the key's lock.
    locks: [Mutex<()>; KEYS.len()],
    /// Writers and sections that have not ended.
    unfinished: AtomicU64,
    /// How often a section has found no room.
    refused: AtomicU64,
}

/// Returns `None` if the store reports that it is closed.
fn or_closed<T>(result: Result<T>) -> Option<T> {
    match result {
        Err(Error::Closed) => None,
        result => Some(result.expect("memory takes it")),
    }
}

/// Returns a value that begins with `number`.
fn value_of(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(bytes.max(value.len()), 7);
    value
}

/// Returns the number that a value begins with.
fn number_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// Returns the number that a scan has found for `key`, or 0.
fn shown(pairs: &Pairs, key: &[u8]) -> u64 {
    let found = pairs.iter().find(|(found, _)| found == key);
    found.map_or(0, |(_, value)| number_of(value))
}

/// Returns the number that a get finds for `key`, or 0. Returns `None` if the store is closed.
fn found(store: &impl Engine, key: &[u8]) -> Option<u64> {
    let mut value = Vec::new();
    let is_there = or_closed(store.get(key, &mut value))?;
    Some(if is_there { number_of(&value) } else { 0 })
}

impl<S: Engine + 'static> WaitingWriters<S> {
    /// Returns a store without writers. `value_bytes` returns the bytes of the value of a number.
    /// Each value of a pair has half of them.
    pub fn new(bench: Cranked<S>, value_bytes: fn(u64) -> usize) -> Arc<Self> {
        let (acknowledged, acknowledged_pair, flushed) = Default::default();
        let (locks, unfinished, refused) = Default::default();
        Arc::new(Self {
            bench,
            value_bytes,
            acknowledged,
            acknowledged_pair,
            flushed,
            locks,
            unfinished,
            refused,
        })
    }

    /// Does `work` in a thread of its own.
    pub fn does(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        let writers = Arc::clone(self);
        spawn(move || work(&writers))
    }

    /// Does the same for a thread for which the workers run tasks until it ends.
    fn writes(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        self.unfinished.fetch_add(1, SeqCst);
        self.does(move |writers| {
            work(writers);
            writers.unfinished.fetch_sub(1, SeqCst);
        })
    }

    /// Puts the next number of a key. Returns whether the store is open.
    fn write(&self, at: usize) -> bool {
        // No other thread writes this key.
        let number = self.acknowledged[at].load(SeqCst) + 1;
        let value = value_of(number, (self.value_bytes)(number));
        let demand = Demand::Update { key: KEYS[at], bytes_max: value.len() as u64 };
        let Some(granted) = or_closed(self.bench.store.reserve(&demand, Wait::Yes)) else {
            return false;
        };
        let mut room = granted.expect("it waits for room");
        let _held = self.locks[at].lock();
        let op = [Op::Put { key: KEYS[at], value: &value }];
        let ticket = self.bench.sequence.begin();
        let applied = or_closed(self.bench.store.apply(&op, ticket.seqno(), &mut room));
        drop(ticket);
        if applied.is_some() {
            self.acknowledged[at].store(number, SeqCst);
        }
        applied.is_some()
    }

    /// Writes each key once, and flushes, before there are other threads.
    ///
    /// # Panics
    /// If the store does not take it.
    pub fn write_and_flush(&self) {
        (0..KEYS.len()).for_each(|at| assert!(self.write(at), "the store is open"));
        self.flush();
    }

    /// Starts the threads of each model: a writer of each key, a section and a worker.
    pub fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        vec![self.writer(0), self.writer(1), self.section(), self.worker()]
    }

    /// Starts a writer of a key.
    fn writer(self: &Arc<Self>, at: usize) -> JoinHandle<()> {
        self.writes(move |writers| {
            let acknowledged = || writers.acknowledged[at].load(SeqCst);
            while acknowledged() < WRITES && writers.write(at) {}
        })
    }

    /// Puts `number` for both keys of the pair. Returns whether the store is open.
    fn write_pair(&self, number: u64) -> bool {
        let value = value_of(number, (self.value_bytes)(number) / 2);
        let ops = PAIR.map(|key| Op::Put { key, value: &value });
        let demand = Demand::Ops(&ops);
        let mut granted = None;
        loop {
            let held: Vec<_> = self.locks.iter().map(Mutex::lock).collect();
            if granted.is_none() {
                match or_closed(self.bench.store.reserve(&demand, Wait::No)) {
                    Some(room) => granted = room,
                    None => return false,
                }
            }
            if let Some(mut room) = granted {
                let ticket = self.bench.sequence.begin();
                let applied = self.bench.store.apply(&ops, ticket.seqno(), &mut room);
                drop(ticket);
                return or_closed(applied).is_some();
            }
            drop(held);
            self.refused.fetch_add(1, SeqCst);
            match or_closed(self.bench.store.reserve(&demand, Wait::Yes)) {
                Some(room) => granted = room,
                None => return false,
            }
        }
    }

    /// Starts a section.
    fn section(self: &Arc<Self>) -> JoinHandle<()> {
        self.writes(|writers| {
            for number in 1..=SECTIONS {
                if !writers.write_pair(number) {
                    return;
                }
                writers.acknowledged_pair.store(number, SeqCst);
            }
        })
    }

    /// Starts a worker, after the writers.
    fn worker(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| {
            while writers.unfinished.load(SeqCst) > 0 {
                writers.bench.crank.run_all();
                yield_now();
            }
        })
    }

    /// Starts a thread that flushes.
    pub fn flusher(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| (0..2).for_each(|_| writers.flush()))
    }

    fn flush(&self) {
        let acknowledged = self.acknowledged();
        if or_closed(self.bench.store.flush()).is_some() {
            for (flushed, number) in self.flushed.iter().zip(acknowledged) {
                flushed.fetch_max(number, SeqCst);
            }
        }
    }

    /// Starts a thread that reserves room without waiting, and drops it.
    pub fn taster(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| {
            let bytes_max = (writers.value_bytes)(1) as u64;
            for _ in 0..3 {
                let demand = Demand::Update { key: b"t", bytes_max };
                drop(or_closed(writers.bench.store.reserve(&demand, Wait::No)));
                yield_now();
            }
        })
    }

    /// Starts a thread that gets the keys.
    pub fn reader(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| {
            let mut least = [0; KEYS.len()];
            for _ in 0..2 {
                for (at, least) in least.iter_mut().enumerate() {
                    *least = writers.acknowledged[at].load(SeqCst).max(*least);
                    let Some(number) = found(&writers.bench.store, KEYS[at]) else { return };
                    assert!(number >= *least, "a get gave {number}, not {least}");
                    *least = number;
                }
                yield_now();
            }
        })
    }

    /// Starts a thread that pins a moment while writers wait, and scans it twice.
    pub fn pinner(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| {
            let least = writers.acknowledged();
            let view = writers.bench.view();
            let once = scan(&view, KeyRange::all(), Direction::Forward);
            yield_now();
            assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), once, "a pin has moved");
            for (key, least) in KEYS.iter().zip(least) {
                let found = shown(&once, key);
                assert!(found >= least, "{found} at a pin, {least} was acknowledged");
            }
            assert_eq!(shown(&once, PAIR[0]), shown(&once, PAIR[1]), "half of a write is shown");
        })
    }

    /// Starts a thread that closes the store.
    pub fn closer(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|writers| writers.bench.store.close().expect("closes"))
    }

    fn acknowledged(&self) -> [u64; KEYS.len()] {
        self.acknowledged.each_ref().map(|number| number.load(SeqCst))
    }

    /// Waits until all threads have ended. Returns how often a section has found no room.
    ///
    /// # Panics
    /// If one has panicked.
    pub fn join(&self, threads: Vec<JoinHandle<()>>) -> u64 {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        self.refused.load(SeqCst)
    }

    /// Checks that all writes are there. The store is open.
    ///
    /// # Panics
    /// If one is missing.
    pub fn must_have_all(&self) {
        let numbers = KEYS.map(|key| found(&self.bench.store, key));
        assert_eq!(numbers, [Some(WRITES); KEYS.len()], "the last writes");
        let numbers = PAIR.map(|key| found(&self.bench.store, key));
        assert_eq!(numbers, [Some(SECTIONS); PAIR.len()], "the last section");
    }

    /// Checks that `store`, which was opened after the close, has what was flushed, and nothing
    /// that was never written. A write may be in it that was not acknowledged.
    ///
    /// # Panics
    /// If it is not so.
    pub fn must_be_in(&self, store: &S) {
        let found = |key: &[u8]| found(store, key).expect("the store is open");
        for (key, (flushed, last)) in KEYS.iter().zip(self.flushed.iter().zip(self.acknowledged()))
        {
            let (number, flushed) = (found(key), flushed.load(SeqCst));
            assert!(number >= flushed, "{number} after a close, {flushed} was flushed");
            assert!(number <= last + 1, "{number} after a close, {last} was acknowledged");
        }
        let last = self.acknowledged_pair.load(SeqCst);
        for number in PAIR.map(found) {
            assert!(number <= last + 1, "{number} after a close, {last} was acknowledged");
        }
    }
}
