//! Stores for tests: hosts, writes with tickets, reads of everything.

use std::sync::Arc;

use codec::SeqNo;
use conformance::cranked_host;
pub(crate) use conformance::{Pairs, key, scan};
use device::Device;
use engine::{
    Barrier, BlockingWrites, Direction, Engine, Host, KeyRange, NoJournal, Op, Result, Sequence,
};
use environment::ManualClock;
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
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) device: Arc<dyn Device>,
}

/// Small parts, so that little data makes many.
pub(crate) fn small() -> Options {
    Options {
        memtable_bytes_max: 8 << 10,
        slots_max: 1,
        merging: false,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level0_tables: 2,
        level0_tables_slow: 8,
        level1_bytes: 8 << 10,
        level_ratio: 3,
        manifest_bytes: 4 << 10,
        ..Options::default()
    }
}

/// The same, and with several slots of Dranges, and merging.
pub(crate) fn both() -> [Options; 2] {
    [small(), Options { slots_max: 6, merging: true, ..small() }]
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on(device::memory()).expect("an empty device opens")
    }

    pub(crate) fn of(options: Options) -> Self {
        let opened = Self::with_options(device::memory(), Arc::new(NoJournal), 1 << 20, options);
        opened.expect("an empty device opens")
    }

    /// Opens the store of `device`.
    pub(crate) fn on(device: Arc<dyn Device>) -> Result<Self> {
        Self::with(device, Arc::new(NoJournal), 1 << 20)
    }

    pub(crate) fn with(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        limit: u64,
    ) -> Result<Self> {
        Self::with_options(device, barrier, limit, small())
    }

    pub(crate) fn with_options(
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

    /// Flushes and compacts until there is nothing left to do.
    pub(crate) fn settle(&self) {
        self.store.flush().expect("memory takes it");
        self.crank.run_all();
    }

    pub(crate) fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }

    /// Versions in all tables.
    pub(crate) fn table_entries(&self) -> u64 {
        let state = self.store.shared.state.load_full();
        state.version.tables().map(|(_, table)| table.summary().properties.entries).sum()
    }
}
