//! How far writers may go while a commit is under way: they fill what is left of the memtables' share as the commit
//! comes along, rather than at once. So whoever waits does so for a step of the commit, and not for all of it.
//!
//! 1. When a commit begins, what memtables have left of their share is cut into [`STEPS`] parts. The first
//!    [`BEFORE`] may be filled at once, while the journal is reached.
//! 2. With each part of its updates that are put one more may be; the last [`BEHIND`] once all are put, while that is
//!    made durable.
//! 3. Once it has ended, whatever came of it, nothing holds writers up but the share itself.
//!
//! How many updates will be put is not known before: of a key that several memtables have only the newest version is.
//! It is taken to be the same part of all versions as in the last commit.
//!
//! # Concurrency
//! Writers look at one number. Those who have to wait do so under the lock, which whoever commits takes for each chunk
//! that is put. They hold no other lock of the store's, and no write's number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::{Condvar, Mutex};

use crate::planted::{Planted, is_planted};

/// Parts of the room that is left when a commit begins. More of them make a wait shorter, and waits more: of
/// updates that take 0.2 s to be put a step takes 20 ms.
pub(crate) const STEPS: u64 = 16;
/// Those that are free when it begins, and those that are when all its updates are put: each time the device
/// syncs. What is not filled by the end is room that writers could have had.
const BEFORE: u64 = 4;
const BEHIND: u64 = 2;
/// Nobody is held up.
const ALL: u64 = u64::MAX;
/// What [`Pace::put_part`] counts in.
const WHOLE: u64 = 1 << 16;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Pace {
    /// What memtables may take by now.
    allowed: AtomicU64,
    progress: Mutex<Progress>,
    advanced: Condvar,
    /// How often a writer waited for a step.
    pub(crate) waits: AtomicU64,
}

/// Of the commit that is under way.
#[derive(Debug)]
struct Progress {
    /// What memtables took when it began, and what they had left.
    begun_bytes: u64,
    room_bytes: u64,
    /// Versions that it has, updates that it will put, and those that are put.
    versions: u64,
    expected: u64,
    put: u64,
    /// Which part of the versions the last commit has put.
    put_part: u64,
}

/// Ends a commit's pace when it is dropped.
#[must_use = "it ends at once"]
pub(crate) struct Pacing<'a>(&'a Pace);

impl Default for Pace {
    fn default() -> Self {
        let progress = Progress {
            begun_bytes: 0,
            room_bytes: 0,
            versions: 0,
            expected: 0,
            put: 0,
            put_part: WHOLE,
        };
        Self {
            allowed: AtomicU64::new(ALL),
            progress: Mutex::new(progress),
            advanced: Condvar::default(),
            waits: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// The steps that are free by now.
    fn steps(&self) -> u64 {
        let between = STEPS - BEFORE - BEHIND;
        let put = self.put.min(self.expected);
        match put == self.expected {
            true => STEPS,
            false => BEFORE + between * put / self.expected,
        }
    }

    fn allowed(&self) -> u64 {
        self.begun_bytes + self.room_bytes * self.steps() / STEPS
    }
}

impl Pace {
    /// A commit of memtables with so many versions begins; all memtables take `bytes` of `share_bytes` now. One is under
    /// way at a time.
    pub(crate) fn begin(&self, versions: u64, bytes: u64, share_bytes: u64) -> Pacing<'_> {
        let mut progress = self.progress.lock();
        let expected = (versions * progress.put_part).div_ceil(WHOLE).max(1);
        let put_part = progress.put_part;
        let room_bytes = share_bytes.saturating_sub(bytes);
        *progress =
            Progress { begun_bytes: bytes, room_bytes, versions, expected, put: 0, put_part };
        self.set_allowed(&progress);
        Pacing(self)
    }

    /// So many more of its updates are put.
    pub(crate) fn advance(&self, updates: u64) {
        let mut progress = self.progress.lock();
        let before = progress.steps();
        progress.put += updates;
        let after = progress.steps();
        if after > before {
            self.set_allowed(&progress);
            self.advanced.notify_all();
        }
        drop(progress);
        #[cfg(test)]
        if after > before {
            in_tests::tell_of_step(after);
        }
    }

    /// All of them are.
    pub(crate) fn note_all_put(&self) {
        let mut progress = self.progress.lock();
        progress.put_part = (progress.put.min(progress.versions) * WHOLE)
            .checked_div(progress.versions)
            .unwrap_or(WHOLE)
            .max(1);
        progress.put = progress.put.max(progress.expected);
        self.set_allowed(&progress);
        self.advanced.notify_all();
    }

    fn set_allowed(&self, progress: &Progress) {
        let allowed = if is_planted(Planted::Unpaced) { ALL } else { progress.allowed() };
        self.allowed.store(allowed, Relaxed);
    }

    /// What memtables may take by now.
    pub(crate) fn allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }

    /// Waits until `may_go` answers true; it is asked at once, and after each step.
    pub(crate) fn wait(&self, may_go: impl Fn() -> bool) {
        if may_go() {
            return;
        }
        self.waits.fetch_add(1, Relaxed);
        let mut progress = self.progress.lock();
        while !may_go() {
            self.advanced.wait(&mut progress);
        }
    }
}

impl Drop for Pacing<'_> {
    fn drop(&mut self) {
        let _progress = self.0.progress.lock();
        self.0.allowed.store(ALL, Relaxed);
        self.0.advanced.notify_all();
    }
}

#[cfg(all(test, not(shuttle)))]
pub(crate) use in_tests::at_each_step;

/// What a test does in the middle of a commit, on the thread that commits.
#[cfg(test)]
mod in_tests {
    use std::cell::RefCell;

    type Told = Box<dyn FnMut(u64)>;

    thread_local! {
        static TOLD: RefCell<Option<Told>> = const { RefCell::new(None) };
    }

    /// From now on `told` is called at each step of a commit, with the steps that are free.
    #[cfg(not(shuttle))]
    pub(crate) fn at_each_step(told: impl FnMut(u64) + 'static) {
        TOLD.set(Some(Box::new(told)));
    }

    pub(super) fn tell_of_step(step: u64) {
        let Some(mut told) = TOLD.take() else { return };
        told(step);
        TOLD.set(Some(told));
    }
}

#[cfg(test)]
mod tests;
