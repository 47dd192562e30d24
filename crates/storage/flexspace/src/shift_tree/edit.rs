//! The change of one leaf, with all changes that follow from it on the path to the root.
//! If no node has to be split, `path.rs` does the same quicker.
//!
//! 1. On the way down, a child without room is split, so that no split ever moves up (Flex 3.2).
//! 2. The leaf is changed, and so is its span.
//! 3. On the way up, that change of span is added to all shifts on the right of the path: each
//!    later entry has exactly one of them on its own path.
//! 4. A node that has shrunk or was split is merged with a neighbour if both fit well in one.

use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{Ledger, node, node_mut, put_in};
use std::sync::Arc;

/// The leaf that an offset means, and the room that it must have.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Entries that may be added, fewer than half of a leaf has: a leaf without room for them is
    /// halved once. If the offset is within an entry, one more may be added, as dividing it does.
    pub entries: usize,
    /// Bytes that are added, exactly.
    pub bytes: u32,
    /// The leaf that the offset means.
    pub side: Side,
}

/// Which leaf is meant by an offset, where two meet.
///
/// If the bytes to be added do not fit the span of that leaf, the change first gets a leaf of its
/// own. For `At` it has the entry at the offset and nothing else, for the others nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one with the byte at the offset.
    At,
    /// The one with the byte before the offset, so that the entry on the left is in it; the first
    /// one for offset 0.
    Before,
    /// The last one; the offset is the tree's length.
    End,
}

/// A place in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The offset in the leaf.
    pub inside: u32,
    /// The index of the entry with the byte at that offset, or with the byte before it if not
    /// [`Side::At`]. It is 0 if `inside` is 0 and not [`Side::At`]: no entry is before, so an added
    /// entry becomes the leaf's first.
    pub index: usize,
}

/// The effect of a change on the parent.
pub(super) struct Changed<R> {
    /// By how much the span grew, in two's complement.
    pub(super) grown: u64,
    /// The result of the caller's change.
    pub(super) result: R,
}

