//! Draws from a seed.

use environment::{Random, Seed};
use rand::Rng;

/// A generator with the few draws that the simulated disk needs.
#[derive(Clone, Debug)]
pub(super) struct Dice(Random);

/// One in a million.
pub(super) const MILLION: u32 = 1_000_000;

impl Dice {
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        Self(Seed::from(seed).stream(purpose))
    }

    /// A number below `end`, which is not zero; the bias is of no account for small ends.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product of two 64-bit numbers fits in 64 bits.
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Whether something happens whose chance is `ppm` in a million. A chance of zero draws
    /// nothing, so that a fault that is off does not change the draws of others.
    pub(super) fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(u64::from(MILLION)) < u64::from(ppm)
    }

    /// One of `choices`.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
