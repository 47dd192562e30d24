//! Bytes to read for a record of unknown length: enough for about seven records of eight.
//!
//! Each length that a read reports moves the guess a little: up by seven steps if the record is
//! longer, down by one if it is not. So it stays near the length that is too short for one record
//! of eight. It follows the records that are read, old or new, and needs nothing from the life
//! before.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::record::HEAD_BYTES;

/// Before any length is known.
const FIRST_BYTES: usize = 256;
/// Most bytes of a guess. Longer reads for nothing would cost more than the second read of a long
/// record.
const BYTES_MAX: usize = 16 << 10;
/// Records that are not too long for each one that is.
const FITTING: usize = 7;
/// A step, as a share of the guess, and at least.
const STEP_SHARE: usize = 32;
const STEP_BYTES_MIN: usize = 8;

/// The guess of one log.
#[derive(Debug)]
pub(super) struct LengthGuess(AtomicUsize);

impl Default for LengthGuess {
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST_BYTES))
    }
}

impl LengthGuess {
    /// Bytes to read.
    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed).min(BYTES_MAX)
    }

    /// Notes that a record of `bytes` was read. If two threads note one at the same time, it may
    /// count once.
    pub(super) fn note(&self, bytes: usize) {
        let guess = self.0.load(Relaxed);
        let step = (guess / STEP_SHARE).max(STEP_BYTES_MIN);
        let moved = if bytes > guess { guess + FITTING * step } else { guess.saturating_sub(step) };
        self.0.store(moved.clamp(HEAD_BYTES, 2 * BYTES_MAX), Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