impl<E: Entry, const C: usize, const F: usize> Inner<E, C, F> {
    /// Changes the leaf at `offset`, which `change` gets with the offset in it. This node is not
    /// full.
    pub(super) fn edit<R>(
        &mut self,
        offset: u64,
        room: Room,
        ledger: &mut Ledger,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> Changed<R> {
        let index = self.child_for(offset, room.side);
        if !self.is_child_full(index, offset, room) {
            return self.edit_child(index, offset, room, ledger, change);
        }
        self.split_full_child(index, offset, room, ledger);
        let index = self.child_for(offset, room.side);
        let count = self.count();
        let changed = self.edit_child(index, offset, room, ledger, change);
        // Half a node may be small enough for the neighbour beyond it.
        let end = index + 2 + self.count().saturating_sub(count);
        self.merge_children(index.saturating_sub(1)..end.min(self.count()), ledger);
        changed
    }

    #[inline]
    fn edit_child<R>(
        &mut self,
        index: usize,
        offset: u64,
        room: Room,
        ledger: &mut Ledger,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> Changed<R> {
        let inside = offset - self.shifts[index];
        match &mut self.children {
            Children::Leaves(_) => {
                // A leaf's span fits 32 bits (L3), and the offset is at most its end.
                self.edit_leaf(index, inside as u32, room, ledger, change)
            }
            Children::Inners(slots) => {
                let child = node_mut(&mut slots[index], ledger);
                let count = child.count;
                let changed = child.edit(inside, room, ledger, change);
                let is_smaller = child.count < count;
                self.shift_later(index, changed.grown);
                if is_smaller {
                    self.merge_children(index..index + 1, ledger);
                }
                changed
            }
        }
    }

    #[inline(always)]
    pub(super) fn child_for(&self, offset: u64, side: Side) -> usize {
        match side {
            Side::At => self.child_at(offset),
            Side::Before => self.child_at(offset.saturating_sub(1)),
            Side::End => self.count() - 1,
        }
    }

    /// Returns whether child `index` has to be split before it is walked into.
    #[inline]
    fn is_child_full(&self, index: usize, offset: u64, room: Room) -> bool {
        match &self.children {
            Children::Leaves(slots) => {
                // A leaf's span fits 32 bits (L3), and the offset is at most its end.
                let inside = (offset - self.shifts[index]) as u32;
                !node(&slots[index]).has_room(inside, room.entries)
            }
            Children::Inners(slots) => node(&slots[index]).is_full(),
        }
    }

    /// Halves child `index`. If entries are added at a leaf's end, the leaf is kept nearly whole
    /// instead: more will be added behind, and it will not grow any more.
    #[cold]
    fn split_full_child(&mut self, index: usize, offset: u64, room: Room, ledger: &mut Ledger) {
        let (count, is_end) = match &self.children {
            Children::Leaves(slots) => {
                let leaf = node(&slots[index]);
                (leaf.count(), offset - self.shifts[index] == u64::from(leaf.span()))
            }
            Children::Inners(slots) => (node(&slots[index]).count(), room.side == Side::End),
        };
        self.split_child(index, if is_end { count - 1 } else { count / 2 }, ledger);
    }

    #[inline]
    fn edit_leaf<R>(
        &mut self,
        index: usize,
        inside: u32,
        room: Room,
        ledger: &mut Ledger,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> Changed<R> {
        let Children::Leaves(slots) = &mut self.children else {
            unreachable!("the caller has seen that the children are leaves");
        };
        let leaf = node_mut(&mut slots[index], ledger);
        if leaf.span().checked_add(room.bytes).is_none() {
            return self.edit_alone(index, inside, room, ledger, change);
        }
        let (count, span) = (leaf.count(), leaf.span());
        let spot = leaf.spot(inside, room.side);
        let result = change(leaf, spot);
        let grown = u64::from(leaf.span()).wrapping_sub(u64::from(span));
        let is_small = leaf.count() <= Leaf::<E, C>::MERGED_COUNT_MAX;
        let may_merge = leaf.has_shrunk(count) || leaf.span() < span && is_small;
        assert!(leaf.count() > 0, "a change leaves entries in its leaf");
        self.shift_later(index, grown);
        if may_merge {
            self.merge_children(index..index + 1, ledger);
        }
        Changed { grown, result }
    }

    /// Does the change if the leaf's span would not fit 32 bits. First makes a leaf of its own for
    /// it, with the entry at the offset, or with nothing between two entries; then merges leaves if
    /// they fit.
    #[cold]
    fn edit_alone<R>(
        &mut self,
        index: usize,
        inside: u32,
        room: Room,
        ledger: &mut Ledger,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> Changed<R> {
        let Children::Leaves(slots) = &mut self.children else {
            unreachable!("the caller has seen that the children are leaves");
        };
        let leaf = node_mut(&mut slots[index], ledger);
        let (from, to) = match room.side {
            Side::At => (leaf.find(inside), leaf.find(inside) + 1),
            Side::Before | Side::End => {
                let boundary = leaf.divide(inside);
                (boundary, boundary)
            }
        };
        let (count, begin) = (leaf.count(), leaf.start(from));
        if to < count && to > 0 {
            self.split_child(index, to, ledger);
        }
        let alone = if from < to && from > 0 {
            self.split_child(index, from, ledger);
            index + 1
        } else if from == to && count > 0 {
            self.put_empty_leaf(index + usize::from(from > 0), begin, index, ledger)
        } else {
            index
        };
        let Children::Leaves(slots) = &mut self.children else {
            unreachable!("a split keeps the kind of children");
        };
        let leaf = node_mut(&mut slots[alone], ledger);
        let before = leaf.span();
        let spot = leaf.spot(inside - begin, room.side);
        let result = change(leaf, spot);
        assert!(leaf.count() > 0, "a change leaves entries in its leaf");
        let grown = u64::from(leaf.span()).wrapping_sub(u64::from(before));
        // The first entry of the leaf is known only now (N3).
        self.renew_pivot(alone);
        self.shift_later(alone, grown);
        self.merge_children(index..(alone + 2).min(self.count()), ledger);
        Changed { grown, result }
    }

    /// Makes child `at` an empty leaf, which begins `begin` behind the start of child `beside`. It
    /// has no pivot yet.
    fn put_empty_leaf(
        &mut self,
        at: usize,
        begin: u32,
        beside: usize,
        ledger: &mut Ledger,
    ) -> usize {
        let count = self.count();
        let shift = self.shifts[beside] + u64::from(begin);
        if let Children::Leaves(slots) = &mut self.children {
            let leaf = Leaf::empty(ledger.fresh(), &ledger.total);
            put_in(slots, count, at, Some(Arc::new(leaf)));
        }
        put_in(&mut self.shifts, count, at, shift);
        put_in(&mut self.pivots, count, at, E::Pivot::default());
        self.count += 1;
        if at == beside {
            // It is before the tree's first leaf, whose pivot was not read until now.
            self.renew_pivot(at + 1);
        }
        at
    }

    fn shift_later(&mut self, index: usize, grown: u64) {
        if grown != 0 {
            self.shift_from(index + 1, grown);
        }
    }
}
