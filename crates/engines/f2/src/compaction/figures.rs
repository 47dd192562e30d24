//! Figures of the compactions of one log so far.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use engine::Error;
use environment::Monotonic;
use sync::locks::Mutex;

use super::plan::Failed;
use crate::address::LogAddress;
use crate::compaction::{Copied, plan::LIVE_SHARE_MAX};
use crate::trouble::Failing;

/// Counts of rounds, and figures that the next plan depends on.
#[derive(Debug, Default)]
pub(crate) struct CompactionFigures {
    pub(crate) rounds: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) records_live: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_live: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// The part of the log that the round in progress compacts, and how far it has advanced; all
    /// three are equal if there is none.
    round: [AtomicU64; 3],
    /// Tail of the log when the store was opened.
    opened_at: u64,
    /// Whether the last round did, and how.
    has_failed: AtomicBool,
    failing: Mutex<Option<Failing>>,
    /// Of the bytes of the last round, how many in a thousand lived; 0 before the first.
    live_permille: AtomicU64,
    /// Bytes that users had appended when the last round ended, or when the store was opened.
    appended: AtomicU64,
}

impl CompactionFigures {
    /// Figures of a log that ends at `tail` when it is opened.
    pub(crate) fn new(tail: LogAddress) -> Self {
        Self { appended: tail.get().into(), opened_at: tail.get(), ..Self::default() }
    }

    /// Returns the bytes that users have ever appended: all appended bytes less the copied ones.
    fn appended_in_all(&self, tail: LogAddress) -> u64 {
        tail.get().saturating_sub(self.bytes_live.load(Relaxed))
    }

    pub(super) fn appended_since(&self, tail: LogAddress) -> u64 {
        self.appended_in_all(tail).saturating_sub(self.appended.load(Relaxed))
    }

    /// Returns the bytes that were appended to the log since the store was opened, by users and by
    /// compaction.
    pub(crate) fn appended_since_opening(&self, tail: LogAddress) -> u64 {
        tail.get().saturating_sub(self.opened_at)
    }

    /// Notes that a round begins which compacts the part between these.
    pub(super) fn begin_round(&self, from: LogAddress, until: LogAddress) {
        for (place, address) in self.round.iter().zip([from, from, until]) {
            place.store(address.get(), Relaxed);
        }
    }

    /// Notes that the round has reached `at`.
    pub(super) fn note_progress(&self, at: LogAddress) {
        self.round[1].fetch_max(at.get(), Relaxed);
    }

    pub(super) fn end_round(&self) {
        self.begin_round(LogAddress::NONE, LogAddress::NONE);
    }

    /// Returns the bytes that the round in progress compacts, none if there is no round, and the
    /// number of these that it has done.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let [from, at, until] = [0, 1, 2].map(|place: usize| self.round[place].load(Relaxed));
        let bytes = until.saturating_sub(from);
        (bytes, at.saturating_sub(from).min(bytes))
    }

    /// The rounds that have failed since one did not.
    pub(crate) fn failing(&self) -> Option<Failing> {
        if !self.has_failed.load(Relaxed) {
            return None;
        }
        self.failing.lock().clone()
    }

    /// The same for the plan, of a log that ends at `tail` now.
    pub(super) fn failed(&self, tail: LogAddress, now: Monotonic) -> Option<Failed> {
        let failing = self.failing()?;
        Some(Failed {
            rounds: failing.rounds,
            appended: self.appended_in_all(tail).saturating_sub(failing.appended),
            elapsed: now - failing.at,
        })
    }

    pub(crate) fn note_failure(
        &self,
        error: &Error,
        log_bytes: u64,
        tail: LogAddress,
        now: Monotonic,
        wall_ms: u64,
    ) {
        let mut failing = self.failing.lock();
        let first = failing.take();
        *failing = Some(Failing {
            cause: error.clone(),
            since_ms: first.as_ref().map_or(wall_ms, |first| first.since_ms),
            rounds: first.as_ref().map_or(0, |first| first.rounds) + 1,
            at: now,
            bytes_at_first: first.as_ref().map_or(log_bytes, |first| first.bytes_at_first),
            appended: self.appended_in_all(tail),
        });
        self.has_failed.store(true, Relaxed);
    }

    /// Forgets rounds that have failed. Returns whether there were any.
    pub(super) fn forgive(&self) -> bool {
        let had_failed = self.has_failed.swap(false, Relaxed);
        if had_failed {
            *self.failing.lock() = None;
        }
        had_failed
    }

    pub(super) fn note(&self, copied: &Copied, tail: LogAddress) {
        self.forgive();
        self.rounds.fetch_add(1, Relaxed);
        self.records.fetch_add(copied.records, Relaxed);
        self.records_live.fetch_add(copied.records_live, Relaxed);
        self.bytes.fetch_add(copied.bytes, Relaxed);
        self.bytes_live.fetch_add(copied.bytes_live, Relaxed);
        self.live_permille.store(copied.bytes_live * 1000 / copied.bytes.max(1), Relaxed);
        self.appended.store(self.appended_in_all(tail), Relaxed);
    }

    pub(super) fn live_share(&self) -> f64 {
        self.live_permille.load(Relaxed) as f64 / 1000.0
    }

    /// Whether the last round found enough that was dead; also before the first.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.live_share() <= LIVE_SHARE_MAX
    }
}
