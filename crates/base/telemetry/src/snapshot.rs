//! The numbers of a registry at about one time, for people, JSON and Prometheus.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Unit;

/// Every metric of a registry, by name and then by labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The metrics; those of one name are adjacent.
    pub metrics: Vec<Metric>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, in snake case, ending in its unit, or in `total` if it counts.
    pub name: String,
    /// Its meaning, in one sentence.
    pub help: String,
    /// Labels that distinguish it from others of its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its number or numbers.
    pub value: Value,
}

/// A metric's number or numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A count since the process began.
    Counter(u64),
    /// A level.
    Gauge(i64),
    /// A distribution.
    Histogram(Distribution),
}

/// The values that a histogram recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The unit of the values.
    pub unit: Unit,
    /// How many there are.
    pub count: u64,
    /// Their sum, in nanoseconds if they are times.
    pub sum: u64,
    /// The largest, exactly.
    pub max: u64,
    /// The buckets that hold any, in rising order.
    pub buckets: Vec<Bucket>,
}

/// Values that are nearly the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The largest value that belongs here.
    pub upper: u64,
    /// How many values are here.
    pub count: u64,
}

impl Distribution {
    /// The value that a share `quantile` (0.0 to 1.0) of the values do not exceed; overstated by
    /// less than 1/16, and never above the maximum. Zero if there are no values.
    ///
    /// ```
    /// use thermocline_telemetry::{Histogram, Unit};
    /// let sizes = Histogram::detached(Unit::Bytes);
    /// (1..=100).for_each(|bytes| sizes.record(bytes));
    /// let p50 = sizes.distribution().quantile(0.5);
    /// assert!((50..54).contains(&p50));
    /// assert_eq!(sizes.distribution().quantile(1.0), 100);
    /// ```
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = (quantile.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.count;
            if seen >= rank {
                return bucket.upper.min(self.max);
            }
        }
        self.max
    }

    /// The mean; zero if there are no values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the number of values up to `limit`, if `limit` is one below a power of two (or any
    /// other bucket's upper bound).
    pub(crate) fn count_up_to(&self, limit: u64) -> u64 {
        let within = self.buckets.iter().take_while(|bucket| bucket.upper <= limit);
        within.map(|bucket| bucket.count).sum()
    }
}

impl Snapshot {
    /// The metrics by this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Metric> {
        self.metrics.iter().filter(move |metric| metric.name == name)
    }

    /// The sum of the counters by this name, over all labels; zero if there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.named(name).fold(0, |sum, metric| match metric.value {
            Value::Counter(count) => sum.wrapping_add(count),
            _ => sum,
        })
    }

    /// The sum of the gauges by this name, over all labels; zero if there is none.
    pub fn gauge(&self, name: &str) -> i64 {
        self.named(name).fold(0, |sum, metric| match metric.value {
            Value::Gauge(level) => sum.wrapping_add(level),
            _ => sum,
        })
    }

    /// Returns the metrics of both. No name may be in both with different kinds.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.metrics.extend(other.metrics);
        // Those of one name become adjacent.
        self.metrics.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// The text that Prometheus scrapes (exposition format 0.0.4,
    /// `Content-Type: text/plain; version=0.0.4`).
    pub fn render_prometheus(&self) -> String {
        crate::prometheus::render(&self.metrics)
    }
}
