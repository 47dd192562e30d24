//! The common part of leaves and inner nodes: an identity, and being split, merged and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The identity of one version of a node; 0 is none.
///
/// Identities are given out in ascending order. A node gets a new one when it is first changed
/// after a [cut](super::Cut), so one comparison says whether it is in that cut: whether it is
/// *dirty*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// The identities that a tree has given out and taken back.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// The newest that was given out.
    pub(super) last: NodeId,
    /// The newest at the time of the last cut.
    pub(super) sealed: NodeId,
    /// Nodes of the last cut that were changed or dropped since.
    pub(super) retired: Vec<NodeId>,
    pub(super) total: Total,
}

/// Bytes of all nodes of a tree, its snapshots' own ones included.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(Arc<AtomicU64>);

/// A node's bytes in its tree's total, for as long as it lives.
#[derive(Debug)]
pub(super) struct Weight {
    total: Total,
    bytes: u32,
}

/// The reference counts before a node that is shared.
pub(super) const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl Total {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts a new node of type `N`.
    pub(super) fn weigh<N>(&self) -> Weight {
        let bytes = (size_of::<N>() + COUNTS_BYTES) as u32;
        self.0.fetch_add(u64::from(bytes), Relaxed);
        Weight { total: self.clone(), bytes }
    }
}

impl Weight {
    pub(super) fn total(&self) -> &Total {
        &self.total
    }
}

impl Clone for Weight {
    fn clone(&self) -> Self {
        self.total.0.fetch_add(u64::from(self.bytes), Relaxed);
        Self { total: self.total.clone(), bytes: self.bytes }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.total.0.fetch_sub(u64::from(self.bytes), Relaxed);
    }
}

impl Ledger {
    pub(super) fn fresh(&mut self) -> NodeId {
        self.last.0 += 1;
        self.last
    }

    /// The node `id` is about to be changed.
    pub(super) fn touch(&mut self, id: &mut NodeId) {
        if *id <= self.sealed {
            self.retired.push(*id);
            *id = self.fresh();
        }
    }

    /// Notes that the node `id` is dropped.
    pub(super) fn retire(&mut self, id: NodeId) {
        if id <= self.sealed {
            self.retired.push(id);
        }
    }
}

/// A leaf or an inner node, as its parent treats it.
pub(super) trait Node: Clone {
    type Pivot: Clone + Default;

    fn id(&self) -> NodeId;

    fn id_mut(&mut self) -> &mut NodeId;

    /// Moves the content from index `at` on to a new node on the right, whose offsets begin at 0:
    /// this is the paper's rebasing, done at every split. Returns the new node's place in this one,
    /// too.
    fn split_off(&mut self, at: usize, id: NodeId) -> (u64, Self);

    /// Returns the separator of this node from the one before it.
    fn pivot(&self) -> Self::Pivot;

    /// Returns whether this node and its right neighbour are to be merged (invariant T4).
    fn is_to_absorb(&self, right: &Self) -> bool;

    /// Takes over the content of its right neighbour, which begins at `start` and behind `pivot`.
    fn absorb(&mut self, right: Self, start: u64, pivot: Self::Pivot, ledger: &mut Ledger);

    /// Takes back the identities of this node and of all below it.
    fn retire(&self, ledger: &mut Ledger);
}

/// Places for children, of which the first ones are in use.
pub(super) type Slots<N, const F: usize> = [Option<Arc<N>>; F];

pub(super) fn no_children<N, const F: usize>() -> Slots<N, F> {
    std::array::from_fn(|_| None)
}

pub(super) fn node<N>(slot: &Option<Arc<N>>) -> &N {
    slot.as_deref().expect("the first slots of a node are in use")
}

/// Returns the node to be changed: copied first if a snapshot holds it, and known as changed.
pub(super) fn node_mut<'a, N: Node>(
    slot: &'a mut Option<Arc<N>>,
    ledger: &mut Ledger,
) -> &'a mut N {
    let shared = slot.as_mut().expect("the first slots of a node are in use");
    let node = Arc::make_mut(shared);
    ledger.touch(node.id_mut());
    node
}

/// Puts `value` at index `at` of the first `count` ones.
pub(super) fn put_in<T>(slots: &mut [T], count: usize, at: usize, value: T) {
    slots[at..=count].rotate_right(1);
    slots[at] = value;
}

/// Takes `range` out of the first `count` ones, and leaves `nothing` in the slots set free.
pub(super) fn take_out<T>(
    slots: &mut [T],
    count: usize,
    range: std::ops::Range<usize>,
    nothing: impl FnMut() -> T,
) {
    let gone = range.len();
    slots[range.start..count].rotate_left(gone);
    slots[count - gone..count].fill_with(nothing);
}
