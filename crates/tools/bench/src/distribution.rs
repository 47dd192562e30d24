//! Which key an operation touches: the distributions over a domain of `n` items.
//!
//! Every distribution costs O(1) a draw and O(1) memory for any `n`, and is exact: the frequencies
//! follow the formula, not an approximation of it. Popularity ranks are spread over the domain by a
//! [`Permutation`], so that hot items are not neighbours in load order. Otherwise a store that
//! keeps its data in arrival order would find its whole hot set on a few pages.

mod choice;
mod composite;
mod hotspot;
mod parse;
mod permutation;
mod power;
#[cfg(test)]
mod tests;
mod zipfian;

pub use choice::Choice;
pub use composite::Composite;
pub use hotspot::Hotspot;
pub use parse::{DistributionError, theta_from_alpha};
pub use permutation::Permutation;
pub use power::{GeneralizedPareto, HotKeyPower, PrefixRanges};
pub use zipfian::Zipfian;

use rand::Rng;

/// A distribution by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Rank `r` (from 1) has probability proportional to `r^-theta`; ranks are scattered.
    Zipfian,
    /// Rank `r` is the `r`-th item in key order: popular keys are neighbours (Nova-LSM's, as YCSB's
    /// plain Zipfian).
    ZipfianOrdered,
    /// Every item alike.
    Uniform,
    /// Zipfian by age: the newest item is the most popular.
    Latest,
    /// `keys_percent` of the items take `accesses_percent` of the draws, uniformly within.
    Hotspot {
        /// Share of the items that are hot, in percent, above 0 and at most 100.
        keys_percent: f64,
        /// Share of the draws that go to hot items, in percent.
        accesses_percent: f64,
    },
    /// A Zipfian prefix of three decimal digits, and a uniform rest (FlexDB's).
    Composite,
    /// 0, 1, 2, ..., n - 1, 0, ...
    Sequential,
}

/// A uniform draw from the half-open interval [0, 1), with 53 random bits.
pub fn unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A uniform draw from `0..n`; 0 if `n` is 0. The bias is below `n / 2^64`.
pub fn below(random: &mut impl Rng, n: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(n)) >> 64) as u64
}
