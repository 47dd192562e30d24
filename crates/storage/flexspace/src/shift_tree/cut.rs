//! A cut: a state of a tree, and which of its nodes are new since the cut before it.
//!
//! A checkpoint writes those nodes and no others, children before parents, and names the root last;
//! then the room of the retired ones may be used again (Flex 4.2). A changed node has a changed
//! parent (T5), so the walk turns back at the first node that is not new: its cost is by the number
//! of changed nodes.

use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{Node, NodeId, node};
use super::snapshot::Snapshot;
use super::{INNER, LEAF, ShiftTree};

/// A state of a tree, with the changes since the last cut.
///
/// The next cut says nothing of that again, so one that is not stored is handed to it by
/// [`Self::include`].
#[must_use = "what it says is in no later cut"]
#[derive(Debug)]
pub struct Cut<E: Entry, const C: usize = LEAF, const F: usize = INNER> {
    /// The state.
    pub snapshot: Snapshot<E, C, F>,
    /// Nodes of the cut before this one that are not in this one.
    pub retired: Vec<NodeId>,
    /// Nodes up to this one are in the cut before.
    since: NodeId,
}

/// A node of a cut.
#[derive(Debug)]
pub enum NodeRef<'a, E: Entry, const C: usize = LEAF> {
    /// A leaf with its identity.
    Leaf(NodeId, &'a Leaf<E, C>),
    /// An inner node: its identity, and of each child the identity, the shift and the pivot.
    Inner(NodeId, Vec<(NodeId, u64, &'a E::Pivot)>),
}

impl<E: Entry, const C: usize, const F: usize> ShiftTree<E, C, F> {
    /// Cuts the tree: returns the present state, the nodes that are new since the last cut, and the
    /// nodes of the last cut that were dropped. O(1); the walk over the nodes is the reader's.
    ///
    /// Later changes are in the next cut.
    pub fn cut(&mut self) -> Cut<E, C, F> {
        let since = self.ledger.sealed;
        self.ledger.sealed = self.ledger.last;
        let retired = std::mem::take(&mut self.ledger.retired);
        Cut { snapshot: self.now.clone(), retired, since }
    }
}

impl<E: Entry, const C: usize, const F: usize> Cut<E, C, F> {
    /// Takes over the content of the cut before this one, because it was not stored to its end:
    /// this one is then against the last stored one.
    ///
    /// Nodes of the failed cut that were stored nevertheless are in neither list. The caller that
    /// stored them drops them; nodes that are in this cut too are shown again.
    pub fn include(&mut self, failed: Self) {
        self.since = failed.since;
        // Nodes that were new in the failed cut are not in the cut that this one is against now.
        self.retired.retain(|id| *id <= failed.since);
        self.retired.extend(failed.retired);
    }

    /// Shows each new node, children before their parents.
    ///
    /// # Errors
    /// The first that `see` returns, which ends the walk.
    pub fn new_nodes<X>(
        &self,
        mut see: impl FnMut(NodeRef<'_, E, C>) -> Result<(), X>,
    ) -> Result<(), X> {
        self.walk(&self.snapshot.root, &mut see)
    }

    fn walk<X>(
        &self,
        inner: &Inner<E, C, F>,
        see: &mut impl FnMut(NodeRef<'_, E, C>) -> Result<(), X>,
    ) -> Result<(), X> {
        if inner.id <= self.since {
            return Ok(());
        }
        let count = inner.count();
        let mut ids = Vec::with_capacity(count);
        match &inner.children {
            Children::Leaves(slots) => {
                for leaf in slots[..count].iter().map(node) {
                    ids.push(leaf.id());
                    if leaf.id() > self.since {
                        see(NodeRef::Leaf(leaf.id(), leaf))?;
                    }
                }
            }
            Children::Inners(slots) => {
                for child in slots[..count].iter().map(node) {
                    ids.push(child.id);
                    self.walk(child, see)?;
                }
            }
        }
        let places = inner.shifts.iter().zip(&inner.pivots);
        let children = ids.into_iter().zip(places).map(|(id, (shift, pivot))| (id, *shift, pivot));
        see(NodeRef::Inner(inner.id, children.collect()))
    }
}
