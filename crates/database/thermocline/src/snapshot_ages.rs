//! Since when snapshots and scans are held, at no cost to who takes one.
//!
//! Every now and then the numbers are looked at that are pinned. One is as old as the first look that met it,
//! if each since then has. So an age is too small by the time between two looks at most. Where nobody
//! writes, snapshots that follow each other at one number count as one; they hold nothing back.

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
    /// Looks at what is pinned now, and answers for how long the oldest has been.
    pub(crate) fn look(&self, pinned: Vec<SeqNo>, now: Monotonic) -> Option<Duration> {
        let mut since = self.since.lock();
        let known = |number: SeqNo| (number, since.get(&number).copied().unwrap_or(now));
        let present: BTreeMap<SeqNo, Monotonic> = pinned.into_iter().map(known).collect();
        *since = present;
        since.values().next().map(|begun| now - *begun)
    }
}
