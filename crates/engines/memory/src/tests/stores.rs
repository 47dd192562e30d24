//! Stores for tests: hosts, writes with tickets, reads of everything.

use std::sync::Arc;

use conformance::cranked_host;
pub(super) use conformance::{Pairs, key, scan};
use device::Device;
use engine::{
    Barrier, BlockingWrites, Direction, Engine, Host, KeyRange, NoJournal, Op, Result, SeqNo,
    Sequence,
};
use memory_budget::MemoryBudget;
use reads::{BlockingReads, View};
use workers::{HandCranked, Order};

use crate::{Options, Store};

/// A store with what surrounds it.
pub(super) struct Bench {
    pub(super) store: Store,
    pub(super) sequence: Arc<Sequence>,
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) crank: HandCranked,
    pub(super) clock: Arc<environment::ManualClock>,
}

/// Small blocks, so that little data makes many.
pub(super) fn small_blocks() -> Options {
    Options { snapshot_block_bytes: 512 }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::on(device::memory()).expect("an empty device opens")
    }

    /// Opens the store of `device`.
    pub(super) fn on(device: Arc<dyn Device>) -> Result<Self> {
        Self::with(device, Arc::new(NoJournal), u64::MAX)
    }

    pub(super) fn with(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        limit: u64,
    ) -> Result<Self> {
        let (host, crank, clock) = cranked_host(device, barrier, limit, Order::Random);
        let store = Store::open(host.clone(), small_blocks())?;
        let Host { sequence, memory: budget, .. } = host;
        sequence.recover_to(store.persisted());
        Ok(Self { store, sequence, budget, crank, clock })
    }

    pub(super) fn apply(&self, ops: &[Op<'_>]) -> SeqNo {
        self.store.write_next(ops, &self.sequence).expect("the write is taken")
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> SeqNo {
        self.apply(&[Op::Put { key, value }])
    }

    pub(super) fn delete(&self, key: &[u8]) -> SeqNo {
        self.apply(&[Op::Delete { key }])
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = b"left over".to_vec();
        self.store.get(key, &mut value).expect("the store is open").then_some(value)
    }

    pub(super) fn view(&self) -> View<'_, Store> {
        self.store.view(self.sequence.pin())
    }

    pub(super) fn pairs(&self) -> Pairs {
        scan(&self.view(), KeyRange::all(), Direction::Forward)
    }

    pub(super) fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }
}
