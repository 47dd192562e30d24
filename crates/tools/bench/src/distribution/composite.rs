//! FlexDB's Zipfian-composite: a Zipfian prefix of three decimal digits, and a uniform rest.
//!
//! Popularity then belongs to a *stretch* of the key order, a thousandth of it, instead of to
//! single keys. A store has such a load if its hot users each own many adjacent keys.

use rand::Rng;

use super::{Permutation, Zipfian, below};

/// Prefixes: three decimal digits.
const PREFIXES: u64 = 1000;

/// Items `0..n`, in key order, drawn by the popularity of their thousandth.
#[derive(Clone, Debug)]
pub struct Composite {
    n: u64,
    prefixes: Zipfian,
    scatter: Permutation,
}

impl Composite {
    /// The distribution over `n` items; fewer than a thousand items get a prefix each.
    pub fn new(n: u64, theta: f64) -> Self {
        let prefixes = PREFIXES.min(n).max(1);
        Self { n, prefixes: Zipfian::new(prefixes, theta), scatter: Permutation::new(prefixes) }
    }

    /// An item in `0..n`.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        let prefix = self.scatter.apply(self.prefixes.draw(random));
        let first = self.boundary(prefix);
        first + below(random, self.boundary(prefix + 1) - first)
    }

    /// The first item of `prefix`.
    fn boundary(&self, prefix: u64) -> u64 {
        (u128::from(self.n) * u128::from(prefix) / u128::from(self.prefixes.len())) as u64
    }
}
