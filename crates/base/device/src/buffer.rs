//! Memory for I/O, aligned as direct I/O wants it.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// An owned byte buffer whose first byte is at a multiple of [`Buffer::ALIGNMENT`]. It is a window
/// of an ordinary allocation, so it needs no unsafe code, and it does not move while owned.
pub struct Buffer {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Enough for every block device that we know.
    pub const ALIGNMENT: usize = 4096;

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let storage = vec![0; len + Self::ALIGNMENT - 1];
        let start = storage.as_ptr().align_offset(Self::ALIGNMENT);
        Self { storage, start, len }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
