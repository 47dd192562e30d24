//! A leaf: the sorted keys of one range, with their values, in three arrays.
//!
//! ```text
//! prefix   what all keys of the range begin with, kept once
//! heads    8 bytes of each key behind the prefix, as numbers: what a search looks at
//! slots    24 bytes each: number, place of tail and value, or a history
//! heap     [tail value][tail value]...   what is behind the head, and the small value
//! ```
//!
//! # Invariants
//! - I1. `heads` and `slots` have one entry per key, ascending by key.
//! - I2. Every key of the leaf's range begins with `prefix`; the range is the directory's.
//! - I3. `revision` changes whenever the range does, so that a thread that found the leaf in an
//!   older directory notices once it holds the lock.
//! - I4. `unpruned` counts the slots that hold more than one live version.

mod edit;
mod reshape;

use std::sync::Arc;

use arena::allocated_bytes;

use super::order::{HEAD_BYTES, head, tail};
use super::slot::{SMALL_VALUE_BYTES_MAX, Slot};

pub(crate) use edit::NewValue;
pub(crate) use reshape::LeafBuilder;

/// Keys above which a leaf is split.
pub(super) const LEAF_KEYS_MAX: usize = 64;
/// Bytes of heap above which a leaf of more than one key is split.
pub(super) const LEAF_HEAP_BYTES_MAX: usize = 64 << 10;
/// Keys below which a leaf is merged with its neighbour, if both then fit.
pub(super) const LEAF_KEYS_MIN: usize = 12;

/// The keys of one range; see the file's head.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    pub(super) revision: u32,
    prefix: Box<[u8]>,
    heads: Vec<u64>,
    slots: Vec<Slot>,
    heap: Vec<u8>,
    /// Bytes of the heap that no slot refers to.
    garbage: u32,
    /// Bytes of memory of all histories.
    history_bytes: usize,
    unpruned: u16,
    /// The largest number applied to any key of the range: what is below it and finished was
    /// applied before.
    applied: u64,
    /// Whether the leaf is in the list of leaves that have something to prune.
    queued: bool,
    /// Keys that were added at the upper end in a row: a load in order is split high.
    appended: u16,
}

/// The lengths of a leaf's allocations. To compare them costs less than to compute their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocations {
    prefix: usize,
    heads: usize,
    slots: usize,
    heap: usize,
    history_bytes: usize,
}

impl Allocations {
    /// Returns the bytes of memory that they take.
    pub(crate) fn memory(self) -> usize {
        allocated_bytes(self.prefix)
            + allocated_bytes(self.heads * size_of::<u64>())
            + allocated_bytes(self.slots * size_of::<Slot>())
            + allocated_bytes(self.heap)
            + self.history_bytes
    }
}

/// A value as a reader gets it under the lock: a long one is shared, to be copied later.
pub(crate) enum Found<'a> {
    /// In the leaf.
    Small(&'a [u8]),
    /// On its own.
    Large(&'a Arc<[u8]>),
}

impl<'a> Found<'a> {
    fn of(value: &'a Arc<[u8]>) -> Self {
        if value.len() > SMALL_VALUE_BYTES_MAX { Self::Large(value) } else { Self::Small(value) }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Large(bytes) => bytes,
        }
    }
}

impl Leaf {
    /// A leaf that the directory does not name any more; its revision keeps late readers out.
    pub(super) fn vacant(revision: u32) -> Self {
        Self { revision, ..Self::default() }
    }

    /// How many keys it holds, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The largest number applied so far to any key of its range.
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// A write numbered `seqno` is applied.
    pub(crate) fn note_applied(&mut self, seqno: u64) {
        self.applied = self.applied.max(seqno);
    }

