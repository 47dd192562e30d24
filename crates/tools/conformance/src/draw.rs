//! Draws from a seeded generator.

use environment::{Random, Seed};
use rand::Rng;

/// A generator with the few questions that the suite asks of chance.
#[derive(Debug)]
pub(crate) struct Draw(Random);

impl Draw {
    /// Returns the stream of `seed` for one purpose.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        Self(Seed::from(seed).stream(purpose))
    }

    /// Returns a number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// True once in `times` on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of `items`, which are not none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns an index into `weights`, each as likely as its weight says.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        0
    }
}
