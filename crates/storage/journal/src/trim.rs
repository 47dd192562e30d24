//! Removes segments that are not needed any more.

use codec::SeqNo;

use crate::error::{Error, Result};
use crate::journal::{Journal, State};
use crate::segment::file_name;

/// The newest segment is ended and removed if its records are not needed and it has this share of a
/// segment's bytes. After a lack of room, its length has no effect.
const WORTH_ENDING: u64 = 4;

impl Journal {
    /// Removes every segment all of whose records are at or below `persisted`, oldest first, each
    /// durably before the next: so a crash leaves no gap. If nothing in the journal is needed and
    /// the newest segment is large, or the journal has lacked room, a new one is begun so that it
    /// can be removed too.
    ///
    /// The caller promises that `persisted` holds also after a crash: the records are removed.
    ///
    /// Costs a directory sync for each segment removed.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`] if the journal had stopped or stops now; [`crate::Error::NoRoom`]
    /// if a descriptor was missing, then the call may be repeated; [`crate::Error::Closed`].
    pub fn trim(&self, persisted: SeqNo) -> Result<()> {
        let _one_at_a_time = self.trimming.lock();
        match self.end_newest_if_useless(persisted) {
            // All the more the others are to go.
            Ok(()) | Err(Error::NoRoom { .. }) => {}
            Err(error) => return Err(error),
        }
        while let Some(index) = self.oldest_useless(persisted)? {
            let removed = self.remove_segment(index);
            let mut state = self.state.lock();
            match removed {
                Ok(()) => {
                    state.has_lacked_room = false;
                    state.segments.pop_front()
                }
                // It is tried again.
                Err(cause) if cause.is_retryable() => return Err(Error::NoRoom { cause }),
                Err(cause) => return Err(state.stop(cause)),
            };
        }
        Ok(())
    }

    /// Returns whether [`Journal::trim`] would remove or end a segment.
    ///
    /// # Errors
    /// As [`Journal::trim`].
    pub fn has_useless(&self, persisted: SeqNo) -> Result<bool> {
        Ok(self.is_newest_useless(&self.state.lock(), persisted)
            || self.oldest_useless(persisted)?.is_some())
    }

    fn is_newest_useless(&self, state: &State, persisted: SeqNo) -> bool {
        // A segment that has reached its size is ended, but exists until its follower is begun.
        let is_ended = state.opens.is_some();
        let large = state.active.end() >= self.options.segment_bytes / WORTH_ENDING;
        // Records that could not be written are in memory, and have to be written first.
        let lacked_room = state.has_lacked_room && state.unwritten.is_none();
        (large || is_ended || lacked_room) && state.last_record <= persisted
    }

    /// Removes a segment durably. An earlier attempt may have removed the file.
    fn remove_segment(&self, index: u64) -> device::Result<()> {
        match self.store.remove(&file_name(index)) {
            Ok(()) | Err(device::Error::NotFound { .. }) => self.store.sync_names(),
            failed => failed,
        }
    }

    fn end_newest_if_useless(&self, persisted: SeqNo) -> Result<()> {
        let mut state = self.state.lock();
        state.check_open()?;
        if !self.is_newest_useless(&state, persisted) {
            return Ok(());
        }
        let last = state.last;
        self.sync_upto(&mut state, last)?;
        self.begin_segment(&mut state)?;
        state.has_lacked_room = false;
        Ok(())
    }

    /// Returns the oldest segment, if it is not needed and a newer one exists.
    fn oldest_useless(&self, persisted: SeqNo) -> Result<Option<u64>> {
        let state = self.state.lock();
        state.check_open()?;
        let oldest = state.segments.front().filter(|oldest| oldest.last <= persisted);
        Ok(oldest.map(|oldest| oldest.index).filter(|index| *index < state.existing))
    }
}
