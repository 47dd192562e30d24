//! The B+-tree whose child pointers carry shifts, generic over the content of its entries.
//!
//! ```text
//!                      [ +0   | +41  | +95 ]             shifts; offsets restart in every child
//!              ________/         |        \_______
//!     [ +0 | +17 | +30 ]   [ +0 | +25 ]   [ +0 | +12 ]
//!       |     |     |        |     |        |     |
//!      0 9   0 8   0 5      0 7   0 4 11   0 6   0 3 20   partial offsets, and what entries carry
//! ```
//!
//! The effective offset of an entry is its partial offset and the shifts on its path, added up
//! (Flex 3.1). Making room for L bytes adds L to the later entries of one leaf, and to the shifts
//! on the right of one path. [`FlexTree`](crate::FlexTree) is this tree with extents as entries; a
//! sparse index is this tree with intervals, and keys as pivots.
//!
//! # Invariants
//! - T1: entries are contiguous: child `i` covers exactly the bytes between shift `i` and the next.
//! - T2: in each node the first offset or shift is 0 (L1, N1). So a child's shift is also the pivot
//!   of its offsets, and nothing has to be kept apart for the two.
//! - T3: all leaves have the same depth, and none is empty but the only one of an empty tree.
//! - T4: no two neighbours below one parent would fit in three quarters of a node, unless they are
//!   leaves whose span would not fit 32 bits. The root has two children, or leaves, or nothing.
//! - T5: a node that was changed since the last cut has a changed parent.
//!
//! # Concurrency
//! One writer. A [`Snapshot`] is read by any thread, without a lock and without waiting.

mod check;
mod cut;
mod edit;
mod entry;
mod inner;
mod leaf;
mod node;
mod path;
mod remove;
mod restore;
mod search;
mod snapshot;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::sync::Arc;

pub use check::Shape;
pub use cut::{Cut, NodeRef};
use edit::Changed;
pub use edit::{Room, Side, Spot};
pub use entry::Entry;
use inner::{Children, Inner};
pub use leaf::Leaf;
pub use node::NodeId;
use node::{Ledger, Node};
pub use restore::{NodeImage, RestoreError};
pub use snapshot::{Entries, Found, Snapshot};

/// Entries of a leaf: with extents of 8 bytes a leaf takes 992.
pub const LEAF: usize = 80;

/// Children of an inner node: with offsets alone it takes about 2 KiB. Two levels of it above the
/// leaves have room for a million extents, three for a hundred million.
pub const INNER: usize = 128;

/// A tree of at most `C` entries a leaf and `F` children an inner node; see the module.
#[derive(Debug)]
pub struct ShiftTree<E: Entry, const C: usize = LEAF, const F: usize = INNER> {
    now: Snapshot<E, C, F>,
    ledger: Ledger,
}

impl<E: Entry, const C: usize, const F: usize> Default for ShiftTree<E, C, F> {
    fn default() -> Self {
        let mut ledger = Ledger::default();
        let root = Arc::new(Inner::root_of_nothing(&mut ledger));
        Self { now: Snapshot { root, len: 0 }, ledger }
    }
}

impl<E: Entry, const C: usize, const F: usize> ShiftTree<E, C, F> {
    /// Returns the present state, to be read in place.
    pub fn now(&self) -> &Snapshot<E, C, F> {
        &self.now
    }

    /// Returns the bytes of memory of all nodes: those of the present tree, and the nodes that only
    /// snapshots and cuts have. O(1).
    pub fn node_bytes(&self) -> u64 {
        self.ledger.total.bytes()
    }

    /// At most how many nodes are new since the last cut. O(1).
    pub fn new_nodes_max(&self) -> u64 {
        self.ledger.last.0 - self.ledger.sealed.0
    }

