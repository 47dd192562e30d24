//! When an operation is due: immediately in a closed loop, on a fixed beat in an open one.
//!
//! In an open loop the latency of an operation counts from when it was *due*, not from when the
//! thread got round to it. So a store that stalls for a second is charged for every request that a
//! user would have sent meanwhile. This is called correcting coordinated omission; here it needs no
//! estimate.

use std::time::Duration;

use environment::{Environment, Monotonic};

use crate::workload::Place;

/// Sleeping wakes up late by about this much; the rest is spent yielding.
const SLEEP_SLACK: Duration = Duration::from_micros(100);

/// A thread's beat.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    beat: Option<Beat>,
}

#[derive(Clone, Debug)]
struct Beat {
    next: Monotonic,
    period: Duration,
}

impl Pace {
    /// `rate` operations a second over all threads, which take turns; `None` for a closed loop.
    pub(crate) fn new(rate: Option<f64>, place: Place, start: Monotonic) -> Self {
        let beat = rate.map(|rate| {
            let apart = Duration::from_secs_f64(1.0 / rate);
            let offset = apart.mul_f64(place.thread as f64);
            Beat { next: start + offset, period: apart.mul_f64(place.threads as f64) }
        });
        Self { beat }
    }

    /// Waits until the next operation is due, and returns when that was; `None` in a closed loop.
    /// Ends at `deadline` at the latest.
    pub(crate) fn wait(&mut self, env: &Environment, deadline: Monotonic) -> Option<Monotonic> {
        let beat = self.beat.as_mut()?;
        let due = beat.next;
        beat.next = due + beat.period;
        let until = due.min(deadline);
        loop {
            let left = until - env.now();
            if left.is_zero() {
                return Some(due);
            }
            if left > SLEEP_SLACK {
                env.sleep(left - SLEEP_SLACK);
            } else {
                std::thread::yield_now();
            }
        }
    }
}
