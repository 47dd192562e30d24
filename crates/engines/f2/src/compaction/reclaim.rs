//! Releasing the space of dead records although nothing is written any more.
//!
//! A delete of a cold key appends a few bytes, and the record that it makes dead may be long. So
//! the usual pace, which follows the bytes that users append, would leave dead records on disk.
//!
//! 1. A delete, and a put that is far shorter than records usually are, count the bytes that they
//!    have made dead: the difference to a usual record. It is an estimate, since no write reads the
//!    record before it.
//! 2. If these are [`DEAD_SHARE`] of all, and more than half of the hot log's bound, a checkpoint
//!    is made, and the hot log is compacted up to its end. So every tombstone removes its cold
//!    record, and the estimate begins at zero. Each pass over the hot log is paid for by that
//!    number of dead bytes.
//! 3. From then on the cold log knows how much of it is dead ([`crate::cold`]), and is compacted
//!    while it is half ([`super::plan`]).
//!
//! [`Store::compact`] does all of this when it is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Result;
use workers::StopToken;

use super::plan;
use crate::address::LogAddress;
use crate::cold::Cold;
use crate::failing_compactions::{FLUSH, HOT};
use crate::hybrid_log::HybridLog;
use crate::store::{Shared, Store};

/// Share of all bytes of both logs that is dead by the estimate when the hot log is compacted for
/// it.
const DEAD_SHARE: f64 = 0.3;
/// Part of a usual record's bytes, as a divisor: a write of less counts the bytes that it makes
/// dead.
const SHORT_PART: u64 = 4;
/// Segments of dead bytes for which no compaction is begun, if the hot log has no bound.
const SEGMENTS_MIN: u64 = 4;

/// Bytes that deletes have made dead, about.
#[derive(Debug, Default)]
pub(crate) struct DeadBytes {
    bytes: AtomicU64,
    /// Bytes of a usual record.
    usual_bytes: AtomicU64,
    /// The hot log is compacted up to here.
    until: AtomicU64,
}

impl DeadBytes {
    /// The dead bytes of a store whose hot log has `tombstones` tombstones when it is opened.
    pub(crate) fn found(tombstones: u64, usual_bytes: u64) -> Self {
        let bytes = tombstones.saturating_mul(usual_bytes);
        Self { bytes: bytes.into(), usual_bytes: usual_bytes.into(), until: AtomicU64::new(0) }
    }

    /// A record of `bytes` bytes has taken the place of one that may be there.
    pub(crate) fn note_replaced(&self, bytes: u64) {
        let usual = self.usual_bytes.load(Relaxed);
        if bytes < usual / SHORT_PART {
            self.bytes.fetch_add(usual - bytes, Relaxed);
        }
    }

    fn until(&self) -> LogAddress {
        LogAddress::new(self.until.load(Relaxed))
    }
}

/// Bytes of a usual record of logs with `bytes` bytes and `keys` keys.
pub(crate) fn usual_bytes(bytes: u64, keys: u64) -> u64 {
    bytes.checked_div(keys).unwrap_or_default()
}

impl Shared {
    /// Bytes of the hot and the cold log.
    fn bytes_of_records(&self) -> u64 {
        self.hot.log.bytes() + self.cold.as_ref().map_or(0, |cold| cold.log.bytes())
    }

    /// Measures the bytes of a usual record: of the keys that both indexes have.
    pub(crate) fn measure_records(&self) {
        let Some(cold) = &self.cold else { return };
        let bytes = self.hot.log.bytes() + cold.live.sum();
        let keys = self.hot.index.figures().entries + cold.index.figures().entries;
        self.compactions.dead.usual_bytes.store(usual_bytes(bytes, keys), Relaxed);
    }

