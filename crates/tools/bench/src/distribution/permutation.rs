//! A pseudo-random bijection of `0..n`, computed and not stored.
//!
//! A bijection of the next power of two (xor-shifts and odd multiplications, each invertible) is
//! walked until it lands inside `0..n`; since the power of two is less than `2n`, under two steps
//! on average.

/// A bijection of `0..n`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
}

impl Permutation {
    /// A bijection of `0..n`, always the same for the same `n`.
    pub fn new(n: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(2);
        Self { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2) }
    }

    /// Returns the new place of `index`; `index` itself if it is outside of the domain.
    pub fn apply(&self, index: u64) -> u64 {
        if index >= self.n {
            return index;
        }
        let mut at = index;
        loop {
            at = self.step(at);
            if at < self.n {
                return at;
            }
        }
    }

    fn step(&self, index: u64) -> u64 {
        let mut x = index.wrapping_add(0x9e37_79b9_7f4a_7c15) & self.mask;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(0xa076_1d64_78bd_642f) & self.mask;
        x ^= x >> self.shift;
        x.wrapping_mul(0xe703_7ed1_a0b4_28db) & self.mask
    }
}
