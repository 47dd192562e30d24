//! Stores with very little memory, and helpers that check them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use conformance::session::{KeyLocks, Session};
use device::Device;
use engine::{Barrier, BlockingWrites, Change, Engine, Host, NoJournal, Op, Operator, Sequence};
use environment::{Environment, ManualClock};
use memory_budget::MemoryBudget;
use reads::BlockingReads;
use telemetry::Registry;
use workers::{Class, HandCranked, Order, Pool, StopToken};

use crate::{Options, Store};

/// Environment, registry and pool of a store, and the crank of a pool that is driven by hand.
type Place = (Environment, Registry, Pool, Option<(HandCranked, Arc<ManualClock>)>);

/// An open store on a memory device, with threads in the background.
pub(super) struct Bench {
    pub(super) store: Store,
    pub(super) sequence: Arc<Sequence>,
    pub(super) device: Arc<dyn Device>,
    pub(super) memory: Arc<MemoryBudget>,
    /// The locks of its sessions.
    locks: KeyLocks,
    /// The crank that runs background work, and its clock, if no work runs by itself.
    hand: Option<(HandCranked, Arc<ManualClock>)>,
    _pool: Pool,
}

/// Returns options with eight pages of 4 KiB in memory, segments of 16 KiB and an index of two
/// buckets.
pub(super) fn tiny() -> Options {
    Options {
        log_memory_bytes: Some(8 * 4096),
        page_bytes: Some(4096),
        segment_bytes: 16_384,
        index_bits: Some(1),
        ..Options::default()
    }
}

impl Bench {
    /// Returns a session with room for `depth` pending calls.
    pub(super) fn session(&self, depth: usize) -> Session<'_> {
        Session::new(&self.store, &self.sequence, &self.locks, &self.memory, depth)
    }

    pub(super) fn open(options: Options) -> Self {
        Self::open_on(device::memory(), options)
    }

    pub(super) fn open_on(device: Arc<dyn Device>, options: Options) -> Self {
        Self::open_with(device, options, Arc::new(NoJournal))
    }

    /// Opens a store on a memory device and puts and flushes `keys` keys.
    pub(super) fn loaded(keys: u64, options: Options) -> Self {
        let bench = Self::open(options);
        for number in 0..keys {
            bench.put(&key(number), &value(number, 0, 8));
        }
        bench.store.flush().expect("flushes");
        bench
    }

    /// Opens a store on a memory device, made for a budget of `limit` bytes.
    pub(super) fn open_made_for(limit: u64, options: Options) -> Self {
        Self::open_in(device::memory(), options, Arc::new(NoJournal), limit, threads())
    }

    /// Opens a store on a memory device, and then sets its budget to `limit` bytes.
    pub(super) fn open_within(limit: u64, options: Options) -> Self {
        let bench = Self::open(options);
        bench.memory.set_limit(limit);
        bench
    }

    pub(super) fn open_with(
        device: Arc<dyn Device>,
        options: Options,
        barrier: Arc<dyn Barrier>,
    ) -> Self {
        Self::open_in(device, options, barrier, u64::MAX, threads())
    }

    /// Opens a store whose background work is done by [`Bench::advance`] alone: the same calls give
    /// the same run.
    pub(super) fn open_by_hand(device: Arc<dyn Device>, options: Options, seed: u64) -> Self {
        Self::open_by_hand_within(u64::MAX, device, options, seed)
    }

    /// The same, made for a budget.
    pub(super) fn open_by_hand_within(
        limit: u64,
        device: Arc<dyn Device>,
        options: Options,
        seed: u64,
    ) -> Self {
        Self::open_in(device, options, Arc::new(NoJournal), limit, by_hand(seed))
    }

    /// The same, with a barrier that a commit has to pass first.
    pub(super) fn open_by_hand_behind(
        barrier: Arc<dyn Barrier>,
        device: Arc<dyn Device>,
        options: Options,
        seed: u64,
    ) -> Self {
        Self::open_in(device, options, barrier, u64::MAX, by_hand(seed))
    }

    fn open_in(
        device: Arc<dyn Device>,
        options: Options,
        barrier: Arc<dyn Barrier>,
        limit: u64,
        (environment, telemetry, pool, hand): Place,
    ) -> Self {
        let sequence = Arc::new(Sequence::new());
        let memory = Arc::new(MemoryBudget::new(limit));
        let host = Host {
            device: Arc::clone(&device),
            workers: pool.clone(),
            environment,
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier,
            memory: Arc::clone(&memory),
        };
        let store = Store::open(host, options).expect("the store opens");
        Self { store, sequence, device, memory, locks: KeyLocks::default(), hand, _pool: pool }
    }

    /// Returns the store, and the threads of its background work, which end when they are dropped.
    pub(super) fn into_parts(self) -> (Store, Pool) {
        (self.store, self._pool)
    }

    /// Lets upkeep become due, and does all background work there is.
    pub(super) fn advance(&self) {
        // A test may have changed something that no user can.
        self.store.shared.wake_upkeep();
        self.advance_by(crate::upkeep::INTERVAL_IDLE);
    }

    /// Lets `time` pass, does the background work that is due, and returns how many tasks ran.
    pub(super) fn advance_by(&self, time: Duration) -> usize {
        let (crank, clock) = self.hand.as_ref().expect("opened by hand");
        clock.advance(time);
        crank.run_all()
    }

    /// Ends all background work, and returns the stop token of its tasks.
    pub(super) fn stop(&self) -> StopToken {
        let (sender, receiver) = std::sync::mpsc::channel();
        let workers = &self.store.shared.background.workers;
        let submitted = workers.submit(Class::Compact, "token", move |stop| {
            sender.send(stop.clone()).expect("somebody waits");
        });
        submitted.expect("it is taken");
        self.advance();
        let stop = receiver.recv().expect("it has run");
        let panics = workers.stop();
        assert!(panics.is_empty() && stop.is_stopping(), "{panics:?}");
        stop
    }

    /// Flushes, closes and opens again.
    pub(super) fn reopen(self, options: Options) -> Self {
        self.store.flush().expect("flushes");
        self.store.close().expect("closes");
        Self::open_on(Arc::clone(&self.device), options)
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) {
        self.write(&[Op::Put { key, value }]);
    }

    pub(super) fn delete(&self, key: &[u8]) {
        self.write(&[Op::Delete { key }]);
    }

    /// Writes in the way that the database does.
    fn write(&self, ops: &[Op<'_>]) {
        self.store.write_next(ops, &self.sequence).expect("the write is taken");
    }

    /// Updates a key without its lock, as a typed store does.
    pub(super) fn rmw(&self, key: &[u8], operator: &mut dyn Operator) {
        self.store.shared.rmw(key, operator).expect("the rmw is taken");
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.store.get(key, &mut value).expect("the get is answered").then_some(value)
    }

    /// Checks that a `multi_get` reports each key once, with the value that a read of it alone
    /// returns.
    pub(super) fn must_get_many(&self, keys: &[Vec<u8>]) {
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found: Vec<Vec<Option<Vec<u8>>>> = vec![Vec::new(); keys.len()];
        let told = self.store.multi_get(&borrowed, &mut |index, value| {
            found[index].push(value.map(<[u8]>::to_vec));
        });
        told.expect("the reads are answered");
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found, [self.get(key)], "{key:?}");
        }
    }

    pub(super) fn figure(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        let found = stats.detail.iter().find(|(known, _)| *known == name);
        found.expect("a figure of that name").1
    }
}

