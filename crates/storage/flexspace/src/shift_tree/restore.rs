//! Builds a tree from nodes that were stored, and believes none of them.

use std::collections::HashSet;
use std::sync::Arc;

use super::ShiftTree;
use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{Ledger, Node, NodeId, Total, no_children};
use super::snapshot::Snapshot;

/// Levels that no tree reaches: with a fan-out of two, it would have more nodes than can be
/// counted.
const LEVELS_MAX: usize = 64;

/// A stored node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeImage<E: Entry> {
    /// Lengths and contents of a leaf's entries.
    Leaf(Vec<(u32, E)>),
    /// Identity, shift and pivot of an inner node's children.
    Inner(Vec<(NodeId, u64, E::Pivot)>),
}

/// Why stored nodes are no tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RestoreError<X> {
    /// Loading a node failed.
    #[error("{0}")]
    Load(X),
    /// A node has content that is impossible.
    #[error("node {}: {what}", id.0)]
    Damaged {
        /// The node.
        id: NodeId,
        /// The defect of the node.
        what: &'static str,
    },
    /// The given window of a FlexTree's addresses is no power of two.
    #[error("a join window of {0} bytes")]
    JoinWindow(u64),
}

/// A node that was built from a stored one.
enum Built<E: Entry, const C: usize, const F: usize> {
    Leaf(Arc<Leaf<E, C>>),
    Inner(Arc<Inner<E, C, F>>, usize),
}

struct Builder<L, const C: usize, const F: usize> {
    load: L,
    seen: HashSet<NodeId>,
    total: Total,
}

impl<E: Entry, const C: usize, const F: usize> ShiftTree<E, C, F> {
    /// Returns the tree of `len` bytes with the stored root `root`; `load` returns each stored node
    /// once. The tree is as after the cut that stored it: its next cut has only later changes.
    ///
    /// Identities above those of the stored nodes are used again, also if nodes of a cut that was
    /// never finished had them. So the place of a node has to be taken from the cut that the node
    /// is in.
    ///
    /// Checked is all that a read or a change relies on. Pivots are believed, as they cannot be
    /// compared here; [`Self::check_pivots`] does it where keys are known. So are neighbours that
    /// would fit in one node (T4), which cost room alone, and are merged when they get smaller.
    ///
    /// # Errors
    /// The errors of `load`. [`RestoreError::Damaged`] if a node has too many entries, lengths that
    /// are zero or too great, shifts that do not fit its children, or is a child twice; also if
    /// leaves have different depths.
    pub fn restore<X>(
        root: NodeId,
        len: u64,
        load: impl FnMut(NodeId) -> Result<NodeImage<E>, X>,
    ) -> Result<Self, RestoreError<X>> {
        let mut builder =
            Builder::<_, C, F> { load, seen: HashSet::new(), total: Total::default() };
        let damaged = |what| RestoreError::Damaged { id: root, what };
        let (built, span) = builder.build(root, LEVELS_MAX)?;
        let Built::Inner(inner, _) = built else { return Err(damaged("the root is a leaf")) };
        if span != len {
            return Err(damaged("its entries have more bytes than the tree, or less"));
        }
        let last = builder.seen.into_iter().max().unwrap_or_default();
        let ledger = Ledger { last, sealed: last, retired: Vec::new(), total: builder.total };
        let mut tree = Self { now: Snapshot { root: inner, len }, ledger };
        tree.shrink();
        Ok(tree)
    }
}

impl<L, const C: usize, const F: usize> Builder<L, C, F> {
    /// Returns the node with all below it, and how many bytes it has.
    fn build<E: Entry, X>(
        &mut self,
        id: NodeId,
        levels_max: usize,
    ) -> Result<(Built<E, C, F>, u64), RestoreError<X>>
    where
        L: FnMut(NodeId) -> Result<NodeImage<E>, X>,
    {
        let damaged = |what| RestoreError::Damaged { id, what };
        if id == NodeId::default() || !self.seen.insert(id) {
            return Err(damaged("it is a child of two nodes, or of none"));
        }
        match (self.load)(id).map_err(RestoreError::Load)? {
            NodeImage::Leaf(entries) => {
                let leaf = leaf_of(id, &entries, &self.total);
                let leaf = leaf.ok_or_else(|| damaged("no leaf has such lengths"))?;
                let span = u64::from(leaf.span());
                Ok((Built::Leaf(Arc::new(leaf)), span))
            }
            NodeImage::Inner(children) => {
                if levels_max == 0 {
                    return Err(damaged("it lies too deep"));
                }
                self.inner_of(id, children, levels_max - 1)
            }
        }
    }

    fn inner_of<E: Entry, X>(
        &mut self,
        id: NodeId,
        children: Vec<(NodeId, u64, E::Pivot)>,
        levels_max: usize,
    ) -> Result<(Built<E, C, F>, u64), RestoreError<X>>
    where
        L: FnMut(NodeId) -> Result<NodeImage<E>, X>,
    {
        let damaged = |what| RestoreError::Damaged { id, what };
        let count = children.len();
        if count == 0 || count > F {
            return Err(damaged("a node has no children or too many"));
        }
        let (mut leaves, mut inners) = (no_children(), no_children());
        let mut height = None;
        let mut shifts = [super::inner::NOTHING; F];
        let mut pivots = std::array::from_fn(|_| E::Pivot::default());
        let mut end = 0_u64;
        for (index, (child, shift, pivot)) in children.into_iter().enumerate() {
            if shift != end {
                return Err(damaged("a shift is not where the child before it ends"));
            }
            let (built, span) = self.build(child, levels_max)?;
            if span == 0 && (count > 1 || levels_max + 1 < LEVELS_MAX) {
                return Err(damaged("a child is empty"));
            }
            let child_height = match built {
                Built::Leaf(leaf) => {
                    leaves[index] = Some(leaf);
                    0
                }
                Built::Inner(inner, height) => {
                    inners[index] = Some(inner);
                    height
                }
            };
            if *height.get_or_insert(child_height) != child_height {
                return Err(damaged("its leaves lie at different depths"));
            }
            (shifts[index], pivots[index]) = (shift, pivot);
            end = end.checked_add(span).ok_or_else(|| damaged("the offsets do not fit 64 bits"))?;
        }
        let children =
            if height == Some(0) { Children::Leaves(leaves) } else { Children::Inners(inners) };
        let weight = self.total.weigh::<Inner<E, C, F>>();
        let inner = Inner { id, count: count as u32, shifts, pivots, children, weight };
        Ok((Built::Inner(Arc::new(inner), height.unwrap_or(0) + 1), end))
    }
}

fn leaf_of<E: Entry, const C: usize>(
    id: NodeId,
    entries: &[(u32, E)],
    total: &Total,
) -> Option<Leaf<E, C>> {
    let span = entries.iter().try_fold(0_u32, |span, (length, _)| span.checked_add(*length));
    let is_sound = span.is_some() && entries.iter().all(|(length, _)| *length > 0);
    if !is_sound || entries.len() > C {
        return None;
    }
    let mut leaf = Leaf::empty(id, total);
    for (index, (length, entry)) in entries.iter().enumerate() {
        leaf.splice(index, index, [(*length, entry.clone())]);
    }
    debug_assert_eq!(leaf.id(), id, "a leaf has the identity it was stored with");
    Some(leaf)
}