    /// Returns the index of `key`, or the index at which it would be inserted. The leaf's range
    /// must contain the key (I2).
    pub(crate) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        debug_assert!(key.starts_with(&self.prefix), "a key outside of the leaf's range");
        let suffix = key.get(self.prefix.len()..).unwrap_or_default();
        let sought = head(suffix);
        let below = self.heads.partition_point(|head| *head < sought);
        if self.heads.get(below) != Some(&sought) {
            return Err(below);
        }
        let same = self.heads[below..].partition_point(|head| *head == sought);
        // Equal heads: a key of fewer than eight bytes is a prefix of the longer one, zeros
        // aside; keys of eight and more differ in their tails.
        let order = (suffix.len().min(HEAD_BYTES), tail(suffix));
        let found = self.slots[below..below + same]
            .binary_search_by(|slot| (self.head_len(slot), self.tail(slot)).cmp(&order));
        found.map(|at| below + at).map_err(|at| below + at)
    }

    /// The number of key `index`'s newest version.
    pub(crate) fn newest_seqno(&self, index: usize) -> u64 {
        self.slots[index].newest_seqno()
    }

    /// How many versions key `index` has.
    pub(crate) fn versions(&self, index: usize) -> usize {
        match &self.slots[index] {
            Slot::Plain { .. } => 1,
            Slot::Rich { history, .. } => history.len(),
        }
    }

    /// Key `index`'s newest value, if it is not a tombstone.
    pub(crate) fn newest(&self, index: usize) -> Option<Found<'_>> {
        match &self.slots[index] {
            slot @ Slot::Plain { .. } => Some(Found::Small(self.heap_value(slot))),
            Slot::Rich { history, .. } => history.newest().value.as_ref().map(Found::of),
        }
    }

    /// Key `index`'s value as of `pin`.
    pub(crate) fn at_pin(&self, index: usize, pin: u64) -> Option<Found<'_>> {
        match &self.slots[index] {
            slot @ Slot::Plain { seqno, .. } => {
                (*seqno <= pin).then(|| Found::Small(self.heap_value(slot)))
            }
            Slot::Rich { history, .. } => history.at(pin)?.value.as_ref().map(Found::of),
        }
    }

    /// Appends key `index` to `out`.
    pub(crate) fn push_key(&self, index: usize, out: &mut Vec<u8>) {
        let slot = &self.slots[index];
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(&self.heads[index].to_be_bytes()[..self.head_len(slot)]);
        out.extend_from_slice(self.tail(slot));
    }

    /// Bytes of key `index`.
    pub(crate) fn key_len(&self, index: usize) -> usize {
        self.slots[index].key_len()
    }

    pub(crate) fn key(&self, index: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.slots[index].key_len());
        self.push_key(index, &mut key);
        key
    }

    /// Bytes of memory beyond the struct itself.
    pub(crate) fn memory(&self) -> usize {
        self.allocations().memory()
    }

    /// Returns the lengths of the leaf's allocations.
    #[inline]
    pub(crate) fn allocations(&self) -> Allocations {
        Allocations {
            prefix: self.prefix.len(),
            heads: self.heads.capacity(),
            slots: self.slots.capacity(),
            heap: self.heap.capacity(),
            history_bytes: self.history_bytes,
        }
    }

    /// Slots that hold more than one live version.
    pub(crate) fn unpruned(&self) -> usize {
        usize::from(self.unpruned)
    }

    /// The number of its newest version.
    pub(crate) fn newest_of_all(&self) -> u64 {
        self.slots.iter().map(Slot::newest_seqno).max().unwrap_or(0)
    }

    /// Old versions and tombstones.
    #[cfg(test)]
    pub(crate) fn superseded(&self) -> usize {
        let extra = |slot: &Slot| match slot {
            Slot::Plain { .. } => 0,
            Slot::Rich { history, .. } => history.len() - usize::from(slot.is_live()),
        };
        self.slots.iter().map(extra).sum()
    }

    /// Whether it is due for a split.
    pub(crate) fn is_overfull(&self) -> bool {
        self.slots.len() > LEAF_KEYS_MAX
            || (self.slots.len() > 1 && self.live_heap_bytes() > LEAF_HEAP_BYTES_MAX)
    }

    /// Whether it is due for a merge.
    pub(crate) fn is_underfull(&self) -> bool {
        self.slots.len() < LEAF_KEYS_MIN && self.live_heap_bytes() < LEAF_HEAP_BYTES_MAX / 4
    }

    fn live_heap_bytes(&self) -> usize {
        self.heap.len() - self.garbage as usize
    }

    /// Bytes of a key's suffix that its head holds.
    fn head_len(&self, slot: &Slot) -> usize {
        (slot.key_len() - self.prefix.len()).min(HEAD_BYTES)
    }

    fn tail_len(&self, slot: &Slot) -> usize {
        (slot.key_len() - self.prefix.len()).saturating_sub(HEAD_BYTES)
    }

    fn tail(&self, slot: &Slot) -> &[u8] {
        &self.heap[slot.at()..][..self.tail_len(slot)]
    }

    fn heap_value(&self, slot: &Slot) -> &[u8] {
        &self.heap[slot.at() + self.tail_len(slot)..][..slot.heap_value_len()]
    }
}
