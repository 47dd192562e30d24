//! Whether a store that is written to is scanned, too: by that a commit knows what may lie behind an interval.
//!
//! What is appended before neighbours are written anew costs a scan of cold intervals a read for each commit that
//! did so, a get nothing, and each byte less of it costs writes several. So where scans read few intervals for what
//! commits put, more may be appended (`commit/neighbours.rs`). What happened before the last commits counts less with
//! each of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Updates that commits put for each interval that scans read, above which these are few.
const PUTS_EACH: u64 = 8;
/// Of what was counted before a commit one in so many stays.
const KEPT_PARTS: u64 = 2;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    intervals: AtomicU64,
    puts: AtomicU64,
}

impl Scanned {
    /// A scan had so many intervals read.
    pub(crate) fn note_read(&self, intervals: u64) {
        self.intervals.fetch_add(intervals, Relaxed);
    }

    /// A commit has put so many updates.
    pub(crate) fn note_put(&self, updates: u64) {
        let kept = |count: u64| Some(count / KEPT_PARTS);
        // It always has another value to give.
        let _ = self.intervals.fetch_update(Relaxed, Relaxed, kept);
        let more = |count: u64| Some(count / KEPT_PARTS + updates);
        let _ = self.puts.fetch_update(Relaxed, Relaxed, more);
    }

    /// Whether scans read many intervals for what is put.
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
        let scanned = Scanned::default();
        assert!(!scanned.is_scanned(), "nobody has scanned");
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
            assert!(scanned.is_scanned(), "not long ago");
            scanned.note_put(4000);
        }
        assert!(!scanned.is_scanned(), "some commits ago");
    }
}
