//! The bits of a key in a Bloom filter of blocks of one word.
//!
//! Each key sets some bits of one word, which its hash selects. So a test of a key reads one word.

/// Bits that a key sets.
const BITS: u32 = 4;
/// Bits of the hash that select one of them.
const BIT_BITS: u32 = 6;

/// Returns the number of a key's word in a filter of `words` words, and the bits of the key in this
/// word. `hash` is the hash of the key. A filter has fewer than 2^32 words.
pub fn bloom_place(hash: u64, words: usize) -> (usize, u64) {
    let word = ((hash >> 32) * words as u64) >> 32;
    let bit = |at: u32| 1 << ((hash >> (at * BIT_BITS)) & u64::from(u64::BITS - 1));
    (word as usize, (0..BITS).fold(0, |bits, at| bits | bit(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash64;

    #[test]
    fn a_key_has_a_few_bits_of_one_word() {
        for words in [1, 7, 1 << 20] {
            let mut most = 0;
            for number in 0..1000_u64 {
                let (word, bits) = bloom_place(hash64(0, &number.to_le_bytes()), words);
                assert!(word < words && bits != 0 && bits.count_ones() <= BITS);
                most = most.max(word);
            }
            assert!(most >= words - words / 100 - 1, "{most} of {words}");
        }
    }
}
