//! How a buffer of bytes grows: a small one at least doubles, a large one takes an eighth more.
//!
//! A buffer that doubles may take twice the memory of its contents. The largest value takes three
//! quarters of the clients' memory, so neither its request nor its reply may do that.

/// Bytes of a buffer from which on it grows by an eighth.
const LARGE_BYTES: usize = 1 << 20;
/// Bytes of a buffer up to which it has a power of two.
const SMALL_BYTES: usize = 16 << 10;

/// Returns the capacity that a buffer of `len` bytes and `capacity` has once `more` bytes fit.
pub(crate) fn capacity_with(len: usize, capacity: usize, more: usize) -> usize {
    let needed = len.saturating_add(more);
    if needed <= capacity {
        return capacity;
    }
    if needed <= SMALL_BYTES {
        return needed.next_power_of_two();
    }
    let step = if capacity < LARGE_BYTES { capacity } else { capacity / 8 };
    needed.max(capacity + step)
}

/// Makes room for `more` bytes at the end of `buffer`.
#[inline]
pub(crate) fn reserve(buffer: &mut Vec<u8>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        grow(buffer, more);
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, more: usize) {
    let capacity = capacity_with(buffer.len(), buffer.capacity(), more);
    buffer.reserve_exact(capacity - buffer.len());
}

#[cfg(test)]
mod tests;
