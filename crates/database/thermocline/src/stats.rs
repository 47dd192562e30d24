//! Figures that a database reports about itself.

use std::sync::Arc;
use std::time::Duration;

use codec::SeqNo;
use device::IoCounts;
use environment::WaitCounts;

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
    /// Waits of writers that took 5 ms or longer, since it was opened. The longest ones come first.
    pub writer_waits: Vec<WriterWaits>,
    /// Each keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
}

/// The long waits of writers for one cause ([`Stats::writer_waits`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterWaits {
    /// The cause of the waits.
    pub cause: &'static str,
    /// The keyspace whose engine they waited for; `None` if they waited for the database.
    pub keyspace: Option<String>,
    /// The number of waits, their time, and the longest one.
    pub counts: WaitCounts,
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
        let journal = self.journal.stats();
        let writer_waits = self.writer_waits(&keyspaces, &journal);
        Stats {
            keyspaces,
            writer_waits,
            io: self.directory.device.accounting().counts(),
            device: self.directory.device.kind(),
            journal,
            replayed_records: self.directory.replayed_records,
            last: self.order.sequence.last(),
            oldest_snapshot: self.order.sequence.oldest_pin(),
            oldest_snapshot_age: self.order.oldest_snapshot_age(&self.options.environment),
            memory_limit_bytes: limit,
            memory_used_bytes: used,
            memory_moves: self.factory.memory.moves(),
        }
    }

    /// Returns the causes of long waits of writers, the longest wait first.
    fn writer_waits(
        &self,
        keyspaces: &[KeyspaceStats],
        journal: &journal::Stats,
    ) -> Vec<WriterWaits> {
        let (numbers, durable) = self.order.long_waits();
        let of_database = [
            ("a shorter journal", self.background.journal_waits.counts()),
            ("the lock of a key", self.locks.long_waits()),
            ("a number", numbers),
            ("a full group of the journal", journal.group_waits),
            ("the write or the sync of the journal", durable),
        ];
        let of_database = of_database.map(|(cause, counts)| (cause, None, counts)).into_iter();
        let of_engines = keyspaces.iter().flat_map(|keyspace| {
            let waits = keyspace.engine.waits.iter();
            waits.map(|(cause, counts)| (*cause, Some(keyspace.name.clone()), *counts))
        });
        let mut all: Vec<_> = of_database
            .chain(of_engines)
            .filter(|(.., counts)| counts.count > 0)
            .map(|(cause, keyspace, counts)| WriterWaits { cause, keyspace, counts })
            .collect();
        all.sort_by_key(|waits| std::cmp::Reverse(waits.counts.longest));
        all
    }
}
