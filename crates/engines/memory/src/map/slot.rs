//! The content of a leaf for one key: one small value in the leaf's heap, or a separate history.
//!
//! The common key has one version with a small value. Then its slot says where value and number
//! are, and nothing else is allocated. Anything else (older versions that a snapshot may see, a
//! tombstone, a large value) takes a [`History`].

use std::sync::Arc;

use arena::allocated_bytes;

/// Bytes of the longest value that is kept in a leaf's heap. Longer ones are shared, so that a
/// reader copies them outside of the leaf's lock.
pub(crate) const SMALL_VALUE_BYTES_MAX: usize = 1024;

/// One key's place in a leaf. `at` is the offset in the heap of the key's tail; a plain value
/// follows it.
#[derive(Debug)]
pub(super) enum Slot {
    /// One version, its value in the heap.
    Plain { seqno: u64, at: u32, value_len: u32, key_len: u16 },
    /// Anything else.
    Rich { history: Box<History>, at: u32, key_len: u16 },
}

const _: () = assert!(size_of::<Slot>() == 24);

impl Slot {
    pub(super) fn at(&self) -> usize {
        match self {
            Self::Plain { at, .. } | Self::Rich { at, .. } => *at as usize,
        }
    }

    pub(super) fn set_at(&mut self, to: u32) {
        match self {
            Self::Plain { at, .. } | Self::Rich { at, .. } => *at = to,
        }
    }

    pub(super) fn key_len(&self) -> usize {
        match self {
            Self::Plain { key_len, .. } | Self::Rich { key_len, .. } => usize::from(*key_len),
        }
    }

    /// Bytes of the value in the heap.
    pub(super) fn heap_value_len(&self) -> usize {
        match self {
            Self::Plain { value_len, .. } => *value_len as usize,
            Self::Rich { .. } => 0,
        }
    }

    /// The number of the newest version.
    pub(super) fn newest_seqno(&self) -> u64 {
        match self {
            Self::Plain { seqno, .. } => *seqno,
            Self::Rich { history, .. } => history.newest().seqno,
        }
    }

    /// Whether it is more than one live version.
    pub(super) fn is_prunable(&self) -> bool {
        match self {
            Self::Plain { .. } => false,
            Self::Rich { history, .. } => history.is_prunable(),
        }
    }

    /// Whether the newest version is a value.
    pub(super) fn is_live(&self) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Rich { history, .. } => history.newest().value.is_some(),
        }
    }
}

/// One version of a key: a value, or `None` for a tombstone.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) seqno: u64,
    pub(super) value: Option<Arc<[u8]>>,
}

/// The versions of a key that a reader may still see.
///
/// # Invariants
/// - Never empty; ascending by number, the newest last.
#[derive(Debug)]
pub(super) struct History {
    versions: Vec<Version>,
}

impl History {
    pub(super) fn of(version: Version) -> Self {
        Self { versions: vec![version] }
    }

    pub(super) fn newest(&self) -> &Version {
        self.versions.last().expect("a history has a version")
    }

    pub(super) fn newest_mut(&mut self) -> &mut Version {
        self.versions.last_mut().expect("a history has a version")
    }

    /// The newest version at or below `pin`.
    pub(super) fn at(&self, pin: u64) -> Option<&Version> {
        self.versions.iter().rev().find(|version| version.seqno <= pin)
    }

    pub(super) fn push(&mut self, version: Version) {
        debug_assert!(self.newest().seqno <= version.seqno);
        self.versions.push(version);
    }

    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }

    pub(super) fn is_prunable(&self) -> bool {
        self.versions.len() > 1 || self.newest().value.is_none()
    }

    /// Drops every version that has a newer one and that no reader can see: `is_seen(its number,
    /// the newer number)` returns false.
    pub(super) fn prune(&mut self, is_seen: &dyn Fn(u64, u64) -> bool) {
        for index in (0..self.versions.len().saturating_sub(1)).rev() {
            if !is_seen(self.versions[index].seqno, self.versions[index + 1].seqno) {
                self.versions.remove(index);
            }
        }
    }

    /// Returns the bytes of memory, including the box and the memory that the versions own.
    pub(super) fn memory(&self) -> usize {
        allocated_bytes(size_of::<Self>())
            + allocated_bytes(self.versions.capacity() * size_of::<Version>())
            + self
                .versions
                .iter()
                .map(|version| value_memory(version.value.as_deref()))
                .sum::<usize>()
    }
}

/// Bytes that a value takes outside of a heap: the bytes and the two counts of the `Arc`.
fn value_memory(value: Option<&[u8]>) -> usize {
    value.map_or(0, |bytes| allocated_bytes(bytes.len() + 2 * size_of::<usize>()))
}
