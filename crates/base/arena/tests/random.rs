//! Numbers of a seed, which `SEED` replays.

use std::hash::{BuildHasher, RandomState};

/// See the file's head.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Of a new seed, which is printed with the test's name, or of `SEED`.
    pub(crate) fn new(test: &str) -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(test));
        println!("{test}: to replay, SEED={seed} and this test's name");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}
