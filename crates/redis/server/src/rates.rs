//! Rates of the server per second, and its peak of memory: figures that need a memory of their own.
//!
//! The first event loop takes a sample at each of its ticks, about two a second; a rate counts
//! since the oldest sample that is kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thermocline::environment::Monotonic;
use thermocline::sync::locks::Mutex;

/// Samples kept: the rates are of about two seconds.
const SAMPLES_KEPT: usize = 5;

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) executed: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// The samples.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: Mutex<VecDeque<(Monotonic, Counts)>>,
    memory_bytes_peak: AtomicU64,
}

impl Rates {
    /// Takes a sample.
    pub(crate) fn sample(&self, now: Monotonic, counts: Counts, memory_bytes: u64) {
        let mut samples = self.samples.lock();
        samples.push_back((now, counts));
        if samples.len() > SAMPLES_KEPT {
            samples.pop_front();
        }
        self.note_memory(memory_bytes);
    }

    /// Returns the counts per second between the oldest sample and the newest.
    pub(crate) fn per_second(&self) -> Counts {
        let samples = self.samples.lock();
        let (Some((from, old)), Some((to, new))) = (samples.front(), samples.back()) else {
            return Counts::default();
        };
        let elapsed_ms = (*to - *from).as_millis().max(1) as u64;
        // CONFIG RESETSTAT sets counts back.
        let rate = |old: u64, new: u64| new.saturating_sub(old).saturating_mul(1000) / elapsed_ms;
        Counts {
            executed: rate(old.executed, new.executed),
            input_bytes: rate(old.input_bytes, new.input_bytes),
            output_bytes: rate(old.output_bytes, new.output_bytes),
        }
    }

    /// Notes how much memory is used; the most that was ever noted.
    pub(crate) fn note_memory(&self, bytes: u64) -> u64 {
        self.memory_bytes_peak.fetch_max(bytes, Relaxed).max(bytes)
    }
}

#[cfg(test)]
mod tests;
