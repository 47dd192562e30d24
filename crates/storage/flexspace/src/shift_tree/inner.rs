//! An inner node: children, and by how much each one's offsets are shifted.
//!
//! # Invariants
//! - N1: the first shift is 0, and shifts ascend strictly. A child's first byte has offset 0 in the
//!   child, so its shift is also where it begins, and serves as the pivot of offsets.
//! - N2: slots that hold nothing have the largest shift, the default pivot and no child.
//! - N3: if entries have keys, these ascend strictly. Keys of child `i` are at least pivot `i`, and
//!   keys before are less; so are all keys that an entry before may cover. The first pivot of the
//!   nodes that begin the tree separates nothing, and may be any.

use std::ops::Range;
use std::sync::Arc;

use super::edit::Side;
use super::entry::Entry;
use super::leaf::Leaf;
use super::node::{
    Ledger, Node, NodeId, Slots, Total, Weight, no_children, node, node_mut, put_in, take_out,
};
use super::search::last_at_most;

/// The value of unused slots; no byte of a tree has it as its offset.
pub(super) const NOTHING: u64 = u64::MAX;

/// Children of one kind, at most `F`.
///
/// The count and the kind of the children are first, in one cache line with the counts of
/// references.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Inner<E: Entry, const C: usize, const F: usize> {
    pub(super) id: NodeId,
    pub(super) count: u32,
    pub(super) children: Children<E, C, F>,
    pub(super) shifts: [u64; F],
    pub(super) pivots: [E::Pivot; F],
    pub(super) weight: Weight,
}

/// The children of an inner node: all leaves have the same depth.
#[derive(Clone, Debug)]
pub(super) enum Children<E: Entry, const C: usize, const F: usize> {
    Leaves(Slots<Leaf<E, C>, F>),
    Inners(Slots<Inner<E, C, F>, F>),
}

/// Does the same with children of either kind.
macro_rules! with_children {
    ($children:expr, $slots:ident => $body:expr) => {
        match $children {
            Children::Leaves($slots) => $body,
            Children::Inners($slots) => $body,
        }
    };
}

impl<E: Entry, const C: usize, const F: usize> Inner<E, C, F> {
    /// Two neighbours with no more children than this are merged; see [`Leaf::MERGED_COUNT_MAX`].
    pub(super) const MERGED_COUNT_MAX: usize = if F - 3 < F / 4 * 3 { F - 3 } else { F / 4 * 3 };

    pub(super) fn without_children(id: NodeId, children: Children<E, C, F>, total: &Total) -> Self {
        const { assert!(F >= 6, "half of a node must have room for three children more") }
        let pivots = std::array::from_fn(|_| E::Pivot::default());
        let weight = total.weigh::<Self>();
        Self { id, count: 0, shifts: [NOTHING; F], pivots, children, weight }
    }

    /// Returns the root of an empty tree: an empty leaf is its only child.
    pub(super) fn root_of_nothing(ledger: &mut Ledger) -> Self {
        let mut slots = no_children();
        slots[0] = Some(Arc::new(Leaf::empty(ledger.fresh(), &ledger.total)));
        let id = ledger.fresh();
        let mut root = Self::without_children(id, Children::Leaves(slots), &ledger.total);
        root.count = 1;
        root.shifts[0] = 0;
        root
    }

