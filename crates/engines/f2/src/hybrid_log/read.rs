//! One record from disk: one read if it fits the guess, all of it once more otherwise.

use std::sync::Arc;

use codec::Corruption;
use device::File;
use engine::{ReadRequest, ReadSource, Result};

#[cfg(test)]
use super::Wanted;
use super::segments::Segment;
use super::{BLOCK_BYTES, HybridLog, LengthGuess, RecordReads};
use crate::address::LogAddress;
use crate::record::{Damage, HEAD_BYTES, Stored};

/// How a log reads its records on disk: the bytes of one, and the means to read many.
pub(super) struct DiskReads {
    /// How much to read for a record of unknown length.
    length_guess: Arc<LengthGuess>,
    pub(super) many: Arc<RecordReads>,
}

impl DiskReads {
    pub(super) fn new(many: Arc<RecordReads>) -> Self {
        Self { length_guess: Arc::default(), many }
    }
}

/// A read of one record: the bytes to read, and their check. It keeps the
/// segment's file open, so a truncation meanwhile does no harm.
pub(crate) struct RecordRead {
    segment: Arc<Segment>,
    address: LogAddress,
    /// Bytes that the record may have: to the end of its page, or to the end of the written part.
    room: usize,
    /// Bytes from the record's beginning that are read.
    bytes: usize,
    /// Learns the length, if that was not known.
    guess: Option<Arc<LengthGuess>>,
}

/// The result of a read.
pub(crate) enum ReadOutcome<'a> {
    Record(Stored<'a>),
    /// The record is longer than was guessed; read again.
    Longer,
}

impl HybridLog {
    /// A read of the record at `address`; nothing if the log was truncated beyond it.
    ///
    /// # Errors
    /// The store was closed, which takes the segments away too.
    pub(crate) fn record_read(&self, address: LogAddress) -> Result<Option<RecordRead>> {
        self.record_read_of(address, None)
    }

    /// The same for a record whose length may be known.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn record_read_of(
        &self,
        address: LogAddress,
        known_bytes: Option<usize>,
    ) -> Result<Option<RecordRead>> {
        let Some(segment) = self.segments.get(self.geometry.segment(address)) else {
            self.health.check_open()?;
            return Ok(None);
        };
        let page_end = self.geometry.page_begin(self.geometry.page(address) + 1);
        let room = page_end.min(segment.end()).get().saturating_sub(address.get()) as usize;
        let length_guess = &self.reads.length_guess;
        let guess = known_bytes.is_none().then(|| Arc::clone(length_guess));
        let bytes = known_bytes.unwrap_or_else(|| length_guess.get());
        let bytes = bytes.min(room).max(HEAD_BYTES);
        Ok(Some(RecordRead { segment, address, room, bytes, guess }))
    }

    /// Returns the damage at `address`, with its place.
    pub(crate) fn damage(&self, address: LogAddress, damage: Damage) -> Corruption {
        let number = self.geometry.segment(address);
        match self.segments.get(number) {
            Some(segment) => segment.damage(address, damage),
            None => Corruption::new(damage.0, 0).at(&self.segments.file_name(number), 0),
        }
    }
}

impl RecordRead {
    /// The address at which the record begins.
    pub(crate) fn address(&self) -> LogAddress {
        self.address
    }

    /// Returns the record that it reads, with its length if that is known.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> Wanted<()> {
        let bytes = self.guess.is_none().then_some(self.bytes);
        Wanted { bytes, ..self.address.into() }
    }

    /// Returns the range of the segment's file that is to be read from `source`.
    pub(crate) fn request(&self, source: &Arc<dyn ReadSource>) -> ReadRequest {
        ReadRequest {
            source: Arc::clone(source),
            file: self.file(),
            offset: self.offset(),
            len: self.len(),
        }
    }

    /// Returns the segment's file.
    pub(super) fn file(&self) -> Arc<dyn File> {
        self.segment.file()
    }

    /// Returns the offset in the file at which the read begins.
    pub(super) fn offset(&self) -> u64 {
        self.segment.offset(self.first())
    }

    /// Bytes to read: whole blocks.
    pub(super) fn len(&self) -> usize {
        let end = (self.address.get() + self.bytes as u64).next_multiple_of(BLOCK_BYTES);
        (end - self.first().get()) as usize
    }

    /// The block in which the record begins.
    pub(super) fn first(&self) -> LogAddress {
        LogAddress::new(self.address.get() / BLOCK_BYTES * BLOCK_BYTES)
    }

    /// Verifies the bytes that were read.
    ///
    /// # Errors
    /// The failure of the read; damage with its place.
    pub(crate) fn check<'a>(&mut self, bytes: Result<&'a [u8]>) -> Result<ReadOutcome<'a>> {
        let bytes = bytes.map_err(|error| self.segment.read_error(self.first(), error))?;
        let skipped = (self.address.get() - self.first().get()) as usize;
        let record = bytes.get(skipped..).unwrap_or_default();
        let damaged = |damage| self.segment.damage(self.address, damage);
        let claimed = Stored::claimed_bytes(record, self.room).map_err(damaged)?;
        if let Some(guess) = self.guess.take() {
            guess.note(claimed);
        }
        if claimed > record.len() {
            self.bytes = claimed;
            return Ok(ReadOutcome::Longer);
        }
        let stored = Stored::decode(record, self.segment.salt(), self.address).map_err(damaged)?;
        if stored.header.is_filler() || stored.header.is_invalid() {
            return Err(damaged(Damage("a chain leads to a place without a valid record")).into());
        }
        Ok(ReadOutcome::Record(stored))
    }
}
