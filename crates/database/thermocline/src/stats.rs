//! Figures that a database reports about itself.

use std::sync::Arc;
use std::time::Duration;

use codec::SeqNo;
use device::IoCounts;

use crate::database::{Db, Inner};
use crate::expiry::ExpiryStats;
use crate::keyspace_entry::KeyspaceEntry;
use crate::memory_balance::MemoryMoves;
use crate::options::KeyspaceOptions;
use crate::updates::UpdateStats;

/// Figures of a whole database at one moment ([`Db::stats`]), read without stopping anything.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Reads, writes and syncs since it was opened.
    pub io: IoCounts,
    /// How its files are read and written.
    pub device: &'static str,
    /// The journal.
    pub journal: journal::Stats,
    /// Records that the opening found in it and applied, as far as keyspaces did not have them.
    pub replayed_records: u64,
    /// The newest write.
    pub last: SeqNo,
    /// The oldest snapshot or scan that is held; old versions above it are kept.
    pub oldest_snapshot: Option<SeqNo>,
    /// For how long it has been held, or up to a second longer.
    pub oldest_snapshot_age: Option<Duration>,
    /// The memory budget in bytes. Databases that share a memory have one.
    pub memory_limit_bytes: u64,
    /// Bytes of it that engines of this database count as used, and the whole share of each engine
    /// that has one.
    pub memory_used_bytes: u64,
    /// Moves of memory between shares since it was opened; of a shared memory, since it was made.
    pub memory_moves: MemoryMoves,
    /// Each keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
}

/// Figures of one keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// The options that it was made with, and its engine's own options that hold from the next
    /// opening on.
    pub options: KeyspaceOptions,
    /// Its share of the memory in bytes, if its engine has one: all but `memory`.
    pub memory_share_bytes: Option<u64>,
    /// Every write to it up to here is in its engine's own files.
    pub persisted: SeqNo,
    /// The figures of its engine.
    pub engine: engine::Stats,
    /// Counts of expiring values and of removed keys, if values may expire.
    pub expiry: Option<ExpiryStats>,
    /// Bytes that merges and other updates wrote, next to those of the operands.
    pub updates: UpdateStats,
    /// Background work of its engine that fails.
    pub background_errors: Vec<engine::BackgroundError>,
}

impl Stats {
    /// Returns the bytes of files, journal included.
    pub fn disk_bytes(&self) -> u64 {
        let engines = self.keyspaces.iter().map(|keyspace| keyspace.engine.disk_bytes);
        self.journal.bytes + engines.sum::<u64>()
    }
}

impl Db {
    /// Returns the present figures of everything. Writers and readers do not wait for it. An engine
    /// may visit all its pages in memory, so call it once in some seconds rather than for each
    /// operation.
    pub fn stats(&self) -> Stats {
        if self.inner.lifecycle.check_process().is_err() {
            return Stats::default();
        }
        self.inner.stats()
    }

    /// Returns the background work of engines that fails, by the names of their keyspaces. Costs a
    /// few loads for each.
    pub fn background_errors(&self) -> Vec<(String, engine::BackgroundError)> {
        if self.inner.lifecycle.check_process().is_err() {
            return Vec::new();
        }
        let entries = self.inner.keyspaces.entries.read();
        let of = |entry: &Arc<KeyspaceEntry>| {
            let errors = entry.last_instance().engine.background_errors();
            let name = entry.name.clone();
            errors.into_iter().map(move |error| (name.clone(), error))
        };
        entries.values().flat_map(of).collect()
    }

    /// Returns the bytes of the memory budget that are used or in an engine's share, and the
    /// budget. Of a shared memory these are the bytes of all databases that share it. Costs two
    /// loads.
    pub fn memory_bytes(&self) -> (u64, u64) {
        self.inner.factory.memory.bytes()
    }
}

impl Inner {
    pub(crate) fn stats(&self) -> Stats {
        let entries = self.keyspaces.entries.read();
        let keyspaces = entries.values().map(|entry| {
            let instance = entry.last_instance();
            KeyspaceStats {
                name: entry.name.clone(),
                options: entry.stored_options(),
                memory_share_bytes: instance.share.as_ref().map(|share| share.budget.limit()),
                persisted: instance.engine.persisted(),
                engine: instance.engine.stats(),
                expiry: instance.expiry.as_ref().map(|expiry| expiry.stats()),
                updates: instance.updates.stats(),
                background_errors: instance.engine.background_errors(),
            }
        });
        let keyspaces: Vec<_> = keyspaces.collect();
        let (mut used, limit) = self.factory.memory.bytes();
        if self.options.shared.as_ref().is_some_and(|shared| shared.memory.is_some()) {
            let own = |space: &KeyspaceStats| {
                space.memory_share_bytes.unwrap_or(space.engine.memory_bytes)
            };
            used = keyspaces.iter().map(own).sum();
        }
        Stats {
            keyspaces,
            io: self.directory.device.accounting().counts(),
            device: self.directory.device.kind(),
            journal: self.journal.stats(),
            replayed_records: self.directory.replayed_records,
            last: self.order.sequence.last(),
            oldest_snapshot: self.order.sequence.oldest_pin(),
            oldest_snapshot_age: self.order.oldest_snapshot_age(&self.options.environment),
            memory_limit_bytes: limit,
            memory_used_bytes: used,
            memory_moves: self.factory.memory.moves(),
        }
    }
}
