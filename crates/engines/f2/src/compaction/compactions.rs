//! The state of the compactions of all logs.

use sync::Mutex;

use super::{CompactionFigures, DeadBytes, Work};
use crate::address::LogAddress;
use crate::checkpoint::OfEach;
use crate::failing_compactions::{CHUNK, COLD, HOT};
use crate::options::MemoryPlan;

/// The compactions of a store: one for each log, and the memory and threads that they may use.
pub(crate) struct Compactions {
    pub(crate) hot: LogCompaction,
    pub(crate) cold: LogCompaction,
    pub(crate) chunks: LogCompaction,
    /// Bytes that deletes have made dead.
    pub(crate) dead: DeadBytes,
    /// Memory that compactions may have.
    pub(crate) work: Work,
    /// Whether a single log is compacted by scans.
    pub(crate) by_scan: bool,
    /// Threads that a compaction uses at most, the one that begins it included.
    pub(crate) threads: usize,
}

/// The compaction of one log.
pub(crate) struct LogCompaction {
    /// One round at a time.
    pub(crate) turn: Mutex<()>,
    pub(crate) figures: CompactionFigures,
    /// Bytes that the log may take on disk, if there is a limit.
    pub(crate) disk_bytes_max: Option<u64>,
}

impl Compactions {
    /// Returns the compactions by `plan`, of logs that end at `tails`.
    pub(crate) fn new(plan: &MemoryPlan, dead: DeadBytes, tails: OfEach<LogAddress>) -> Self {
        let [hot, cold, chunks] = tails;
        let options = &plan.options;
        Self {
            hot: LogCompaction::new(HOT, hot, plan.hot_disk()),
            cold: LogCompaction::new(COLD, cold, options.cold_disk_bytes_max),
            chunks: LogCompaction::new(CHUNK, chunks, None),
            dead,
            work: plan.work(),
            by_scan: options.scan_compaction,
            threads: options.threads(),
        }
    }
}

impl LogCompaction {
    fn new(work: &'static str, tail: LogAddress, disk_bytes_max: Option<u64>) -> Self {
        let figures = CompactionFigures::new(work, tail);
        Self { turn: Mutex::default(), figures, disk_bytes_max }
    }
}
