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
        let open = |host| Store::open(host, options);
        Ok(Self(Cranked::open(device, barrier, limit, open)?))
    }

    /// Closes and opens again.
    pub(crate) fn reopen(self) -> Self {
        Self::on(self.0.end()).expect("opens again")
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

    /// Intervals of the index.
    pub(crate) fn intervals(&self) -> usize {
        self.store.shared.committer.lock().index().now().range(0..u64::MAX).count()
    }
}
