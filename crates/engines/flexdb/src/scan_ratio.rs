//! Whether a store that is written to is also scanned.
//!
//! Commits use it to limit the updates behind an interval.
//!
//! Updates appended before neighbours are rewritten cost a scan of cold intervals one read for each
//! commit that appended, and a get nothing; each byte less of them costs writes several. So if
//! scans read few intervals compared to the updates that commits put, more may be appended
//! (`commit/rewrite_run.rs`). Events before the last commits count less with each commit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Updates that commits put for each interval that scans read, above which these are few.
const PUTS_EACH: u64 = 8;
/// Part (one in this many) of the earlier counts that remains after a commit.
const KEPT_PARTS: u64 = 2;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct ScanRatio {
    intervals: AtomicU64,
    puts: AtomicU64,
}

impl ScanRatio {
    /// Notes that a scan had `intervals` intervals read.
    pub(crate) fn note_read(&self, intervals: u64) {
        self.intervals.fetch_add(intervals, Relaxed);
    }

    /// Notes that a commit has put `updates` updates.
    pub(crate) fn note_put(&self, updates: u64) {
        let kept = |count: u64| Some(count / KEPT_PARTS);
        // It always has another value to give.
        let _ = self.intervals.fetch_update(Relaxed, Relaxed, kept);
        let more = |count: u64| Some(count / KEPT_PARTS + updates);
        let _ = self.puts.fetch_update(Relaxed, Relaxed, more);
    }

    /// Returns whether scans read many intervals compared to the updates that are put.
    pub(crate) fn is_scanned(&self) -> bool {
        let intervals = self.intervals.load(Relaxed);
        intervals > 0 && intervals.saturating_mul(PUTS_EACH) >= self.puts.load(Relaxed)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_scanned_as_long_as_scans_read_much_for_what_is_put() {
        let scanned = ScanRatio::default();
        assert!(!scanned.is_scanned(), "no scan ran");
        scanned.note_put(8000);
        assert!(!scanned.is_scanned());
        scanned.note_read(999);
        assert!(!scanned.is_scanned(), "few");
        scanned.note_read(1);
        assert!(scanned.is_scanned());
        scanned.note_put(1000);
        assert!(!scanned.is_scanned(), "fewer than were put");
        scanned.note_read(5000);
        for _ in 0..3 {
            assert!(scanned.is_scanned(), "scanned recently");
            scanned.note_put(4000);
        }
        assert!(!scanned.is_scanned(), "some commits ago");
    }
}
