//! Counts of a journal's work.

use std::time::Duration;

use environment::WaitCounts;

/// Counters of one open journal, at one moment: `thermocline::JournalStats`. Reading them takes the
/// journal's lock once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segment files.
    pub segments: u64,
    /// Bytes in them, and waiting in memory to be written to them.
    pub bytes: u64,
    /// Records appended since opening.
    pub records: u64,
    /// Bytes of payload appended since opening.
    pub payload_bytes: u64,
    /// Groups written since opening: one write call each.
    pub groups: u64,
    /// Bytes of groups written since opening, with headers, seals and padding.
    pub group_bytes: u64,
    /// Syncs of segment files done for waiters since opening.
    pub syncs: u64,
    /// Records first made durable by those syncs.
    pub synced_records: u64,
    /// Time spent in those syncs.
    pub sync_time: Duration,
    /// The longest of them.
    pub sync_time_max: Duration,
    /// Long waits of appends for a full group.
    pub group_waits: WaitCounts,
}

impl Stats {
    /// Returns the records per group written, on average; 0 before the first.
    pub fn records_per_group(&self) -> f64 {
        if self.groups == 0 { 0.0 } else { self.records as f64 / self.groups as f64 }
    }

    /// Returns the records per sync, on average; 0 before the first.
    pub fn records_per_sync(&self) -> f64 {
        if self.syncs == 0 { 0.0 } else { self.synced_records as f64 / self.syncs as f64 }
    }
}
