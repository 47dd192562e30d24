//! Stores for tests: hosts, writes with tickets, reads of everything.

use std::sync::Arc;

use codec::SeqNo;
use conformance::cranked_host;
pub(crate) use conformance::{Pairs, key, scan};
use device::Device;
use engine::{
    Barrier, BlockingWrites, Direction, Engine, Host, KeyRange, NoJournal, Op, Result, Sequence,
};
use memory_budget::MemoryBudget;
use reads::{BlockingReads, View};
use workers::{HandCranked, Order};

use crate::{Options, Store};

/// A store with what surrounds it.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) sequence: Arc<Sequence>,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) crank: HandCranked,
    pub(crate) clock: Arc<environment::ManualClock>,
    pub(crate) device: Arc<dyn Device>,
}

/// Small parts, so that little data makes many.
pub(crate) fn small() -> Options {
    Options {
        memtable_bytes_max: 8 << 10,
        interval_pairs: 4,
        interval_bytes: 1 << 10,
        tail_pairs_max: 3,
        fragments_max: 6,
        tail_percent_max: u16::MAX,
        segment_bytes_max: 16 << 10,
        // Most tests concern openings without one.
        stored_intervals_min: usize::MAX,
        ..Options::default()
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on(device::memory()).expect("an empty device opens")
    }

    /// Opens the store of `device`.
    pub(crate) fn on(device: Arc<dyn Device>) -> Result<Self> {
        Self::with(device, Arc::new(NoJournal), 1 << 20, small())
    }

    pub(crate) fn of(limit: u64, options: Options) -> Self {
        let opened = Self::with(device::memory(), Arc::new(NoJournal), limit, options);
        opened.expect("an empty device opens")
    }

    pub(crate) fn with(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        limit: u64,
        options: Options,
    ) -> Result<Self> {
        let (host, crank, clock) = cranked_host(device, barrier, limit, Order::Random);
        let store = Store::open(host.clone(), options)?;
        let Host { device, sequence, memory: budget, .. } = host;
        sequence.recover_to(store.persisted());
        Ok(Self { store, sequence, budget, crank, clock, device })
    }

    /// Closes and opens again.
    pub(crate) fn reopen(self) -> Self {
        self.store.close().expect("closes");
        Self::on(self.device).expect("opens again")
    }

    pub(crate) fn apply(&self, ops: &[Op<'_>]) -> SeqNo {
        self.store.write_next(ops, &self.sequence).expect("the write is taken")
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> SeqNo {
        self.apply(&[Op::Put { key, value }])
    }

    pub(crate) fn delete(&self, key: &[u8]) -> SeqNo {
        self.apply(&[Op::Delete { key }])
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = b"left over".to_vec();
        self.store.get(key, &mut value).expect("the store is open").then_some(value)
    }

    pub(crate) fn view(&self) -> View<'_, Store> {
        self.store.view(self.sequence.pin())
    }

    pub(crate) fn pairs(&self) -> Pairs {
        scan(&self.view(), KeyRange::all(), Direction::Forward)
    }

    pub(crate) fn flush(&self) {
        self.store.flush().expect("memory takes it");
        self.check();
    }

    /// The index is sound, and represents all bytes of the space.
    pub(crate) fn check(&self) {
        let committer = self.store.shared.committer.lock();
        committer.check().unwrap_or_else(|fault| panic!("{fault}"));
        let pairs = self.store.shared.space.len() - crate::pair::StoreHeader::BYTES as u64;
        assert_eq!(committer.index().now().len(), pairs, "an index of all bytes");
    }

    pub(crate) fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }

    /// Intervals of the index.
    pub(crate) fn intervals(&self) -> usize {
        self.store.shared.committer.lock().index().now().range(0..u64::MAX).count()
    }
}
