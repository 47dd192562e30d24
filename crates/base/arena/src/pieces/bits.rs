//! A set of small numbers, as bits.

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

/// A set of numbers; it takes a bit for each up to its largest so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn has(&self, number: usize) -> bool {
        self.0.get(number / BITS).is_some_and(|word| word >> (number % BITS) & 1 == 1)
    }

    /// Returns whether it is new.
    pub(super) fn insert(&mut self, number: usize) -> bool {
        if self.0.len() <= number / BITS {
            self.0.resize(number / BITS + 1, 0);
        }
        let (word, bit) = (&mut self.0[number / BITS], 1 << (number % BITS));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(super) fn remove(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / BITS) {
            *word &= !(1 << (number % BITS));
        }
    }

    /// Has `number` from now on, or not.
    pub(super) fn set(&mut self, number: usize, is_in: bool) {
        if is_in {
            self.insert(number);
        } else {
            self.remove(number);
        }
    }

    /// How many are in.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn first(&self) -> Option<usize> {
        let at = self.0.iter().position(|word| *word != 0)?;
        Some(at * BITS + self.0[at].trailing_zeros() as usize)
    }

    pub(super) fn last(&self) -> Option<usize> {
        let at = self.0.iter().rposition(|word| *word != 0)?;
        Some(at * BITS + self.0[at].ilog2() as usize)
    }

    /// Whether any in the range, which is not empty, is in.
    pub(super) fn any_in(&self, range: Range<usize>) -> bool {
        let (first, last) = (range.start / BITS, (range.end - 1) / BITS);
        (first..=last).any(|at| {
            let low = if at == first { u64::MAX << (range.start % BITS) } else { u64::MAX };
            let high =
                if at == last { u64::MAX >> (BITS - 1 - (range.end - 1) % BITS) } else { u64::MAX };
            self.0.get(at).is_some_and(|word| word & low & high != 0)
        })
    }
}
