//! What writers wait for: a moment where compactions are behind, and for flushes where memory ends.
//!
//! The wait of a write grows with its bytes and with what Level 0 has above the mark, so that
//! writers come down to the pace of the compactions instead of running into a wall. Only at twice
//! the mark do they wait until a compaction is done. What Level 0 has is measured in thirds of the
//! memtables' share, or in the tables that one key lies in, where these are more
//! ([`Version::level0_weight`]).
//!
//! A write that would bring the memtables above their share waits as long as any of them waits for
//! its flush. Before it is inserted memory is set aside for it, so that writers who were admitted at
//! the same time do not pass the share together; where it is missing, memtables that are written to
//! are flushed as well. So one of any size goes in once nothing else can be done for it. Where
//! flushes fail for want of room on the device a write is not admitted, and flushes are tried again
//! after pauses that grow, by whoever writes then; what was journaled goes in all the same.
//!
//! [`Version::level0_weight`]: crate::version::Version::level0_weight

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{BackgroundErrors, Error, Result};
use sync::locks::{Condvar, Mutex};
use workers::WaitError;

use crate::memtable::{SetAside, entry_bytes};
use crate::store::Shared;

/// The work of flushes, as background errors name it.
pub(crate) const FLUSH: &str = "the flush of memtables";
/// What each table's worth above the mark adds to the time that a byte takes: at one 50 MB/s, at
/// ten 5 MB/s.
const NANOS_PER_BYTE: u64 = 20;
/// Waits are added up until they are as long as this: shorter ones cost more than they slow down.
const WAIT_NANOS: u64 = 1_000_000;
/// A wait at most before another look at Level 0.
const WAIT_PART: Duration = Duration::from_millis(100);
/// Who must not wait leaves this part of the memtables' share to others.
const LEFT_TO_OTHERS: u64 = 8;
/// How long to wait for writes that have memory set aside, before another look: they insert by now.
const OTHERS_PAUSE: Duration = Duration::from_micros(100);

/// What a write waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of all memtables before it, at most; if any waits for its flush.
    memtables_max: u64,
    /// What Level 0 has, at most.
    level0_max: usize,
}

/// Where writers wait, and how much they owe.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    owed_nanos: AtomicU64,
    waiting: Mutex<()>,
    relieved: Condvar,
    /// Held by whoever waits for memory to be set aside. Others queue up behind, or many small writes
    /// would keep a large one waiting for ever.
    queue: Mutex<()>,
    /// Flushes that failed, and why the last one did, if it was the last of all.
    failure: Mutex<(u64, Option<Error>)>,
    /// Whether flushes fail for a reason that may pass, and when they are tried again.
    pub(crate) errors: BackgroundErrors,
    /// Why the last compaction did not come to its end, for those whom only compactions can help.
    compaction_failure: Mutex<Option<Error>>,
    /// How long writers were slowed down, and how often they waited until something was done.
    pub(crate) slowed_nanos: AtomicU64,
    pub(crate) stalls: AtomicU64,
}

impl Pressure {
    /// Something was compacted.
    pub(crate) fn relieve(&self) {
        self.relieved.notify_all();
    }

    /// A compaction failed for a reason that may pass, or none did.
    pub(crate) fn note_compaction(&self, failure: Option<Error>) {
        *self.compaction_failure.lock() = failure;
    }

    /// How long to wait by now for `bytes`.
    fn add_owed(&self, bytes: u64, above: u64) -> u64 {
        let more = bytes.saturating_mul(NANOS_PER_BYTE).saturating_mul(above);
        self.owed_nanos.fetch_add(more, Relaxed).saturating_add(more)
    }

    /// The same, if it is worth waiting.
    fn owe(&self, bytes: u64, above: u64) -> Option<Duration> {
        if self.add_owed(bytes, above) < WAIT_NANOS {
            return None;
        }
        // Others begin anew, and do not pay for this one.
        Some(Duration::from_nanos(self.owed_nanos.swap(0, Relaxed)))
    }
}

