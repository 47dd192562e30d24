//! Giving disk space back: the oldest part of the log is read, what still lives is copied to the
//! tail, and the log begins behind it (section 5.2 of the F2 paper, *lookup-based*).
//!
//! 1. [`plan`] decides how far: nothing but figures go in, an address comes out.
//! 2. [`copy`] reads the part page by page. A record lives if the chain of its key has no newer
//!    record of the key: then it is appended, by the same rule as a conditional insert, so that a
//!    newer one that comes meanwhile is never overwritten.
//! 3. [`truncate`] moves the log's beginning and clears entries that lead below it.
//! 4. A checkpoint makes the copies durable; only then the segments go.
//!
//! # Invariants
//! - C1. A record below the new beginning is dead, or its copy is linked, before the beginning
//!   moves.
//! - C2. A tombstone is not copied: whatever it hides is older, so it goes with it.
//! - C3. An entry is freed only when nobody who was protected while the beginning moved still is.
//!   So nobody takes an entry without an address for one that has had none all the while.
//! - C4. Segments go after the checkpoint that does not need them (`checkpoint`, step 4).

mod copy;
mod plan;
mod truncate;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::store::Shared;

pub(crate) use copy::Copied;
pub(crate) use plan::Figures;

impl Shared {
    /// Compacts the oldest part of the log if the plan says so. `false`: there was nothing to do.
    pub(crate) fn compact_if_due(self: &Arc<Self>, stop: &StopToken) -> Result<bool> {
        let Some(_one_at_a_time) = self.compacting.try_lock() else { return Ok(false) };
        self.health.check_writable()?;
        let (flushed, tail) = (self.log.flushed(), self.log.tail());
        let unflushed = tail.get().saturating_sub(flushed.get());
        let figures = Figures {
            begin: self.log.begin(),
            flushed,
            bytes: self.log.segments.disk_bytes() + unflushed,
            appended: self.compaction_figures.appended_since(tail),
            live_share: self.compaction_figures.live_share(),
        };
        let Some(until) = plan::plan(&figures, self.disk_bytes_max, &self.log.geometry) else {
            return Ok(false);
        };
        let copied = match self.copy_live(figures.begin, until, stop) {
            Ok(Some(copied)) => copied,
            Ok(None) => return Ok(false),
            Err(error) => {
                // What cannot be read now is tried again when more was appended, not at once.
                self.compaction_figures.note_failure(self.log.tail());
                return Err(error);
            }
        };
        self.compaction_figures.note(&copied, self.log.tail());
        self.truncate(until);
        self.flush()?;
        Ok(true)
    }
}

/// What compactions have done so far.
#[derive(Debug, Default)]
pub(crate) struct CompactionFigures {
    pub(crate) rounds: std::sync::atomic::AtomicU64,
    pub(crate) records: std::sync::atomic::AtomicU64,
    pub(crate) records_live: std::sync::atomic::AtomicU64,
    pub(crate) bytes: std::sync::atomic::AtomicU64,
    pub(crate) bytes_live: std::sync::atomic::AtomicU64,
    pub(crate) failures: std::sync::atomic::AtomicU64,
    /// Of the bytes of the last round, how many in a thousand lived; 0 before the first.
    live_permille: std::sync::atomic::AtomicU64,
    /// What users had appended when the last round ended, or when the store was opened.
    appended: std::sync::atomic::AtomicU64,
}

impl CompactionFigures {
    /// Figures of a log that ends at `tail` when it is opened.
    pub(crate) fn new(tail: LogAddress) -> Self {
        Self { appended: tail.get().into(), ..Self::default() }
    }

    /// What users have ever appended: what was appended less what was copied.
    fn appended_in_all(&self, tail: LogAddress) -> u64 {
        tail.get().saturating_sub(self.bytes_live.load(Relaxed))
    }

    fn appended_since(&self, tail: LogAddress) -> u64 {
        self.appended_in_all(tail).saturating_sub(self.appended.load(Relaxed))
    }

    fn note_failure(&self, tail: LogAddress) {
        self.failures.fetch_add(1, Relaxed);
        self.live_permille.store(1000, Relaxed);
        self.appended.store(self.appended_in_all(tail), Relaxed);
    }

    fn note(&self, copied: &Copied, tail: LogAddress) {
        self.rounds.fetch_add(1, Relaxed);
        self.records.fetch_add(copied.records, Relaxed);
        self.records_live.fetch_add(copied.records_live, Relaxed);
        self.bytes.fetch_add(copied.bytes, Relaxed);
        self.bytes_live.fetch_add(copied.bytes_live, Relaxed);
        self.live_permille.store(copied.bytes_live * 1000 / copied.bytes.max(1), Relaxed);
        self.appended.store(self.appended_in_all(tail), Relaxed);
    }

    fn live_share(&self) -> f64 {
        self.live_permille.load(Relaxed) as f64 / 1000.0
    }
}
