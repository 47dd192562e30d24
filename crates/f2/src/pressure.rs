//! What writers are asked to do for compaction: wait a moment, longer, or not write at all.
//!
//! Compaction gives back what writes take: entries of the hot index, and space of the hot log. Where
//! it falls behind, writers wait for it, each a moment that has a bound; none ever compacts. So
//! it always catches up, unless it fails: then nobody waits for it, and writes are refused once memory or
//! disk space is used up (`trouble`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, Result};
use parking_lot::{Condvar, Mutex};

/// How far compaction is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    /// Something is above what it should be.
    Behind,
    /// Far above.
    FarBehind,
    /// The index has used up twice its share of the memory.
    OutOfMemory,
    /// Compaction fails, and too much is used up.
    Refused,
}

/// How long a write waits at most.
const BEHIND_WAIT: Duration = Duration::from_micros(500);
const FAR_BEHIND_WAIT: Duration = Duration::from_millis(10);
/// As a share of what should be used.
const BEHIND: f64 = 1.0;
const FAR_BEHIND: f64 = 1.25;
const OUT_OF_MEMORY: f64 = 2.0;

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
    waiting: Mutex<()>,
    relieved: Condvar,
}

impl Level {
    /// The level at which `index` and `disk` are used, each as a share of what should be.
    pub(crate) fn of(index: f64, disk: f64) -> Self {
        match (index.max(disk), index) {
            (_, index) if index > OUT_OF_MEMORY => Self::OutOfMemory,
            (most, _) if most > FAR_BEHIND => Self::FarBehind,
            (most, _) if most > BEHIND => Self::Behind,
            _ => Self::None,
        }
    }
}

impl Pressure {
    /// Whether the log has turned to another page since this was asked: then the level is old.
    pub(crate) fn is_new_page(&self, page: u64) -> bool {
        self.page.load(Relaxed) != page && self.page.swap(page, Relaxed) != page
    }

    /// Says what writers should do from now on, and wakes those who wait.
    pub(crate) fn set(&self, level: Level, is_hopeless: bool) {
        self.is_hopeless.store(is_hopeless, Relaxed);
        self.level.store(level as u8, Relaxed);
        self.relieved.notify_all();
    }

    /// From now on writes are refused with this error, until a level is set.
    pub(crate) fn refuse(&self, error: Error) {
        *self.refusal.lock() = Some(error);
        self.set(Level::Refused, true);
    }

    /// What writes are refused with, if not for want of memory.
    pub(crate) fn refusal(&self) -> Option<Error> {
        (self.level.load(Relaxed) == Level::Refused as u8).then(|| self.refusal.lock().clone())?
    }

    /// Whether compaction keeps up.
    pub(crate) fn is_none(&self) -> bool {
        self.level.load(Relaxed) == Level::None as u8
    }

    /// Whether new values are refused.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the limit given; [`Error::SpaceUsedUp`].
    pub(crate) fn check(&self, limit: u64) -> Result<()> {
        let level = self.level.load(Relaxed);
        if level < Level::OutOfMemory as u8 {
            return Ok(());
        }
        Err(self.refusal().unwrap_or(Error::OutOfMemory { limit }))
    }

    /// Waits a moment if compaction is behind. The caller is not protected.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn wait(&self, limit: u64) -> Result<()> {
        let level = self.level.load(Relaxed);
        if level == Level::None as u8 {
            return Ok(());
        }
        self.check(limit)?;
        if self.is_hopeless.load(Relaxed) {
            return Ok(());
        }
        let patience = if level == Level::Behind as u8 { BEHIND_WAIT } else { FAR_BEHIND_WAIT };
        self.relieved.wait_for(&mut self.waiting.lock(), patience);
        Ok(())
    }
}
