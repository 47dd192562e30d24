//! Seeded randomness, one independent stream per purpose.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator that every component uses: fast, seeded, and not for secrets.
pub type Random = Xoshiro256PlusPlus;

/// A 64-bit seed from which streams are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl Seed {
    /// A seed from the operating system's entropy, by way of the standard library's hasher keys.
    pub fn from_entropy() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(0_u64))
    }

    /// Returns the seed's number, to print with a failure.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The generator for one purpose.
    pub fn stream(self, purpose: &str) -> Random {
        // FNV-1a keeps this stable across releases, so that an old seed replays.
        let mixed = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ self.0, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Random::seed_from_u64(mixed)
    }

    /// The seed of a child environment, `index` apart from its siblings.
    pub fn child(self, index: u64) -> Self {
        Self(self.stream("child").next_u64() ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
