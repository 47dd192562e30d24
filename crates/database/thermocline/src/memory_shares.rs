//! Shares of the database's memory for keyspaces whose data may be larger than memory.
//!
//! These are keyspaces of the engines with [`MemoryUse::Share`].
//!
//! Such an engine gets its amount of memory when it is opened, and takes all of it as its logs or
//! its cache grow. So each has a share that is counted as used from the beginning, and all shares
//! together stay within the database's budget:
//!
//! 1. When the database is opened, the known needs of keyspaces in memory are kept for them: their
//!    snapshots, and the journal if one of them is journaled. From the rest, a keyspace that was
//!    made with a number of bytes gets that number, as far as the least needs of the others allow.
//!    Three quarters of the remaining memory are dealt out to the others in equal parts, each in
//!    addition to the least that it is opened with.
//! 2. A keyspace that is made later gets the number that it asks for, or all free memory if that is
//!    less. If it asks for none, the first one gets three quarters of the free memory, and a later
//!    one a quarter, so that others can still be made. It never gets less than a new engine needs.
//!    The next opening deals the memory out again.
//! 3. A keyspace that is cleared keeps its share. The share of a dropped one is free once its
//!    engine has been dropped.
//!
//! While the database is open shares move ([`crate::memory_balance`]).
//!
//! Several databases may share one memory ([`crate::SharedMemory`]). Then the shares of all their
//! keyspaces come out of it, and a database deals out at most its own
//! [`crate::Options::memory_bytes`] of the memory that the others have left.
//!
//! # Invariants
//! - S1. A share counts as the bytes that its engine may take, or has not released yet if that is
//!   more. Memory moves from one share to another only in the step that takes it off the first one.
//!   So a move never makes all shares together larger than the whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use device::Device;
use engine::MemoryUse;
use memory_budget::MemoryBudget;

use crate::catalog::Catalog;
use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::memory_limit;
use crate::options::KeyspaceOptions;

/// The budget of a database, or of all databases that share it, and the shares that are dealt out
/// of it.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    pub(crate) whole: Arc<MemoryBudget>,
    dealt: AtomicU64,
}

/// The keyspaces of a database that get shares at its opening.
#[derive(Debug)]
pub(crate) struct LeastShares {
    /// Their ids, with the least of each and the bytes that it was made with.
    asking: Vec<(u32, u64, u64)>,
    /// The ids of the others, with the least of each.
    others: Vec<(u32, u64)>,
}

impl LeastShares {
    /// Returns those of a catalog. Costs one small read a keyspace.
    ///
    /// # Errors
    /// The device's; damage.
    pub(crate) fn of(device: &dyn Device, catalog: &Catalog) -> Result<Self> {
        let (mut asking, mut others) = (Vec::new(), Vec::new());
        for entry in &catalog.keyspaces {
            let least = match entry.options.engine.driver().memory {
                MemoryUse::Share { least_of, .. } => least_of(&*device.subdevice(&entry.dir())?)?,
                MemoryUse::Data { .. } => continue,
            };
            match entry.options.memory_bytes {
                Some(wanted) => asking.push((entry.id, least, wanted)),
                None => others.push((entry.id, least)),
            }
        }
        Ok(Self { asking, others })
    }

    /// Returns the bytes of all least shares.
    pub(crate) fn bytes(&self) -> u64 {
        self.of_asking() + self.of_others()
    }

    fn of_asking(&self) -> u64 {
        self.asking.iter().map(|(_, least, _)| least).sum()
    }

    fn of_others(&self) -> u64 {
        self.others.iter().map(|(_, least)| least).sum()
    }
}

/// One engine's share, counted as used until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    shares: Arc<MemoryShares>,
    /// The budget that the engine is opened with.
    pub(crate) budget: Arc<MemoryBudget>,
    /// Bytes that it counts as (S1).
    held: AtomicU64,
    /// Bytes that the keyspace was made with, if its options had a number.
    pub(crate) asked: Option<u64>,
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shares.release(self.held.load(Relaxed));
    }
}

impl MemoryShare {
    /// Returns the bytes that it counts as.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Takes the bytes above `bytes`, which the engine has released. Returns them, and the caller
    /// has them from now on.
    pub(crate) fn take_above(&self, bytes: u64) -> Taken {
        let above = self.held().saturating_sub(bytes);
        self.held.fetch_sub(above, Relaxed);
        Taken { shares: Arc::clone(&self.shares), bytes: above }
    }

    /// Counts as so much more.
    pub(crate) fn add(&self, mut taken: Taken) {
        self.held.fetch_add(std::mem::take(&mut taken.bytes), Relaxed);
    }
}

/// Memory on its way from one share to another; free if it is dropped on the way.
#[derive(Debug)]
pub(crate) struct Taken {
    shares: Arc<MemoryShares>,
    bytes: u64,
}

impl Taken {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shares.release(self.bytes);
    }
}

