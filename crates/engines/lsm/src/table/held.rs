//! Bytes of a block or of metadata, in the memory of the cache or of whoever reads them past it.

use std::ops::Deref;

use crate::cache::Cache;

/// See the file's head.
#[derive(Debug)]
pub(crate) enum Held {
    /// Of the system's allocator.
    Own(Vec<u8>),
    /// Of the cache, which counts it as long as anybody holds it.
    Pooled(sync::pieces::Piece),
}

/// Where bytes are to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home<'a> {
    /// They are not to be cached.
    Own,
    Cache(&'a Cache),
}

impl Home<'_> {
    /// So many bytes; anything may be in them.
    pub(crate) fn take(self, len: usize) -> Held {
        match self {
            Self::Own => Held::Own(vec![0; len]),
            Self::Cache(cache) => Held::Pooled(cache.piece(len)),
        }
    }

    /// A copy of these bytes.
    pub(crate) fn copy(self, bytes: &[u8]) -> Held {
        let mut copy = self.take(bytes.len());
        copy.as_mut().copy_from_slice(bytes);
        copy
    }
}

impl Held {
    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.capacity(),
            Self::Pooled(piece) => piece.capacity(),
        }
    }

    /// The cache calls it so.
    pub(crate) fn mark(&self, mark: u64) {
        if let Self::Pooled(piece) = self {
            piece.mark(mark);
        }
    }

    /// Of these, what is of the cache.
    pub(crate) fn pooled(&self) -> usize {
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
