//! Measurements: latencies, operations over time, processor time, memory, device traffic.

mod intervals;
mod latencies;
mod process;
mod space;
#[cfg(test)]
mod tests;

pub use intervals::{Interval, Stalls, stalls};
pub use latencies::Latencies;
pub use process::{
    ProcessCounts, available_memory, disk_bytes, free_disk_bytes, peak_rss, reset_peak_rss,
    resident_bytes,
};
pub use space::SpacePeak;

/// A rate in words, in millions of bytes a second.
pub fn megabytes_per_s(bytes_per_s: f64) -> String {
    format!("{:.1} MB/s", bytes_per_s / 1e6)
}

/// Returns part of whole, or `None` if there is no whole to speak of.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
