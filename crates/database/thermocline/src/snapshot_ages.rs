//! Ages of snapshots and scans, at no cost to the threads that take them.
//!
//! At regular intervals, and when figures are read, a look collects the pinned numbers. A number is
//! as old as the first look that met it, if each look since then has met it too. So an age is too
//! small by the time between two looks at most. While there are no writes, snapshots that follow
//! each other at one number count as one; they hold nothing back.

use std::collections::BTreeMap;
use std::time::Duration;

use codec::SeqNo;
use environment::Monotonic;
use sync::locks::Mutex;

/// The numbers that are pinned, and when each was met first.
#[derive(Debug, Default)]
pub(crate) struct SnapshotAges {
    since: Mutex<BTreeMap<SeqNo, Monotonic>>,
}

impl SnapshotAges {
    /// Notes the numbers that are pinned now, and returns for how long the oldest has been pinned.
    pub(crate) fn look(&self, pinned: Vec<SeqNo>, now: Monotonic) -> Option<Duration> {
        let mut since = self.since.lock();
        let known = |number: SeqNo| (number, since.get(&number).copied().unwrap_or(now));
        let present: BTreeMap<SeqNo, Monotonic> = pinned.into_iter().map(known).collect();
        *since = present;
        since.values().next().map(|begun| now - *begun)
    }
}
