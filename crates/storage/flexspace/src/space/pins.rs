//! Which snapshots live, by the number of the state that they are of.

use std::collections::BTreeMap;

use sync::Mutex;

/// The living pins, counted by state.
#[derive(Debug, Default)]
pub(super) struct Pins {
    living: Mutex<BTreeMap<u64, usize>>,
}

impl Pins {
    /// Adds one. The caller holds the state's lock, or another pin of that state, so that no
    /// segment that it will read is freed before it is counted.
    pub(super) fn pin(&self, state: u64) {
        *self.living.lock().entry(state).or_default() += 1;
    }

    pub(super) fn unpin(&self, state: u64) {
        let mut living = self.living.lock();
        if let Some(count) = living.get_mut(&state) {
            *count -= 1;
            if *count == 0 {
                living.remove(&state);
            }
        }
    }

    /// Returns the oldest living one of the states from `first` to `last`, both included. Of a
    /// state before the present one there will be none again once there is none.
    pub(super) fn first_of(&self, first: u64, last: u64) -> Option<u64> {
        if first > last {
            return None;
        }
        self.living.lock().range(first..=last).next().map(|(state, _)| *state)
    }

    /// Returns how many live.
    pub(super) fn count(&self) -> u64 {
        self.living.lock().values().map(|count| *count as u64).sum()
    }
}
