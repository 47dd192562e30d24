//! A hot set that takes a fixed share of the draws.

use rand::Rng;

use super::{below, unit};

/// Ranks `0..n`, of which the first `hot` take `hot_share` of the draws.
#[derive(Clone, Debug)]
pub struct Hotspot {
    n: u64,
    hot: u64,
    hot_share: f64,
}

impl Hotspot {
    /// `keys_percent` of `n` items (at least one of them) take `accesses_percent` of the draws.
    pub fn new(n: u64, keys_percent: f64, accesses_percent: f64) -> Self {
        let hot = (n as f64 * keys_percent / 100.0).round() as u64;
        Self { n, hot: hot.clamp(1, n.max(1)), hot_share: accesses_percent / 100.0 }
    }

    /// A rank in `0..n`; the hot ones are the lowest.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        if self.hot == self.n || unit(random) < self.hot_share {
            below(random, self.hot)
        } else {
            self.hot + below(random, self.n - self.hot)
        }
    }
}
