//! Makes changes durable: the data, then one frame of the log.
//!
//! 1. Under the writers' lock: write the new bytes of the segment that is filled, and take the
//!    records.
//! 2. Without it: sync the data, then write the frame and sync it. Others write meanwhile; their
//!    changes are in the next frame.
//! 3. Segments that the frame emptied are free once no snapshot can reach them. Their room is
//!    released without the writers' lock.

use std::collections::BTreeSet;

use device::SyncKind;
use sync::mutant;
use sync::thread::at_device;

use super::checkpoint::begun;
use super::open::log_growth_bytes;
use super::room::full_device;
use super::{Error, FlexSpace, Shared, Writer};
use crate::log::LogWriter;
use crate::planted::Planted;

/// Segments whose room is released in one hold of the writers' lock, and after one commit: the rest
/// is for the next commits, or for a writer that begins a segment.
const PUNCHED_PER_TURN: usize = 8;
const PUNCHED_AFTER_A_COMMIT: usize = 256;
/// Segments after one commit up to which those are released that the opening found free. Most of
/// them have no room any more, and a device that cannot punch writes zeros to them.
const PUNCHED_OF_FOUND: usize = 16;

/// The records of a commit, and the segments that they emptied.
#[derive(Debug)]
pub(super) struct Batch {
    records: Vec<u8>,
    emptied: BTreeSet<u32>,
}

impl FlexSpace {
    /// Makes all changes before the call durable. Writes new bytes and nothing else: one block of
    /// data and one of the log at least, two syncs; nothing at all without a change. Calls at the
    /// same time share a commit. Other writers proceed meanwhile.
    ///
    /// # Errors
    /// [`Error::Device`]; the changes are then kept, but may be lost with the process, and the
    /// space is read-only. [`Error::NoSpace`] if the log has no room; the call may be repeated.
    pub fn sync(&self) -> Result<(), Error> {
        self.shared.ready()?;
        if self.shared.commit()? { self.shared.shorten_log(true) } else { Ok(()) }
    }
}

impl Shared {
    /// Commits all changes so far (F1), and returns whether the log is so long that a checkpoint is
    /// due.
    pub(super) fn commit(&self) -> Result<bool, Error> {
        let is_taken = mutant!(Planted::SyncUnwaited, false, self.writer.lock().pending.is_empty());
        if !self.log.has_begun() || is_taken {
            // Nothing was changed since the opening.
            return Ok(false);
        }
        let committed = {
            // A thread that waited here finds its records durable, or still to be taken.
            let mut log = self.log.lock();
            let log = begun(&mut log);
            self.commit_to(log).map(|()| self.is_long(log))
        };
        // Also if the log has no room, and above all then.
        let given = self.release();
        let is_long = committed?;
        given.map(|()| is_long)
    }

    /// Returns whether a checkpoint is due: by the bound, which is less on a full device, but not
    /// by the log's first frame alone.
    pub(super) fn is_long(&self, log: &LogWriter) -> bool {
        log.bytes() > self.long_bytes(log)
    }

    /// Returns whether a thread that adds to it has to wait for a checkpoint.
    pub(super) fn is_very_long(&self, log: &LogWriter) -> bool {
        log.bytes() / 2 > self.long_bytes(log)
    }

    fn long_bytes(&self, log: &LogWriter) -> u64 {
        let few = log_growth_bytes(self.data.geometry);
        let max = self.options.log_bytes_max;
        let max = if self.ballast.is_device_full() { max.min(4 * few) } else { max };
        max.max(4 * log.begun_bytes())
    }

    pub(super) fn commit_to(&self, log: &mut LogWriter) -> Result<(), Error> {
        self.health.check_writable()?;
        let batch = self.take_batch(log, &mut self.writer.lock())?;
        if let Some(batch) = &batch {
            self.make_durable(log, batch)?;
        }
        if let Some(batch) = batch {
            self.free(batch);
        }
        Ok(())
    }

