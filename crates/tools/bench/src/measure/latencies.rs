//! A histogram of latencies, one per thread, merged at the end.

use hdrhistogram::Histogram;

/// Latencies longer than this are counted as this, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Latencies to three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3);
        Self(histogram.expect("the bounds are constants that the histogram allows"))
    }
}

impl Latencies {
    /// Counts one operation of `nanos` nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Operations counted.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether none was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latency that a share of the operations does not exceed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }

    /// The longest, in microseconds, exact to three digits.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }

    /// The mean, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1000.0
    }
}
