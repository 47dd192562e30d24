//! Finds the place of a number in a node's sorted array, without a branch that depends on it.
//!
//! Unused slots are filled with the type's largest value. So a search covers the whole array and
//! does not read the node's count: one cache line less, and loops of a known length.

/// Distance of the numbers that the first round compares.
const BLOCK: usize = 16;

/// Distance of the numbers that the second round compares.
const STEP: usize = 4;

/// Returns the index of the last number that is at most `x`, and 0 if there is none.
///
/// Three rounds, of the first number of every block, every fourth number of one, and the three that
/// are left. In a round the results of comparisons are added up: its loads do not depend on each
/// other, so their cache misses overlap, which those of a binary search do not.
#[inline(always)]
pub(super) fn last_at_most<T: Copy + PartialOrd, const N: usize>(sorted: &[T; N], x: T) -> usize {
    let mut blocks = 0;
    let mut first = BLOCK;
    while first < N {
        blocks += usize::from(sorted[first] <= x);
        first += BLOCK;
    }
    let begin = blocks * BLOCK;
    let Some(block) = sorted[begin..].first_chunk::<BLOCK>() else {
        let found = sorted[begin..].iter().filter(|number| **number <= x).count();
        return (begin + found).saturating_sub(1);
    };
    let is_passed = |index: usize| usize::from(block[index % BLOCK] <= x);
    let step = STEP * (is_passed(STEP) + is_passed(2 * STEP) + is_passed(3 * STEP));
    begin + step + is_passed(step + 1) + is_passed(step + 2) + is_passed(step + 3)
}
