//! Space that an idle store frees without a request.
//!
//! Deletes wait in write buffers and in the memtable of the index. The garbage of a small store,
//! and of one that is not written any more, stays below the marks of collections. So the store
//! looks each second ([`engine::Rounds`]):
//!
//! 1. If waiting deletes cover much ([`WaitingDeletes`]), the index is flushed, which flushes the
//!    write buffers, and the open segments are sealed.
//! 2. Once the store is quiet, groups are judged that have changed, and collected if half of their
//!    bytes is garbage. So a job copies at most a byte for each byte that it frees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use codec::SeqNo;
use engine::{Error, IdleLooks, Look, Result, Rounds, WaitingDeletes};
use workers::{Class, Next, StopToken, Stopped};

use crate::collect::COLLECT;
use crate::store::Shared;
use crate::values::failures::FLUSH;
use crate::values::ledger::Space;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that a flush writes for each delete: a tombstone in a segment and one in the index.
const BYTES_OF_DELETE: u64 = 128;

/// The looks of a store.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    rounds: Rounds,
    looks: IdleLooks,
    /// Deletes since the index was flushed, and the number of the newest one.
    deletes: AtomicU64,
    newest_delete: AtomicU64,
    /// Whether there was a write, or a snapshot was released, since groups were last collected.
    has_changed: AtomicBool,
    /// The oldest moment that a snapshot showed at the last look.
    horizon: AtomicU64,
}

impl Idle {
    /// Notes that deletes were applied.
    pub(crate) fn note_deletes(&self, count: u64, number: SeqNo) {
        if count > 0 {
            self.deletes.fetch_add(count, Relaxed);
            self.newest_delete.fetch_max(number.get(), Relaxed);
        }
    }
}

impl Shared {
    /// Looks each second until nothing is left to do.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn begin_looks(self: &Arc<Self>) -> Result<()> {
        self.idle.has_changed.store(true, Relaxed);
        self.look_again().map_err(|_| Error::Closed)
    }

    fn look_again(self: &Arc<Self>) -> std::result::Result<(), Stopped> {
        let weak = Arc::downgrade(self);
        let look = move |_: &StopToken| {
            let Some(shared) = weak.upgrade() else { return Next::Never };
            shared.idle.rounds.run(&shared.host.sequence, || shared.look())
        };
        self.group.repeat(Class::Collect, "hashkv look around", INTERVAL, look)
    }

    /// A write, whose number is not over yet, may have left something to do.
    #[inline]
    pub(crate) fn wake_looks(self: &Arc<Self>) {
        self.idle.rounds.wake(|| {
            // A pool that is stopping looks no more.
            let _: std::result::Result<(), Stopped> = self.look_again();
        });
    }

    /// A second has passed. Returns whether looks find nothing to do until the next write.
    fn look(self: &Arc<Self>) -> bool {
        let newest = self.host.sequence.last();
        if self.index.persisted().get() >= self.idle.newest_delete.load(Relaxed) {
            self.idle.deletes.store(0, Relaxed);
        }
        let horizon = self.host.sequence.horizon().get();
        if self.idle.horizon.swap(horizon, Relaxed) != horizon {
            self.idle.has_changed.store(true, Relaxed);
        }
        let look = self.idle.looks.look(newest, || self.are_deletes_worth_a_flush());
        let is_failing =
            [FLUSH, COLLECT].iter().any(|it| self.values.failures.pausing(it).is_some());
        if self.health.check_writable().is_err() {
            return true;
        }
        if !is_failing {
            match self.free_space(look) {
                // A look without work says nothing about a collection that has failed.
                Ok(false) => {}
                done => self.values.failures.note(COLLECT, &done),
            }
        }
        look.is_quiet
            && !is_failing
            && !self.idle.has_changed.load(Relaxed)
            && !self.are_deletes_worth_a_flush()
            // A snapshot may hold records, which are dropped after it.
            && self.host.sequence.oldest_pin().is_none()
    }

    /// Does the work of a look. Returns whether there was some.
    ///
    /// # Errors
    /// The device's. The next look tries again.
    fn free_space(self: &Arc<Self>, look: Look) -> Result<bool> {
        if look.is_flush_due {
            self.index.flush().map_err(|error| self.values.failures.placed(error))?;
            self.values.flush_down_to(0, 0)?;
            self.idle.has_changed.store(true, Relaxed);
        }
        if !look.is_quiet || !self.idle.has_changed.swap(false, Relaxed) {
            return Ok(look.is_flush_due);
        }
        let is_half_garbage = |space: &Space| space.garbage + space.found >= space.live;
        let collected = self.try_collect(&is_half_garbage);
        if collected != Ok(true) {
            self.idle.has_changed.store(true, Relaxed);
        }
        collected.map(|is_done| is_done || look.is_flush_due)
    }

    fn are_deletes_worth_a_flush(&self) -> bool {
        let deletes = self.idle.deletes.load(Relaxed);
        if deletes == 0 {
            return false;
        }
        let (bytes, records) = self.values.records_on_device();
        let covered_bytes = (bytes / records.max(1)).saturating_mul(deletes).min(bytes);
        let flush_bytes = self.values.buffered() + deletes * BYTES_OF_DELETE;
        WaitingDeletes { covered_bytes, flush_bytes, stored_bytes: bytes }.are_worth_a_flush()
    }
}
