//! Nodes as a checkpoint would store them: only new ones are written, and retired ones are dropped.

use std::collections::HashMap;
use std::convert::Infallible;

use super::TinyTree;
use crate::{Cut, Extent, FlexTree, NodeId, NodeImage, NodeRef, RestoreError};

/// Stored nodes, and the root of the last checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) nodes: HashMap<NodeId, NodeImage<Extent>>,
    pub(super) root: NodeId,
    pub(super) len: u64,
    /// How many nodes the last checkpoint wrote.
    pub(super) written: usize,
}

impl Stored {
    /// Writes the new nodes of a cut, and returns the nodes that may be dropped once the root is
    /// switched.
    pub(super) fn write<const C: usize, const F: usize>(
        &mut self,
        cut: &Cut<Extent, C, F>,
    ) -> Vec<NodeId> {
        self.written = 0;
        let walk = cut.new_nodes(|node| -> Result<(), Infallible> {
            let (id, image) = match node {
                NodeRef::Leaf(id, leaf) => {
                    let entry = |index| (leaf.length(index), *leaf.entry(index));
                    (id, NodeImage::Leaf((0..leaf.count()).map(entry).collect()))
                }
                NodeRef::Inner(id, children) => {
                    let child = |(id, shift, ()): &(NodeId, u64, &())| (*id, *shift, ());
                    (id, NodeImage::Inner(children.iter().map(child).collect()))
                }
            };
            assert!(self.nodes.insert(id, image).is_none(), "{id:?} is written a second time");
            self.written += 1;
            Ok(())
        });
        walk.unwrap_or_else(|never| match never {});
        cut.retired.clone()
    }

    /// A whole checkpoint.
    pub(super) fn checkpoint<const C: usize, const F: usize>(&mut self, tree: &mut FlexTree<C, F>) {
        self.finish(tree.cut());
    }

    /// Stores a cut, and drops the nodes that it retired.
    pub(super) fn finish<const C: usize, const F: usize>(&mut self, cut: Cut<Extent, C, F>) {
        for id in self.write(&cut) {
            assert!(self.nodes.remove(&id).is_some(), "{id:?} is retired, and was not stored");
        }
        self.root = cut.snapshot.root();
        self.len = cut.snapshot.len();
    }

    pub(super) fn load(&self, id: NodeId) -> Result<NodeImage<Extent>, &'static str> {
        self.nodes.get(&id).cloned().ok_or("no such node")
    }

    pub(super) fn restore<const C: usize, const F: usize>(
        &self,
    ) -> Result<FlexTree<C, F>, RestoreError<&'static str>> {
        FlexTree::restore(1 << 63, self.root, self.len, |id| self.load(id))
    }
}

#[test]
fn stored_nodes_that_are_no_tree_are_refused() {
    let mut tree: TinyTree = super::apart(100, 5);
    let mut stored = Stored::default();
    stored.checkpoint(&mut tree);
    let is_damaged = |stored: &Stored| match stored.restore::<4, 6>() {
        Ok(tree) => panic!("a damaged tree of {} bytes was believed", tree.len()),
        Err(RestoreError::Damaged { .. }) => {}
        Err(error) => panic!("{error} instead of damage"),
    };
    let mut damaged_count = 0;
    for (&id, image) in &stored.nodes {
        for kind in 0..6 {
            let mut image = image.clone();
            match (&mut image, kind) {
                (NodeImage::Leaf(entries), 0) => entries[0].0 = 0,
                (NodeImage::Leaf(entries), 1) => entries[0].0 += 1,
                (NodeImage::Leaf(entries), 2) => entries.resize(5, (1, Extent::HOLE)),
                (NodeImage::Leaf(entries), 3) => entries.clear(),
                (NodeImage::Leaf(entries), 4) => entries[0] = (u32::MAX, entries[0].1),
                (NodeImage::Leaf(entries), _) => entries[0].1 = super::at(Extent::ADDRESS_MAX),
                (NodeImage::Inner(children), 0) => children[0].1 += 1,
                (NodeImage::Inner(children), 1) => children.clear(),
                (NodeImage::Inner(children), 2) => children[0].0 = stored.root,
                (NodeImage::Inner(children), 3) => children[0].0 = NodeId(0),
                (NodeImage::Inner(children), 4) => children.resize(7, children[0]),
                (NodeImage::Inner(children), _) if children.len() > 1 => {
                    children[0].0 = children[1].0;
                }
                _ => continue,
            }
            let mut copy = stored.clone();
            copy.nodes.insert(id, image);
            is_damaged(&copy);
            damaged_count += 1;
        }
    }
    assert!(damaged_count > 200, "{damaged_count} ways to damage it");

    let lost = *stored.nodes.keys().next().expect("there are nodes");
    let mut copy = stored.clone();
    copy.nodes.remove(&lost);
    assert_eq!(copy.restore::<4, 6>().err(), Some(RestoreError::Load("no such node")));
    assert!(stored.restore::<4, 6>().is_ok());
    let of_window = TinyTree::restore(12, stored.root, stored.len, |id| stored.load(id));
    assert_eq!(of_window.err(), Some(RestoreError::JoinWindow(12)));
}
