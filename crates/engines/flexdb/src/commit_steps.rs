//! How far writers may fill the memtables while a commit is under way: in steps, as the commit puts
//! its updates. So a writer waits for a step of the commit, and not for all of it.
//!
//! 1. When a commit begins, the room that memtables have left of their share is cut into [`STEPS`]
//!    parts. The first [`BEFORE`] may be filled immediately, while the journal is made durable.
//! 2. With each part of its updates that is put, one more may be filled. The last [`BEHIND`] may be
//!    filled once all updates are put, while they are made durable.
//! 3. Once the commit has ended, or was broken off, only the share is a limit.
//!
//! The number of updates that a commit will put is not known before: of a key that several
//! memtables have, only the newest version is put. It is taken to be the same part of all versions
//! as in the last commit.
//!
//! # Concurrency
//! Writers load one number. The thread that commits changes it under a lock, for each chunk that is
//! put. After each step, the writers that wait for room look again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::Mutex;
use workers::Group;

/// Parts of the room that is left when a commit begins. More parts make a wait shorter, and waits
/// more frequent: with updates that take 0.2 s to be put, a step takes 20 ms.
pub(crate) const STEPS: u64 = 16;
/// Parts that are free when a commit begins, and parts that are free once all its updates are put:
/// at both times the device syncs. The part that is not filled by the end is room that writers
/// could have had.
const BEFORE: u64 = 4;
const BEHIND: u64 = 2;
/// No writer waits.
const ALL: u64 = u64::MAX;
/// The unit of [`Progress::put_part`].
const WHOLE: u64 = 1 << 16;

/// The bytes that memtables may take during a commit.
#[derive(Debug)]
pub(crate) struct CommitSteps {
    allowed: AtomicU64,
    progress: Mutex<Progress>,
}

/// The progress of the commit that is under way.
#[derive(Debug)]
struct Progress {
    /// Bytes that memtables took when it began, and bytes that they had left.
    begun_bytes: u64,
    room_bytes: u64,
    /// Versions that it has, updates that it is expected to put, and updates that are put.
    versions: u64,
    expected: u64,
    put: u64,
    /// The part of its versions that the last commit has put.
    put_part: u64,
}

/// The steps of one commit, which end when this is dropped.
#[must_use = "the steps end when it is dropped"]
pub(crate) struct Stepping<'a> {
    steps: &'a CommitSteps,
    group: &'a Group,
}

impl Default for CommitSteps {
    fn default() -> Self {
        let progress = Progress {
            begun_bytes: 0,
            room_bytes: 0,
            versions: 0,
            expected: 0,
            put: 0,
            put_part: WHOLE,
        };
        Self { allowed: AtomicU64::new(ALL), progress: Mutex::new(progress) }
    }
}

impl Progress {
    /// Returns the steps that are free.
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

impl CommitSteps {
    /// Begins the steps of a commit of memtables with `versions` versions; all memtables take
    /// `bytes` of `share_bytes` now. One commit is under way at a time. Waits of `group` look again
    /// after each step.
    pub(crate) fn begin<'a>(
        &'a self,
        group: &'a Group,
        versions: u64,
        bytes: u64,
        share_bytes: u64,
    ) -> Stepping<'a> {
        let mut progress = self.progress.lock();
        let expected = (versions * progress.put_part).div_ceil(WHOLE).max(1);
        let put_part = progress.put_part;
        let room_bytes = share_bytes.saturating_sub(bytes);
        *progress =
            Progress { begun_bytes: bytes, room_bytes, versions, expected, put: 0, put_part };
        self.set_allowed(&progress);
        Stepping { steps: self, group }
    }

    /// Notes that the commit has put `updates` more.
    pub(crate) fn advance(&self, group: &Group, updates: u64) {
        let mut progress = self.progress.lock();
        let before = progress.steps();
        progress.put += updates;
        let after = progress.steps();
        if after > before {
            self.set_allowed(&progress);
        }
        drop(progress);
        if after > before {
            group.note_progress();
            #[cfg(test)]
            in_tests::note_step(after);
        }
    }

    /// Notes that the commit has put all its updates.
    pub(crate) fn note_all_put(&self, group: &Group) {
        let mut progress = self.progress.lock();
        progress.put_part = (progress.put.min(progress.versions) * WHOLE)
            .checked_div(progress.versions)
            .unwrap_or(WHOLE)
            .max(1);
        progress.put = progress.put.max(progress.expected);
        self.set_allowed(&progress);
        drop(progress);
        group.note_progress();
    }

    fn set_allowed(&self, progress: &Progress) {
        self.allowed.store(progress.allowed(), Relaxed);
    }

    /// Returns the bytes that memtables may take now.
    pub(crate) fn allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        let progress = self.steps.progress.lock();
        self.steps.allowed.store(ALL, Relaxed);
        drop(progress);
        self.group.note_progress();
    }
}

#[cfg(all(test, not(shuttle)))]
pub(crate) use in_tests::at_each_step;

/// The action of a test in the middle of a commit, on the thread that commits.
#[cfg(test)]
mod in_tests {
    use std::cell::RefCell;

    type EachStep = Box<dyn FnMut(u64)>;

    thread_local! {
        static EACH_STEP: RefCell<Option<EachStep>> = const { RefCell::new(None) };
    }

    /// From now on `act` is called at each step of a commit, with the number of steps that are
    /// free.
    #[cfg(not(shuttle))]
    pub(crate) fn at_each_step(act: impl FnMut(u64) + 'static) {
        EACH_STEP.set(Some(Box::new(act)));
    }

    pub(super) fn note_step(step: u64) {
        let Some(mut act) = EACH_STEP.take() else { return };
        act(step);
        EACH_STEP.set(Some(act));
    }
}

#[cfg(test)]
mod tests;
