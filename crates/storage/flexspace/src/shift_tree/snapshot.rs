//! A state of a tree, and all that can be read from it.

use std::ops::Range;
use std::sync::Arc;

use sync::prefetch;

use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{COUNTS_BYTES, NodeId, node};
use super::{INNER, LEAF};

/// A state of a [`ShiftTree`](super::ShiftTree) that never changes.
///
/// Taking and cloning one costs O(1): it shares the tree's nodes. A writer copies each node that a
/// snapshot holds before it first changes it, so readers never wait, nor does the writer. A copy of
/// an inner node counts a reference to each of its children, so a snapshot shared by many readers
/// is cheaper than one for each of them.
#[derive(Debug)]
pub struct Snapshot<E: Entry, const C: usize = LEAF, const F: usize = INNER> {
    pub(super) root: Arc<Inner<E, C, F>>,
    pub(super) len: u64,
}

/// An entry and its place.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'a, E> {
    /// Its effective offset.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
    /// The content of the entry.
    pub entry: &'a E,
}

impl<E: Entry, const C: usize, const F: usize> Clone for Snapshot<E, C, F> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root), len: self.len }
    }
}

impl<E: Entry, const C: usize, const F: usize> Snapshot<E, C, F> {
    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of memory of its nodes, including nodes that other states have as well.
    /// Visits the inner nodes: one for up to `F` leaves.
    pub fn node_bytes(&self) -> u64 {
        bytes_of(&self.root)
    }

    /// Returns the identity of the root, which identifies the whole state among the nodes of a cut.
    pub fn root(&self) -> NodeId {
        self.root.id
    }

    /// Returns the entry with the byte at `offset`. Costs one node a level (Flex 3.1).
    pub fn get(&self, offset: u64) -> Option<Found<'_, E>> {
        if offset >= self.len {
            return None;
        }
        let (leaf, begin) = self.leaf_at(offset);
        Some(found(leaf, begin, leaf.find((offset - begin) as u32)))
    }

    /// Returns the entries with the bytes of `range`, in order; the first and the last may be
    /// outside of it in part. Costs one lookup a leaf (Flex 3.2, querying mappings).
    pub fn range(&self, range: Range<u64>) -> Entries<'_, E, C, F> {
        let end = range.end.min(self.len);
        let mut entries = Entries { snapshot: self, leaf: None, index: 0, begin: 0, start: 0, end };
        if range.start < end {
            let (leaf, begin) = self.leaf_at(range.start);
            entries.index = leaf.find((range.start - begin) as u32);
            entries.start = leaf.start(entries.index);
            (entries.leaf, entries.begin) = (Some(leaf), begin);
        }
        entries
    }

    /// Returns the leaf with the byte at `offset`, and its first byte's effective offset.
    pub(super) fn leaf_at(&self, offset: u64) -> (&Leaf<E, C>, u64) {
        let mut inner = &*self.root;
        let mut begin = 0;
        loop {
            let index = inner.child_at(offset - begin);
            begin += inner.shifts[index];
            match &inner.children {
                Children::Leaves(slots) => {
                    let leaf = node(&slots[index]);
                    // The place of its entry is known only when its offsets are there.
                    prefetch(leaf);
                    return (leaf, begin);
                }
                Children::Inners(slots) => inner = node(&slots[index]),
            }
        }
    }

    /// Returns the last entry whose key is at most `key`, by the pivots, and the first one if there
    /// is none; `key_of` gives an entry's key. So a sparse index finds an interval (Flex 5.1).
    pub fn get_by_key<K: Ord + ?Sized>(
        &self,
        key: &K,
        key_of: impl Fn(&E) -> &K,
        pivot_of: impl Fn(&E::Pivot) -> &K,
    ) -> Option<Found<'_, E>> {
        if self.is_empty() {
            return None;
        }
        let mut inner = &*self.root;
        let mut begin = 0;
        loop {
            let pivots = &inner.pivots[1..inner.count()];
            let index = pivots.partition_point(|pivot| pivot_of(pivot) <= key);
            begin += inner.shifts[index];
            match &inner.children {
                Children::Leaves(slots) => {
                    let leaf = node(&slots[index]);
                    let behind = leaf.entries().partition_point(|entry| key_of(entry) <= key);
                    return Some(found(leaf, begin, behind.saturating_sub(1)));
                }
                Children::Inners(slots) => inner = node(&slots[index]),
            }
        }
    }
}

fn found<E: Entry, const C: usize>(leaf: &Leaf<E, C>, begin: u64, index: usize) -> Found<'_, E> {
    Found {
        offset: begin + u64::from(leaf.start(index)),
        length: leaf.length(index),
        entry: leaf.entry(index),
    }
}

/// The entries of a range; see [`Snapshot::range`].
#[derive(Debug)]
pub struct Entries<'a, E: Entry, const C: usize = LEAF, const F: usize = INNER> {
    snapshot: &'a Snapshot<E, C, F>,
    /// The leaf of the next entry; none at the end.
    leaf: Option<&'a Leaf<E, C>>,
    /// The next entry's index in the leaf.
    index: usize,
    /// The offsets at which the leaf and the next entry begin.
    begin: u64,
    start: u32,
    /// The end of the range.
    end: u64,
}

impl<'a, E: Entry, const C: usize, const F: usize> Iterator for Entries<'a, E, C, F> {
    type Item = Found<'a, E>;

    #[inline]
    fn next(&mut self) -> Option<Found<'a, E>> {
        let mut leaf = self.leaf?;
        let offset = self.begin + u64::from(self.start);
        if offset >= self.end {
            self.leaf = None;
            return None;
        }
        if self.index == leaf.count() {
            // The inner nodes are in the processor's cache still: no links between leaves are
            // needed, which a copy of a leaf would have to mend in both neighbours.
            (leaf, self.begin) = self.snapshot.leaf_at(offset);
            (self.leaf, self.index, self.start) = (Some(leaf), 0, 0);
        }
        let next = leaf.start(self.index + 1);
        let length = next - self.start;
        let entry = leaf.entry(self.index);
        self.start = next;
        self.index += 1;
        Some(Found { offset, length, entry })
    }
}

/// Returns the bytes of an inner node and of all below it.
fn bytes_of<E: Entry, const C: usize, const F: usize>(inner: &Inner<E, C, F>) -> u64 {
    let below = match &inner.children {
        Children::Leaves(_) => (inner.count() * (size_of::<Leaf<E, C>>() + COUNTS_BYTES)) as u64,
        Children::Inners(slots) => {
            slots.iter().take(inner.count()).map(|child| bytes_of(node(child))).sum()
        }
    };
    (size_of::<Inner<E, C, F>>() + COUNTS_BYTES) as u64 + below
}
