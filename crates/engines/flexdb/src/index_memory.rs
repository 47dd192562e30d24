//! The memory of the index, and the size of intervals by which it is held to its share
//! (`commit/coarsen_index.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use flexspace::space::FlexSpace;
use memory_budget::Account;

use crate::index::Index;
use crate::memory_split::DOUBLINGS_MAX;

/// The bytes that the index takes, and how far its intervals have grown for that.
pub(crate) struct IndexMemory {
    /// Bytes of the intervals' heads.
    pub(crate) heads: Arc<Account>,
    /// Bytes of the nodes of the index and of the space's tree, including those of old bases, at
    /// the last check.
    nodes: Arc<Account>,
    /// How often intervals were allowed twice the size.
    doublings: AtomicU32,
    /// Bytes that intervals took at the last check that found too many.
    looked_at: AtomicU64,
}

impl IndexMemory {
    pub(crate) fn new(heads: Arc<Account>, nodes: Arc<Account>, doublings: u32) -> Self {
        let (doublings, looked_at) = (AtomicU32::new(doublings), AtomicU64::new(0));
        Self { heads, nodes, doublings, looked_at }
    }

    /// Bytes of the index, and of the space's tree.
    pub(crate) fn bytes(&self) -> u64 {
        self.heads.bytes() + self.nodes.bytes()
    }

    /// Bytes of the nodes at the last check.
    pub(crate) fn node_bytes(&self) -> u64 {
        self.nodes.bytes()
    }

    /// Bytes of the intervals' heads and of the nodes in which they are, including heads and nodes
    /// that only snapshots hold.
    pub(crate) fn intervals_bytes(&self, index: &Index) -> u64 {
        self.heads.bytes() + index.node_bytes()
    }

    /// Looks at how many nodes there are.
    pub(crate) fn count_nodes(&self, index: &Index, space: &FlexSpace) {
        self.nodes.set(index.node_bytes() + space.node_bytes());
    }

    /// Notes that a closed store has no nodes.
    pub(crate) fn clear_nodes(&self) {
        self.nodes.set(0);
    }

    /// Returns how often intervals were allowed twice the size.
    pub(crate) fn doublings(&self) -> u32 {
        self.doublings.load(Relaxed)
    }

    /// Allows intervals twice the size, and returns whether they may have it.
    pub(crate) fn double(&self) -> bool {
        let is_allowed = self.doublings() < DOUBLINGS_MAX;
        if is_allowed {
            self.doublings.fetch_add(1, Relaxed);
        }
        is_allowed
    }

    /// Allows intervals half the size.
    pub(crate) fn halve(&self) {
        let fewer = |doublings: u32| Some(doublings.saturating_sub(1));
        let _ = self.doublings.fetch_update(Relaxed, Relaxed, fewer);
    }

    /// Returns the bytes that intervals took at the last check that found too many.
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at.load(Relaxed)
    }

    /// Notes the bytes that intervals take at a check.
    pub(crate) fn look_at(&self, bytes: u64) {
        self.looked_at.store(bytes, Relaxed);
    }
}
