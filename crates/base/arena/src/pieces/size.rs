//! The lengths that slots have.
//!
//! Up to [`LINEAR_BYTES`] they are multiples of [`STEP_BYTES`]; above, each doubling is cut into
//! the number of steps that there are before it: a 32nd part.

/// The first length, and the difference of two up to [`LINEAR_BYTES`].
const STEP_BYTES: usize = 64;
const LINEAR_BITS: u32 = if cfg!(any(loom, shuttle)) { 7 } else { 11 };
const LINEAR_BYTES: usize = 1 << LINEAR_BITS;
/// Classes up to there, and of each doubling above.
const STEPS: usize = LINEAR_BYTES / STEP_BYTES;
/// Doublings above: up to 64 KiB. Longer ones are not worth a slab.
const DOUBLINGS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 5 };

/// How many there are.
pub(super) const CLASSES: usize = STEPS + DOUBLINGS * STEPS;

/// The class of pieces of this length, unless it is above the longest.
pub(super) fn class(len: usize) -> Option<usize> {
    let last = len.saturating_sub(1);
    if last < LINEAR_BYTES {
        return Some(last / STEP_BYTES);
    }
    let doubling = (last.ilog2() - LINEAR_BITS) as usize;
    let step = (last - (LINEAR_BYTES << doubling)) / (STEP_BYTES << doubling);
    Some(STEPS + doubling * STEPS + step).filter(|class| *class < CLASSES)
}

/// The length of a class's slots.
pub(super) fn bytes(class: usize) -> usize {
    if class < STEPS {
        return (class + 1) * STEP_BYTES;
    }
    let (doubling, step) = ((class - STEPS) / STEPS, (class - STEPS) % STEPS);
    (LINEAR_BYTES + (step + 1) * STEP_BYTES) << doubling
}