impl MemoryShares {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { whole: Arc::new(MemoryBudget::new(bytes)), dealt: AtomicU64::new(0) })
    }

    /// Returns the bytes that engines without a share use: the data of keyspaces in memory.
    pub(crate) fn used_by_others(&self) -> u64 {
        self.whole.used().saturating_sub(self.dealt.load(Relaxed))
    }

    /// Step 1: the shares by keyspace id, out of at most `most` bytes. Keyspaces in memory take
    /// `needed` of these bytes.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] if not even the least of each fits.
    pub(crate) fn deal(
        self: &Arc<Self>,
        (device, catalog): (&dyn Device, &Catalog),
        least: &LeastShares,
        (needed, most): (u64, u64),
    ) -> Result<BTreeMap<u32, Arc<MemoryShare>>> {
        let (limit, all_least) = (most.min(self.left()), least.bytes());
        let wanted = needed.saturating_add(all_least);
        memory_limit::check_known(device, catalog, limit, wanted)?;
        if wanted > limit && limit < most {
            // Other databases have the rest.
            return Err(Error::MemoryTooSmall { limit, needed: wanted });
        }
        let journal = memory_limit::replayed_into_memory(device, catalog)?;
        let mut left = limit.saturating_sub(needed.saturating_add(journal));
        let mut spare = left.saturating_sub(all_least);
        let mut shares = BTreeMap::new();
        for (id, least, wanted) in &least.asking {
            let beside = wanted.saturating_sub(*least).min(spare);
            (left, spare) = (left.saturating_sub(least + beside), spare - beside);
            shares.insert(*id, self.take(least + beside, Some(*wanted)));
        }
        let count = least.others.len().max(1) as u64;
        let beside = (left / 4 * 3).saturating_sub(least.of_others()) / count;
        let share = |(id, least): &(u32, u64)| (*id, self.take(least + beside, None));
        shares.extend(least.others.iter().map(share));
        Ok(shares)
    }

    /// Step 2: the share of a keyspace that is being made, if its engine has one, out of at most
    /// `most` bytes. `is_first` of the keyspaces with a share.
    ///
    /// # Errors
    /// [`Error::NoMemoryLeft`].
    pub(crate) fn share_of_new(
        self: &Arc<Self>,
        KeyspaceOptions { engine, memory_bytes, .. }: KeyspaceOptions,
        (is_first, most): (bool, u64),
    ) -> Result<Option<Arc<MemoryShare>>> {
        let Some(needed) = least_of_new(engine) else { return Ok(None) };
        let left = self.left().min(most);
        if left < needed {
            return Err(Error::NoMemoryLeft { engine, left, needed });
        }
        let wanted = memory_bytes.unwrap_or(if is_first { left / 4 * 3 } else { left / 4 });
        Ok(Some(self.take(wanted.clamp(needed, left), memory_bytes)))
    }

    /// Returns the bytes that are missing for the least share of a new keyspace.
    pub(crate) fn missing_for_new(&self, engine: EngineKind) -> u64 {
        least_of_new(engine).map_or(0, |least| self.missing(least))
    }

    /// Returns the bytes that are missing if `bytes` are wanted.
    pub(crate) fn missing(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.left())
    }

    /// Takes up to `bytes` of the free memory, and leaves free a quarter of the memory that
    /// keyspaces in memory do not use: for new keyspaces, and for those in memory. Dealing leaves
    /// the same amount.
    pub(crate) fn take_free(self: &Arc<Self>, bytes: u64) -> Taken {
        let taken = Taken { shares: Arc::clone(self), bytes: bytes.min(self.free()) };
        self.charge(taken.bytes);
        taken
    }

    /// Returns the bytes that [`MemoryShares::take_free`] can take.
    pub(crate) fn free(&self) -> u64 {
        let kept = self.whole.limit().saturating_sub(self.used_by_others()) / 4;
        self.left().saturating_sub(kept)
    }

    fn left(&self) -> u64 {
        self.whole.limit().saturating_sub(self.whole.used())
    }

    fn take(self: &Arc<Self>, bytes: u64, asked: Option<u64>) -> Arc<MemoryShare> {
        self.charge(bytes);
        let (budget, held) = (Arc::new(MemoryBudget::new(bytes)), AtomicU64::new(bytes));
        Arc::new(MemoryShare { shares: Arc::clone(self), budget, held, asked })
    }

    fn charge(&self, bytes: u64) {
        self.whole.charge_anyway(bytes);
        self.dealt.fetch_add(bytes, Relaxed);
    }

    fn release(&self, bytes: u64) {
        self.whole.release(bytes);
        self.dealt.fetch_sub(bytes, Relaxed);
    }
}

/// Returns the bytes that a new keyspace of an engine needs at least, if it gets a share.
fn least_of_new(engine: EngineKind) -> Option<u64> {
    match engine.driver().memory {
        MemoryUse::Share { least_of_new, .. } => Some(least_of_new),
        MemoryUse::Data { .. } => None,
    }
}
