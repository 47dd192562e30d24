//! Stores for tests.

use std::ops::Deref;
use std::sync::Arc;

use conformance::Cranked;
#[cfg(not(shuttle))]
pub(super) use conformance::{key, scan};
use device::Device;
use engine::{Barrier, Engine, NoJournal, Result};
use workers::StopToken;

use crate::{Options, Store};

/// Memory of a store.
const MEMORY_BYTES: u64 = 4 << 20;

/// A store with what surrounds it.
pub(super) struct Bench(pub(super) Cranked<Store>);

impl Deref for Bench {
    type Target = Cranked<Store>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Small parts, so that little data makes many.
pub(super) fn small() -> Options {
    Options {
        separation_bytes: 64,
        segment_bytes_max: 64 << 10,
        groups_max: 2,
        buffer_bytes_max: 32 << 10,
        table_bytes: 2 << 10,
        ..Options::default()
    }
}

/// The same of an index.
pub(super) fn small_index() -> lsm::Options {
    lsm::Options {
        memtable_bytes_max: 8 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level0_tables: 2,
        level0_tables_slow: 8,
        level1_bytes: 8 << 10,
        level_ratio: 3,
        manifest_bytes: 4 << 10,
        ..lsm::Options::default()
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::on(device::memory()).expect("an empty device opens")
    }

    /// Opens the store of `device`.
    pub(super) fn on(device: Arc<dyn Device>) -> Result<Self> {
        Self::with(device, Arc::new(NoJournal), small())
    }

    pub(super) fn with(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        options: Options,
    ) -> Result<Self> {
        Self::with_memory(device, barrier, options, MEMORY_BYTES)
    }

    pub(super) fn with_memory(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        options: Options,
        limit: u64,
    ) -> Result<Self> {
        let open = |host| Store::open_with(host, options, small_index());
        Ok(Self(Cranked::open(device, barrier, limit, open)?))
    }

    /// Closes and opens again, with these options.
    pub(super) fn reopen_with(self, options: Options) -> Self {
        let opened = Self::with(self.0.end(), Arc::new(NoJournal), options);
        opened.expect("opens again")
    }

    /// Closes and opens again.
    pub(super) fn reopen(self) -> Self {
        self.reopen_with(small())
    }

    /// Flushes, does all background work, and closes; the files are sound.
    pub(super) fn end_sound(self) -> Arc<dyn Device> {
        self.store.flush().expect("memory takes it");
        self.crank.run_all();
        let device = self.0.end();
        let report = crate::check(&device).expect("memory reads");
        assert!(report.is_sound(), "{report:?}");
        device
    }

    /// Has each segment of the write buffers end, and makes all writes durable in the index.
    pub(super) fn end_segments(&self) {
        for group in &self.store.shared.values.groups {
            self.store.shared.values.try_end_open(group);
        }
        self.store.flush().expect("memory takes it");
    }

    /// Collects one group, whatever garbage there is. Returns whether there may be more.
    pub(super) fn collect_once(&self) -> Result<bool> {
        self.store.shared.collect_down_to(&|_| 0, 1, &StopToken::default())
    }

    /// Collects group by group until nothing is left to free.
    pub(super) fn collect_all(&self) {
        let goes_on = |_: &u32| self.collect_once().expect("memory takes it");
        assert!((0..200).take_while(goes_on).count() < 200, "collecting does not end");
    }

    /// The bytes of write buffers are written to volumes, and nothing is synced.
    pub(super) fn write_buffers(&self) -> Result<()> {
        self.store.shared.values.flush_down_to(0, u64::MAX)
    }
}