    /// Does the first step; returns none if nothing was done.
    pub(super) fn take_batch(
        &self,
        log: &mut LogWriter,
        writer: &mut Writer,
    ) -> Result<Option<Batch>, Error> {
        if writer.pending.is_empty() {
            // All records are durable, also those of segments that a collection closed since.
            let emptied = writer.segments.take_emptied();
            let batch = Batch { records: Vec::new(), emptied };
            return Ok(Some(batch).filter(|batch| !batch.emptied.is_empty()));
        }
        let bytes = writer.pending.len();
        match self.ballast.spend(bytes as u64, || Ok(log.reserve(bytes)?)) {
            Err(error) if error.is_full_device() => return Err(full_device(writer, bytes as u64)),
            reserved => self.health.stop_on(reserved)?,
        }
        if let Some(open) = &mut writer.open {
            self.health.stop_on(open.write_new(&self.data, &mut writer.writes))?;
            self.health.stop_on(writer.writes.end())?;
        }
        let records = std::mem::take(&mut writer.pending);
        Ok(Some(Batch { records, emptied: writer.segments.take_emptied() }))
    }

    /// Does the second step.
    pub(super) fn make_durable(&self, log: &mut LogWriter, batch: &Batch) -> Result<(), Error> {
        if batch.records.is_empty() {
            return Ok(());
        }
        at_device();
        self.health.stop_on(self.data.file.sync(SyncKind::Data))?;
        at_device();
        self.health.stop_on(log.append(&batch.records))
    }

    /// The third step.
    pub(super) fn free(&self, batch: Batch) {
        if !batch.emptied.is_empty() {
            self.writer.lock().segments.freed(batch.emptied);
        }
    }

    /// Releases the room of all segments without live bytes, also of the one that is filled if it
    /// has none. All changes are durable, and no further ones are accepted. If a release fails,
    /// commits after the next opening repeat it.
    pub(super) fn release_at_close(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        let Writer { segments, open, .. } = &mut *writer;
        if let Some(dead) = open.take_if(|open| segments.is_dead(open.segment)) {
            segments.close(dead.segment);
        }
        drop(writer);
        let mut log = self.log.lock();
        self.commit_to(begun(&mut log))?;
        drop(log);
        while self.punch_waiting(0).is_ok_and(|count| count > 0) {}
        Ok(())
    }

    /// Frees segments that no snapshot can reach any more, and releases their room: to the ballast
    /// first.
    pub(super) fn release(&self) -> Result<(), Error> {
        let Some(given) = self.puncher.alone(|| self.punch_waiting(PUNCHED_OF_FOUND)) else {
            // The thread that already does it does it for all; segments that are freed as that ends
            // wait for the next commit.
            return Ok(());
        };
        if given? > 0 || self.ballast.is_device_full() { self.fit_ballast() } else { Ok(()) }
    }

    /// Releases the room of segments that wait, and of up to `found_max` ones that the opening
    /// found free; returns how many.
    fn punch_waiting(&self, found_max: usize) -> Result<usize, Error> {
        // The next opening's life must not have begun a segment whose room is released.
        let _not_closed = self.puncher.lock();
        let mut count = 0;
        while count < PUNCHED_AFTER_A_COMMIT {
            self.health.check_writable()?;
            let first_pin = |first, last| self.pins.first_of(first, last);
            let mut writer = self.writer.lock();
            let mut segments = writer.segments.begin_punching(&first_pin, PUNCHED_PER_TURN);
            if segments.is_empty() && count < found_max {
                segments = writer.segments.begin_punching_found(PUNCHED_PER_TURN);
            }
            drop(writer);
            if segments.is_empty() {
                break;
            }
            for &segment in &segments {
                self.punch(segment)?;
            }
            self.writer.lock().segments.punched(&segments);
            count += segments.len();
        }
        Ok(count)
    }
}
