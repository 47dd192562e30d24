//! Removes segments that nobody needs any more.

use codec::SeqNo;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::segment::file_name;

/// A newest segment that is not needed is ended, so that it can be removed, once it holds this
/// share of what a segment may.
const WORTH_ENDING: u64 = 4;

impl Journal {
    /// Removes every segment all of whose records are at or below `persisted`, oldest first, each
    /// durably before the next: so a crash leaves no gap. If nothing in the journal is needed and
    /// the newest segment is large, a new one is begun so that it can be removed too.
    ///
    /// The caller promises that `persisted` stays so after a crash: the records are gone.
    ///
    /// Costs a directory sync for each segment removed.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`] if the journal had stopped or stops now; [`crate::Error::Closed`].
    pub fn trim(&self, persisted: SeqNo) -> Result<()> {
        let _one_at_a_time = self.trimming.lock();
        match self.end_newest_if_useless(persisted) {
            // All the more the others are to go.
            Ok(()) | Err(Error::NoRoom { .. }) => {}
            Err(error) => return Err(error),
        }
        while let Some(index) = self.oldest_useless(persisted)? {
            let removed =
                self.store.remove(&file_name(index)).and_then(|()| self.store.sync_names());
            let mut state = self.state.lock();
            removed.map_err(|cause| state.stop(cause))?;
            state.segments.pop_front();
        }
        Ok(())
    }

    fn end_newest_if_useless(&self, persisted: SeqNo) -> Result<()> {
        let mut state = self.state.lock();
        state.check_open()?;
        // A segment that has reached its size is ended, but exists until its follower is begun.
        let is_ended = state.opens.is_some();
        let large = state.active.end() >= self.options.segment_bytes / WORTH_ENDING;
        if !(large || is_ended) || state.last_record > persisted {
            return Ok(());
        }
        let last = state.last;
        self.sync_upto(&mut state, last)?;
        self.begin_segment(&mut state)
    }

    /// The oldest segment, if it is not needed and a newer one exists.
    fn oldest_useless(&self, persisted: SeqNo) -> Result<Option<u64>> {
        let state = self.state.lock();
        state.check_open()?;
        let oldest = state.segments.front().filter(|oldest| oldest.last <= persisted);
        Ok(oldest.map(|oldest| oldest.index).filter(|index| *index < state.existing))
    }
}
