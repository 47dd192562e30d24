//! Reads of records: in a write buffer, or on the device.

use std::sync::Arc;

use codec::Corruption;
use device::File;
use engine::{Error, ReadRequest, ReadSource, Result};

use super::{Segment, Values};
use crate::index_value::Handle;
use crate::key_hash::KeyHash;
use crate::segment::record::{BLOCK_BYTES, Record};

/// The blocks of the device that have a record.
pub(crate) struct Span {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    offset: u64,
    len: usize,
    /// Bytes before the record.
    skipped: usize,
}

impl Values {
    /// Passes the value of a record to `take` if the record is in memory. Never waits for the
    /// device.
    ///
    /// # Errors
    /// [`Error::Corruption`].
    pub(crate) fn try_read(
        &self,
        key: &[u8],
        handle: Handle,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<()>> {
        let position = self.hash(key).position();
        let found = self.in_memory(handle, position, |bytes| {
            handle.record_in(bytes, self.geometry.store, key).map(|record| take(record.value))
        });
        found.transpose().map_err(|damage| self.damage_of(handle, damage))
    }

    /// Returns the blocks of the device that have the record of a handle in a segment.
    ///
    /// # Errors
    /// The handle is longer than the segment.
    pub(crate) fn span(&self, segment: &Arc<Segment>, handle: Handle) -> Result<Span> {
        let capacity = u64::from(segment.place.count) * u64::from(self.geometry.segment_bytes);
        let (begin, bytes) = (u64::from(handle.offset), u64::from(handle.bytes));
        if begin + bytes > capacity || bytes == 0 {
            return Err(self.damage(segment, "a handle is longer than its segment", begin));
        }
        let block = BLOCK_BYTES as u64;
        let first = begin / block * block;
        let end = (begin + bytes).next_multiple_of(block);
        let file = self.volumes.file(segment.place.volume)? as Arc<dyn File>;
        let offset = self.volumes.offset(segment.place) + first;
        let (len, skipped) = ((end - first) as usize, (begin - first) as usize);
        Ok(Span { segment: Arc::clone(segment), file, offset, len, skipped })
    }

    /// Returns the record of a handle in the blocks that were read. A record that a job has moved
    /// has the number of the handle.
    ///
    /// # Errors
    /// Damage, with its place.
    pub(crate) fn record_in<'b>(
        &self,
        span: &Span,
        blocks: &'b [u8],
        key: &[u8],
        (handle, is_moved): (Handle, bool),
    ) -> Result<Record<'b>> {
        let offset = u64::from(handle.offset);
        let damaged = |what: &str| self.damage(&span.segment, what, offset);
        let end = span.skipped + handle.bytes as usize;
        let bytes = blocks.get(span.skipped..end).unwrap_or_default();
        let record = handle.record_in(bytes, self.geometry.store, key);
        let record = record.map_err(|damage| damaged(&damage.what))?;
        // The group may have a later record of the key as well.
        match is_moved && record.number != handle.number {
            true => Err(damaged("a moved record is of another write")),
            false => Ok(record),
        }
    }

    /// Returns the hash of a key.
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.geometry.secret.hash(key)
    }

    /// Returns damage of the record of a handle.
    pub(crate) fn damage_of(&self, handle: Handle, damage: Corruption) -> Error {
        match self.segment(handle.segment) {
            Some(segment) => self.damage(&segment, &damage.what, u64::from(handle.offset)),
            None => damage.at(crate::INDEX_DIR, 0).into(),
        }
    }
}

impl Span {
    /// Returns the read of these blocks.
    pub(crate) fn request(&self, source: &Arc<dyn ReadSource>) -> ReadRequest {
        let (source, file) = (Arc::clone(source), Arc::clone(&self.file));
        ReadRequest { source, file, offset: self.offset, len: self.len }
    }
}

/// Returns the damage of a handle whose record is nowhere.
pub(crate) fn missing(handle: Handle) -> Corruption {
    let Handle { segment, number, .. } = handle;
    Corruption::new(format!("the record of write {number} of segment {segment} is missing"), 0)
}
