//! Making what was done durable: the data, then one frame of the log.
//!
//! 1. Under the writers' lock: write what is new of the segment that is filled, and take the records.
//! 2. Without it: sync the data, then write the frame and sync it. Others write meanwhile; what they do
//!    is in the next frame.
//! 3. What the frame emptied is free, once no snapshot is older.

use std::collections::BTreeSet;

use device::SyncKind;

use super::{Error, FlexSpace, Shared, Writer};
use crate::log::LogWriter;

/// The records of a commit, and the segments that they emptied.
#[derive(Debug)]
pub(super) struct Batch {
    records: Vec<u8>,
    emptied: BTreeSet<u32>,
}

impl FlexSpace {
    /// Makes all that was done before the call durable. Writes what is new, and nothing else: one
    /// block of data and one of the log at least, two syncs; nothing at all if nothing was done.
    /// Calls at the same time share a commit. Other writers go on meanwhile.
    ///
    /// # Errors
    /// [`Error::Device`]; what was done is then kept, but may be lost with the process, and the space
    /// is read-only. [`Error::NoSpace`] if the log has no room; the call may be repeated.
    pub fn sync(&self) -> Result<(), Error> {
        let is_long = self.shared.commit()? > self.shared.options.log_bytes_max;
        if is_long { self.checkpoint() } else { Ok(()) }
    }
}

impl Shared {
    /// Commits all changes so far (F1), and says how long the log is.
    pub(super) fn commit(&self) -> Result<u64, Error> {
        // Whoever waited here finds its records durable, or still to be taken.
        let mut log = self.log.lock();
        self.commit_to(&mut log)?;
        Ok(log.bytes())
    }

    pub(super) fn commit_to(&self, log: &mut LogWriter) -> Result<(), Error> {
        self.health.check_writable()?;
        let batch = self.take_batch(log, &mut self.writer.lock())?;
        if let Some(batch) = &batch {
            self.make_durable(log, batch)?;
        }
        let mut writer = self.writer.lock();
        if let Some(batch) = batch {
            self.free(&mut writer, batch);
        }
        self.reclaim(&mut writer);
        Ok(())
    }

    /// The first step; none if nothing was done.
    pub(super) fn take_batch(
        &self,
        log: &mut LogWriter,
        writer: &mut Writer,
    ) -> Result<Option<Batch>, Error> {
        if writer.pending.is_empty() {
            return Ok(None);
        }
        match log.reserve(writer.pending.len()) {
            Err(device::Error::NoSpace { .. }) => {
                let limit_bytes = writer.segments.live_bytes();
                let more_bytes = writer.pending.len() as u64;
                return Err(Error::NoSpace { live_bytes: limit_bytes, limit_bytes, more_bytes });
            }
            reserved => self.health.stop_on(reserved)?,
        }
        if let Some(open) = &mut writer.open {
            self.health.stop_on(open.write_new(&self.data, &mut writer.scratch))?;
        }
        let records = std::mem::take(&mut writer.pending);
        Ok(Some(Batch { records, emptied: writer.segments.take_emptied() }))
    }

    /// The second step.
    pub(super) fn make_durable(&self, log: &mut LogWriter, batch: &Batch) -> Result<(), Error> {
        self.health.stop_on(self.data.file.sync(SyncKind::Data))?;
        self.health.stop_on(log.append(&batch.records))
    }

    /// The third step.
    pub(super) fn free(&self, writer: &mut Writer, batch: Batch) {
        if !batch.emptied.is_empty() {
            let mut state = self.state.write();
            // Snapshots from now on know nothing of what is in them.
            writer.segments.freed(state.commits, batch.emptied);
            state.commits += 1;
        }
    }

    /// Frees the segments that no snapshot can reach any more, and gives their room back.
    pub(super) fn reclaim(&self, writer: &mut Writer) {
        let now = self.state.read().commits;
        let oldest = self.pins.oldest(now);
        while let Some(segment) = writer.segments.next_reclaimable(oldest) {
            // A segment that keeps its room is as free as another.
            let _ = self.data.punch(segment);
            writer.segments.reclaimed(segment);
        }
    }
}