/// Returns a pool with enough threads that all compactions run at the same time.
fn threads() -> Place {
    let environment = Environment::seeded(7);
    let telemetry = Registry::default();
    let pool = Pool::start(&environment, 5, &telemetry).expect("threads start");
    (environment, telemetry, pool, None)
}

/// Returns a pool whose background work is done by hand alone.
fn by_hand(seed: u64) -> Place {
    let (environment, clock) = Environment::simulated(seed);
    let telemetry = Registry::default();
    let (pool, crank) = Pool::hand_cranked(&environment, &telemetry, Order::Random);
    (environment, telemetry, pool, Some((crank, clock)))
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// Returns a value of `words` words that contains its key and version.
pub(super) fn value(number: u64, version: u64, words: usize) -> Vec<u8> {
    let pair = [number.to_le_bytes(), version.to_le_bytes()].concat();
    pair.into_iter().cycle().take(words * 8).collect()
}

/// Checks that readers of every `step`th of `keys` keys find each at every moment. Meanwhile a
/// writer writes three of four keys again until the figure `rounds.0` is at least `rounds.1`.
pub(super) fn read_beside_writes(bench: &Bench, keys: u64, step: usize, rounds: (&str, u64)) {
    for number in 0..keys {
        bench.put(&key(number), &value(number, 0, 8));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    for number in (0..keys).step_by(step) {
                        assert!(bench.get(&key(number)).is_some(), "key {number} was there");
                    }
                }
            });
        }
        let mut version = 0;
        while bench.figure(rounds.0) < rounds.1 {
            version += 1;
            for number in (0..keys).filter(|number| number % 4 != 0) {
                bench.put(&key(number), &value(number, version, 8));
            }
        }
        done.store(true, Relaxed);
    });
}

/// Returns two keys of one chain. Once both are written, the second is in front of the first.
pub(super) fn two_of_a_chain(bench: &Bench) -> (u64, u64) {
    let [older, newer] = some_of_a_chain(bench);
    (older, newer)
}

/// Returns keys of one chain. Once all are written, each is in front of the one before it.
pub(super) fn some_of_a_chain<const N: usize>(bench: &Bench) -> [u64; N] {
    let shared = &bench.store.shared;
    let chain =
        |number| shared.hot.index.chain_at(shared.hot.index.position(shared.hash(&key(number))));
    let mut chains: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    let found = (0..).find_map(|number| {
        let same = chains.entry(chain(number)).or_default();
        same.push(number);
        same.as_slice().try_into().ok()
    });
    found.expect("some keys share a chain")
}

/// Writes other keys until `until` returns true.
pub(super) fn fill(bench: &Bench, until: &dyn Fn() -> bool) {
    let round = (0..).find(|round| {
        bench.put(format!("filler-{}", round % 500).as_bytes(), &value(*round, 0, 8));
        until()
    });
    assert!(round.is_some());
}

/// An operator that counts in place if it may.
pub(super) struct Add;

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let count = u64::from_le_bytes(value.try_into().expect("8 bytes"));
        value.copy_from_slice(&(count + 1).to_le_bytes());
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let count = value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
        Change::Put((count + 1).to_le_bytes().to_vec())
    }
}

pub(super) fn count(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}
