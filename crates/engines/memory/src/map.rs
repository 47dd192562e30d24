//! An ordered concurrent map of versioned keys: leaves, each behind its own lock, found through a
//! directory that is read without one.
//!
//! 1. A reader or writer asks the directory for the leaf of its key, locks that leaf alone, and
//!    compares revisions; if the leaf's range has moved meanwhile, it asks again.
//! 2. A writer that leaves a leaf overfull or underfull unlocks it, and then splits or merges it
//!    under the `structure` lock.
//! 3. A split writes both halves, publishes the new directory, and only then unlocks: a thread that
//!    waited for the leaf finds the directory up to date.
//!
//! # Concurrency
//! Lock order: `structure`, then a leaf, then its upper neighbour. A thread without `structure`
//! holds one leaf at most. The list of unpruned leaves is locked inside of a leaf's lock, and
//! nothing inside of its own.
//!
//! # Invariants
//! - M1. The leaves that the directory names part all keys, each key in one.
//! - M2. The budget counts the bytes of leaves, slab and directory, exactly for the leaves.

mod collect;
mod directory;
mod leaf;
mod order;
mod range;
mod separators;
mod slab;
mod slot;
mod tally;
mod walk;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory_budget::MemoryBudget;
use sync::locks::{Mutex, RwLockReadGuard, RwLockWriteGuard};

use crate::trim::Trim;
pub(crate) use collect::Rules;
use collect::Unpruned;
use directory::{Directory, Entry};
use leaf::Leaf;
pub(crate) use leaf::Leaf as LeafContent;
pub(crate) use leaf::{Found, LeafBuilder, NewValue};
use slab::Slab;
pub(crate) use tally::{Delta, Tally};
pub(crate) use walk::{Position, Run};

/// The map; see the file's head.
#[derive(Debug)]
pub(crate) struct Map {
    directory: Directory,
    slab: Slab,
    structure: Mutex<()>,
    unpruned: Unpruned,
    pub(crate) tally: Tally,
    pub(crate) trim: Trim,
    budget: Arc<MemoryBudget>,
    /// Bytes that this map has charged to the budget; they are released when it is dropped.
    charged: AtomicU64,
    /// Leaves that the map was built with. The map now has this many, plus `splits`, less `merges`.
    first_leaves: u64,
    splits: AtomicU64,
    merges: AtomicU64,
}

/// The number of leaves of a map, and how it came about.
pub(crate) struct Leaves {
    pub(crate) leaves: u64,
    /// Leaves that were cut in two.
    pub(crate) splits: u64,
    /// Pairs of leaves that were merged.
    pub(crate) merges: u64,
}

/// Returns the bytes that the directory takes for a leaf whose range begins at a key of `low_len`
/// bytes.
fn directory_memory(low_len: usize) -> usize {
    size_of::<Entry>() + size_of::<u64>() + size_of::<u32>() + low_len
}

impl Map {
    /// A map of what `builder` was given.
    pub(crate) fn new(builder: LeafBuilder, tally: Tally, budget: Arc<MemoryBudget>) -> Self {
        let slab = Slab::new();
        let mut charged = 0;
        let mut entries = Vec::new();
        for (low, leaf) in builder.finish() {
            let id = slab.allocate();
            charged += leaf.memory() + directory_memory(low.len());
            entries.push((low, Entry { leaf: id, revision: leaf.revision }));
            *slab.get(id).write() = leaf;
        }
        let leaves: Vec<_> = entries.iter().map(|(low, entry)| (low.as_slice(), *entry)).collect();
        let directory = Directory::new(&leaves);
        let map = Self {
            directory,
            structure: Mutex::default(),
            unpruned: Unpruned::default(),
            tally,
            trim: Trim::default(),
            budget,
            charged: AtomicU64::new(0),
            first_leaves: leaves.len() as u64,
            splits: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            slab,
        };
        map.account(0, charged + map.slab.memory());
        map
    }

    /// Calls `look` with the leaf whose range contains `key`.
    pub(crate) fn read<R>(&self, key: &[u8], look: impl FnOnce(&Leaf) -> R) -> R {
        loop {
            let entry = self.directory.find(key);
            if let Some(leaf) = self.lock_to_read(entry) {
                return look(&leaf);
            }
        }
    }

    /// Edits the leaf whose range contains `key`, under the number `seqno`. Counts the change that
    /// the edit reports, if it made one.
    pub(crate) fn write<R>(
        &self,
        key: &[u8],
        seqno: u64,
        edit: impl FnOnce(&mut Leaf) -> (R, Option<Delta>),
    ) -> R {
        let (entry, mut leaf) = loop {
            let entry = self.directory.find(key);
            if let Some(leaf) = self.lock_to_write(entry) {
                break (entry, leaf);
            }
        };
        let (keys, before) = (leaf.len(), leaf.allocations());
        let (result, delta) = edit(&mut leaf);
        let after = leaf.allocations();
        if after != before {
            self.account(before.memory(), after.memory());
        }
        if let Some(delta) = delta {
            self.tally.add(entry.leaf.0, delta, seqno);
        }
        if leaf.unpruned() > 0 && leaf.enqueue() {
            self.unpruned.push(seqno, entry.leaf);
        }
        let (overfull, underfull) = (leaf.is_overfull(), leaf.is_underfull());
        let fewer = leaf.len() < keys;
        drop(leaf);
        if overfull {
            self.split(key);
        } else if underfull && fewer {
            self.merge(key);
        }
        result
    }

