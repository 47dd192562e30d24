//! The content of a leaf's entry, in addition to its offset and its length.

use std::fmt::Debug;

/// The content of an entry: an extent of a FlexTree, or an interval of a sparse index.
///
/// Unused slots hold its default, which should own nothing.
pub trait Entry: Clone + Debug + Default {
    /// A separator of two nodes, in addition to their offsets: `()`, or the smallest key of the
    /// right one.
    type Pivot: Clone + Debug + Default;

    /// Returns the pivot of a node that begins with this entry. It stays the same while the entry
    /// is in a tree. Keys ascend from entry to entry (N3).
    fn pivot(&self) -> Self::Pivot;

    /// Returns the rest of this entry without its first `by` bytes.
    fn tail(&self, by: u32) -> Self;
}
