//! Compactions that fail: a record or chunk is damaged, or the device refuses a read.
//!
//! 1. A round that fails is noted with its log, its cause and its time, and is a background error
//!    of the store (`Engine::background_errors`). The error ends with a round that succeeds, or
//!    when the log needs no compaction any more.
//! 2. The compaction is tried again when a fiftieth of the log was appended, or after a second;
//!    each further time after twice that, up to 32 times (`compaction/plan`). A round that failed
//!    may have copied in vain, so the next one reads everything that it will need before it copies
//!    anything. Cold records are an exception. A tombstone goes back to the hot log's tail if the
//!    entries of its key are unknown because of an unreadable cold record (`compaction/hot_cold`).
//!    A cold record with an unreadable one in front of it is copied, and the copy still has that
//!    one in front of it (`compaction/cold_cold`). Neither fails a round.
//! 3. A writer does not wait for a compaction that fails: while the hot log's compaction fails,
//!    writers are not slowed down.
//! 4. When a log takes [`REFUSED_FROM`] times its limit, writes are refused with the cause and its
//!    place. The limit of a log without a budget is the space that it took when the compaction
//!    began to fail, or four segments. Writes are also refused if the hot index has taken twice its
//!    memory, which only the hot log's compaction releases.
//!
//! # Invariants
//! - D1. No record is skipped: a log never begins behind a record that could not be moved [C1].
//! - D2. Each log is apart: damage in one log keeps no other log from being compacted, as far as
//!   that compaction does not read it. Records that were moved before the place of the damage stay
//!   moved.
//! - D3. Reads of a key continue. Only a reader of the damaged data gets the damage. A walk ends at
//!   damage, and a store whose hot log is damaged does not open again, since opening reads all of
//!   that log. So the sound data is read from it while it is open.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{BackgroundError, Error};
use environment::Monotonic;

use crate::admission::Level;
use crate::compaction::CompactionFigures;
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

/// Multiple of its limit above which a log that cannot be compacted refuses writes.
pub(crate) const REFUSED_FROM: u64 = 2;
/// Segments that the limit of a log has at least.
const SEGMENTS_MIN: u64 = 4;

/// The work of background errors, by name.
pub(crate) const HOT: &str = "compaction of the hot log";
pub(crate) const COLD: &str = "compaction of the cold log";
pub(crate) const CHUNK: &str = "compaction of the chunk log";
pub(crate) const FLUSH: &str = "the flush of the logs";
pub(crate) const HOLD_ROOM: &str = "holding room on the device for the logs";
pub(crate) const RELEASE: &str = "releasing the space of compacted parts of the logs";

/// Rounds that have failed since the last one that did not. `Background::errors` has their cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedRounds {
    pub(crate) rounds: u64,
    /// When the last of them failed.
    pub(crate) at: Monotonic,
    /// Bytes of the log when the first of them failed.
    pub(crate) bytes_at_first: u64,
    /// Bytes that users had appended when the last of them failed.
    pub(crate) appended: u64,
}

/// One of the logs, with the figures of its compactions.
struct Part<'a> {
    name: &'static str,
    log: &'a HybridLog,
    figures: &'a CompactionFigures,
    bytes_max: Option<u64>,
}

impl Part<'_> {
    /// Returns the bytes that the log may take before writes are refused.
    fn limit(&self, failed: FailedRounds) -> u64 {
        let least = SEGMENTS_MIN * self.log.geometry.segment_bytes();
        let should = self.bytes_max.unwrap_or(failed.bytes_at_first.max(least));
        should.saturating_mul(REFUSED_FROM)
    }

    /// Returns the limit if the log takes more.
    fn passed_limit(&self) -> Option<u64> {
        let limit = self.limit(self.figures.failed_rounds()?);
        (self.log.bytes() > limit).then_some(limit)
    }
}

impl Shared {
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let hot = Part {
            name: "the hot log",
            log: &self.hot.log,
            figures: &self.compactions.hot.figures,
            bytes_max: self.hot_disk_bytes_max(),
        };
        let cold = self.cold.as_ref().map(|cold| Part {
            name: "the cold log",
            log: &cold.log,
            figures: &self.compactions.cold.figures,
            bytes_max: self.compactions.cold.disk_bytes_max,
        });
        let chunks = self.cold.as_ref().map(|cold| Part {
            name: "the chunk log",
            log: &cold.chunk_log,
            figures: &self.compactions.chunks.figures,
            bytes_max: None,
        });
        [Some(hot), cold, chunks].into_iter().flatten()
    }

    /// Returns the number of logs whose last round of compaction has failed.
    pub(crate) fn compactions_failing(&self) -> u64 {
        self.parts().filter(|part| part.figures.failed_rounds().is_some()).count() as u64
    }

    /// Returns the background work that fails now.
    pub(crate) fn background_errors(&self) -> Vec<BackgroundError> {
        let refuses_all = self.admission.refusal();
        let is_cause_of_all = |cause: &Error| {
            let all = refuses_all.as_ref();
            all.is_some_and(
                |all| matches!(all, Error::SpaceUsedUp { cause: of_all, .. } if **of_all == *cause),
            )
        };
        // While memory has room for short records, a write of one needs no flush.
        let is_full = !self.hot.log.has_credit_room();
        self.background.errors.report(|work, cause| match work {
            FLUSH => is_full,
            HOLD_ROOM => true,
            RELEASE => false,
            _ => {
                let mut parts = self.parts().filter(|part| part.figures.work() == work);
                parts.any(|part| part.passed_limit().is_some()) || is_cause_of_all(cause)
            }
        })
    }

    /// Returns whether the compaction fails for which writers would wait.
    pub(crate) fn is_waiting_hopeless(&self) -> bool {
        self.compactions.hot.figures.failed_rounds().is_some()
    }

    /// Returns the error that refuses writes at this level, because a compaction fails.
    pub(crate) fn refusal(&self, level: Level) -> Option<Error> {
        let of_log = |part: Part<'_>| {
            let (limit, bytes) = (part.passed_limit()?, part.log.bytes());
            let cause = Arc::new(self.background.errors.cause(part.figures.work())?);
            Some(Error::SpaceUsedUp { what: part.name, bytes, limit, cause })
        };
        let of_index = || {
            let is_full = level == Level::OutOfMemory;
            self.compactions.hot.figures.failed_rounds().filter(|_| is_full)?;
            Some(Error::SpaceUsedUp {
                what: "the hot index",
                bytes: self.hot.index.figures().bytes,
                limit: self.index_bytes_max(),
                cause: Arc::new(self.background.errors.cause(HOT)?),
            })
        };
        self.parts().find_map(of_log).or_else(of_index)
    }

    /// Notes that a round of the compaction of `log` has failed. It is over where the store is
    /// closed.
    pub(crate) fn note_failed_round(
        &self,
        figures: &CompactionFigures,
        log: &HybridLog,
        error: &Error,
    ) {
        if *error == Error::Closed {
            return;
        }
        let environment = &self.host.environment;
        self.background.errors.fail(figures.work(), error, environment);
        figures.note_failure(log.bytes(), log.tail(), environment.now());
        figures.failures.fetch_add(1, Relaxed);
        self.update_level();
    }
}
