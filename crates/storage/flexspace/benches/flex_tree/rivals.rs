//! Rivals of a FlexTree: a B+-tree whose entries have their full offsets, and a sorted array.

use super::index::{Index, LENGTH};

/// An extent with its offset in full.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    offset: u64,
    length: u32,
    address: u64,
}

impl Full {
    /// Returns the part that begins `by` bytes further on, up to the end.
    fn tail(self, by: u64) -> Self {
        let length = self.length - by as u32;
        Self { offset: self.offset + by, length, address: self.address + by }
    }
}

/// Returns the index of the extent with the byte at `offset`.
fn find(extents: &[Full], offset: u64) -> usize {
    extents.partition_point(|extent| extent.offset <= offset) - 1
}

/// Puts an extent at `offset` into a sorted list, and shifts those behind.
fn insert(extents: &mut Vec<Full>, offset: u64, address: u64) {
    let new = Full { offset, length: LENGTH, address };
    let mut index = extents.partition_point(|extent| extent.offset < offset);
    if let Some(before) = index.checked_sub(1) {
        let head = offset - extents[before].offset;
        if head < u64::from(extents[before].length) {
            let tail = extents[before].tail(head);
            extents[before].length = head as u32;
            extents.insert(index, tail);
        }
    }
    extents.insert(index, new);
    index += 1;
    for extent in &mut extents[index..] {
        extent.offset += u64::from(LENGTH);
    }
}

/// All extents in one array.
#[derive(Default)]
pub(super) struct SortedArray(Vec<Full>);

impl Index for SortedArray {
    const NAME: &'static str = "sorted_array";
    const INSERTS_MAX: u64 = 1_000_000;

    fn empty() -> Self {
        Self::default()
    }

    fn append(&mut self, address: u64) {
        let offset = self.0.last().map_or(0, |last| last.offset + u64::from(last.length));
        self.0.push(Full { offset, length: LENGTH, address });
    }

    fn insert(&mut self, offset: u64, address: u64) {
        insert(&mut self.0, offset, address);
    }

    fn get(&self, offset: u64) -> u64 {
        let found = self.0[find(&self.0, offset)];
        found.address + (offset - found.offset)
    }

    fn sum(&self, from: u64, to: u64) -> u64 {
        let extents = self.0[find(&self.0, from)..].iter();
        extents.take_while(|extent| extent.offset < to).map(|extent| extent.address).sum()
    }
}

/// Entries of a leaf and children of an inner node: nodes of about 1 KiB, as the paper's.
const NODE: usize = 42;
const CHILDREN: usize = 64;

enum Node {
    Leaf(Vec<Full>),
    /// The offset at which each child begins, and the child.
    Inner(Vec<(u64, Box<Node>)>),
}

/// A B+-tree of which every entry behind an insertion is changed, and every pivot.
pub(super) struct UnshiftedTree {
    root: Box<Node>,
    len: u64,
}

impl Node {
    /// Inserts, and gives the right half if the node was split.
    fn insert(&mut self, offset: u64, address: u64) -> Option<(u64, Box<Self>)> {
        match self {
            Self::Leaf(extents) => {
                insert(extents, offset, address);
                (extents.len() >= NODE).then(|| {
                    // Kept whole where extents are appended, as in the FlexTree.
                    let is_append = extents.last().is_some_and(|last| last.offset == offset);
                    let at = if is_append { extents.len() - 1 } else { extents.len() / 2 };
                    let mut right = Vec::with_capacity(NODE + 2);
                    right.extend(extents.drain(at..));
                    (right[0].offset, Box::new(Self::Leaf(right)))
                })
            }
            Self::Inner(children) => {
                let index = children.partition_point(|(begin, _)| *begin < offset).max(1) - 1;
                let split = children[index].1.insert(offset, address);
                for (begin, child) in &mut children[index + 1..] {
                    *begin += u64::from(LENGTH);
                    child.shift();
                }
                if let Some(right) = split {
                    children.insert(index + 1, right);
                }
                (children.len() >= CHILDREN).then(|| {
                    let is_append = index + 2 == children.len();
                    let at = if is_append { children.len() - 1 } else { children.len() / 2 };
                    let mut right = Vec::with_capacity(CHILDREN + 1);
                    right.extend(children.drain(at..));
                    (right[0].0, Box::new(Self::Inner(right)))
                })
            }
        }
    }

    fn shift(&mut self) {
        match self {
            Self::Leaf(extents) => {
                for extent in extents {
                    extent.offset += u64::from(LENGTH);
                }
            }
            Self::Inner(children) => {
                for (begin, child) in children {
                    *begin += u64::from(LENGTH);
                    child.shift();
                }
            }
        }
    }

    fn leaf(&self, offset: u64) -> &[Full] {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(extents) => return extents,
                Self::Inner(children) => {
                    let index = children.partition_point(|(begin, _)| *begin <= offset) - 1;
                    node = &children[index].1;
                }
            }
        }
    }
}

impl Index for UnshiftedTree {
    const NAME: &'static str = "unshifted_tree";
    const INSERTS_MAX: u64 = 1_000_000;

    fn empty() -> Self {
        Self { root: Box::new(Node::Leaf(Vec::with_capacity(NODE + 2))), len: 0 }
    }

    fn append(&mut self, address: u64) {
        self.insert(self.len, address);
    }

    fn insert(&mut self, offset: u64, address: u64) {
        if let Some((begin, right)) = self.root.insert(offset, address) {
            let left = std::mem::replace(&mut self.root, Box::new(Node::Leaf(Vec::new())));
            *self.root = Node::Inner(vec![(0, left), (begin, right)]);
        }
        self.len += u64::from(LENGTH);
    }

    fn get(&self, offset: u64) -> u64 {
        let leaf = self.root.leaf(offset);
        let found = leaf[find(leaf, offset)];
        found.address + (offset - found.offset)
    }

    fn sum(&self, from: u64, to: u64) -> u64 {
        let (mut offset, mut sum) = (from, 0_u64);
        while offset < to.min(self.len) {
            let leaf = self.root.leaf(offset);
            let extents = leaf[find(leaf, offset)..].iter();
            for extent in extents.take_while(|extent| extent.offset < to) {
                sum += extent.address;
                offset = extent.offset + u64::from(extent.length);
            }
        }
        sum
    }
}
