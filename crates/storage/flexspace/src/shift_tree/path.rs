//! The quick way of a change: first the path is found, then it is walked once more and changed.
//!
//! 1. Walk down without changing anything, and note each child's index. The walk prefetches nodes
//!    that are not in the processor's cache, the leaf as a whole, while no atomic operation blocks
//!    the next read.
//! 2. If a node on the path has no room, leave it to `edit.rs`.
//! 3. Walk down again. It is known by how much the leaf will grow, so shifts are added on the way.

use std::sync::Arc;

use sync::prefetch;

use super::edit::{Room, Side, Spot};
use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{Ledger, node, node_mut};

/// Levels above the leaves that a path may have; a tree that has more of them is changed by
/// `edit.rs`.
const LEVELS_MAX: usize = 16;

/// The path from the root to the leaf of a change.
pub(super) struct Path {
    /// The index of the child at each level.
    children: [u16; LEVELS_MAX],
    spot: Spot,
}

impl<E: Entry, const C: usize, const F: usize> Inner<E, C, F> {
    /// Returns the path of a change for which every node has room.
    #[inline(always)]
    pub(super) fn path(&self, offset: u64, room: Room) -> Option<Path> {
        let mut children = [0; LEVELS_MAX];
        let (mut inner, mut inside) = (self, offset);
        for level in &mut children {
            let index = inner.child_for(inside, room.side);
            *level = index as u16;
            inside -= inner.shifts[index];
            match &inner.children {
                Children::Inners(slots) => {
                    inner = node(&slots[index]);
                    if inner.is_full() {
                        return None;
                    }
                }
                Children::Leaves(slots) => {
                    let leaf = node(&slots[index]);
                    prefetch(leaf);
                    // An offset in a leaf fits 32 bits (L3).
                    let spot = leaf.spot(inside as u32, room.side);
                    let has_room = leaf.has_room(inside as u32, room.entries)
                        && leaf.span().checked_add(room.bytes).is_some();
                    return has_room.then_some(Path { children, spot });
                }
            }
        }
        None
    }

    /// Changes the leaf at the end of the path; says whether it may have to be merged, too.
    #[inline(always)]
    pub(super) fn edit_on<R>(
        self: &mut Arc<Self>,
        path: &Path,
        grown: u32,
        ledger: &mut Ledger,
        change: impl FnOnce(&mut Leaf<E, C>, Spot) -> R,
    ) -> (R, bool) {
        let mut inner = Arc::make_mut(self);
        ledger.touch(&mut inner.id);
        let mut level = 0;
        loop {
            let index = usize::from(path.children[level % LEVELS_MAX]);
            if grown > 0 {
                inner.shift_from(index + 1, u64::from(grown));
            }
            level += 1;
            match &mut inner.children {
                Children::Inners(slots) => inner = node_mut(&mut slots[index], ledger),
                Children::Leaves(slots) => {
                    let leaf = node_mut(&mut slots[index], ledger);
                    let (count, span) = (leaf.count(), leaf.span());
                    let result = change(leaf, path.spot);
                    assert_eq!(leaf.span(), span + grown, "a change grows its leaf as it said");
                    return (result, leaf.has_shrunk(count));
                }
            }
        }
    }
}

impl<E: Entry, const C: usize> Leaf<E, C> {
    /// Returns the place of `inside` in this leaf, seen from `side`.
    #[inline(always)]
    pub(super) fn spot(&self, inside: u32, side: Side) -> Spot {
        let byte = if side == Side::At { inside } else { inside.saturating_sub(1) };
        Spot { inside, index: self.find(byte) }
    }

    /// Returns whether there is room for `entries` more. If `inside` is within an entry, which has
    /// to be divided then, there must be room for one in addition.
    #[inline(always)]
    pub(super) fn has_room(&self, inside: u32, entries: usize) -> bool {
        let count = self.count() + entries;
        // Only for the last slot does it matter whether something is divided.
        count < C || count == C && self.is_border(inside)
    }

    fn is_border(&self, inside: u32) -> bool {
        inside == self.span() || inside == self.start(self.find(inside))
    }

    /// Returns whether a leaf that had `count` entries may have to be merged now.
    pub(super) fn has_shrunk(&self, count: usize) -> bool {
        self.count() < count && self.count() <= Self::MERGED_COUNT_MAX
    }
}
