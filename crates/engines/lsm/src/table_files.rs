//! The files of a store's tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{DeviceReads, Host, ReadSource, Result};
use lsm_tree::cache::PieceCache;
use lsm_tree::table::{Summary, Table, TableId, TableStore};
use rand::Rng;
use reads::ReadPool;

use crate::background::remove::ObsoleteTables;

/// The place of the tables, the numbers of the next ones, and the ways to read them.
pub(crate) struct TableFiles {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) obsolete: Arc<ObsoleteTables>,
    /// The cache that open tables read through.
    pieces: Arc<dyn PieceCache>,
    /// The number of the next table.
    next_number: AtomicU64,
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of read-ahead.
    pub(crate) reads: ReadPool,
}

impl TableFiles {
    /// Makes the part of a store whose tables are in `store`, with numbers up to `newest`.
    pub(crate) fn new(
        host: &Host,
        store: Arc<dyn TableStore>,
        pieces: Arc<dyn PieceCache>,
        newest: u64,
    ) -> Self {
        Self {
            obsolete: ObsoleteTables::of(&store),
            store,
            pieces,
            next_number: AtomicU64::new(newest + 1),
            source: Arc::new(DeviceReads(Arc::clone(&host.device))),
            reads: ReadPool::new(&host.memory),
        }
    }

    /// Opens the table that `summary` describes.
    pub(crate) fn open(&self, summary: Summary) -> Result<Arc<Table>> {
        Table::open(summary, &self.store, &self.pieces)
    }

    /// Returns a number above those of all tables so far.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.load(Relaxed)
    }

    /// Returns the identity of a new table. Its number may have been used before a crash, its nonce
    /// not.
    pub(crate) fn new_id(&self, host: &Host) -> TableId {
        let number = self.next_number.fetch_add(1, Relaxed);
        let environment = &host.environment;
        let mut nonce = environment.random("lsm table").next_u64();
        let last = host.sequence.last().get();
        for part in [number, last, environment.wall().as_nanos() as u64] {
            nonce = codec::hash64(nonce, &part.to_le_bytes());
        }
        TableId { number, nonce }
    }

    /// Closes the place: from now on no table is begun or removed, and no file is kept open.
    pub(crate) fn close(&self) {
        self.store.close();
        self.reads.close();
    }
}
