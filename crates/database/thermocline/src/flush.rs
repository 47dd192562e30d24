//! Flushes that let the journal be trimmed.
//!
//! Keyspaces are flushed in the background, when idle ones hold the journal back, and when the
//! database is closed.
//!
//! A flush may be refused for a reason that may pass: there is no room on the device, or too little
//! memory. Nothing is lost then, since the journal has all of it. The caller of the flush gets the
//! error, and the background tries again after pauses that grow. Meanwhile the journal grows;
//! engines refuse writes that they have no memory for.
//!
//! The journal may also be short and mostly dead: of a keyspace of `memory` that was written and
//! deleted and never flushed. If a flush of all keyspaces would write at most half of the bytes of
//! the journal, they are flushed, once nothing was written for two seconds, or after ten.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use engine::IdleLooks;
use sync::locks::Mutex;

use crate::database::Inner;
use crate::error::Result;
use crate::keyspace_entry::KeyspaceInstance;

/// The work of flushes that trim the journal. No report names it.
pub(crate) const FLUSH: &str = "a flush that trims the journal";

/// Bytes of journal that a close leaves for the next replay, at most, if it can: reading and
/// applying them takes some tens of milliseconds, about as long as a flush of a keyspace.
const CLOSED_JOURNAL_BYTES: u64 = 4 << 20;
/// Segments of less than [`SMALL_SEGMENT_BYTES`], on average, that a close leaves.
const SMALL_SEGMENTS_MAX: u64 = 32;
/// A segment with less in it costs more to open than to read.
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;

/// Bytes of journal from which on it is worth to ask whether they are dead: more than a trim
/// leaves.
const DEAD_JOURNAL_BYTES_MIN: u64 = 32 << 20;
/// Bytes of journal for each byte that a flush of all keyspaces writes.
const DEAD_JOURNAL_TIMES: u64 = 2;

/// The times at which the journal was checked for dead records.
#[derive(Debug, Default)]
pub(crate) struct JournalLooks {
    looks: IdleLooks,
    /// The newest write at the last check.
    asked: Mutex<Option<SeqNo>>,
}

impl JournalLooks {
    /// Returns whether the journal, if it `is_long`, is to be checked now. The caller calls it
    /// about once a second, with the newest write.
    fn is_check_due(&self, newest: SeqNo, is_long: impl FnOnce() -> bool) -> bool {
        let is_due = self.looks.look(newest, is_long).is_flush_due;
        is_due && self.asked.lock().replace(newest) != Some(newest)
    }
}

impl Inner {
    /// Flushes the keyspaces if that frees a journal that is mostly dead. The caller calls it about
    /// once a second.
    pub(crate) fn flush_dead_journal(&self) -> Result<()> {
        let (journal_bytes, newest) = (self.journal.bytes(), self.order.sequence.last());
        let is_long = || journal_bytes >= DEAD_JOURNAL_BYTES_MIN;
        if !self.upkeep.looks.is_check_due(newest, is_long) {
            return Ok(());
        }
        if self.keyspaces.has_damaged_journaled() {
            return Ok(());
        }
        let mut behind = self.keyspaces.journaled_instances();
        behind.retain(|instance| !instance.is_idle());
        let written = behind.iter().try_fold(0_u64, |sum, one| sum.checked_add(flush_bytes(one)?));
        if written.is_none_or(|bytes| bytes.saturating_mul(DEAD_JOURNAL_TIMES) > journal_bytes) {
            return Ok(());
        }
        self.keyspaces
            .journaled_instances()
            .iter()
            .try_for_each(|one| self.flush_in_background(one))
    }

