//! An address space with inserts in its middle, whose cost does not grow with the bytes behind.
//!
//! ```text
//!   insert · collapse · pwrite · append · sync ──> FlexSpace ──> Snapshot · read_extent · Stream
//!                          |            data, log-N, tree: on a device
//!   insert_range · collapse_range · append · overwrite · remap          get · query · snapshot
//!                          |                                                    |
//!                       FlexTree: which bytes lie where ----------------> FlexSnapshot
//!                          |                                                    |
//!                       ShiftTree: offsets as sums of shifts ----------> Snapshot, Cut
//! ```
//!
//! [`space::FlexSpace`] is a persistent file into which one can insert (FlexSpace paper, section
//! 4). [`FlexTree`] maps logical offsets to addresses, and shifts all bytes behind a point at a
//! cost of O(log N) (FlexSpace paper, section 3). It is in memory; a [`Cut`] has the nodes that a
//! checkpoint has to write. A FlexTree is built on [`ShiftTree`], which is generic over the content
//! of an entry. So an index of keys whose pairs move in such a space is the same tree.
//!
//! # Invariants
//! - Those of the tree are in `shift_tree.rs` (T1 to T5), those of its nodes in
//!   `shift_tree/leaf.rs` (L1 to L3) and `shift_tree/inner.rs` (N1 to N3). [`ShiftTree::check`]
//!   checks them, and [`ShiftTree::check_pivots`] the one about keys.
//! - The whole space is mapped: bytes without an address are a hole, an entry like others.
//! - A snapshot never changes, and blocks no thread.
//!
//! # To follow
//! - an insertion: `flex_tree/change.rs`: `insert_range`, then `shift_tree.rs`: `edit`, then
//!   `shift_tree/path.rs`, or `shift_tree/edit.rs` where nodes are split, then
//!   `shift_tree/leaf.rs`: `splice`;
//! - a removal: `flex_tree/change.rs`: `collapse_range`, then `shift_tree/remove.rs`;
//! - a lookup: `shift_tree/snapshot.rs`: `get`, then `shift_tree/search.rs`;
//! - a checkpoint's nodes: `shift_tree/cut.rs`, and back: `shift_tree/restore.rs`;
//! - a write into a persistent space: `space/write.rs`: `splice`, then `place` and `apply`;
//! - a sync: `space/commit.rs`, and a checkpoint: `space/checkpoint.rs`, then `nodes.rs`: `store`;
//! - a read: `space/read.rs`: `pread`, then `data.rs`: `read`;
//! - recovery: `space/open.rs`, then `space/recover.rs`;
//! - the collector: `space/collect.rs`.
//!
//! ```
//! use flexspace::{Extent, FlexTree};
//!
//! let mut tree = FlexTree::new();
//! tree.append(9, Extent::at(0)?)?;
//! tree.append(8, Extent::at(31)?)?;
//!
//! // Three bytes at the front: all others move back.
//! let before = tree.snapshot();
//! tree.insert_range(0, 3, Extent::at(89)?)?;
//! let places = tree.query(0..tree.len()).map(|piece| (piece.offset, piece.extent.address()));
//! assert_eq!(places.collect::<Vec<_>>(), [(0, Some(89)), (3, Some(0)), (12, Some(31))]);
//! assert_eq!((before.len(), tree.len()), (17, 20));
//!
//! // Out of the middle: what is left of an extent on both sides stays where it lies.
//! tree.collapse_range(5, 4)?;
//! let found = tree.get(5).expect("there are 16 bytes");
//! assert_eq!((found.offset, found.length, found.extent.address()), (5, 3, Some(6)));
//! # Ok::<(), flexspace::Error>(())
//! ```

mod data;
mod error;
mod extent;
mod flex_tree;
mod log;
mod nodes;
mod planted;
#[cfg(all(test, not(any(loom, shuttle))))]
mod seed;
mod shift_tree;
pub mod space;

pub use error::Error;
pub use extent::Extent;
pub use flex_tree::{FlexSnapshot, FlexTree, Mapping, Mappings};
#[doc(hidden)]
pub use log::check_log;
#[doc(hidden)]
pub use nodes::check_node;
pub use shift_tree::{
    Cut, Entries, Entry, Found, INNER, LEAF, Leaf, NodeId, NodeImage, NodeRef, RestoreError, Room,
    Shape, ShiftTree, Side, Snapshot, Spot,
};
