//! Figures of the compactions of one log so far.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use environment::Monotonic;
use sync::locks::Mutex;

use super::plan::Failed;
use crate::address::LogAddress;
use crate::compaction::{Copied, plan::LIVE_SHARE_MAX};
use crate::failing_compactions::FailedRounds;

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
    /// Rounds that have failed since one did not.
    failed: Mutex<Option<FailedRounds>>,
    /// The compaction, as background errors name it.
    work: &'static str,
    /// Of the bytes of the last round, how many in a thousand lived; 0 before the first.
    live_permille: AtomicU64,
    /// Bytes that users had appended when the last round ended, or when the store was opened.
    appended: AtomicU64,
}

impl CompactionFigures {
    /// Figures of the compaction `work`, of a log that ends at `tail` when it is opened.
    pub(crate) fn new(work: &'static str, tail: LogAddress) -> Self {
        Self { work, appended: tail.get().into(), opened_at: tail.get(), ..Self::default() }
    }

    /// Returns the compaction, as background errors name it.
    pub(crate) fn work(&self) -> &'static str {
        self.work
    }

    /// Returns the appended bytes less the bytes that compactions have copied since the opening.
    /// Only a difference of two results has a meaning: the bytes that users have appended in
    /// between.
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

    /// Notes that a round begins, which compacts the log from `from` to `until`.
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

    /// Returns the rounds that have failed since one did not.
    pub(crate) fn failed_rounds(&self) -> Option<FailedRounds> {
        *self.failed.lock()
    }

    /// The same for the plan, of a log that ends at `tail` now.
    pub(super) fn failed(&self, tail: LogAddress, now: Monotonic) -> Option<Failed> {
        let failed = self.failed_rounds()?;
        Some(Failed {
            rounds: failed.rounds,
            appended: self.appended_in_all(tail).saturating_sub(failed.appended),
            elapsed: now - failed.at,
        })
    }

    pub(crate) fn note_failure(&self, log_bytes: u64, tail: LogAddress, now: Monotonic) {
        let mut failed = self.failed.lock();
        let before = failed.take();
        *failed = Some(FailedRounds {
            rounds: before.map_or(0, |before| before.rounds) + 1,
            at: now,
            bytes_at_first: before.map_or(log_bytes, |before| before.bytes_at_first),
            appended: self.appended_in_all(tail),
        });
    }

    /// Forgets rounds that have failed. Returns whether there were any.
    pub(super) fn forgive(&self) -> bool {
        self.failed.lock().take().is_some()
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
