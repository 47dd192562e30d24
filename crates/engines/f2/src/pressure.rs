//! What writers are asked to do for compaction: wait a moment, or not write at all.
//!
//! Compaction gives back what writes take: entries of the hot index, and space of the hot log. Where
//! it falls behind, each write owes some time, the more of it the longer it is and the further behind compaction
//! is. What is owed is paid by one writer after the other, however many they are; so they come down to the pace of
//! compaction instead of running into a wall, and none ever compacts. A wait has a bound, a tenth of a second in all:
//! who has paid a slice leaves the rest to those who come next, and so does who does not get the turn. So where
//! more than ten writers stand in line and owe much, some go on without having paid, ten times a second each.
//! Compaction always catches up, unless it fails: then nobody waits for it, and writes are refused once memory or disk
//! space is used up (`failing_compactions`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, Result};
use sync::locks::{Condvar, Mutex, MutexGuard};

/// How far compaction is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    None,
    /// Something is above what it should be, and a write owes so many nanoseconds for each [`UNIT_BYTES`] that it
    /// begins.
    Behind(u64),
    /// The index has used up twice its share of the memory.
    OutOfMemory,
}

/// What a write owes for each of so many bytes that it begins ...
pub(crate) const UNIT_BYTES: u64 = 1024;
/// ... where twice of what should be is used. At another excess it changes with the square of that: at a tenth too
/// much it is 100 microseconds.
const DEBT_AT_TWICE: Duration = Duration::from_millis(10);
/// More is not owed, by one write or by all: it is paid long after.
const DEBT_MOST: Duration = Duration::from_secs(1);
/// Who pays pays so much at most ...
const SLICE: Duration = Duration::from_millis(10);
/// ... and waits no longer for the turn: ten may stand in line that all pay.
const TURN_WAIT_MOST: Duration = Duration::from_millis(90);
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
    /// What a write owes for each unit, and what was not paid yet.
    unit_nanos: AtomicU64,
    owed_nanos: AtomicU64,
    /// Held by the one who pays.
    turn: Mutex<()>,
    waiting: Mutex<()>,
    relieved: Condvar,
}

impl Level {
    /// The level at which `index` and `disk` are used, each as a share of what should be.
    pub(crate) fn of(index: f64, disk: f64) -> Self {
        let excess = (index.max(disk) - 1.0).max(0.0);
        match (excess, index) {
            (_, index) if index > OUT_OF_MEMORY => Self::OutOfMemory,
            (excess, _) if excess > 0.0 => {
                let nanos = DEBT_AT_TWICE.as_nanos() as f64 * excess * excess;
                Self::Behind(nanos.min(DEBT_MOST.as_nanos() as f64) as u64)
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

    fn keep(&self, level: u8, unit_nanos: u64, is_hopeless: bool) {
        self.is_hopeless.store(is_hopeless, Relaxed);
        self.unit_nanos.store(unit_nanos, Relaxed);
        self.level.store(level, Relaxed);
        if !self.is_behind() {
            self.owed_nanos.store(0, Relaxed);
            // Who is about to wait looks once more under this.
            drop(self.waiting.lock());
            self.relieved.notify_all();
        }
    }

    /// Whether there is something to wait for.
    fn is_behind(&self) -> bool {
        self.level.load(Relaxed) == BEHIND && !self.is_hopeless.load(Relaxed)
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

    /// Owes for so many units if compaction is behind, and waits a moment if enough is owed: a tenth of a second at
    /// most. The caller is not protected.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn wait(&self, units: u64, limit: u64) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        self.check(limit)?;
        if self.is_behind() {
            self.owe(units);
        }
        Ok(())
    }

    /// Owes for so many units if compaction is behind, and waits for nobody: others pay.
    pub(crate) fn owe_unpaid(&self, units: u64) {
        if self.is_behind() {
            self.add_owed(units);
        }
    }

    /// What was not paid yet.
    #[cfg(test)]
    pub(crate) fn owed(&self) -> Duration {
        Duration::from_nanos(self.owed_nanos.load(Relaxed))
    }

    /// Waits a moment, for no compaction.
    pub(crate) fn pause(&self, moment: Duration) {
        self.relieved.wait_for(&mut self.waiting.lock(), moment);
    }

    /// Answers what is owed with it.
    fn add_owed(&self, units: u64) -> u64 {
        let most = DEBT_MOST.as_nanos() as u64;
        let nanos = self.unit_nanos.load(Relaxed).saturating_mul(units);
        let more = |owed: u64| owed.saturating_add(nanos).min(most);
        more(self.change_owed(more))
    }

    fn owe(&self, units: u64) {
        if self.add_owed(units) < WAIT_LEAST_NANOS {
            return;
        }
        let Some(turn) = self.turn.try_lock_for(TURN_WAIT_MOST) else { return };
        self.pay_slice();
        // This writer runs, so without a hand-over it would take each turn before the writers that sleep.
        MutexGuard::unlock_fair(turn);
    }

    /// Waits for one slice of the debt. The next writer pays the rest.
    fn pay_slice(&self) {
        let mut waiting = self.waiting.lock();
        if !self.is_behind() {
            return;
        }
        let slice = SLICE.as_nanos() as u64;
        let owed = self.change_owed(|owed| owed.saturating_sub(slice)).min(slice);
        if owed > 0 {
            self.relieved.wait_for(&mut waiting, Duration::from_nanos(owed));
        }
    }

    /// What was owed before.
    fn change_owed(&self, change: impl Fn(u64) -> u64) -> u64 {
        let changed = self.owed_nanos.fetch_update(Relaxed, Relaxed, |owed| Some(change(owed)));
        changed.unwrap_or_else(|owed| owed)
    }
}
