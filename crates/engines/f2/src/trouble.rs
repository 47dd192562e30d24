//! What becomes of a store whose compactions fail: because of a damaged record, a damaged chunk, a read
//! that the device refuses.
//!
//! 1. A round that fails is noted with its log, its cause and its time, and told (`Engine::troubles`). A
//!    round that succeeds ends the trouble, and so does a log that is not to be compacted any more.
//! 2. It is tried again when a fiftieth of the log was appended anew, or after a second; each further
//!    time after twice as much, up to 32 times (`compaction/plan`). A round that failed may have copied for
//!    nothing; the next one reads all that it will read before it copies anything. A cold record is not
//!    among that: a tombstone whose entries cannot be told because of one goes back to the hot log's
//!    tail (`compaction/hot_cold`), and a cold record in front of which one stands that cannot be read is copied,
//!    behind that one still (`compaction/cold_cold`). Neither fails a round.
//! 3. Nobody waits for what is not coming: as long as the hot log's compaction fails, writers are not
//!    slowed down.
//! 4. When a log takes [`REFUSED_FROM`] times what it should, writes are refused with the cause and its
//!    place. A log without a budget should take what it took when the trouble began, or four segments. The
//!    same if the hot index has taken twice its memory, which the hot log's compaction gives back.
//!
//! # Invariants
//! - D1. No record is skipped: a log never begins behind one that could not be moved [C1].
//! - D2. Each log is apart: what is wrong with one keeps no other from being compacted, as far as that
//!   does not read it. What was moved before the place of the damage stays moved.
//! - D3. Reads of a key go on. What is damaged is told to who asks for it, and to nobody else. A walk ends
//!   where it meets damage; and a store whose hot log is damaged does not open again, since opening reads
//!   all of that log. So what is sound is read from it while it is open.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Trouble};
use environment::Monotonic;

use crate::compaction::CompactionFigures;
use crate::hybrid_log::HybridLog;
use crate::pressure::Level;
use crate::store::Shared;

/// Writes are refused when a log that cannot be compacted takes so many times what it should.
pub(crate) const REFUSED_FROM: u64 = 2;
/// What a log may take in any case before that counts.
const SEGMENTS_MIN: u64 = 4;

/// Rounds that have failed, since the last that did not.
#[derive(Clone, Debug)]
pub(crate) struct Failing {
    pub(crate) cause: Error,
    pub(crate) since_ms: u64,
    pub(crate) rounds: u64,
    /// When the last of them did.
    pub(crate) at: Monotonic,
    /// What the log took when the first of them did.
    pub(crate) bytes_at_first: u64,
    /// What users had appended when the last of them did.
    pub(crate) appended: u64,
}

/// One of the logs, and what keeps it from being compacted.
struct Part<'a> {
    name: &'static str,
    work: &'static str,
    log: &'a HybridLog,
    figures: &'a CompactionFigures,
    bytes_max: Option<u64>,
}

impl Part<'_> {
    /// What it may take before writes are refused.
    fn limit(&self, failing: &Failing) -> u64 {
        let least = SEGMENTS_MIN * self.log.geometry.segment_bytes();
        let should = self.bytes_max.unwrap_or(failing.bytes_at_first.max(least));
        should.saturating_mul(REFUSED_FROM)
    }

    /// The error of writes, if it takes too much.
    fn refusal(&self) -> Option<Error> {
        let failing = self.figures.failing()?;
        let (bytes, limit) = (self.log.bytes(), self.limit(&failing));
        let cause = Arc::new(failing.cause);
        (bytes > limit).then_some(Error::SpaceUsedUp { what: self.name, bytes, limit, cause })
    }

    fn trouble(&self) -> Option<Trouble> {
        let failing = self.figures.failing()?;
        Some(Trouble {
            work: self.work,
            refuses_writes: self.log.bytes() > self.limit(&failing),
            since_ms: failing.since_ms,
            failures: failing.rounds,
            cause: failing.cause,
        })
    }
}

impl Shared {
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let hot = Part {
            name: "the hot log",
            work: "compaction of the hot log",
            log: &self.log,
            figures: &self.hot_figures,
            bytes_max: self.hot_disk_bytes_max(),
        };
        let cold = self.cold.as_ref().map(|cold| Part {
            name: "the cold log",
            work: "compaction of the cold log",
            log: &cold.log,
            figures: &self.cold_figures,
            bytes_max: self.cold_disk_bytes_max,
        });
        let chunks = self.cold.as_ref().map(|cold| Part {
            name: "the chunk log",
            work: "compaction of the chunk log",
            log: &cold.chunk_log,
            figures: &self.chunk_figures,
            bytes_max: None,
        });
        [Some(hot), cold, chunks].into_iter().flatten()
    }

    /// How many logs' last round of compaction has failed.
    pub(crate) fn compactions_failing(&self) -> u64 {
        self.parts().filter(|part| part.figures.failing().is_some()).count() as u64
    }

    /// What fails just now.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let refuses_all = self.pressure.refusal();
        let told = |trouble: Trouble| {
            let is_cause = |error: &Error| match error {
                Error::SpaceUsedUp { cause, .. } => **cause == trouble.cause,
                _ => false,
            };
            let refuses_writes =
                trouble.refuses_writes || refuses_all.as_ref().is_some_and(is_cause);
            Trouble { refuses_writes, ..trouble }
        };
        // As long as memory has room for a record nobody has to wait for a flush.
        let refuses_writes = !self.log.has_room_for(self.log.record_bytes());
        let flushes = self.flushes.trouble("the flush of the logs", refuses_writes);
        let room = self.room.retries.trouble("holding room on the device for the logs", true);
        let given = &self.giving_back.retries;
        let given = given.trouble("giving back the space of compacted parts of the logs", false);
        let others = flushes.into_iter().chain(room).chain(given);
        self.parts().filter_map(|part| part.trouble()).map(told).chain(others).collect()
    }

    /// Whether what writers would wait for fails.
    pub(crate) fn is_waiting_hopeless(&self) -> bool {
        self.hot_figures.failing().is_some()
    }

    /// What writes are refused with at this level, because a compaction fails.
    pub(crate) fn refusal(&self, level: Level) -> Option<Error> {
        let refused = self.parts().find_map(|part| part.refusal());
        let of_index = || {
            let failing = self.hot_figures.failing().filter(|_| level == Level::OutOfMemory)?;
            Some(Error::SpaceUsedUp {
                what: "the hot index",
                bytes: self.index.figures().bytes,
                limit: self.index_bytes_max(),
                cause: Arc::new(failing.cause),
            })
        };
        refused.or_else(of_index)
    }

    /// Notes that a round of the compaction of `log` has failed. It is over where the store is closed.
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
        let (now, wall_ms) = (environment.now(), environment.wall_ms());
        figures.note_failure(error, log.bytes(), log.tail(), now, wall_ms);
        figures.failures.fetch_add(1, Relaxed);
        self.update_pressure();
    }
}
