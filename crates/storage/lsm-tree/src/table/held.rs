//! Bytes of a block or of metadata, in memory of the cache or of a reader that bypasses the cache.

use std::ops::Deref;

use crate::cache::PieceCache;

/// See the file's head.
#[derive(Debug)]
pub enum Held {
    /// Of the system's allocator.
    Own(Vec<u8>),
    /// Memory of the cache, which counts it while it is referenced.
    Pooled(arena::pieces::Piece),
}

/// The place where bytes are to be held.
#[derive(Clone, Copy, Debug)]
pub enum Home<'a> {
    /// They are not to be cached.
    Own,
    /// Memory of this cache.
    Cache(&'a dyn PieceCache),
}

impl Home<'_> {
    /// Returns `len` bytes with any content.
    pub fn take(self, len: usize) -> Held {
        match self {
            Self::Own => Held::Own(vec![0; len]),
            Self::Cache(cache) => cache.memory(len),
        }
    }

    /// Copies these bytes.
    pub fn copy(self, bytes: &[u8]) -> Held {
        let mut copy = self.take(bytes.len());
        copy.as_mut().copy_from_slice(bytes);
        copy
    }
}

impl Held {
    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.capacity(),
            Self::Pooled(piece) => piece.capacity(),
        }
    }

    /// Sets the cache's mark on a piece of the cache's memory.
    pub fn mark(&self, mark: u64) {
        if let Self::Pooled(piece) = self {
            piece.mark(mark);
        }
    }

    /// Returns the bytes of [`Self::memory`] that belong to the cache.
    pub fn pooled(&self) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::Pooled(piece) => piece.capacity(),
        }
    }
}

impl From<Vec<u8>> for Held {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Pooled(piece) => piece,
        }
    }
}

impl AsMut<[u8]> for Held {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Pooled(piece) => piece,
        }
    }
}
