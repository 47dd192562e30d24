//! When an engine flushes for the sake of deletes, though few bytes were written: the rules that
//! engines share.
//!
//! A delete is a few bytes and frees many. It waits in memory, and the space below it is free only
//! after a flush. So each engine looks once a second at two things:
//!
//! - *Waiting deletes* ([`WaitingDeletes`]): the bytes on the device that they cover. If these are
//!   many, the deletes are flushed, and the engine's collector finds the space that is free.
//! - *Dead runs* ([`DeadRuns`]): entries that show nothing and that a scan steps over, one after
//!   another, as at the head of a queue. If a scan meets many in a row, the memtables that have
//!   them are flushed or merged.
//!
//! # Invariants
//! - R1. A flush for waiting deletes writes at most half of the bytes that they cover, and they
//!   cover at least 1 MiB and a sixteenth of the store (64 MiB of a large one). So a store is not
//!   rewritten for a small gain.
//! - R2. It happens once nothing was written for two looks, or after the deletes have waited for
//!   ten. So deletes in a burst are flushed once, and a store that is never idle gets its space
//!   back, too.
//! - R3. Scans cause at most one flush between two looks, and one at a look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use codec::SeqNo;
use sync::Mutex;

/// Share of the store that waiting deletes have to cover.
const STORED_PARTS: u64 = 16;
/// Bytes that they have to cover at least, however small the store is.
const COVERED_BYTES_MIN: u64 = 1 << 20;
/// Bytes that are enough, however large the store is.
const COVERED_BYTES_MAX: u64 = 64 << 20;
/// Covered bytes for each byte that the flush writes.
const COVERED_TIMES: u64 = 2;
/// Looks without a write after which the store is quiet.
const QUIET_LOOKS: u32 = 2;
/// Looks that deletes wait for at most in a store that is never quiet.
const WAITING_LOOKS: u32 = 10;
/// Dead entries in a row from which on a scan reports them.
const DEAD_RUN_MIN: u64 = 512;
/// Tombstones in a memtable from which on it is worth a flush or a merge for scans.
const TOMBSTONES_MIN: u64 = 256;
/// Entries of such a memtable for each of its tombstones, at most.
const ENTRIES_A_TOMBSTONE: u64 = 8;

/// Deletes that wait in memory, as an engine estimates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingDeletes {
    /// Bytes on the device that a flush makes free, immediately or by later compactions.
    pub covered_bytes: u64,
    /// Bytes that the flush writes.
    pub flush_bytes: u64,
    /// Bytes of the store on the device.
    pub stored_bytes: u64,
}

impl WaitingDeletes {
    /// Returns whether a flush is worth its writes (R1).
    pub fn are_worth_a_flush(self) -> bool {
        let least = (self.stored_bytes / STORED_PARTS).clamp(COVERED_BYTES_MIN, COVERED_BYTES_MAX);
        self.covered_bytes >= least.max(self.flush_bytes.saturating_mul(COVERED_TIMES))
    }
}

/// The looks of a store, one a second.
#[derive(Debug, Default)]
pub struct IdleLooks(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    /// The newest write as of the last look.
    newest: SeqNo,
    /// Looks in a row that found no newer write.
    quiet: u32,
    /// Looks in a row that found deletes worth a flush.
    waiting: u32,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether nothing was written for two looks.
    pub is_quiet: bool,
    /// Whether the waiting deletes are to be flushed now (R2).
    pub is_flush_due: bool,
}

impl IdleLooks {
    /// A second has passed; `newest` is the newest write, and `are_worth` returns whether waiting
    /// deletes are worth a flush.
    pub fn look(&self, newest: SeqNo, are_worth: impl FnOnce() -> bool) -> Look {
        let mut looks = self.0.lock();
        looks.quiet = if looks.newest == newest { looks.quiet.saturating_add(1) } else { 0 };
        looks.newest = newest;
        let is_quiet = looks.quiet >= QUIET_LOOKS;
        looks.waiting = if are_worth() { looks.waiting + 1 } else { 0 };
        let is_flush_due = looks.waiting > 0 && (is_quiet || looks.waiting >= WAITING_LOOKS);
        if is_flush_due {
            looks.waiting = 0;
        }
        Look { is_quiet, is_flush_due }
    }

    /// Returns whether the last look found the store quiet, and `newest` is still its newest write.
    pub fn is_quiet(&self, newest: SeqNo) -> bool {
        let looks = self.0.lock();
        looks.quiet >= QUIET_LOOKS && looks.newest == newest
    }
}

/// Entries that show nothing and that scans step over.
#[derive(Debug, Default)]
pub struct DeadRuns {
    steps: AtomicU64,
    is_reported: AtomicBool,
    /// Whether scans had a flush since the last look (R3).
    is_served: AtomicBool,
}

impl DeadRuns {
    /// Notes that a scan has stepped over `steps` dead entries in a row. Returns whether they are
    /// to be collected now. The next look handles dead entries that are left, or that are added
    /// until then.
    pub fn note(&self, steps: u64) -> bool {
        if steps == 0 {
            return false;
        }
        self.steps.fetch_add(steps, Relaxed);
        if !is_long_run(steps) {
            return false;
        }
        self.is_reported.store(true, Relaxed);
        !self.is_served.swap(true, Relaxed)
    }

    /// A second has passed: returns whether a scan has met many since the last look.
    pub fn take_report(&self) -> bool {
        self.is_served.store(false, Relaxed);
        self.is_reported.swap(false, Relaxed)
    }

    /// Dead entries that all scans have stepped over since the store was opened.
    pub fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }
}

/// Returns whether a scan that steps over `steps` dead entries in a row reports them to the next
/// look.
pub fn is_long_run(steps: u64) -> bool {
    steps >= DEAD_RUN_MIN
}

/// Returns whether the tombstones among the `entries` of a memtable are enough that scans gain by
/// its flush or merge.
pub fn has_many_tombstones(tombstones: u64, entries: u64) -> bool {
    tombstones >= TOMBSTONES_MIN && tombstones.saturating_mul(ENTRIES_A_TOMBSTONE) >= entries
}

#[cfg(test)]
mod tests;
