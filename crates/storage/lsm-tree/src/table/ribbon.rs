//! A ribbon filter: it gives a Bloom filter's result in three quarters of its bits, and takes
//! longer to build.
//!
//! It is a homogeneous one (Dillinger, Hübschle-Schneider, Sanders and Walzer, *Fast Succinct
//! Retrieval and Approximate Membership using Ribbon*): a table of bits, of some columns and about
//! one row for each key. A key's hash names a row and 128 coefficients, which select rows among the
//! 128 from there on. The table is such that for each key, in every column, the bits of its rows
//! add up to zero. For another key each column does so with probability one half, so all `c`
//! columns do with probability one in `2^c`.
//!
//! 1. Each key is an equation. Elimination brings all of them into a band in which at most one
//!    begins at each row. An equation that follows from others adds nothing, and none contradicts
//!    others, since all sums are zero.
//! 2. From the last row on, the equation of a row decides its bits. If a row has none, its bits are
//!    random.
//!
//! # Format
//! 128 and the number of columns (`u8`), then for each 128 rows one word of 128 bits for each
//! column, the first row being the lowest bit. Little-endian.

#[cfg(all(test, not(shuttle)))]
mod tests;

use codec::{Corruption, hash64};

use super::held::{Held, Home};

/// Bit that is set in the first byte, next to the number of columns.
pub(super) const MARK: u8 = 0x80;
/// More columns than this gain nothing.
const COLUMNS_MAX: u8 = 30;
/// Rows that a key has coefficients for, and rows of a block.
const WIDTH: usize = u128::BITS as usize;
/// Bytes of a word.
const WORD: usize = size_of::<u128>();
/// Seeds of the two halves of a key's coefficients, and of the bits that no equation decides; part
/// of the format but for the last.
const LOW_SEED: u64 = 0x7269_6262_6f6e_2d6c;
const HIGH_SEED: u64 = 0x7269_6262_6f6e_2d68;
const FREE_SEED: u64 = 0x7269_6262_6f6e_2d66;

/// Returns about the bytes of memory that building a filter of `keys` keys takes.
pub(super) fn building_bytes(keys: usize, columns: u8) -> usize {
    let rows = rows(keys, columns);
    rows * WORD + rows * usize::from(columns) / 4
}

/// Returns the columns that let no more keys through than a Bloom filter of `bits_per_key` bits.
pub(super) fn columns(bits_per_key: u32) -> u8 {
    (f64::from(bits_per_key) * std::f64::consts::LN_2).ceil().clamp(1.0, f64::from(COLUMNS_MAX))
        as u8
}

/// Returns the rows for `keys` keys: with fewer, too many absent keys would follow from others.
fn rows(keys: usize, columns: u8) -> usize {
    let spare = (4.0 + f64::from(columns) / 4.0) / WIDTH as f64;
    let rows = (keys as f64 * (1.0 + spare)).ceil() as usize + WIDTH / 2;
    rows.div_ceil(WIDTH).max(1) * WIDTH
}

/// Returns the first row of a key, and its coefficients, of which the first is one.
fn equation(hash: u64, rows: usize) -> (usize, u128) {
    let places = (rows - WIDTH + 1) as u128;
    let first = (u128::from(hash) * places) >> u64::BITS;
    let half = |seed| u128::from(hash64(seed, &hash.to_le_bytes()));
    (first as usize, half(HIGH_SEED) << u64::BITS | half(LOW_SEED) | 1)
}

/// Returns the encoded filter of the keys with these hashes.
pub(super) fn build(hashes: &[u64], columns: u8) -> Vec<u8> {
    let rows = rows(hashes.len(), columns);
    let band = band(hashes, rows);
    // For each column, the bits of the rows after the row that is being decided, the next one
    // lowest.
    let mut behind = vec![0_u128; usize::from(columns)];
    let mut words = vec![0_u128; rows / WIDTH * usize::from(columns)];
    for (row, coefficients) in band.iter().enumerate().rev() {
        let free = hash64(FREE_SEED, &(row as u64).to_le_bytes());
        for (column, behind) in behind.iter_mut().enumerate() {
            let shifted = *behind << 1;
            let bit = match coefficients {
                0 => u128::from(free >> column & 1),
                some => u128::from((shifted & some).count_ones() & 1),
            };
            *behind = shifted | bit;
            if row.is_multiple_of(WIDTH)
                && let Some(word) = words.get_mut(row / WIDTH * usize::from(columns) + column)
            {
                *word = *behind;
            }
        }
    }
    let mut bytes = vec![MARK | columns];
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes
}

/// Step 1: returns for each row the coefficients of the equation that begins there; zero if there
/// is none.
fn band(hashes: &[u64], rows: usize) -> Vec<u128> {
    let mut band = vec![0_u128; rows];
    for hash in hashes {
        let (mut row, mut coefficients) = equation(*hash, rows);
        while coefficients != 0 {
            let skipped = coefficients.trailing_zeros();
            coefficients >>= skipped;
            row += skipped as usize;
            let Some(there) = band.get_mut(row) else { break };
            if *there == 0 {
                *there = coefficients;
                break;
            }
            coefficients ^= *there;
        }
    }
    band
}

/// A decoded filter.
#[derive(Debug)]
pub struct Ribbon {
    pub(super) columns: usize,
    /// Its words, in their stored form.
    pub(super) field: Held,
}

impl Ribbon {
    /// Decodes the result of [`build`], behind its first byte.
    pub(super) fn decode(first: u8, field: &[u8], home: Home<'_>) -> Result<Self, Corruption> {
        let columns = first & !MARK;
        let block = usize::from(columns) * WORD;
        let is_whole = (1..=COLUMNS_MAX).contains(&columns)
            && !field.is_empty()
            && field.len().is_multiple_of(block);
        if !is_whole {
            return Err(Corruption::new("a ribbon filter is no whole number of blocks", 0));
        }
        Ok(Self { columns: usize::from(columns), field: home.copy(field) })
    }

    /// Returns whether the key with this hash may be there.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let (words, _) = self.field.as_chunks::<WORD>();
        let (first, coefficients) = equation(hash, words.len() / self.columns * WIDTH);
        let (block, skipped) = (first / WIDTH, first % WIDTH);
        let Some((_, words)) = words.split_at_checked(block * self.columns) else {
            return true;
        };
        let (here, next) = words.split_at_checked(self.columns).unwrap_or((words, &[]));
        here.iter().enumerate().all(|(column, word)| {
            // A block has no rows behind its last one; the next block has.
            let rest = match skipped {
                0 => 0,
                skipped => next.get(column).map_or(0, |next| read(next) << (WIDTH - skipped)),
            };
            ((read(word) >> skipped | rest) & coefficients).count_ones().is_multiple_of(2)
        })
    }
}

fn read(word: &[u8; WORD]) -> u128 {
    u128::from_le_bytes(*word)
}
