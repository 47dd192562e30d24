//! Appends records to the active group.
//!
//! 1. Wait, or write, if the group is full, or there was no room for the one before.
//! 2. Take the number, under the lock, so that journal order is number order.
//! 3. Encode the frame at the group's end: no allocation once the buffers have grown, no call to
//!    the system.

use codec::SeqNo;
use sync::MutexGuard;

use crate::error::{Error, Result};
use crate::journal::{Journal, State};

impl Journal {
    /// Appends one record and returns its number. `number` and `write` are called under the
    /// journal's lock, so they must be short and must not use the journal; `write` appends the
    /// payload to the bytes it is given, which hold other records already.
    ///
    /// On return the record is [`Buffered`](crate::Durability::Buffered). Costs one lock and one
    /// checksum; blocks on I/O only if [`buffer_bytes`](crate::Options::buffer_bytes) are waiting.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Closed`]; [`Error::NoRoom`], [`Error::TooLarge`] and
    /// [`Error::OutOfOrder`] leave the journal unchanged, except for the number that was taken.
    ///
    /// # Panics
    /// If `write` takes bytes away.
    pub fn append(
        &self,
        number: impl FnOnce() -> SeqNo,
        write: impl FnOnce(SeqNo, &mut Vec<u8>),
    ) -> Result<SeqNo> {
        let mut state = self.lock_with_room()?;
        let seqno = number();
        self.append_as(&mut state, seqno, write)
    }

    /// Does the same, unless `number` returns none: then it does nothing and returns none. A caller
    /// that would have to wait for a number returns none from `number`, since it must not wait
    /// under the journal's lock. A thread that makes written data durable calls the journal, and
    /// the write whose number is awaited may wait for that thread.
    ///
    /// # Errors
    /// As [`Journal::append`].
    ///
    /// # Panics
    /// If `write` takes bytes away.
    pub fn append_numbered(
        &self,
        number: impl FnOnce() -> Option<SeqNo>,
        write: impl FnOnce(SeqNo, &mut Vec<u8>),
    ) -> Result<Option<SeqNo>> {
        let mut state = self.lock_with_room()?;
        number().map(|seqno| self.append_as(&mut state, seqno, write)).transpose()
    }

    /// Does the same without waiting for the device: does nothing and returns none also if the
    /// active group has no room and step 1 would wait, or write.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn try_append(
        &self,
        number: impl FnOnce() -> Option<SeqNo>,
        write: impl FnOnce(SeqNo, &mut Vec<u8>),
    ) -> Result<Option<SeqNo>> {
        let mut state = self.state.lock();
        state.check_open()?;
        if !self.has_room(&state) {
            return Ok(None);
        }
        number().map(|seqno| self.append_as(&mut state, seqno, write)).transpose()
    }

    fn has_room(&self, state: &State) -> bool {
        state.unwritten.is_none() && state.active.len() < self.options.buffer_bytes
    }

    /// Step 1.
    fn lock_with_room(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        state.check_open()?;
        match self.has_room(&state) {
            true => Ok(state),
            false => self.group_waits.time(&self.environment, || self.wait_for_group(state)),
        }
    }

    /// Step 1, if the group is full.
    #[cold]
    fn wait_for_group<'j>(
        &'j self,
        mut state: MutexGuard<'j, State>,
    ) -> Result<MutexGuard<'j, State>> {
        loop {
            state.check_open()?;
            if self.has_room(&state) {
                return Ok(state);
            }
            if state.may_write() {
                self.write_group(&mut state)?;
            } else {
                self.written.wait(&mut state);
            }
        }
    }

    /// Step 3.
    fn append_as(
        &self,
        state: &mut State,
        seqno: SeqNo,
        write: impl FnOnce(SeqNo, &mut Vec<u8>),
    ) -> Result<SeqNo> {
        if seqno <= state.last {
            return Err(Error::OutOfOrder { given: seqno, last: state.last });
        }
        let limit = self.options.record_bytes_max;
        let bytes = state
            .active
            .append_record(seqno, limit, |bytes| write(seqno, bytes))
            .map_err(|bytes| Error::TooLarge { bytes, limit })?;
        state.last = seqno;
        state.last_record = seqno;
        state.stats.records += 1;
        state.stats.payload_bytes += bytes as u64;
        Ok(seqno)
    }
}
