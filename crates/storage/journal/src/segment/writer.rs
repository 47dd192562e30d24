//! Encodes groups of frames, and creates segments.

use std::sync::Arc;

use codec::SeqNo;
use device::{File, Mode, SyncKind};

use super::format::{
    CHECKSUM_BYTES, FRAME_BYTES_MIN, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, Kind,
    SegmentHeader, frame_checksum,
};
use super::names::{file_name, unfinished_name};
use crate::store::SegmentStore;

/// Frames that will be written together, by one call, at one place of one segment.
///
/// # Invariants
/// - `bytes` begins with the checksum that the first frame chains from, which is not written.
/// - `bytes[..whole]` are whole frames; bytes beyond are left of an append that panicked.
#[derive(Debug)]
pub(crate) struct Group {
    seed: u64,
    start: u64,
    bytes: Vec<u8>,
    whole: usize,
    records: u64,
}

impl Group {
    /// Returns an empty group at `start`, after a frame with the checksum `chain`, in memory that
    /// it may use again.
    pub(crate) fn new(seed: u64, start: u64, chain: u64, mut memory: Vec<u8>) -> Self {
        memory.clear();
        memory.extend_from_slice(&chain.to_le_bytes());
        Self { seed, start, bytes: memory, whole: CHECKSUM_BYTES, records: 0 }
    }

    /// Returns the group's first offset in its segment.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the offset after the group's last frame.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Returns the bytes that will be written.
    pub(crate) fn len(&self) -> usize {
        self.whole - CHECKSUM_BYTES
    }

    /// Returns the number of records in it.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the seed of the checksums of its segment's frames.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the bytes to be written.
    pub(crate) fn frames(&self) -> &[u8] {
        &self.bytes[CHECKSUM_BYTES..self.whole]
    }

    /// Returns the checksum that the next frame chains from.
    pub(crate) fn chain(&self) -> u64 {
        let last = self.bytes[..self.whole].last_chunk::<CHECKSUM_BYTES>();
        u64::from_le_bytes(*last.expect("a group begins with a checksum"))
    }

    /// Returns its memory, for another group.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a record whose payload `write` appends to the bytes given. `Err` is the payload's
    /// size if that is above `limit`; nothing is appended then.
    pub(crate) fn append_record(
        &mut self,
        seqno: SeqNo,
        limit: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<usize, usize> {
        let length = self.append(Kind::Record, seqno.get(), limit, write)?;
        self.records += 1;
        Ok(length)
    }

    /// Ends the group with the watermark `synced`, reaching a multiple of `alignment`.
    pub(crate) fn append_mark(&mut self, kind: Kind, synced: u64, alignment: usize) {
        let end = self.end() + FRAME_BYTES_MIN as u64;
        let padding = (end.next_multiple_of(alignment as u64) - end) as usize;
        let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + padding, 0);
        self.append(kind, synced, padding, pad).expect("the padding is as long as it was said");
    }

    fn append(
        &mut self,
        kind: Kind,
        number: u64,
        limit: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<usize, usize> {
        self.bytes.truncate(self.whole);
        self.bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        let payload = self.bytes.len();
        write(&mut self.bytes);
        assert!(self.bytes.len() >= payload, "a record's writer took bytes away");
        let length = self.bytes.len() - payload;
        if length > limit {
            self.bytes.truncate(self.whole);
            return Err(length);
        }
        let header = FrameHeader { kind, length, number }.encode();
        self.bytes[self.whole..payload].copy_from_slice(&header);
        let covered = &self.bytes[self.whole - CHECKSUM_BYTES..];
        let checksum = frame_checksum(self.seed, self.end(), covered);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.whole = self.bytes.len();
        Ok(length)
    }
}

/// A segment that is to be created: its header, padded to where the first group may begin.
#[derive(Clone, Debug)]
pub(crate) struct NewSegment {
    pub(crate) header: SegmentHeader,
    head: Vec<u8>,
    chain: u64,
    seed: u64,
}

impl NewSegment {
    /// Lays the header out for a device of this alignment.
    pub(crate) fn new(header: SegmentHeader, alignment: usize) -> Self {
        let mut head = header.encode();
        let seed = header.seed();
        let mut chain = seed;
        if !head.len().is_multiple_of(alignment) {
            let mut pad = Group::new(seed, HEADER_BYTES as u64, seed, Vec::new());
            pad.append_mark(Kind::Seal, 0, alignment);
            head.extend_from_slice(pad.frames());
            chain = pad.chain();
        }
        Self { header, head, chain, seed }
    }

    /// Returns an empty group at the segment's start.
    pub(crate) fn first_group(&self, memory: Vec<u8>) -> Group {
        Group::new(self.seed, self.head.len() as u64, self.chain, memory)
    }
}

/// A segment under its unfinished name.
#[derive(Debug)]
pub(crate) struct Unfinished<'a> {
    store: &'a dyn SegmentStore,
    index: u64,
    file: Arc<dyn File>,
}

impl<'a> Unfinished<'a> {
    /// Makes the empty file that is to become segment `index`.
    pub(crate) fn new(store: &'a dyn SegmentStore, index: u64) -> device::Result<Self> {
        let file = store.open(&unfinished_name(index), Mode::Create)?;
        file.set_len(0)?;
        Ok(Self { store, index, file })
    }

    /// Returns the alignment that the device needs of offsets and lengths of writes.
    pub(crate) fn alignment(&self) -> usize {
        self.file.alignment()
    }

    /// Writes the header.
    pub(crate) fn begin(&self, segment: &NewSegment) -> device::Result<()> {
        self.file.write_at(0, &segment.head)
    }

    /// Writes records that the segment is to begin with.
    pub(crate) fn write(&self, group: &Group) -> device::Result<()> {
        self.file.write_at(group.start(), group.frames())
    }

    /// Syncs the file, gives it its name and makes that durable; returns it. No file of a segment's
    /// name can be found whose content up to here is not whole.
    pub(crate) fn finish(self) -> device::Result<Arc<dyn File>> {
        self.file.sync(SyncKind::All)?;
        let name = file_name(self.index);
        self.store.rename(&unfinished_name(self.index), &name)?;
        self.store.sync_names()?;
        self.store.open(&name, Mode::Write)
    }
}
