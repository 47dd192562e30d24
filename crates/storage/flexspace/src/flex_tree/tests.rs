//! Tests of the FlexTree.

mod bounds;
mod defects;
mod model;
mod operations;
mod random;
mod snapshots;
mod stored;

use crate::{Extent, FlexTree};

/// A tree whose nodes are so small that a hundred extents make several levels.
type TinyTree = FlexTree<4, 6>;

fn at(address: u64) -> Extent {
    Extent::at(address).expect("an address of a test")
}

/// `count` extents of `length` bytes that do not join.
fn apart<const C: usize, const F: usize>(count: u64, length: u64) -> FlexTree<C, F> {
    let mut tree = FlexTree::with_join_window(1 << 63);
    for number in 0..count {
        tree.append(length, at(number * 2 * length)).expect("there is room");
    }
    tree
}
