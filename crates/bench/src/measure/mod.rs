//! What is measured: latencies, operations over time, processor time, memory, device traffic.

mod intervals;
mod latencies;
mod process;
#[cfg(test)]
mod tests;

pub use intervals::{Interval, Stalls, stalls};
pub use latencies::Latencies;
pub use process::{ProcessCounts, available_memory, disk_bytes, peak_rss, reset_peak_rss};

/// Part of whole, or `None` where there is no whole to speak of.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
