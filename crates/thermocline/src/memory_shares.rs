//! What each keyspace of an engine over data larger than memory, `f2`, `lsm` or `flexdb`, may take of the
//! database's memory.
//!
//! Such an engine is told once, when it is opened, how much it has, and takes all of it as its logs
//! or its cache grow. So each has a share that is counted as used from the beginning, and all of
//! them together stay within the database's budget:
//!
//! 1. When the database is opened, what keyspaces in memory are known to need is left to them: their
//!    snapshots, and the journal, where one of them is journaled. Of the rest, keyspaces that were made
//!    with so many bytes get these, as far as the least of the others allows. Three quarters of what
//!    is left then are dealt out to the others in equal parts, each beside the least that it is
//!    opened with.
//! 2. A keyspace that is made later gets what it asks for, as far as there is so much. Otherwise it
//!    gets, as the first one, three quarters of what is left; and then a quarter of it, so that
//!    others can still be made; and never less than a new engine wants. The next opening deals anew.
//! 3. One that is cleared keeps its share. That of a dropped one is free once its engine is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use device::Device;
use engine::MemoryBudget;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::memory_limit;
use crate::options::{EngineKind, KeyspaceOptions};

/// The database's budget, and what is dealt out of it.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    whole: Arc<MemoryBudget>,
    dealt: AtomicU64,
}

/// One engine's share, counted as used until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    shares: Arc<MemoryShares>,
    /// What the engine is opened with.
    pub(crate) budget: Arc<MemoryBudget>,
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let bytes = self.budget.limit();
        self.shares.whole.release(bytes);
        self.shares.dealt.fetch_sub(bytes, Relaxed);
    }
}

impl MemoryShares {
    pub(crate) fn new(whole: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { whole, dealt: AtomicU64::new(0) })
    }

    /// What engines use that have no share: the data of keyspaces in memory.
    pub(crate) fn used_by_others(&self) -> u64 {
        self.whole.used().saturating_sub(self.dealt.load(Relaxed))
    }

    /// Step 1: the shares by keyspace id. `needed` bytes are known to be taken by others. Costs one
    /// small read a keyspace.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] if not even the least of each fits.
    pub(crate) fn deal(
        self: &Arc<Self>,
        device: &dyn Device,
        catalog: &Catalog,
        needed: u64,
    ) -> Result<BTreeMap<u32, Arc<MemoryShare>>> {
        let (mut asking, mut others) = (Vec::new(), Vec::new());
        for entry in catalog.keyspaces.iter().filter(|entry| has_share(entry.options.engine)) {
            let least = match entry.options.engine {
                EngineKind::F2 => f2::memory_bytes_min(&*device.subdevice(&entry.dir())?)?,
                engine => least_of_new(engine),
            };
            match entry.options.memory_bytes {
                Some(wanted) => asking.push((entry.id, least, wanted)),
                None => others.push((entry.id, least)),
            }
        }
        let limit = self.whole.limit();
        let least_of_asking: u64 = asking.iter().map(|(_, least, _)| least).sum();
        let least_of_others: u64 = others.iter().map(|(_, least)| least).sum();
        let all_least = least_of_asking + least_of_others;
        memory_limit::check_known(device, limit, needed.saturating_add(all_least))?;
        let journal = memory_limit::replayed_into_memory(device, catalog)?;
        let mut left = limit.saturating_sub(needed.saturating_add(journal));
        let mut spare = left.saturating_sub(all_least);
        let mut shares = BTreeMap::new();
        for (id, least, wanted) in asking {
            let beside = wanted.saturating_sub(least).min(spare);
            (left, spare) = (left.saturating_sub(least + beside), spare - beside);
            shares.insert(id, self.take(least + beside));
        }
        let beside = (left / 4 * 3).saturating_sub(least_of_others) / others.len().max(1) as u64;
        shares.extend(others.into_iter().map(|(id, least)| (id, self.take(least + beside))));
        Ok(shares)
    }

    /// Step 2: the share of a keyspace that is being made, if its engine has one.
    ///
    /// # Errors
    /// [`Error::NoMemoryLeft`].
    pub(crate) fn share_of_new(
        self: &Arc<Self>,
        KeyspaceOptions { engine, memory_bytes, .. }: KeyspaceOptions,
    ) -> Result<Option<Arc<MemoryShare>>> {
        if !has_share(engine) {
            return Ok(None);
        }
        let left = self.whole.limit().saturating_sub(self.whole.used());
        let needed = least_of_new(engine);
        if left < needed {
            return Err(Error::NoMemoryLeft { engine, left, needed });
        }
        let is_first = self.dealt.load(Relaxed) == 0;
        let wanted = memory_bytes.unwrap_or(if is_first { left / 4 * 3 } else { left / 4 });
        Ok(Some(self.take(wanted.clamp(needed, left))))
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Arc<MemoryShare> {
        self.whole.charge_anyway(bytes);
        self.dealt.fetch_add(bytes, Relaxed);
        let budget = Arc::new(MemoryBudget::new(bytes));
        Arc::new(MemoryShare { shares: Arc::clone(self), budget })
    }
}

fn has_share(engine: EngineKind) -> bool {
    matches!(engine, EngineKind::F2 | EngineKind::Lsm | EngineKind::FlexDb)
}

/// What a new engine wants at least.
fn least_of_new(engine: EngineKind) -> u64 {
    match engine {
        EngineKind::Lsm => lsm::Options::MEMORY_BYTES_MIN,
        EngineKind::FlexDb => flexdb::Options::MEMORY_BYTES_MIN,
        _ => f2::Options::MEMORY_BYTES_MIN,
    }
}
