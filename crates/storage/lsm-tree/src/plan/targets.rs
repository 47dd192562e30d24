//! The bytes that each level should hold: a function of the size of the tree.
//!
//! The tree has as few levels as the largest allowed ratio permits, and the ratio of each level to
//! the one above it is the same. With a fixed ratio the last level often has little more data than
//! the level above it, and costs nearly the writes of a full level. The last level has no target:
//! its tables go to no other level.

#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::shape::Shape;
use crate::version::{LEVELS, Version};

/// The levels that a tree of some size needs, and their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Targets {
    level1_bytes: f64,
    ratio: f64,
    last: usize,
}

impl Targets {
    /// Returns the targets of a tree that has `more` bytes in addition to those of `version`.
    pub fn of(version: &Version, shape: &Shape, more: u64) -> Self {
        let bytes = (0..LEVELS).map(|level| version.level_bytes(level)).sum::<u64>() + more;
        let present = (1..LEVELS).rev().find(|level| !version.level(*level).is_empty());
        Self::of_size(bytes, present.unwrap_or(1), shape)
    }

    /// Returns the targets of a tree of this size, whose lowest level with tables is `present`.
    fn of_size(bytes: u64, present: usize, shape: &Shape) -> Self {
        let level1_bytes = shape.level1_bytes.max(1) as f64;
        let times = bytes as f64 / level1_bytes;
        let most = shape.level_ratio.max(2) as f64;
        let holds = |level: &usize| most.powi(*level as i32 - 1) >= times;
        let needed = (1..LEVELS).find(holds).unwrap_or(LEVELS - 1);
        let last = needed.max(present);
        let steps = (last - 1).max(1) as f64;
        Self { level1_bytes, ratio: times.max(1.0).powf(1.0 / steps), last }
    }

    /// Returns the level in which the tree ends.
    pub fn last(&self) -> usize {
        self.last
    }

    /// Returns the bytes that a level above the last one should hold at most.
    pub fn bytes_max(&self, level: usize) -> f64 {
        self.level1_bytes * self.ratio.powi(level as i32 - 1)
    }
}
