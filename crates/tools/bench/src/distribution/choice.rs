//! A distribution made ready for a domain: threads draw items from it.

use rand::Rng;

use super::power::spread;
use super::{
    Composite, Distribution, HotKeyPower, Hotspot, Permutation, PrefixRanges, Zipfian, below,
};

/// Draws items of `0..n`, a range that may grow at its end (the caller's inserts).
#[derive(Clone, Debug)]
pub struct Choice {
    n: u64,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Zipfian(Zipfian, Permutation),
    ZipfianOrdered(Zipfian),
    Uniform,
    Latest(Zipfian),
    Hotspot(Hotspot, Permutation),
    Composite(Composite),
    Sequential { next: u64 },
    MixGraphAll(HotKeyPower),
    MixGraphPrefix(HotKeyPower, PrefixRanges),
}

impl Choice {
    /// Makes a choice by `distribution` over `n` items (at least one), with `theta` if it is
    /// Zipfian. `first` is the start of a sequential walk, so that threads can share one out.
    pub fn new(distribution: Distribution, n: u64, theta: f64, first: u64) -> Self {
        let method = match distribution {
            Distribution::Zipfian => Method::Zipfian(Zipfian::new(n, theta), Permutation::new(n)),
            Distribution::ZipfianOrdered => Method::ZipfianOrdered(Zipfian::new(n, theta)),
            Distribution::Uniform => Method::Uniform,
            Distribution::Latest => Method::Latest(Zipfian::new(n, theta)),
            Distribution::Hotspot { keys_percent, accesses_percent } => Method::Hotspot(
                Hotspot::new(n, keys_percent, accesses_percent),
                Permutation::new(n),
            ),
            Distribution::Composite => Method::Composite(Composite::new(n, theta)),
            Distribution::Sequential => Method::Sequential { next: first % n },
        };
        Self { n, method }
    }

    /// MixGraph's All-Dist: hot keys anywhere in the key space.
    pub fn mixgraph_all(n: u64) -> Self {
        Self { n, method: Method::MixGraphAll(HotKeyPower::mixgraph()) }
    }

    /// MixGraph's Prefix-Dist: hot keys in hot ranges of the key space.
    pub fn mixgraph_prefix(n: u64) -> Self {
        let ranges = PrefixRanges::mixgraph(n);
        Self { n, method: Method::MixGraphPrefix(HotKeyPower::mixgraph(), ranges) }
    }

    /// An item of `0..n`, or for the latest distribution of the last `n` of `0..n + inserted`.
    pub fn draw(&mut self, inserted: u64, random: &mut impl Rng) -> u64 {
        match &mut self.method {
            Method::Zipfian(zipfian, scatter) => scatter.apply(zipfian.draw(random)),
            Method::ZipfianOrdered(zipfian) => zipfian.draw(random),
            Method::Uniform => below(random, self.n),
            Method::Latest(zipfian) => self.n + inserted - 1 - zipfian.draw(random),
            Method::Hotspot(hotspot, scatter) => scatter.apply(hotspot.draw(random)),
            Method::Composite(composite) => composite.draw(random),
            Method::Sequential { next } => {
                let item = *next;
                *next = if item + 1 == self.n { 0 } else { item + 1 };
                item
            }
            Method::MixGraphAll(power) => spread(power.draw(random), self.n),
            Method::MixGraphPrefix(power, ranges) => {
                let hotness = power.draw(random);
                ranges.draw_item(hotness, random)
            }
        }
    }
}