impl Shared {
    /// How a flush has ended: writers learn of a failure, and others wait before they try again.
    pub(crate) fn note_flush(&self, flushed: &Result<()>) {
        self.pressure.errors.note(FLUSH, flushed, &self.host.environment);
        let mut failure = self.pressure.failure.lock();
        failure.0 += u64::from(flushed.is_err());
        failure.1 = flushed.as_ref().err().cloned();
    }

    /// Why the last flush failed, if that was after so many failures.
    fn flush_failure_after(&self, failures: u64) -> Option<Error> {
        let failure = self.pressure.failure.lock();
        failure.1.clone().filter(|_| failure.0 > failures)
    }

    /// What writes are refused with that want more memory than there is, because flushes fail.
    fn refusal(&self, wanted: Room, cause: Error) -> Error {
        if !cause.may_pass() {
            return cause;
        }
        Error::SpaceUsedUp {
            what: "what waits in memory for a flush",
            bytes: self.family.bytes(),
            limit: wanted.memtables_max,
            cause: Arc::new(cause),
        }
    }

    /// Waits in proportion to `bytes` where Level 0 has too much, as long as it has.
    pub(crate) fn slow_down(self: &Arc<Self>, bytes: u64) {
        let above = || self.level0_above();
        let now = above();
        let Some(mut owed) = (now > 0).then(|| self.pressure.owe(bytes, now)).flatten() else {
            return;
        };
        while !owed.is_zero() && above() > 0 && self.health.check_writable().is_ok() {
            let part = owed.min(WAIT_PART);
            self.pressure.slowed_nanos.fetch_add(part.as_nanos() as u64, Relaxed);
            let mut waiting = self.pressure.waiting.lock();
            self.pressure.relieved.wait_for(&mut waiting, part);
            owed -= part;
        }
    }

    /// Has those wait who are slowed down next, for one of so many bytes that must not wait itself.
    pub(crate) fn slow_down_others(&self, bytes: u64) {
        let above = self.level0_above();
        if above > 0 {
            self.pressure.add_owed(bytes, above);
        }
    }

    fn level0_above(&self) -> u64 {
        self.level0_weight().saturating_sub(self.options.level0_tables_slow) as u64
    }

    /// Whether a write of so many steps and bytes waits for nobody, with an eighth of the memtables' share left to
    /// those who write at the same time.
    pub(crate) fn takes_at_once(&self, steps: usize, bytes: u64) -> bool {
        let share = self.memory_split().memtables_bytes;
        let bytes = bytes + steps as u64 * entry_bytes(&[], None);
        self.health.check_writable().is_ok()
            && !self.pressure.queue.is_locked()
            && self.family.bytes().saturating_add(bytes) <= share - share / LEFT_TO_OTHERS
            && self.level0_weight() <= self.options.level0_tables_slow
    }

    /// Waits until there is as much room as a write wants. Where nothing more will be done to make
    /// some, the reason is the error.
    pub(crate) fn wait_for_room(self: &Arc<Self>, wanted: Room) -> Result<()> {
        if self.has_room(wanted) {
            return Ok(());
        }
        if !self.have_memtables_room(wanted)
            && let Some(cause) = self.pressure.errors.pausing(FLUSH, &self.host.environment)
        {
            return Err(self.refusal(wanted, cause));
        }
        self.pressure.stalls.fetch_add(1, Relaxed);
        // What failed before this write came may have passed.
        let failures = self.pressure.failure.lock().0;
        let mut failure = None;
        let waited = self.group.wait_until(|| {
            if self.health.check_writable().is_err() || self.has_room(wanted) {
                return true;
            }
            // Another flush may have made room since.
            let cause = self.flush_failure_after(failures).filter(|_| !self.has_room(wanted));
            failure = cause.map(|cause| self.refusal(wanted, cause));
            if failure.is_none() {
                self.schedule_flush();
                self.schedule_compactions();
                if self.have_memtables_room(wanted) {
                    // Only compactions can help. The last one may have ended just now, and did.
                    let failed = self.pressure.compaction_failure.lock().take();
                    let failed = failed.or_else(|| self.compactions_halted());
                    failure = failed.filter(|_| !self.has_room(wanted));
                }
            }
            failure.is_some()
        });
        match (failure, waited) {
            (Some(failure), _) => Err(failure),
            (None, Err(WaitError::Stopped(_))) => Err(Error::Closed),
            // A task that panics is our own mistake; it is told with its text.
            (None, Err(WaitError::Panicked(panic))) => panic!("{panic}"),
            (None, Ok(())) => self.health.check_writable(),
        }
    }

