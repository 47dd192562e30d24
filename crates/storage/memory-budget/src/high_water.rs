//! Bytes of the writers' share that a cache does not take: the most that writers recently took.
//!
//! Memtables or write buffers fill, are flushed, and fill again. If a cache had all bytes that they
//! leave at each moment, the writers that fill the next ones would have to take them back each
//! time. The cache would evict for every write, and would have read the evicted pieces in vain. So
//! the most that writers took stays *claimed* until the cache has read in half the budget, twice,
//! while they took less. Without writes that happens soon, and then the cache gains from it.
//!
//! # Invariants
//! - K1. The claim is never less than the bytes that writers took at the last check.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::locks::Mutex;

/// The most bytes that writers of a store recently took of their share.
#[derive(Debug, Default)]
pub struct HighWater {
    claimed: AtomicU64,
    /// The most that writers took in this turn, and in the one before.
    most: AtomicU64,
    before: Mutex<u64>,
    /// Bytes that the cache has read in during this turn.
    read_in: AtomicU64,
}

impl HighWater {
    /// Returns the claimed bytes if writers have taken `taken` bytes.
    pub fn claimed(&self, taken: u64) -> u64 {
        self.claimed.load(Relaxed).max(taken)
    }

    /// Notes that writers have taken `taken` bytes. If that is a new maximum, it is claimed
    /// immediately, and `step` more, so that not every write has to claim. Returns the claim.
    pub fn note_taken(&self, taken: u64, step: u64) -> u64 {
        if self.most.load(Relaxed) < taken {
            self.most.fetch_max(taken, Relaxed);
        }
        let claimed = self.claimed.load(Relaxed);
        if claimed >= taken {
            return claimed;
        }
        let more = taken.saturating_add(step);
        self.claimed.fetch_max(more, Relaxed).max(more)
    }

    /// Notes that the cache has read in `bytes` bytes while writers have taken `taken`. A turn ends
    /// after `turn` bytes.
    pub fn note_read(&self, bytes: u64, taken: u64, turn: u64) {
        if self.read_in.fetch_add(bytes, Relaxed) + bytes < turn {
            return;
        }
        // A second thread finds a turn that has just begun.
        let Some(mut before) = self.before.try_lock() else { return };
        self.read_in.store(0, Relaxed);
        let most = self.most.swap(taken, Relaxed);
        self.claimed.store(most.max(*before).max(taken), Relaxed);
        *before = most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 1000;
    const STEP: u64 = 10;

    #[test]
    fn what_was_taken_stays_claimed_for_two_turns_without_it() {
        let high_water = HighWater::default();
        assert_eq!(high_water.note_taken(500, STEP), 510);
        assert_eq!(high_water.note_taken(300, STEP), 510, "by those who come later");
        high_water.note_read(TURN - 1, 0, TURN);
        assert_eq!(high_water.claimed(0), 510, "no turn has ended");
        high_water.note_read(1, 0, TURN);
        assert_eq!(high_water.claimed(0), 500, "the turn in which it was taken");
        high_water.note_taken(200, STEP);
        high_water.note_read(TURN, 0, TURN);
        assert_eq!(high_water.claimed(0), 500, "the turn before");
        high_water.note_read(TURN, 0, TURN);
        assert_eq!(high_water.claimed(0), 200);
        high_water.note_read(TURN, 0, TURN);
        assert_eq!(high_water.claimed(0), 0);
    }

    /// K1.
    #[test]
    fn what_is_taken_is_claimed() {
        let high_water = HighWater::default();
        assert_eq!(high_water.claimed(70), 70);
        for _ in 0..3 {
            high_water.note_read(TURN, 70, TURN);
            assert_eq!(high_water.claimed(0), 70);
        }
        for taken in [71, 75, 80, 81, 82] {
            assert!(high_water.note_taken(taken, STEP) >= taken);
        }
        assert_eq!(high_water.claimed(0), 92, "one claims for those behind");
    }

    #[test]
    fn writers_that_come_and_go_keep_what_they_claimed() {
        let high_water = HighWater::default();
        let mut claims = 0;
        for round in 0..50 {
            // Full once in each turn, at another place of it.
            for step in 0..10 {
                let taken = if step == round % 10 { 900 } else { 90 * step };
                let before = high_water.claimed(0);
                claims += u64::from(high_water.note_taken(taken, STEP) > before);
                high_water.note_read(TURN / 10, taken, TURN);
            }
        }
        assert!(claims <= 10, "{claims} had to claim");
    }
}
