//! How far readers' walks go in each level: the bytes that the next walk is likely to read.
//!
//! A walk that must read the device begins with a read of that many bytes in each level, and the
//! reads of all levels are concurrent. So a scan of a usual length waits for the device once.
//!
//! The expected length is an average of the walks before it. Only walks that had to read the device
//! count. A read that is a little too long costs its transfer, and a read that is too short costs
//! another wait. So a longer walk moves the average by more than a shorter one does, and the
//! expected length is a little above the average.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::version::LEVELS;

/// The divisor of a step of the average towards a walk that was longer.
const PARTS_UP: u64 = 8;
/// The divisor of a step of the average towards a walk that was shorter.
const PARTS_DOWN: u64 = 64;
/// The part of the average by which the expected length is above it, as a divisor.
const MARGIN_PARTS: u64 = 8;

/// The average length of walks in each level.
///
/// # Concurrency
/// Threads that note walks of one level concurrently may lose some of them. The rest is an average
/// as well.
#[derive(Debug, Default)]
pub struct WalkLengths {
    levels: [AtomicU64; LEVELS],
}

impl WalkLengths {
    /// Returns the bytes that the next walk in `level` is expected to read; 0 before the first one.
    pub(crate) fn expected(&self, level: usize) -> u64 {
        let mean = self.levels.get(level).map_or(0, |mean| mean.load(Relaxed));
        mean + mean / MARGIN_PARTS
    }

    /// Notes that a walk in `level` has read `bytes`, of which at most `bytes_max` count.
    pub(crate) fn note(&self, level: usize, bytes: u64, bytes_max: u64) {
        let Some(mean) = self.levels.get(level) else { return };
        let (before, bytes) = (mean.load(Relaxed), bytes.min(bytes_max));
        let after = if bytes > before {
            before + (bytes - before).div_ceil(PARTS_UP)
        } else {
            before - (before - bytes) / PARTS_DOWN
        };
        mean.store(after, Relaxed);
    }
}
