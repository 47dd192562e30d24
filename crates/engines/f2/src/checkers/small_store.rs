//! A store of a few pages, for models of whole operations, and its background work, by hand.
//!
//! All of it is the code of production, with three exceptions. The device is memory, and does each
//! call in one step. Pages, blocks and buckets are small. The model calls the background work.

use std::sync::Arc;

use device::Device;
use engine::{Change, Host, NoJournal, Operator, Reservation, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use reads::BlockingReads;
use sync::thread::yield_now;
use telemetry::Registry;
use workers::{HandCranked, Order, Pool};

use crate::address::LogAddress;
use crate::ops::rmw::Advanced;
use crate::store::Shared;
use crate::{Options, Store};

/// The key that the models use.
pub(crate) const KEY: &[u8] = b"k";

/// Bytes of a page. A record of [`KEY`] takes 32.
const PAGE_BYTES_OF_ONE_LOG: u64 = 64;
const PAGE_BYTES: u64 = 256;
/// A value whose record takes the bytes that [`KEY`]'s record leaves of the first page of two logs.
const REST_OF_PAGE: [u8; 150] = [0; 150];

/// The store.
pub(crate) struct SmallStore {
    store: Store,
    crank: HandCranked,
    _pool: Pool,
}

/// Counts, in place if it may.
struct Add;

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let count = number(value);
        value.copy_from_slice(&(count + 1).to_le_bytes());
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        Change::Put((value.map_or(0, number) + 1).to_le_bytes().to_vec())
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("a counter has eight bytes"))
}

impl SmallStore {
    /// A store of one log, of which a page holds two records.
    pub(crate) fn of_one_log() -> Arc<Self> {
        Self::open(true, PAGE_BYTES_OF_ONE_LOG)
    }

    /// A store of two logs.
    pub(crate) fn of_two_logs() -> Arc<Self> {
        Self::open(false, PAGE_BYTES)
    }

    fn open(single_log: bool, page_bytes: u64) -> Arc<Self> {
        let (environment, _clock) = Environment::simulated(1);
        let telemetry = Registry::default();
        let (pool, crank) = Pool::hand_cranked(&environment, &telemetry, Order::InOrder);
        let device: Arc<dyn Device> = device::memory();
        let host = Host {
            device,
            workers: pool.clone(),
            environment,
            telemetry,
            sequence: Arc::new(Sequence::new()),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
        };
        let options = Options {
            single_log,
            log_memory_bytes: Some(5 * page_bytes),
            page_bytes: Some(page_bytes),
            segment_bytes: 4 * page_bytes,
            index_bits: Some(1),
            compaction_threads: 1,
            ..Options::default()
        };
        let store = Store::open(host, options).expect("it opens");
        Arc::new(Self { store, crank, _pool: pool })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.store.shared
    }

    /// Adds one to [`KEY`]. Reserves nothing: `hybrid_log/models/reserve.rs` has the models of
    /// that.
    pub(crate) fn count_up(&self) {
        let room = Reservation::uncounted();
        let advanced = self.shared().rmw_up_to_device(KEY, &mut Add, &mut Vec::new(), &room);
        assert!(matches!(advanced, Ok(Advanced::Done)), "memory has the old value");
    }

    /// Returns the number that [`KEY`] has been counted up to, if it is there.
    pub(crate) fn count(&self) -> Option<u64> {
        let mut value = Vec::new();
        let is_there = self.store.get(KEY, &mut value).expect("it is read");
        is_there.then(|| number(&value))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) {
        self.shared().upsert(key, value, &Reservation::uncounted()).expect("it is taken");
    }

    /// Writes the content of the hot log to its device, and returns the end of it.
    pub(crate) fn write_out(&self) -> LogAddress {
        let log = &self.shared().hot.log;
        let guard = self.shared().epochs.protect();
        let cut = log.cut();
        drop(guard);
        while log.safe_read_only() < cut {
            yield_now();
        }
        log.flush_until(cut).expect("it is written");
        cut
    }

    /// Counts once, in a store without anything, and lets memory go of that.
    pub(crate) fn count_and_evict(&self) {
        self.count_up();
        if self.shared().cold.is_some() {
            self.put(b"f", &REST_OF_PAGE);
        }
        let written = self.write_out();
        let log = &self.shared().hot.log;
        log.advance_head_to(log.geometry.page(written));
        assert_eq!(log.head(), written, "all is on disk alone");
    }

    /// Moves all to the cold log. When this returns, entries that lead to the old place are freed.
    pub(crate) fn move_to_cold(&self) {
        let until = self.write_out();
        let shared = self.shared();
        let (cold, begin) = (shared.cold.as_ref().expect("a cold log"), shared.hot.log.begin());
        let stop = shared.background.workers.token();
        let moved = shared.move_to_cold(cold, begin, until, &stop).expect("it is moved");
        assert!(moved.is_some(), "nobody stops it");
        cold.unnamed_from.end();
        self.scrub();
    }

    /// Appends all live records again, to a log that begins behind their originals.
    pub(crate) fn compact_single(&self) {
        let until = self.write_out();
        let (shared, stop) = (self.shared(), self.shared().background.workers.token());
        let copied = shared.copy_live(shared.hot.log.begin(), until, &stop).expect("it is copied");
        assert!(copied.is_some(), "nobody stops it");
        shared.truncate(until);
        self.scrub();
    }

    /// Does the work that a truncation has requested, once that is allowed.
    fn scrub(&self) {
        while self.shared().hot.is_scrubbing() {
            self.crank.run_all();
            yield_now();
        }
    }
}
