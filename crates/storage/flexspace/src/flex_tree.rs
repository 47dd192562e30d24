//! The index of a flexible address space: the place of each byte, after insertions and removals.

mod change;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::ops::Range;

use crate::extent::{Extent, Joining};
use crate::shift_tree::{
    Cut, Entries, INNER, LEAF, NodeId, NodeImage, RestoreError, Shape, ShiftTree, Snapshot,
};

/// Maps logical offsets of 64 bits to extents: their lengths have 32 bits, their addresses 48.
///
/// Inserting and removing bytes anywhere costs O(log N) of the number of extents, although the
/// offsets of all bytes behind change (Flex 3). The whole space is mapped: bytes without an address
/// are a hole.
#[derive(Debug)]
pub struct FlexTree<const C: usize = LEAF, const F: usize = INNER> {
    tree: ShiftTree<Extent, C, F>,
    joining: Joining,
}

/// Bytes of a range that are in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Their logical offset.
    pub offset: u64,
    /// How many they are.
    pub length: u32,
    /// The place of the bytes.
    pub extent: Extent,
}

impl Default for FlexTree {
    fn default() -> Self {
        Self::new()
    }
}

impl FlexTree {
    /// Returns an empty tree, in which neighbours are one extent whenever they are contiguous at
    /// their addresses, up to the greatest length.
    pub fn new() -> Self {
        Self::with_join_window(1 << 63)
    }
}

impl<const C: usize, const F: usize> FlexTree<C, F> {
    /// Returns an empty tree in which neighbours are made one extent only within `window_bytes` of
    /// addresses, a power of two, counted from address 0. So an extent that grows is never longer
    /// than that, nor crosses a multiple of it, which may be where a segment ends (Flex 4.1).
    ///
    /// # Panics
    /// If `window_bytes` is no power of two.
    pub fn with_join_window(window_bytes: u64) -> Self {
        let joining = joining(window_bytes).expect("a window of addresses is a power of two");
        Self { tree: ShiftTree::default(), joining }
    }

    /// Returns the tree of `len` bytes that was stored from its last cut; see
    /// [`ShiftTree::restore`].
    ///
    /// # Errors
    /// The errors of `load`, [`RestoreError::Damaged`] if the nodes are no tree, and
    /// [`RestoreError::JoinWindow`] if `window_bytes` is no power of two.
    pub fn restore<X>(
        window_bytes: u64,
        root: NodeId,
        len: u64,
        mut load: impl FnMut(NodeId) -> Result<NodeImage<Extent>, X>,
    ) -> Result<Self, RestoreError<X>> {
        let joining = joining(window_bytes).ok_or(RestoreError::JoinWindow(window_bytes))?;
        let checked = |id| match load(id).map_err(RestoreError::Load)? {
            NodeImage::Leaf(entries) if !entries.iter().all(has_addresses) => {
                Err(RestoreError::Damaged { id, what: "an extent does not end at an address" })
            }
            image => Ok(image),
        };
        let tree = ShiftTree::restore(root, len, checked).map_err(|error| match error {
            RestoreError::Load(inner) => inner,
            RestoreError::Damaged { id, what } => RestoreError::Damaged { id, what },
            RestoreError::JoinWindow(bytes) => RestoreError::JoinWindow(bytes),
        })?;
        Ok(Self { tree, joining })
    }

    /// Returns how many bytes the space has.
    pub fn len(&self) -> u64 {
        self.tree.now().len()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the extent with the byte at `offset`, as a whole: its offset, and its length. None
    /// behind the end. Costs one node a level.
    pub fn get(&self, offset: u64) -> Option<Mapping> {
        get(self.tree.now(), offset)
    }

    /// Returns the places of the bytes of `range`, piece by piece, up to the end of the space (Flex
    /// 3.2, querying mappings). The first piece and the last are cut to the range.
    pub fn query(&self, range: Range<u64>) -> Mappings<'_, C, F> {
        query(self.tree.now(), range)
    }

    /// Returns the present state, which any thread may keep for any time. O(1); the writer copies
    /// each node, once, before it changes it. See [`Snapshot`].
    pub fn snapshot(&self) -> FlexSnapshot<C, F> {
        FlexSnapshot { state: self.tree.now().clone() }
    }

    /// Returns the present state for a checkpoint, with the nodes that are new since the last cut,
    /// and the nodes of that cut that were dropped; see [`ShiftTree::cut`]. O(1).
    pub fn cut(&mut self) -> Cut<Extent, C, F> {
        self.tree.cut()
    }

    /// Returns the bytes of memory of all nodes, including the nodes that only snapshots and cuts
    /// have; see [`ShiftTree::node_bytes`]. O(1).
    pub fn node_bytes(&self) -> u64 {
        self.tree.node_bytes()
    }

    /// At most how many nodes the next cut has that the last one had not. O(1).
    pub fn new_nodes_max(&self) -> u64 {
        self.tree.new_nodes_max()
    }

    /// Checks every invariant of the tree, and measures it; see [`ShiftTree::check`]. O(N).
    ///
    /// # Errors
    /// The first invariant that does not hold, and where.
    pub fn check(&self) -> Result<Shape, String> {
        self.tree.check()
    }
}

/// A state of a [`FlexTree`] that never changes. It is cheap to clone, and to send to other
/// threads.
#[derive(Clone, Debug)]
pub struct FlexSnapshot<const C: usize = LEAF, const F: usize = INNER> {
    state: Snapshot<Extent, C, F>,
}

impl<const C: usize, const F: usize> FlexSnapshot<C, F> {
    /// Returns how many bytes the space has.
    pub fn len(&self) -> u64 {
        self.state.len()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// As [`FlexTree::get`].
    pub fn get(&self, offset: u64) -> Option<Mapping> {
        get(&self.state, offset)
    }

    /// As [`FlexTree::query`].
    pub fn query(&self, range: Range<u64>) -> Mappings<'_, C, F> {
        query(&self.state, range)
    }
}

/// The pieces of a range, in order; see [`FlexTree::query`].
#[derive(Debug)]
pub struct Mappings<'a, const C: usize = LEAF, const F: usize = INNER> {
    entries: Entries<'a, Extent, C, F>,
    range: Range<u64>,
}

impl<const C: usize, const F: usize> Iterator for Mappings<'_, C, F> {
    type Item = Mapping;

    fn next(&mut self) -> Option<Mapping> {
        let found = self.entries.next()?;
        let end = (found.offset + u64::from(found.length)).min(self.range.end);
        let offset = found.offset.max(self.range.start);
        // Both are within the extent, whose length fits 32 bits.
        let length = (end - offset) as u32;
        Some(Mapping { offset, length, extent: found.entry.skip(offset - found.offset) })
    }
}

fn get<const C: usize, const F: usize>(
    state: &Snapshot<Extent, C, F>,
    offset: u64,
) -> Option<Mapping> {
    let found = state.get(offset)?;
    Some(Mapping { offset: found.offset, length: found.length, extent: *found.entry })
}

fn query<const C: usize, const F: usize>(
    state: &Snapshot<Extent, C, F>,
    range: Range<u64>,
) -> Mappings<'_, C, F> {
    Mappings { entries: state.range(range.clone()), range }
}

fn joining(window_bytes: u64) -> Option<Joining> {
    let is_window = window_bytes.is_power_of_two();
    is_window.then_some(Joining { window_bits: window_bytes.trailing_zeros() })
}

fn has_addresses((length, extent): &(u32, Extent)) -> bool {
    extent.check_length(u64::from(*length)).is_ok()
}
