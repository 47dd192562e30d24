//! Stores for tests: hosts, writes with tickets, reads of everything.

use std::ops::Deref;
use std::sync::Arc;

use conformance::Cranked;
pub(crate) use conformance::{key, scan};
use device::Device;
use engine::{Barrier, Engine, NoJournal, Result};

use crate::{Options, Store};

/// A store with what surrounds it.
pub(crate) struct Bench(pub(crate) Cranked<Store>);

impl Deref for Bench {
    type Target = Cranked<Store>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
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
        let open = |host| Store::open(host, options);
        Ok(Self(Cranked::open(device, barrier, limit, open)?))
    }

    /// Closes and opens again.
    pub(crate) fn reopen(self) -> Self {
        Self::on(self.0.end()).expect("opens again")
    }

    /// Flushes and compacts until there is nothing left to do.
    pub(crate) fn run_background(&self) {
        self.store.flush().expect("memory takes it");
        self.crank.run_all();
    }

    /// Versions in all tables.
    pub(crate) fn table_entries(&self) -> u64 {
        let state = self.store.shared.state.load_full();
        state.version.tables().map(|(_, table)| table.summary().properties.entries).sum()
    }
}