    /// Changes the leaf that `offset` and `room.side` mean: `change` gets it, and the place of the
    /// offset in it. `change` leaves at least one entry, and adds at most the entries and exactly
    /// the bytes of `room`. It puts nothing before the leaf's first entry, unless the spot is 0 and
    /// not [`Side::At`].
    ///
    /// All entries behind are shifted by the growth of the leaf. O(log N).
    ///
    /// # Panics
    /// If the offset is behind the last byte (for [`Side::At`]), behind the end (for
    /// [`Side::Before`]) or not the end (for [`Side::End`]), or `room` has half a leaf of entries
    /// or more. If `change` adds another number of bytes than `room` says, more entries than fit,
    /// or leaves none; then the tree is not to be used any more.
    #[inline]
    pub fn edit<R>(
        &mut self,
        offset: u64,
        room: Room,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> R {
        let is_within = match room.side {
            Side::At => offset < self.now.len,
            Side::Before => offset <= self.now.len,
            Side::End => offset == self.now.len,
        };
        assert!(is_within, "an offset behind the end, or an end that is none");
        assert!(room.entries < C / 2, "half of a leaf may have no room for the entries");
        let Some(path) = self.now.root.path(offset, room) else {
            let changed = self.edit_with_splits(offset, room, change);
            assert_eq!(changed.grown, u64::from(room.bytes), "a change grows its leaf as it said");
            return changed.result;
        };
        let (result, has_shrunk) =
            self.now.root.edit_on(&path, room.bytes, &mut self.ledger, change);
        self.now.len += u64::from(room.bytes);
        if has_shrunk {
            self.merge_at(offset, room.side);
        }
        result
    }

    /// As [`Self::edit`], for a change that may split nodes or take bytes away.
    #[cold]
    fn edit_with_splits<R>(
        &mut self,
        offset: u64,
        room: Room,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> Changed<R> {
        if self.now.root.is_full() {
            self.grow(room.side == Side::End);
        }
        let root = Arc::make_mut(&mut self.now.root);
        self.ledger.touch(&mut root.id);
        let changed = root.edit(offset, room, &mut self.ledger, change);
        self.now.len = self.now.len.wrapping_add(changed.grown);
        self.shrink();
        changed
    }

    /// Gives the entry with the byte at `offset` another length: bytes are added or removed at its
    /// end, and all entries behind are shifted. O(log N).
    ///
    /// # Panics
    /// If there is no such byte, or the length is 0.
    pub fn resize(&mut self, offset: u64, length: u32) {
        let found = self.now.get(offset).expect("an offset before the end");
        let (begin, old) = (found.offset, found.length);
        let room = Room { entries: 0, bytes: length.saturating_sub(old), side: Side::At };
        let change = |leaf: &mut Leaf<E, C>, spot: Spot| leaf.resize(spot.index, length);
        if length < old {
            self.edit_with_splits(begin, room, change);
        } else {
            self.edit(begin, room, change);
        }
    }

    /// Restores T4 where a leaf has got smaller.
    #[cold]
    fn merge_at(&mut self, offset: u64, side: Side) {
        let root = Arc::make_mut(&mut self.now.root);
        self.ledger.touch(&mut root.id);
        root.merge_at(offset, side, &mut self.ledger);
        self.shrink();
    }

    /// Removes the bytes from `from` to before `to`; all bytes behind move up (Flex 3.2,
    /// collapse-range). An entry that loses its head is left as [`Entry::tail`]. O(log N), and O(1)
    /// for each node that is dropped as a whole.
    ///
    /// One that loses bytes strictly within it is left as two, the second of which is its tail. Two
    /// entries of one key would break N3, so those with keys are made shorter by [`Self::resize`].
    ///
    /// # Panics
    /// If `to` is behind the end.
    pub fn remove(&mut self, from: u64, to: u64) {
        assert!(to <= self.now.len, "a range behind the end");
        if from >= to {
            return;
        }
        let is_within_one = self.now.get(from).is_some_and(|found| {
            found.offset < from && to < found.offset + u64::from(found.length)
        });
        if is_within_one {
            let room = Room { entries: 0, bytes: 0, side: Side::At };
            // An entry's length fits 32 bits, and so does a range within it.
            let length = (to - from) as u32;
            self.edit_with_splits(from, room, |leaf, spot| {
                leaf.remove(spot.inside, spot.inside + length);
            });
            return;
        }
        let root = Arc::make_mut(&mut self.now.root);
        self.ledger.touch(&mut root.id);
        root.remove(from, to, self.now.len, &mut self.ledger);
        self.now.len -= to - from;
        self.shrink();
    }

    /// Puts a root above the full one, and splits that.
    #[cold]
    fn grow(&mut self, is_append: bool) {
        let old = Arc::clone(&self.now.root);
        self.now.root = Arc::new(Inner::root_above(old, &mut self.ledger));
        let root = Arc::make_mut(&mut self.now.root);
        let Children::Inners(slots) = &root.children else {
            unreachable!("a root above an inner node has inner children");
        };
        let count = node::node(&slots[0]).count();
        root.split_child(0, if is_append { count - 1 } else { count / 2 }, &mut self.ledger);
    }

    /// Removes roots that have only one inner node as a child, and restores T3.
    #[cold]
    fn shrink(&mut self) {
        while self.now.root.count() == 1
            && let Children::Inners(slots) = &self.now.root.children
        {
            let only = Arc::clone(slots[0].as_ref().expect("a root of one child has it"));
            self.ledger.retire(self.now.root.id);
            self.now.root = only;
        }
        if self.now.root.count() == 0 {
            self.now.root.retire(&mut self.ledger);
            self.now.root = Arc::new(Inner::root_of_nothing(&mut self.ledger));
        }
    }
}
