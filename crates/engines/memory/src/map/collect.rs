//! Pruning: versions and tombstones go once no snapshot can see them.
//!
//! A leaf that is left with more than live versions waits in a list, by the number of the write
//! that made it so. Once the horizon has passed that number, the next writer or the end of a flush
//! prunes the leaf.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sync::locks::Mutex;

use super::Map;
use super::slab::LeafId;

/// Leaves with something to prune, in about the order of the writes that made them so.
#[derive(Debug, Default)]
pub(super) struct Unpruned {
    leaves: Mutex<VecDeque<(u64, LeafId)>>,
    /// How many there are, to be asked without the lock by every writer.
    count: AtomicUsize,
}

impl Unpruned {
    pub(super) fn push(&self, seqno: u64, leaf: LeafId) {
        self.leaves.lock().push_back((seqno, leaf));
        self.count.fetch_add(1, Relaxed);
    }

    fn pop_below(&self, horizon: u64) -> Option<LeafId> {
        let mut leaves = self.leaves.lock();
        let (seqno, leaf) = *leaves.front()?;
        if seqno > horizon {
            return None;
        }
        leaves.pop_front();
        self.count.fetch_sub(1, Relaxed);
        Some(leaf)
    }

    fn is_waiting(&self) -> bool {
        self.count.load(Relaxed) > 0
    }
}

/// The facts from outside of the map that pruning needs.
pub(crate) struct Rules<'a> {
    /// No snapshot is below it: a tombstone at or below it may be removed.
    pub(crate) horizon: u64,
    /// Returns whether a snapshot may show the version of the first number although there is one of
    /// the second, newer number.
    pub(crate) is_seen: &'a dyn Fn(u64, u64) -> bool,
}

impl Map {
    /// Whether any leaf waits to be pruned.
    pub(crate) fn has_unpruned(&self) -> bool {
        self.unpruned.is_waiting()
    }

    /// Prunes up to `count` leaves that are due; returns how many there were.
    pub(crate) fn collect(&self, count: usize, rules: &Rules<'_>) -> usize {
        for done in 0..count {
            let Some(id) = self.unpruned.pop_below(rules.horizon) else { return done };
            self.prune_leaf(id, rules);
        }
        count
    }

    fn prune_leaf(&self, id: LeafId, rules: &Rules<'_>) {
        let mut leaf = self.slab.get(id).write();
        leaf.dequeue();
        if leaf.unpruned() == 0 {
            return;
        }
        let key = leaf.key(0);
        let before = leaf.memory();
        leaf.prune_all(rules.is_seen, rules.horizon);
        self.account(before, leaf.memory());
        if leaf.unpruned() > 0 && leaf.enqueue() {
            // The versions that are left are newer than the horizon, or a snapshot shows them.
            self.unpruned.push(leaf.newest_of_all().max(rules.horizon + 1), id);
        }
        let underfull = leaf.is_underfull();
        drop(leaf);
        if underfull {
            self.merge(&key);
        }
    }
}
