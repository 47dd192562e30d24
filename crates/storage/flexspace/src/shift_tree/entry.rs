//! What a leaf's entry carries beside its offset and its length.

use std::fmt::Debug;

/// The content of an entry: an extent of a FlexTree, or an interval of a sparse index.
///
/// Its default stands in slots that hold nothing, and should own nothing.
pub trait Entry: Clone + Debug + Default {
    /// What separates two nodes beside their offsets: `()`, or the smallest key of the right one.
    type Pivot: Clone + Debug + Default;

    /// The pivot of a node that begins with this entry. It stays the same while the entry is in a
    /// tree. Keys ascend from entry to entry (N3).
    fn pivot(&self) -> Self::Pivot;

    /// What is left of this entry without its first `by` bytes.
    fn tail(&self, by: u32) -> Self;
}
