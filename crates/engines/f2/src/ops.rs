//! The operations, latch-free: read, upsert, delete, read-modify-write.
//!
//! All of them go from the key's entry in the index along the chain: through memory while the
//! thread is protected, then through the disk unprotected (`lookup`). An operation that must wait
//! for a page releases everything and begins again.
//!
//! # Invariants
//! - O1. A new version is linked by a compare-and-swap of the entry from the searched value, so no
//!   unseen version of the key can be in between.
//! - O2. A chain is searched from the newest record on, and the first record of the key decides.
//! - O3. *False absence.* If a log has no record of a key, that means nothing if the log's
//!   beginning has moved since the entry was read. The record may have been copied to the tail
//!   behind the search, or a newer one may have been linked above it, so that it was not copied.
//!   `truncations` is read before the entry, and compared on every way that ends in absence; only
//!   the new part of the chain is searched then. With two logs the cold one is searched after that;
//!   it has moments of its own (`cold`).
//! - O4. An operation that read the cold log appends to the hot one only if no record of the key
//!   was added to the hot log since before it looked there. There is none above the chain's head of
//!   that time, and the hot log does not begin above its `SAFE_READ_ONLY` of that time. A record
//!   that was not linked yet was not below that, since the thread that was to link it was
//!   protected.

pub(crate) mod disk_lookup;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod multi_read;
mod prefetch;
pub(crate) mod rmw;
mod upsert;
mod walk;
mod walk_chunks;
mod walk_versions;

use engine::{Error, InOrder, Op, Reservation, Result, SeqNo, last_of_each_key};

use crate::address::LogAddress;
use crate::hybrid_log::{PageFull, Place};
use crate::key_hash::KeyHash;
use crate::read_cache::Noted;
use crate::record::{Live, Shape, VALUE_BYTES_MAX};
use crate::store::Shared;

/// The place at which a walk through memory ended.
pub(crate) enum Found<'a> {
    /// At the newest record of the key, which may be a tombstone.
    Here(Live<'a>, LogAddress),
    /// The chain continues here, on disk.
    OnDisk(LogAddress),
    /// At the end of the chain.
    Nothing,
}

/// The error of a request for an order of keys.
pub(crate) fn unordered(asked: InOrder) -> Error {
    Error::Unordered { engine: "f2", asked }
}

/// Bytes that a step appends at most, if it is linked at the first attempt.
pub(crate) fn record_bytes(op: &Op<'_>) -> u64 {
    let value_bytes = op.value().map_or(0, <[u8]>::len);
    Shape { key_bytes: op.key().len(), value_bytes }.bytes() as u64
}

impl Shared {
    /// Walks the chain from `from` through memory, down to `until` and not below; a cached record
    /// at its head is stepped over. The caller is protected. [O2]
    pub(crate) fn walk(&self, from: LogAddress, until: LogAddress, key: &[u8]) -> Found<'_> {
        let mut at = self.cache.log_head(from);
        while at >= until && at != LogAddress::NONE {
            match self.hot.log.place(at) {
                Place::Memory(record) if record.is_of(key) => return Found::Here(record, at),
                Place::Memory(record) => at = record.header().previous(),
                Place::Disk => return Found::OnDisk(at),
                Place::Truncated => return Found::Nothing,
            }
        }
        Found::Nothing
    }

    /// Caches a value that a lookup has found on disk, after it had found nothing in memory from
    /// `chain` on. The caller is not protected.
    pub(crate) fn cache_found(&self, chain: &Noted, hash: KeyHash, key: &[u8], value: &[u8]) {
        self.note_disk_read(hash, chain.log_head);
        let truncations = || self.hot.truncations();
        let may_make = self.admission.is_none();
        let _guard = self.epochs.protect();
        self.cache.insert_noted(&self.hot.index, chain, hash, key, value, truncations, may_make);
    }

    /// Counts a value that was read from disk, in a chain whose newest record in the log is `head`:
    /// one read from the hot log, two from the cold one.
    pub(crate) fn note_disk_read(&self, hash: KeyHash, head: LogAddress) {
        let is_hot = head != LogAddress::NONE && head >= self.hot.log.begin();
        if is_hot {
            self.hot.log.note_disk_read(head);
        }
        self.cache.note_disk_read(hash, if is_hot { 1 } else { 2 });
    }

    /// Whether a write of these lengths can be held.
    pub(crate) fn check_record(&self, key: &[u8], value: &[u8]) -> Result<()> {
        engine::check_key(key)?;
        engine::check_value(value)?;
        let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
        let limit = self.hot.log.geometry.record_bytes_max();
        match shape.bytes() > limit || value.len() > VALUE_BYTES_MAX {
            true => Err(Error::RecordTooLong { engine: "f2", bytes: shape.bytes(), limit }),
            false => Ok(()),
        }
    }

    pub(crate) fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &Reservation<'_>) -> Result<()> {
        self.health.check_writable()?;
        self.wake_upkeep();
        self.check_ops(ops)?;
        if seqno <= self.checkpoints.persisted() {
            return Ok(());
        }
        self.checkpoints.marks.note(&self.hot.log, &self.host.sequence);
        for op in last_of_each_key(ops) {
            match op {
                Op::Put { key, value } => self.upsert(key, value, room)?,
                _ => self.delete(op.key(), room)?,
            }
        }
        Ok(())
    }

    /// Runs `attempt`, protected, until the hot log has room for its record: immediately, if `room`
    /// was granted.
    pub(crate) fn with_room<T>(
        &self,
        room: &Reservation<'_>,
        mut attempt: impl FnMut() -> std::result::Result<T, PageFull>,
    ) -> Result<T> {
        self.until_there_is_room(|| self.hot.log.with_room(room, &mut attempt))
    }
}
