//! The memory of ranges: they share one, which moves to the range that saves most with it.

use thermocline::Options;

/// Bytes that each range counts at least, when an LTC decides whether to open another one. The
/// engine of a range keeps a mebibyte of them.
pub(crate) const RANGE_BYTES_MIN: u64 = 4 << 20;
/// The part of the memory of an LTC that a range begins with at most.
const FIRST_PART: u64 = 8;

/// Returns whether a memory is enough for another range, if `open` are open.
pub(crate) fn has_room(memory_bytes: u64, open: usize) -> bool {
    (open as u64).saturating_add(1).saturating_mul(RANGE_BYTES_MIN) <= memory_bytes
}

/// Returns the memory that a range begins with at most.
pub(crate) fn of_range(memory_bytes: u64) -> u64 {
    (memory_bytes / FIRST_PART).max(Options::MEMORY_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_enough_for_ranges_by_their_least() {
        assert!(has_room(1 << 30, 255) && !has_room(1 << 30, 256));
        assert!(!has_room(RANGE_BYTES_MIN - 1, 0));
        assert_eq!(of_range(1 << 30), 128 << 20);
        assert_eq!(of_range(0), Options::MEMORY_BYTES_MIN);
    }
}
