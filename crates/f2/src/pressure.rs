//! What writers are asked to do for compaction: wait a moment, or not write at all.
//!
//! Compaction gives back what writes take: entries of the hot index, and space of the hot log. Where
//! it falls behind, each write makes writers owe some time, the more of it the further behind compaction is.
//! They pay it one after the other, however many they are; so they come down to the pace of
//! compaction instead of running into a wall, and none ever compacts. A wait has a bound. Compaction
//! always catches up, unless it fails: then nobody waits for it, and writes are refused once memory or
//! disk space is used up (`trouble`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, Result};
use parking_lot::{Condvar, Mutex};

/// How far compaction is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    None,
    /// Something is above what it should be, and each write owes so many nanoseconds.
    Behind(u64),
    /// The index has used up twice its share of the memory.
    OutOfMemory,
}

/// What each write owes where twice of what should be is used. At less it falls with the square of the
/// excess: at a tenth too much, 100 microseconds.
const DEBT_MOST: Duration = Duration::from_millis(10);
/// A wait at most: for one's turn, and then the same to pay.
const WAIT_MOST: Duration = Duration::from_millis(5);
/// More is not owed by all of them together: what a large batch owes others do not pay for long.
const DEBT_BOUND_NANOS: u64 = 100_000_000;
/// Less than this is not paid yet: shorter waits cost more than they slow down.
const WAIT_LEAST_NANOS: u64 = 200_000;
/// As a share of what should be used.
const OUT_OF_MEMORY: f64 = 2.0;

#[cfg(test)]
mod tests;

/// What writers are asked for now, as it is kept.
const NOTHING: u8 = 0;
const BEHIND: u8 = 1;
const OUT: u8 = 2;
const REFUSED: u8 = 3;

/// The present level, and where writers wait.
#[derive(Default)]
pub(crate) struct Pressure {
    level: AtomicU8,
    /// The page at which the level was found.
    page: AtomicU64,
    /// What writers would wait for is not coming.
    is_hopeless: AtomicBool,
    /// What writes are refused with, if not for want of memory.
    refusal: Mutex<Option<Error>>,
    /// What a write owes, and what they owe together.
    write_nanos: AtomicU64,
    owed_nanos: AtomicU64,
    /// Held by the one who pays.
    turn: Mutex<()>,
    waiting: Mutex<()>,
    relieved: Condvar,
}

impl Level {
    /// The level at which `index` and `disk` are used, each as a share of what should be.
    pub(crate) fn of(index: f64, disk: f64) -> Self {
        let excess = (index.max(disk) - 1.0).clamp(0.0, 1.0);
        match (excess, index) {
            (_, index) if index > OUT_OF_MEMORY => Self::OutOfMemory,
            (excess, _) if excess > 0.0 => {
                Self::Behind((DEBT_MOST.as_nanos() as f64 * excess * excess) as u64)
            }
            _ => Self::None,
        }
    }
}

impl Pressure {
    /// Whether the log has turned to another page since this was asked: then the level is old.
    pub(crate) fn is_new_page(&self, page: u64) -> bool {
        self.page.load(Relaxed) != page && self.page.swap(page, Relaxed) != page
    }

    /// Says what writers should do from now on. Who waits goes on where that is over.
    pub(crate) fn set(&self, level: Level, is_hopeless: bool) {
        let (level, nanos) = match level {
            Level::None => (NOTHING, 0),
            Level::Behind(nanos) => (BEHIND, nanos),
            Level::OutOfMemory => (OUT, 0),
        };
        self.keep(level, nanos, is_hopeless);
    }

    /// From now on writes are refused with this error, until a level is set.
    pub(crate) fn refuse(&self, error: Error) {
        *self.refusal.lock() = Some(error);
        self.keep(REFUSED, 0, true);
    }

    fn keep(&self, level: u8, write_nanos: u64, is_hopeless: bool) {
        self.is_hopeless.store(is_hopeless, Relaxed);
        self.write_nanos.store(write_nanos, Relaxed);
        self.level.store(level, Relaxed);
        if level != BEHIND || is_hopeless {
            self.owed_nanos.store(0, Relaxed);
            self.relieved.notify_all();
        }
    }

    /// What writes are refused with, if not for want of memory.
    pub(crate) fn refusal(&self) -> Option<Error> {
        (self.level.load(Relaxed) == REFUSED).then(|| self.refusal.lock().clone())?
    }

    /// Whether compaction keeps up.
    pub(crate) fn is_none(&self) -> bool {
        self.level.load(Relaxed) == NOTHING
    }

    /// Whether new values are refused.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the limit given; [`Error::SpaceUsedUp`].
    pub(crate) fn check(&self, limit: u64) -> Result<()> {
        if self.level.load(Relaxed) < OUT {
            return Ok(());
        }
        Err(self.refusal().unwrap_or(Error::OutOfMemory { limit }))
    }

    /// Owes for so many writes if compaction is behind, and waits a moment if enough is owed. The
    /// caller is not protected.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn wait(&self, writes: usize, limit: u64) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        self.check(limit)?;
        if !self.is_hopeless.load(Relaxed) {
            self.owe(writes);
        }
        Ok(())
    }

    /// Waits a moment, for no compaction.
    pub(crate) fn pause(&self, moment: Duration) {
        self.relieved.wait_for(&mut self.waiting.lock(), moment);
    }

    fn owe(&self, writes: usize) {
        let nanos = self.write_nanos.load(Relaxed).saturating_mul(writes as u64);
        let owed = self.change_debt(|owed| owed.saturating_add(nanos).min(DEBT_BOUND_NANOS));
        if owed.saturating_add(nanos) < WAIT_LEAST_NANOS {
            return;
        }
        let Some(_turn) = self.turn.try_lock_for(WAIT_MOST) else { return };
        // Who had the turn before may have paid this, too; what is not paid now stays owed.
        let most = WAIT_MOST.as_nanos() as u64;
        let paid = self.change_debt(|owed| owed.saturating_sub(most)).min(most);
        if paid > 0 && self.level.load(Relaxed) == BEHIND {
            self.relieved.wait_for(&mut self.waiting.lock(), Duration::from_nanos(paid));
        }
    }

    /// Answers the debt before.
    fn change_debt(&self, to: impl Fn(u64) -> u64) -> u64 {
        let changed = self.owed_nanos.fetch_update(Relaxed, Relaxed, |owed| Some(to(owed)));
        changed.unwrap_or_else(|owed| owed)
    }
}