    /// Flushes the keyspaces that hold back most of the journal, if it is longer than allowed or
    /// has no room on the device. It goes in order up to the first keyspace that has to write its
    /// data, and flushes that one only if it is worth it.
    pub(crate) fn flush_what_holds_back(&self) -> Result<()> {
        let journal_bytes = self.journal.bytes();
        if journal_bytes <= self.options.journal_bytes && !self.lacks_room() {
            return Ok(());
        }
        let mut instances = self.keyspaces.journaled_instances();
        if self.keyspaces.has_damaged_journaled() {
            // No flush frees records that are kept for a damaged keyspace.
            return Ok(());
        }
        instances.sort_by_key(|instance| instance.engine.persisted());
        for instance in instances {
            let idle = instance.is_idle();
            if !idle && !is_worth_flushing(&instance, journal_bytes) {
                return Ok(());
            }
            self.flush_in_background(&instance)?;
            if !idle {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether the journal or a journaled keyspace has found no room on the device: a flush
    /// and a trim may free some.
    fn lacks_room(&self) -> bool {
        let refuses = |instance: &Arc<KeyspaceInstance>| {
            let errors = instance.engine.background_errors();
            errors.iter().any(|error| error.refuses_writes && error.cause.is_retryable())
        };
        self.journal.has_lacked_room() || self.keyspaces.journaled_instances().iter().any(refuses)
    }

    /// Flushes it from a task of the pool, and notes a failure.
    fn flush_in_background(&self, instance: &KeyspaceInstance) -> Result<()> {
        let flushed = self.flush_with_room(instance, || instance.engine.flush());
        self.upkeep.errors.note(FLUSH, &flushed, &self.options.environment);
        Ok(flushed?)
    }

    /// Frees the part of the journal that only idle keyspaces hold back. Costs a sync for each of
    /// them that is behind.
    pub(crate) fn release_journal(&self) -> Result<()> {
        for instance in self.keyspaces.journaled_instances() {
            if instance.is_idle() {
                self.flush_if_possible(&instance)?;
            }
        }
        self.trim_journal()
    }

    /// Flushes every journaled keyspace and trims the journal, after an opening that finds the
    /// device full. A keyspace that has no room for a whole flush may have some for a part. The
    /// background tries failed flushes again, and reports them.
    pub(crate) fn give_room_back(&self) {
        loop {
            let segments = self.journal.stats().segments;
            for instance in self.keyspaces.journaled_instances() {
                let _flushed = self.flush_if_possible(&instance);
            }
            let _trimmed = self.trim_journal();
            // The segments that this has freed are room for more.
            if self.journal.stats().segments >= segments {
                return;
            }
        }
    }

    /// Does the work of a clean close that leaves the next opening little to read and to apply: it
    /// trims. If much is left, it flushes keyspaces that need not rewrite all their data for it. If
    /// there are many small segments, from openings that wrote little, it flushes all.
    pub(crate) fn trim_journal_at_close(&self) -> Result<()> {
        self.trim_journal()?;
        if self.journal_floor() >= self.journal.last_record() {
            return Ok(());
        }
        let stats = self.journal.stats();
        let are_small = stats.bytes < stats.segments.saturating_mul(SMALL_SEGMENT_BYTES);
        let are_many = stats.segments > SMALL_SEGMENTS_MAX && are_small;
        if !are_many && stats.bytes <= CLOSED_JOURNAL_BYTES {
            return Ok(());
        }
        for instance in self.keyspaces.journaled_instances() {
            if are_many || instance.is_idle() || is_worth_flushing(&instance, stats.bytes) {
                self.flush_if_possible(&instance)?;
            }
        }
        self.trim_journal()
    }

    /// Flushes it, unless there is no room for that: then the journal has all of it.
    fn flush_if_possible(&self, instance: &KeyspaceInstance) -> Result<()> {
        match self.flush_with_room(instance, || instance.engine.flush()) {
            Err(error) if error.is_retryable() => Ok(()),
            flushed => Ok(flushed?),
        }
    }

    /// Does `flush` of a keyspace, if need be with the room that is held on the device for the
    /// journal's records. Then the journal is trimmed soon, if it has lacked room: the freed room
    /// is for the next records.
    pub(crate) fn flush_with_room<T>(
        &self,
        instance: &KeyspaceInstance,
        mut flush: impl FnMut() -> engine::Result<T>,
    ) -> engine::Result<T> {
        let flushed = match self.factory.barrier.room().filter(|_| instance.journaled) {
            Some(room) => room.spend_on_flush(flush),
            None => flush(),
        };
        if self.journal.has_lacked_room() {
            // The background reports a failure of this.
            let _trimmed = self.trim_journal();
        }
        flushed
    }

    /// Returns the number up to which every keyspace has the writes of the journal in its own
    /// files.
    fn journal_floor(&self) -> SeqNo {
        // Read before the keyspaces' numbers: a write that comes meanwhile stays.
        let visible = self.order.sequence.visible();
        let persisted =
            self.keyspaces.journaled_instances().into_iter().map(|one| one.engine.persisted());
        persisted.min().map_or(visible, |upto| upto.min(visible))
    }

    /// Forgets the part of the journal that every keyspace has in its own files, unless the journal
    /// is held (`trim_holds.rs`).
    pub(crate) fn trim_journal(&self) -> Result<()> {
        let Some(_trimming) = self.upkeep.trim_holds.keep_out() else { return Ok(()) };
        let floor = self.journal_floor();
        // A keyspace whose files cannot be made durable now keeps the journal, and stops nothing
        // else.
        if self.journal.has_useless(floor)?
            && !self.keyspaces.journaled_instances().iter().all(|instance| instance.make_durable())
        {
            return Ok(());
        }
        self.journal.trim(floor)?;
        if let Some(room) = self.factory.barrier.room() {
            // To free its newest segment, the trim has to begin another one, which takes a few
            // blocks.
            let newest = self.journal.last_record();
            if floor >= newest
                && self.journal.lacks_room()
                && room.write_last(&self.journal).is_ok()
            {
                self.journal.trim(floor)?;
            }
            room.take_back();
        }
        Ok(())
    }
}

/// Returns whether a keyspace is flushed for this length of the journal. An engine that rewrites
/// all its data to flush is flushed only once the journal is longer than these data.
fn is_worth_flushing(instance: &KeyspaceInstance, journal_bytes: u64) -> bool {
    !instance.engine.capabilities().flush_rewrites_all
        || journal_bytes > instance.engine.stats().disk_bytes
}

/// Returns the bytes that a flush of a keyspace writes: all its data, or its memtables. `None` if
/// the engine does not say.
fn flush_bytes(instance: &KeyspaceInstance) -> Option<u64> {
    let stats = instance.engine.stats();
    match instance.engine.capabilities().flush_rewrites_all {
        true => stats.live_bytes,
        false => stats.detail.iter().find(|(name, _)| *name == "memtable_bytes").map(|(_, it)| *it),
    }
}
