//! The memory that the allocator takes for a piece.

/// Returns the bytes that the system's allocator takes for a piece of `len` bytes.
pub(crate) fn allocated_bytes(len: usize) -> u64 {
    if len == 0 { 0 } else { ((len + 8).next_multiple_of(16) as u64).max(32) }
}
