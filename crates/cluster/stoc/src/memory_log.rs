//! A log that a StoC keeps in its memory alone. It ends with the start of the StoC. (S5)

use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::name::{Epoch, FileName, RangeId};
use crate::range::{RangeState, StoredFile};
use crate::store::Stoc;

/// Bytes that a log and an append take besides their content, about.
const OWN_BYTES: u64 = 128;

/// A log in memory.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    name: FileName,
    pub(crate) epoch: Epoch,
    /// The appends, ascending and without gaps, by their offsets.
    pieces: Vec<(u64, Box<[u8]>)>,
    length: u64,
    /// The length at which the range has sealed it.
    sealed: Option<u64>,
}

impl MemoryLog {
    fn new(name: FileName, epoch: Epoch) -> Self {
        Self { name, epoch, pieces: Vec::new(), length: 0, sealed: None }
    }

    /// Returns the length of the content that counts.
    pub(crate) fn length(&self) -> u64 {
        self.sealed.map_or(self.length, |sealed| sealed.min(self.length))
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.length + (self.pieces.len() as u64 + 1) * OWN_BYTES
    }

    /// Returns whether an append changes nothing, because the log has its bytes already.
    ///
    /// # Errors
    /// [`Error::NotAtEnd`], [`Error::OtherBytes`].
    fn is_repeated(&self, offset: u64, bytes: &[u8]) -> Result<bool> {
        let (name, length) = (self.name, self.length());
        if offset < length {
            return match self.read(offset, bytes.len() as u64) {
                Ok(there) if there == bytes => Ok(true),
                Ok(_) => Err(Error::OtherBytes { name, offset }),
                Err(_) => Err(Error::NotAtEnd { name, length }),
            };
        }
        if offset > length || self.sealed.is_some() {
            return Err(Error::NotAtEnd { name, length });
        }
        Ok(bytes.is_empty())
    }

    /// Adds bytes at the end.
    fn add(&mut self, bytes: &[u8]) {
        self.pieces.push((self.length, bytes.into()));
        self.length += bytes.len() as u64;
    }

    /// Reads bytes of the content.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(bytes);
        if end > self.length() {
            return Err(Error::PastEnd { name: self.name, length: self.length() });
        }
        let piece_end = |(at, piece): &(u64, Box<[u8]>)| at + piece.len() as u64;
        let first = self.pieces.partition_point(|piece| piece_end(piece) <= offset);
        let mut read = Vec::with_capacity(bytes as usize);
        for (at, piece) in self.pieces.iter().skip(first).take_while(|(at, _)| *at < end) {
            let from = offset.saturating_sub(*at) as usize;
            let to = (end - at).min(piece.len() as u64) as usize;
            read.extend_from_slice(piece.get(from..to).unwrap_or_default());
        }
        Ok(read)
    }

    /// Notes the length at which the range has sealed the log. A log that was sealed does not grow
    /// again.
    fn seal(&mut self, length: u64) {
        self.sealed = Some(self.sealed.map_or(length, |sealed| sealed.min(length)));
    }
}

impl RangeState {
    /// Returns a log in memory.
    fn memory_log(&mut self, name: &FileName) -> Result<&mut MemoryLog> {
        match self.files.get_mut(name) {
            None => Err(Error::NoFile { name: *name }),
            Some(StoredFile::Memory(log)) => Ok(log),
            Some(_) => Err(Error::OtherKind { name: *name }),
        }
    }
}

impl Stoc {
    /// Makes an empty log in memory. It ends with this start of the StoC. (S5)
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Exists`], [`Error::OtherKind`], [`Error::NoRoom`].
    pub fn create_log_in_memory(&self, name: FileName, epoch: Epoch) -> Result<()> {
        self.check_kind(&name, true)?;
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        if state.files.contains_key(&name) {
            return Err(Error::Exists { name });
        }
        let log = MemoryLog::new(name, epoch);
        let bytes = log.memory_bytes();
        self.take_file(bytes)?;
        self.take_memory(bytes).inspect_err(|_| _ = self.files.fetch_sub(1, Relaxed))?;
        state.files.insert(name, StoredFile::Memory(log));
        Ok(())
    }

    /// Appends bytes to a log in memory, which the caller knows by the start of the StoC that made
    /// it. They are in memory when this returns. A repeated append of the same bytes changes
    /// nothing. (S3)
    ///
    /// # Errors
    /// [`Error::OtherStart`], [`Error::Fenced`], [`Error::NoFile`], [`Error::NotAtEnd`],
    /// [`Error::OtherBytes`], [`Error::OtherKind`], [`Error::NoRoom`].
    pub fn append_in_memory(
        &self,
        name: &FileName,
        (epoch, start): (Epoch, u64),
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        let present = self.identity.incarnation;
        if start != present {
            return Err(Error::OtherStart { wanted: start, present });
        }
        let log = state.memory_log(name)?;
        if !log.is_repeated(offset, bytes)? {
            self.take_memory(bytes.len() as u64 + OWN_BYTES)?;
            log.add(bytes);
        }
        Ok(())
    }

    /// Notes the length at which the range has sealed a log in memory. Returns whether the log is
    /// in memory.
    pub(crate) fn seal_in_memory(state: &mut RangeState, name: &FileName, length: u64) -> bool {
        let log = state.memory_log(name);
        log.map(|log| log.seal(length)).is_ok()
    }

    /// Removes a log in memory, to which its own range alone has a reference. Returns whether the
    /// log is in memory.
    pub(crate) fn release_in_memory(
        &self,
        state: &mut RangeState,
        name: &FileName,
        by: RangeId,
    ) -> bool {
        let Ok(log) = state.memory_log(name) else { return false };
        if by == name.range {
            self.memory_bytes.fetch_sub(log.memory_bytes(), Relaxed);
            self.files.fetch_sub(1, Relaxed);
            state.files.remove(name);
        }
        true
    }

    /// Counts bytes of memory that a log takes.
    fn take_memory(&self, bytes: u64) -> Result<()> {
        let most = self.limits.memory_bytes_max;
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= most);
        let taken = self.memory_bytes.fetch_update(Relaxed, Relaxed, more);
        taken.map(|_| ()).map_err(|_| Error::NoRoom { bytes })
    }
}