    pub(crate) fn has_room(&self, wanted: Room) -> bool {
        self.have_memtables_room(wanted) && self.level0_weight() <= wanted.level0_max
    }

    fn have_memtables_room(&self, wanted: Room) -> bool {
        self.family.bytes() <= wanted.memtables_max || self.state.load().due() == 0
    }

    fn level0_weight(&self) -> usize {
        self.state.load().version.level0_weight(self.memory_split().level0_unit())
    }

    /// What a write of so many bytes waits for that is to be admitted.
    pub(crate) fn room_for_new(&self, bytes: u64) -> Room {
        let memtables_max = self.memory_split().memtables_bytes.saturating_sub(bytes);
        Room { memtables_max, ..self.room_in_level0() }
    }

    /// What an ingestion waits for, which takes no room in memtables.
    pub(crate) fn room_in_level0(&self) -> Room {
        Room { memtables_max: u64::MAX, level0_max: 2 * self.options.level0_tables_slow.max(1) }
    }

    /// Sets memory aside for what a write inserts that was admitted, or is replayed. Waits for flushes
    /// where it would be above the memtables' share; if nothing more can be flushed, or flushes fail, it
    /// is set aside all the same.
    pub(crate) fn set_aside(self: &Arc<Self>, bytes: u64) -> SetAside<'_> {
        let set_aside = || {
            let split = self.memory_split();
            let aside = self.family.try_set_aside(bytes, split.memtables_bytes)?;
            self.cache.give_way(&split);
            Some(aside)
        };
        if !self.pressure.queue.is_locked()
            && let Some(aside) = set_aside()
        {
            return aside;
        }
        let _turn = self.pressure.queue.lock();
        loop {
            if let Some(aside) = set_aside() {
                return aside;
            }
            // The write alone is above the share. A memtable that waits for its flush may be
            // empty: a flush of it gives nothing back, and may not run before this write ends.
            if self.family.bytes() == 0 {
                return self.family.set_aside_anyway(bytes);
            }
            // First of all: what these insert meanwhile can be flushed.
            let others = self.family.has_set_aside();
            self.seal_for(bytes);
            if self.state.load().due() > 0 {
                let wanted = Room { level0_max: usize::MAX, ..self.room_for_new(bytes) };
                // What was journaled is not refused because a flush has failed.
                if self.wait_for_room(wanted).is_err() {
                    return self.family.set_aside_anyway(bytes);
                }
            } else if others {
                let mut waiting = self.pressure.waiting.lock();
                self.pressure.relieved.wait_for(&mut waiting, OTHERS_PAUSE);
            } else {
                // A flush that has just come to its end may still hold what it has flushed.
                drop(self.flusher.lock());
                return set_aside().unwrap_or_else(|| self.family.set_aside_anyway(bytes));
            }
        }
    }

    /// Seals what is written to and full with `bytes` more.
    fn seal_for(self: &Arc<Self>, bytes: u64) {
        let full = self.memory_split().memtable_bytes;
        self.seal_where(&|active| {
            !active.is_empty() && active.bytes().saturating_add(bytes) > full
        });
    }
}
