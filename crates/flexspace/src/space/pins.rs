//! Which snapshots live, by how many commits had freed segments when they were taken.

use std::collections::BTreeMap;

use sync::Mutex;

/// The living pins, counted by commit.
#[derive(Debug, Default)]
pub(super) struct Pins {
    living: Mutex<BTreeMap<u64, usize>>,
}

impl Pins {
    /// Adds one. The caller holds the state's lock, so that no commit frees what it will read
    /// before it is counted.
    pub(super) fn pin(&self, commits: u64) {
        *self.living.lock().entry(commits).or_default() += 1;
    }

    pub(super) fn unpin(&self, commits: u64) {
        let mut living = self.living.lock();
        if let Some(count) = living.get_mut(&commits) {
            *count -= 1;
            if *count == 0 {
                living.remove(&commits);
            }
        }
    }

    /// The oldest living one; `now` if none lives.
    pub(super) fn oldest(&self, now: u64) -> u64 {
        self.living.lock().keys().next().copied().unwrap_or(now)
    }

    /// How many live.
    pub(super) fn count(&self) -> u64 {
        self.living.lock().values().map(|count| *count as u64).sum()
    }
}