    /// Begins to compact the hot log up to its end if enough is dead: makes the checkpoint below
    /// which it is compacted.
    pub(super) fn begin_reclaim_if_due(&self) -> Result<()> {
        let dead = self.compactions.dead.bytes.load(Relaxed);
        let least = match self.hot_disk_bytes_max() {
            Some(max) => max / 2,
            None => SEGMENTS_MIN * self.hot.log.geometry.segment_bytes(),
        };
        let share = dead as f64 / self.bytes_of_records().max(1) as f64;
        if dead <= least || share < DEAD_SHARE || self.is_reclaiming() {
            return Ok(());
        }
        if let Some(cause) = self.background.errors.pausing(FLUSH, &self.host.environment) {
            return Err(cause);
        }
        self.begin_reclaim()
    }

    fn begin_reclaim(&self) -> Result<()> {
        // Records that become dead meanwhile count for the next time, or twice.
        let dead = &self.compactions.dead;
        let bytes = dead.bytes.swap(0, Relaxed);
        self.flush().inspect_err(|_| {
            dead.bytes.fetch_add(bytes, Relaxed);
        })?;
        dead.until.fetch_max(self.hot.log.flushed().get(), Relaxed);
        Ok(())
    }

    /// Whether the hot log is being compacted up to a checkpoint's end.
    pub(crate) fn is_reclaiming(&self) -> bool {
        self.hot.log.begin() < self.compactions.dead.until()
    }

    /// Returns the address up to which the next round of that goes, if there is one.
    pub(super) fn reclaim_round(&self, figures: &plan::Figures) -> Option<LogAddress> {
        let until = self.compactions.dead.until().min(figures.flushed);
        (figures.begin < until && !figures.waits_after_failure()).then(|| {
            let round = plan::hot_round_end(figures, &self.hot.log.geometry);
            round.min(until)
        })
    }
}

impl Store {
    /// Releases the space of everything that is dead, except for the last segment of each log.
    /// Makes a checkpoint, moves all live records of the hot log to the cold one, and copies the
    /// live data of the cold log and the chunk log. Reads all of it. Blocks; writes continue. With
    /// a single log it makes the checkpoint and repeats compactions until they release nothing
    /// more.
    ///
    /// # Errors
    /// The store is closed; damage with its place; the storage's.
    /// [`engine::Error::is_retryable`] is true for the error that the device has no room for the
    /// copies.
    pub fn compact(&self) -> Result<()> {
        let compacted = self.compact_all();
        // Entries of the index may be left to be freed, and a step that has failed to be tried
        // again.
        self.shared.wake_upkeep();
        compacted
    }

    fn compact_all(&self) -> Result<()> {
        let (shared, stop) = (&self.shared, self.shared.background.workers.token());
        shared.begin_reclaim()?;
        let Some(cold) = &shared.cold else {
            while shared.compact_if_due(&stop)? {}
            return shared.flush();
        };
        while shared.is_reclaiming() {
            if shared.compact_if_due(&stop)? {
                continue;
            }
            if let Some(cause) = shared.background.errors.cause(HOT) {
                return Err(cause);
            }
            // Another thread has a round, or a checkpoint is being cut.
            sync::thread::yield_now();
        }
        // Until here the last rounds' copies are in memory alone.
        shared.flush()?;
        shared.compact_whole_cold(cold, &stop)?;
        shared.flush()
    }
}

impl Shared {
    fn compact_whole_cold(self: &Arc<Self>, cold: &Cold, stop: &StopToken) -> Result<()> {
        let end = end_of_whole_segments(&cold.log);
        let compacting = self.compactions.cold.turn.lock();
        while cold.log.begin() < end {
            if !self.compact_cold_until(cold, end, stop)? {
                // A round of the hot log has not named its copies yet.
                sync::thread::yield_now();
            }
        }
        drop(compacting);
        self.flush()?;
        let end = end_of_whole_segments(&cold.chunk_log);
        let _compacting = self.compactions.chunks.turn.lock();
        if cold.chunk_log.begin() < end {
            self.compact_chunks_until(cold, end, stop)?;
        }
        Ok(())
    }
}

/// Up to here a log has whole segments on disk.
fn end_of_whole_segments(log: &HybridLog) -> LogAddress {
    log.geometry.segment_begin(log.geometry.segment(log.flushed()))
}