    /// Returns a root above `old`, which is its only child.
    pub(super) fn root_above(old: Arc<Self>, ledger: &mut Ledger) -> Self {
        let (id, none) = (ledger.fresh(), Children::Inners(no_children()));
        let mut root = Self::without_children(id, none, &ledger.total);
        root.count = 1;
        root.shifts[0] = 0;
        root.pivots[0] = old.pivot();
        if let Children::Inners(slots) = &mut root.children {
            slots[0] = Some(old);
        }
        root
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns whether it has to be split before it is walked through: one of its children may
    /// become four, if it has no room for entries and its half none for bytes.
    pub(super) fn is_full(&self) -> bool {
        self.count() + 3 > F
    }

    /// Returns the child with the byte at `offset`.
    pub(super) fn child_at(&self, offset: u64) -> usize {
        last_at_most(&self.shifts, offset)
    }

    /// Adds `by` to the offsets of all children from index `from` on: this is the paper's shift.
    pub(super) fn shift_from(&mut self, from: usize, by: u64) {
        let count = self.count();
        for shift in &mut self.shifts[from..count] {
            *shift = shift.wrapping_add(by);
        }
    }

    /// Splits child `index` before its own index `at`.
    #[cold]
    pub(super) fn split_child(&mut self, index: usize, at: usize, ledger: &mut Ledger) {
        let count = self.count();
        let (start, pivot) = with_children!(&mut self.children, slots => {
            let left = node_mut(&mut slots[index], ledger);
            let (start, right) = left.split_off(at, ledger.fresh());
            let pivot = right.pivot();
            put_in(slots, count, index + 1, Some(Arc::new(right)));
            (start, pivot)
        });
        let shift = self.shifts[index] + start;
        put_in(&mut self.shifts, count, index + 1, shift);
        put_in(&mut self.pivots, count, index + 1, pivot);
        self.count += 1;
    }

    /// Merges child `index` with the one on its right if both are small; says whether they were.
    pub(super) fn merge_child(&mut self, index: usize, ledger: &mut Ledger) -> bool {
        let count = self.count();
        if index + 1 >= count {
            return false;
        }
        let start = self.shifts[index + 1] - self.shifts[index];
        let pivot = &mut self.pivots[index + 1];
        let merged = with_children!(&mut self.children, slots => {
            let merges = node(&slots[index]).is_to_absorb(node(&slots[index + 1]));
            if merges && let Some(right) = slots[index + 1].take() {
                ledger.retire(right.id());
                let left = node_mut(&mut slots[index], ledger);
                left.absorb(Arc::unwrap_or_clone(right), start, std::mem::take(pivot), ledger);
                take_out(slots, count, index + 1..index + 2, || None);
            }
            merges
        });
        if merged {
            take_out(&mut self.shifts, count, index + 1..index + 2, || NOTHING);
            take_out(&mut self.pivots, count, index + 1..index + 2, E::Pivot::default);
            self.count -= 1;
        }
        merged
    }

    /// Restores T4 where the children `range` have shrunk or are new neighbours.
    #[cold]
    pub(super) fn merge_children(&mut self, range: Range<usize>, ledger: &mut Ledger) {
        for index in (range.start.saturating_sub(1)..range.end).rev() {
            self.merge_child(index, ledger);
        }
    }

    /// Restores T4 from the leaf at `offset` upwards.
    pub(super) fn merge_at(&mut self, offset: u64, side: Side, ledger: &mut Ledger) {
        let index = self.child_for(offset, side);
        let inside = offset - self.shifts[index];
        if let Children::Inners(slots) = &mut self.children {
            node_mut(&mut slots[index], ledger).merge_at(inside, side, ledger);
        }
        self.merge_children(index..index + 1, ledger);
    }

    /// Drops the children `range` with all below them.
    #[cold]
    pub(super) fn drop_children(&mut self, range: Range<usize>, ledger: &mut Ledger) {
        let count = self.count();
        with_children!(&mut self.children, slots => {
            slots[range.clone()].iter().for_each(|slot| node(slot).retire(ledger));
            take_out(slots, count, range.clone(), || None);
        });
        self.count -= range.len() as u32;
        take_out(&mut self.shifts, count, range.clone(), || NOTHING);
        take_out(&mut self.pivots, count, range, E::Pivot::default);
    }
}

impl<E: Entry, const C: usize, const F: usize> Node for Inner<E, C, F> {
    type Pivot = E::Pivot;

    fn id(&self) -> NodeId {
        self.id
    }

    fn id_mut(&mut self) -> &mut NodeId {
        &mut self.id
    }

    fn split_off(&mut self, at: usize, id: NodeId) -> (u64, Self) {
        let count = self.count();
        let (start, moved) = (self.shifts[at], at..count);
        let none = match &self.children {
            Children::Leaves(_) => Children::Leaves(no_children()),
            Children::Inners(_) => Children::Inners(no_children()),
        };
        let mut right = Self::without_children(id, none, self.weight.total());
        for (new, old) in right.shifts.iter_mut().zip(&mut self.shifts[moved.clone()]) {
            *new = *old - start;
            *old = NOTHING;
        }
        right.pivots[..count - at].swap_with_slice(&mut self.pivots[moved.clone()]);
        match (&mut right.children, &mut self.children) {
            (Children::Leaves(new), Children::Leaves(old)) => {
                new[..count - at].swap_with_slice(&mut old[moved]);
            }
            (Children::Inners(new), Children::Inners(old)) => {
                new[..count - at].swap_with_slice(&mut old[moved]);
            }
            _ => unreachable!("both halves of a node have children of the same kind"),
        }
        right.count = (count - at) as u32;
        self.count = at as u32;
        (start, right)
    }

    fn pivot(&self) -> E::Pivot {
        self.pivots[0].clone()
    }

    fn is_to_absorb(&self, right: &Self) -> bool {
        self.count() + right.count() <= Self::MERGED_COUNT_MAX
    }

    fn absorb(&mut self, mut right: Self, start: u64, pivot: E::Pivot, ledger: &mut Ledger) {
        let (count, more) = (self.count(), right.count());
        right.pivots[0] = pivot;
        for (new, old) in self.shifts[count..].iter_mut().zip(&right.shifts[..more]) {
            *new = start + old;
        }
        self.pivots[count..count + more].swap_with_slice(&mut right.pivots[..more]);
        match (&mut self.children, &mut right.children) {
            (Children::Leaves(ours), Children::Leaves(theirs)) => {
                ours[count..count + more].swap_with_slice(&mut theirs[..more]);
            }
            (Children::Inners(ours), Children::Inners(theirs)) => {
                ours[count..count + more].swap_with_slice(&mut theirs[..more]);
            }
            _ => unreachable!("neighbours have children of the same kind"),
        }
        self.count += right.count;
        // The last child of the one and the first of the other are neighbours now.
        self.merge_child(count - 1, ledger);
    }

    fn retire(&self, ledger: &mut Ledger) {
        if ledger.sealed == NodeId::default() {
            return;
        }
        ledger.retire(self.id);
        with_children!(&self.children, slots => {
            slots[..self.count()].iter().for_each(|slot| node(slot).retire(ledger));
        });
    }
}
