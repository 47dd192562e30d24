//! The three fitted distributions of MixGraph.
//!
//! They are key hotness by a power law, key ranges by a sum of two exponentials, and sizes by a
//! generalised Pareto distribution. Source: Cao et al., *Characterizing, Modeling, and Benchmarking
//! RocksDB Key-Value Workloads at Facebook*, FAST 2020.

use rand::Rng;

use super::{Permutation, below, unit};

/// Key hotness: the share of accesses that go to the `x` hottest keys is `a * x^b`.
#[derive(Clone, Copy, Debug)]
pub struct HotKeyPower {
    inverse_a: f64,
    inverse_b: f64,
}

impl HotKeyPower {
    /// The fit that the paper gives for its ZippyDB trace.
    pub const fn mixgraph() -> Self {
        Self { inverse_a: 1.0 / 0.002_312, inverse_b: 1.0 / 0.346_7 }
    }

    /// A hotness rank, 0 the hottest; unbounded by the domain, at most about 4e7 for the paper's
    /// fit.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        (unit(random) * self.inverse_a).powf(self.inverse_b) as u64
    }
}

/// Key ranges of unequal hotness: range `i` (from 1) weighs `a * e^(b i) + c * e^(d i)`.
#[derive(Clone, Debug)]
pub struct PrefixRanges {
    n: u64,
    /// Cumulative weights, the last one 1.
    cumulative: Vec<f64>,
    scatter: Permutation,
}

impl PrefixRanges {
    /// The paper's fit: 30 ranges over `n` items.
    pub fn mixgraph(n: u64) -> Self {
        let ranges = 30.min(n).max(1);
        let weights: Vec<f64> = (1..=ranges)
            .map(|i| 14.18 * (-2.917 * i as f64).exp() + 0.0164 * (-0.080_82 * i as f64).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let cumulative = weights
            .iter()
            .map(|weight| {
                sum += weight / total;
                sum
            })
            .collect();
        Self { n, cumulative, scatter: Permutation::new(ranges) }
    }

    /// The first item of a range and the number of its items.
    pub fn draw(&self, random: &mut impl Rng) -> (u64, u64) {
        let u = unit(random);
        let last = self.cumulative.len() as u64 - 1;
        let rank = (self.cumulative.partition_point(|&sum| sum <= u) as u64).min(last);
        let range = self.scatter.apply(rank);
        let first = self.boundary(range);
        (first, self.boundary(range + 1) - first)
    }

    /// An item: a range by its weight, and in it the item that `hotness` names.
    pub fn draw_item(&self, hotness: u64, random: &mut impl Rng) -> u64 {
        let (first, items) = self.draw(random);
        first + spread(hotness, items)
    }

    fn boundary(&self, range: u64) -> u64 {
        let ranges = self.cumulative.len() as u128;
        (u128::from(self.n) * u128::from(range) / ranges) as u64
    }
}

/// A fixed pseudo-random item of `0..items` for a hotness rank.
pub(super) fn spread(hotness: u64, items: u64) -> u64 {
    use rand::SeedableRng;
    below(&mut rand_xoshiro::SplitMix64::seed_from_u64(hotness), items)
}

/// A generalised Pareto distribution with location 0, cut at a maximum: values above it are not
/// drawn, and the rest keeps its proportions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneralizedPareto {
    shape: f64,
    scale: f64,
    max: f64,
}

impl GeneralizedPareto {
    /// Value sizes of the paper's ZippyDB fit, in bytes: k = 0.2615, sigma = 25.45, cut at 1 KiB.
    pub const VALUE_SIZES: Self = Self { shape: 0.2615, scale: 25.45, max: 1024.0 };
    /// Scan lengths of the same fit: k = 2.517, sigma = 14.236, cut at 10,000. Uncut, the mean
    /// would be infinite.
    pub const SCAN_LENGTHS: Self = Self { shape: 2.517, scale: 14.236, max: 10_000.0 };

    /// Returns the value with a share `u` of the uncut distribution below it, scaled to the cut
    /// one.
    pub fn quantile(&self, u: f64) -> f64 {
        let tail = 1.0 - u * self.cumulative(self.max);
        self.scale / self.shape * (tail.powf(-self.shape) - 1.0)
    }

    /// Returns the share of the uncut distribution below `x`.
    pub fn cumulative(&self, x: f64) -> f64 {
        1.0 - (1.0 + self.shape * x / self.scale).powf(-1.0 / self.shape)
    }

    /// The mean of the cut distribution, by summing quantiles.
    pub fn mean(&self) -> f64 {
        const STEPS: u32 = 10_000;
        let sum: f64 =
            (0..STEPS).map(|step| self.quantile((f64::from(step) + 0.5) / f64::from(STEPS))).sum();
        sum / f64::from(STEPS)
    }
}
