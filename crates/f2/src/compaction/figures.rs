//! What compactions of one log have done so far.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::address::LogAddress;
use crate::compaction::{Copied, plan::LIVE_SHARE_MAX};

/// Counts of rounds, and what the next plan depends on.
#[derive(Debug, Default)]
pub(crate) struct CompactionFigures {
    pub(crate) rounds: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) records_live: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_live: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Whether the last round did.
    has_failed: AtomicBool,
    /// Of the bytes of the last round, how many in a thousand lived; 0 before the first.
    live_permille: AtomicU64,
    /// What users had appended when the last round ended, or when the store was opened.
    appended: AtomicU64,
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

    pub(super) fn appended_since(&self, tail: LogAddress) -> u64 {
        self.appended_in_all(tail).saturating_sub(self.appended.load(Relaxed))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    pub(super) fn note_failure(&self, tail: LogAddress) {
        self.has_failed.store(true, Relaxed);
        self.failures.fetch_add(1, Relaxed);
        self.live_permille.store(1000, Relaxed);
        self.appended.store(self.appended_in_all(tail), Relaxed);
    }

    pub(super) fn note(&self, copied: &Copied, tail: LogAddress) {
        self.has_failed.store(false, Relaxed);
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
