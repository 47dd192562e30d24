//! Figures of the cache: bytes, hits, and the reads that more memory would have saved.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::GHOST_PAGE_BYTES;

use super::{Cache, Key};

/// Counts of lookups.
#[derive(Debug, Default)]
pub(super) struct LookupCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    /// Misses of metadata, counted in `misses` too.
    metadata_misses: AtomicU64,
}

impl LookupCounts {
    /// Counts a lookup of `key`.
    pub(super) fn note(&self, key: &Key, is_hit: bool) {
        if is_hit {
            self.hits.fetch_add(1, Relaxed);
        } else {
            self.misses.fetch_add(1, Relaxed);
            self.metadata_misses.fetch_add(u64::from(key.is_metadata()), Relaxed);
        }
    }
}

impl Cache {
    /// Returns the bytes that it takes: the resident ones of the pool, and those outside it.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.resident() + self.beside.load(Relaxed)
    }

    /// Returns the bytes of its pieces.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// From now on counts the reads that `bytes` more would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        let of_blocks = self.pairs.divide_ghost_reach(bytes);
        self.evictions.ghosts.set_reach(of_blocks.div_ceil(GHOST_PAGE_BYTES));
    }

    /// Returns the blocks whose reads that many more bytes would have saved, as counted so far.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.evictions.ghosts.hits() + self.pairs.ghost_hits()
    }

    /// Returns the bytes of the ghosts' tables.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        2 * self.evictions.ghosts.bytes()
    }

    /// Returns the lookups that did not find the metadata of a table.
    pub(crate) fn metadata_misses(&self) -> u64 {
        self.lookups.metadata_misses.load(Relaxed)
    }

    /// Returns the lookups that found a piece, and the lookups that did not.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.lookups.hits.load(Relaxed), self.lookups.misses.load(Relaxed))
    }
}
