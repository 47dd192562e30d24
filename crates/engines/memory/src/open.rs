//! Opening: prove what is on the device, load it, begin.
//!
//! 1. An empty directory gets a superblock that names no snapshot.
//! 2. The superblock is read; the snapshot that it names is read whole into leaves, on all cores,
//!    every checksum verified. Nothing was changed so far, and nothing is if any of it is damaged.
//! 3. The superblock is made durable: it may be in the page cache alone. Snapshot files that it
//!    does not name are leftovers of a crash during a flush; they are removed.
//! 4. Background pruning begins. The host replays its journal above `persisted`.

use std::sync::Arc;
use std::time::Duration;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{BackgroundErrors, Footprint, Health, Host, Result, Superblock};
use workers::{Class, Next, Stopped};

use crate::flush::{Flusher, LastSnapshot};
use crate::map::{Delta, LeafBuilder, Map, Tally};
use crate::options::Options;
use crate::snapshot::format::{self, Committed, SUPERBLOCK, SUPERBLOCK_KIND};
use crate::snapshot::load::load;
use crate::store::{Shared, Store};

/// The interval between prunings of versions that snapshots have left, while there are no writes.
const PRUNE_INTERVAL: Duration = Duration::from_secs(1);
/// Leaves that such a round prunes at most, so that it stays short.
const PRUNED_PER_ROUND: usize = 4096;

/// Bytes of memory that a pair from a snapshot takes besides its key and value: 25 to 28 bytes were
/// measured.
const PAIR_OVERHEAD_BYTES: u64 = 28;

/// Returns the footprint of the store in `device`. Reads the superblock alone.
///
/// # Errors
/// [`engine::Error::Corruption`] if it is damaged; device errors.
pub fn footprint(device: &dyn Device) -> Result<Footprint> {
    if !device.exists(SUPERBLOCK)? {
        return Ok(Footprint { bytes: 0, persisted: SeqNo::ZERO });
    }
    let committed = decode_committed(&Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?)?;
    let bytes = committed.snapshot.map_or(0, |summary| {
        let overhead = summary.totals.pairs.saturating_mul(PAIR_OVERHEAD_BYTES);
        summary.totals.pair_bytes.saturating_add(overhead)
    });
    Ok(Footprint { bytes, persisted: committed.persisted })
}

/// Returns about how many bytes of memory a pair takes whose key and value have the given lengths.
pub fn pair_footprint(key_bytes: usize, value_bytes: usize) -> u64 {
    (key_bytes as u64).saturating_add(value_bytes as u64).saturating_add(PAIR_OVERHEAD_BYTES)
}

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads the snapshot
    /// whole. Memory above the budget is not refused here.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if anything is not what was written; then no file is changed.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        let device = &*host.device;
        let numbers = snapshot_numbers(device)?;
        let superblock = open_superblock(device, !numbers.is_empty())?;
        let committed = decode_committed(&superblock)?;
        let health: Arc<Health> = Arc::default();
        let group = host.tasks("memory", &health);
        let mut builder = LeafBuilder::default();
        let tally = Tally::default();
        if let Some(summary) = &committed.snapshot {
            builder = load(device, &group, summary, committed.persisted)?;
            let totals = &summary.totals;
            let loaded = Delta { keys: totals.pairs as i64, bytes: totals.pair_bytes as i64 };
            tally.add(0, loaded, committed.persisted.get());
        }
        let mut superblock = superblock;
        let has_loaded = committed.snapshot.is_some();
        let current = committed.snapshot.map(|summary| summary.identity.number);
        for number in numbers.iter().filter(|number| Some(**number) != current) {
            // Nothing is removed upon what the page cache alone may say.
            superblock.make_durable_in(device)?;
            device.remove(&format::file_name(*number))?;
        }
        let next_number = numbers.iter().max().map_or(1, |number| number.saturating_add(1));
        let last_snapshot = LastSnapshot::default();
        if let Some(summary) = &committed.snapshot {
            last_snapshot.bytes.store(summary.bytes, std::sync::atomic::Ordering::Relaxed);
            last_snapshot.pairs.store(summary.totals.pairs, std::sync::atomic::Ordering::Relaxed);
        }
        let shared = Arc::new(Shared {
            map: Map::new(builder, tally, Arc::clone(&host.memory)),
            options,
            health,
            persisted: committed.persisted.get().into(),
            flusher: Flusher::new(superblock, committed.snapshot, next_number).into(),
            last_snapshot,
            errors: BackgroundErrors::default(),
            looks: Default::default(),
            rounds: Default::default(),
            scanned_dead: Default::default(),
            reserved: Default::default(),
            host,
        });
        if has_loaded {
            // Buffers of the load.
            shared.map.trim.release(&shared.host.memory);
        }
        let store = Self { shared, group };
        // A pool that is stopping runs nothing more; writers and flushes prune by themselves.
        let _: std::result::Result<(), Stopped> = store.start_pruning();
        Ok(store)
    }

    /// Prunes from time to time, until there is nothing to do; a write has it begin again.
    fn start_pruning(&self) -> std::result::Result<(), Stopped> {
        let shared = Arc::downgrade(&self.shared);
        self.group.repeat(Class::Collect, "prune", PRUNE_INTERVAL, move |_stop| {
            let Some(shared) = shared.upgrade() else { return Next::Never };
            shared.rounds.run(&shared.host.sequence, || {
                shared.prune(PRUNED_PER_ROUND);
                let is_flush_left = shared.flush_if_dead();
                !is_flush_left && !shared.map.has_unpruned()
            })
        })
    }

    /// A write may have left something to be pruned, or made a part of the snapshot dead.
    #[inline]
    pub(crate) fn wake_pruning(&self) {
        self.shared.rounds.wake(|| {
            // A pool that is stopping prunes no more.
            let _: std::result::Result<(), Stopped> = self.start_pruning();
        });
    }
}

/// The numbers of the snapshot files that are there.
pub(crate) fn snapshot_numbers(device: &dyn Device) -> Result<Vec<u64>> {
    let entries = device.list("")?;
    Ok(entries.iter().filter_map(|entry| format::file_number(&entry.name)).collect())
}

fn open_superblock(device: &dyn Device, has_snapshots: bool) -> Result<Superblock> {
    if device.exists(SUPERBLOCK)? {
        return Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND);
    }
    if has_snapshots {
        let what = "the superblock is missing, but the store has snapshots";
        return Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into());
    }
    let nothing = Committed::NOTHING.encode();
    Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, &nothing)
}

/// Decodes the content of a superblock.
pub(crate) fn decode_committed(superblock: &Superblock) -> Result<Committed> {
    Ok(Committed::decode(superblock.payload()).map_err(|damage| damage.at(SUPERBLOCK, 0))?)
}
