//! What writers wait for: memtables that are committed, where they would take more than their share; and while they are, a
//! step of that, where they would fill what is left of it too soon (`pace.rs`).
//!
//! A write of any size goes in once nothing waits for its commit: then nothing else can be done for
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use sync::Mutex;
use sync::skip_list::SkipList;
use workers::WaitError;

use crate::planted::{Planted, is_planted};
use crate::store::Shared;

/// What is to be written, and what memtables may take beside their share for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub(crate) bytes: u64,
    pub(crate) more: u64,
}

/// Who must not wait leaves this part of the memtables' share to others.
const LEFT_TO_OTHERS: u64 = 8;

/// Why writers stop waiting.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Commits that were begun in the background.
    begun: AtomicU64,
    /// The last of them that failed, and why.
    failure: Mutex<Option<(u64, Error)>>,
    /// Commits that were put off, as a snapshot was being taken.
    pub(crate) put_off: AtomicU64,
    /// How often a writer waited.
    pub(crate) stalls: AtomicU64,
}

impl Pressure {
    /// A commit begins in the background; its number.
    pub(crate) fn begin_commit(&self) -> u64 {
        self.begun.fetch_add(1, Relaxed) + 1
    }

    /// It failed, for a reason that may pass.
    pub(crate) fn fail_commit(&self, number: u64, failure: Error) {
        *self.failure.lock() = Some((number, failure));
    }

    /// Why a commit failed that began behind `number`.
    fn failure_behind(&self, number: u64) -> Option<Error> {
        let failure = self.failure.lock();
        failure.as_ref().filter(|(failed, _)| *failed > number).map(|(_, error)| error.clone())
    }

    /// A commit could not begin yet.
    pub(crate) fn note_put_off(&self) {
        self.put_off.fetch_add(1, Relaxed);
    }
}

impl Shared {
    /// Waits while memtables take more than they may by now, less what is to come: until the commit that is under way has come
    /// far enough, or ended.
    pub(crate) fn keep_pace(&self, before: Before) {
        self.pace.wait(|| self.is_in_pace(before) || self.health.check_writable().is_err());
    }

    /// Whether memtables take no more than they may by now.
    pub(crate) fn is_in_pace(&self, Before { bytes, more }: Before) -> bool {
        let allowed = self.pace.allowed().saturating_add(more).saturating_sub(bytes);
        self.family.account.bytes() <= allowed
    }

    /// Waits until memtables take at most `bytes_max`, or none of them waits. Where a commit that began
    /// meanwhile has failed, its reason is the error: what has failed before may have room by now. Whoever
    /// holds a write's number gives way to a snapshot that is being taken, which may wait for that very write.
    pub(crate) fn wait_for_room(
        self: &Arc<Self>,
        bytes_max: u64,
        holds_a_number: bool,
    ) -> Result<()> {
        if self.has_room(bytes_max) {
            return Ok(());
        }
        self.pressure.stalls.fetch_add(1, Relaxed);
        let mut failure = None;
        let put_off = self.pressure.put_off.load(Relaxed);
        let begun = self.pressure.begun.load(Relaxed);
        let waited = self.group.wait_until(|| {
            let is_put_off = holds_a_number && self.pressure.put_off.load(Relaxed) != put_off;
            let is_stopped = self.health.check_writable().is_err();
            if is_put_off || is_stopped || self.has_room(bytes_max) {
                return true;
            }
            let since = if is_planted(Planted::OldFailureTold) { 0 } else { begun };
            failure = self.pressure.failure_behind(since);
            // Whoever goes on waiting does so for the end of a task that commits. There is none where room came just
            // now by others, as by a commit on a caller's thread or a reader who let go a memtable: they tell nobody.
            failure.is_some()
                || !self.schedule_commit(bytes_max) && !is_planted(Planted::RoomUnseen)
        });
        match (failure, waited) {
            (Some(failure), _) => {
                self.health.check_writable()?;
                Err(Error::SpaceUsedUp {
                    what: "what waits in memory for a commit",
                    bytes: self.family.account.bytes(),
                    limit: bytes_max,
                    cause: Arc::new(failure),
                })
            }
            (None, Err(WaitError::Stopped(_))) => Err(Error::Closed),
            // A task that panics is our own mistake; it is told with its text.
            (None, Err(WaitError::Panicked(panic))) => panic!("{panic}"),
            (None, Ok(())) => self.health.check_writable(),
        }
    }

    /// Whether a write of so many steps and bytes waits for nobody, with an eighth of the memtables' share left to
    /// those who write at the same time.
    pub(crate) fn takes_at_once(&self, steps: usize, bytes: u64) -> bool {
        let share = self.memory_split().memtables_bytes;
        let bytes = bytes + steps as u64 * SkipList::put_bytes(0, 0);
        self.health.check_writable().is_ok()
            && self.is_in_pace(Before { bytes, more: 0 })
            && self.family.account.bytes().saturating_add(bytes) <= share - share / LEFT_TO_OTHERS
    }

    /// Whether memtables take at most so much, or none of them waits.
    pub(crate) fn has_room(&self, bytes_max: u64) -> bool {
        let is_idle = || self.state.load().as_ref().is_none_or(|state| state.sealed.is_empty());
        self.family.account.bytes() <= bytes_max || is_idle()
    }
}
