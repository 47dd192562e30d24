//! Editing all keys of a range, one leaf at a time.
//!
//! No other writer adds or removes keys of the range (law L6 of the engine contract), but leaves
//! split and merge. So the next leaf is searched for by the key at which the last one ended.

use std::ops::{Bound, Range};

use engine::KeyRange;

use super::leaf::Leaf;
use super::walk::indices;
use super::{Delta, Map};

impl Map {
    /// Calls `edit` with each leaf that has keys in `range`, and their slots, under the number
    /// `seqno`, and counts what the edit says it changed, unless that was nothing.
    pub(crate) fn write_range(
        &self,
        range: &KeyRange,
        seqno: u64,
        edit: &mut dyn FnMut(&mut Leaf, Range<usize>) -> Option<Delta>,
    ) {
        let mut at = match &range.start {
            Bound::Included(start) | Bound::Excluded(start) => start.clone(),
            Bound::Unbounded => Vec::new(),
        };
        loop {
            let (entry, bounds, mut leaf) = loop {
                let (entry, bounds) = self.directory.find_bounds(&at);
                if let Some(leaf) = self.lock_to_write(entry) {
                    break (entry, bounds, leaf);
                }
            };
            let (from, to) = indices(&leaf, &bounds, range);
            let memory = leaf.memory();
            let delta = if from < to { edit(&mut leaf, from..to) } else { None };
            self.account(memory, leaf.memory());
            if let Some(delta) = delta {
                self.tally.add(entry.leaf.0, delta, seqno);
            }
            if leaf.unpruned() > 0 && leaf.enqueue() {
                self.unpruned.push(seqno, entry.leaf);
            }
            let underfull = leaf.is_underfull();
            drop(leaf);
            if underfull && delta.is_some() {
                self.merge(&at);
            }
            match bounds.high {
                Some(high) if !range.ends_before(&high) => at = high,
                _ => return,
            }
        }
    }
}