    /// Bytes of memory that the map counts as its own.
    pub(crate) fn memory(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// Returns how many leaves there are, and how many splits and merges there were. Visits no
    /// leaf.
    pub(crate) fn leaves(&self) -> Leaves {
        // `merges` is loaded first. A merge comes after the split that made its leaves, so the
        // difference is never negative.
        let merges = self.merges.load(Acquire);
        let splits = self.splits.load(Relaxed);
        Leaves { leaves: self.first_leaves + splits - merges, splits, merges }
    }

    /// Counts the leaves of the directory.
    #[cfg(test)]
    pub(crate) fn walk_leaves(&self) -> u64 {
        let mut leaves = 0;
        self.directory.for_each(|_| leaves += 1);
        leaves
    }

    /// Returns the number of old versions and tombstones. Visits every leaf.
    #[cfg(test)]
    pub(crate) fn superseded(&self) -> u64 {
        let mut superseded = 0;
        self.directory.for_each(|entry| {
            superseded += self.slab.get(entry.leaf).read().superseded() as u64;
        });
        superseded
    }

    fn lock_to_read(&self, entry: Entry) -> Option<RwLockReadGuard<'_, Leaf>> {
        let leaf = self.slab.get(entry.leaf).read();
        (leaf.revision == entry.revision).then_some(leaf)
    }

    fn lock_to_write(&self, entry: Entry) -> Option<RwLockWriteGuard<'_, Leaf>> {
        let leaf = self.slab.get(entry.leaf).write();
        (leaf.revision == entry.revision).then_some(leaf)
    }

    /// Cuts the leaf of `key` in two, if it is still overfull.
    #[cold]
    fn split(&self, key: &[u8]) {
        let _structure = self.structure.lock();
        let change = self.directory.change(key);
        let entry = change.entry();
        let mut leaf = self.slab.get(entry.leaf).write();
        assert_eq!(leaf.revision, entry.revision, "only this lock's holder moves ranges");
        if !leaf.is_overfull() {
            return;
        }
        let slab_memory = self.slab.memory();
        let bounds = change.bounds();
        let before = leaf.memory();
        let (cut, mut upper) = leaf.split(&bounds.low, bounds.high.as_deref());
        leaf.revision = leaf.revision.wrapping_add(1);
        let id = self.slab.allocate();
        let mut place = self.slab.get(id).write();
        upper.revision = place.revision.wrapping_add(1);
        let upper_entry = Entry { leaf: id, revision: upper.revision };
        let grown = self.slab.memory() - slab_memory + directory_memory(cut.len());
        self.account(before, leaf.memory() + upper.memory() + grown);
        if upper.unpruned() > 0 && upper.enqueue() {
            self.unpruned.push(upper.newest_of_all(), id);
        }
        *place = upper;
        change.publish_split(leaf.revision, &cut, upper_entry);
        self.splits.fetch_add(1, Relaxed);
    }

    /// Merges the leaf of `key` with a neighbour, if it is still underfull and both then fit.
    #[cold]
    fn merge(&self, key: &[u8]) {
        let _structure = self.structure.lock();
        let mut change = self.directory.change(key);
        let Some((upper_entry, upper_bounds)) = change.pair() else {
            return change.join_chunks();
        };
        let entry = change.entry();
        let mut leaf = self.slab.get(entry.leaf).write();
        let mut upper = self.slab.get(upper_entry.leaf).write();
        if !(leaf.is_underfull() || upper.is_underfull()) || !leaf.can_take(&upper) {
            return;
        }
        let before = leaf.memory() + upper.memory() + directory_memory(upper_bounds.low.len());
        let low = change.bounds().low;
        leaf.merge(&mut upper, &low, upper_bounds.high.as_deref());
        leaf.revision = leaf.revision.wrapping_add(1);
        *upper = Leaf::vacant(upper.revision.wrapping_add(1));
        if leaf.unpruned() > 0 && leaf.enqueue() {
            self.unpruned.push(leaf.newest_of_all(), entry.leaf);
        }
        self.account(before, leaf.memory());
        change.publish_merge(leaf.revision);
        self.merges.fetch_add(1, Release);
        drop((leaf, upper));
        self.slab.release(upper_entry.leaf);
        self.directory.change(key).join_chunks();
    }

    /// Tells the budget that what took `before` bytes takes `after` now.
    fn account(&self, before: usize, after: usize) {
        if after != before {
            self.trim.note(after.abs_diff(before));
        }
        if after > before {
            let more = (after - before) as u64;
            self.budget.charge_anyway(more);
            self.charged.fetch_add(more, Relaxed);
        } else if before > after {
            let less = (before - after) as u64;
            self.budget.release(less);
            self.charged.fetch_sub(less, Relaxed);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        self.budget.release(self.charged.load(Relaxed));
    }
}
