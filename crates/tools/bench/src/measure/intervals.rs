//! Operations per interval, and the intervals in which a store stalled.

use serde::{Deserialize, Serialize};

/// An interval counts as a stall below this share of the median interval.
const STALL_SHARE: f64 = 0.1;

/// The operations in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, in seconds from the start of the phase.
    pub at: f64,
    /// Operations a second in it.
    pub ops_per_s: f64,
}

/// How often and how long a store stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Intervals below a tenth of the median.
    pub intervals: u64,
    /// Their length together, in seconds.
    pub seconds: f64,
}

/// Finds the stalls among `intervals`, whose last one may be shorter than the others.
pub fn stalls(intervals: &[Interval]) -> Stalls {
    let mut rates: Vec<f64> = intervals.iter().map(|interval| interval.ops_per_s).collect();
    rates.sort_by(f64::total_cmp);
    let Some(median) = rates.get(rates.len() / 2) else {
        return Stalls::default();
    };
    let mut found = Stalls::default();
    let mut from = 0.0;
    for interval in intervals {
        if interval.ops_per_s < median * STALL_SHARE {
            found.intervals += 1;
            found.seconds += interval.at - from;
        }
        from = interval.at;
    }
    found
}
