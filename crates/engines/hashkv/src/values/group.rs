//! A group: the records of all keys in one range of positions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::Reservation;
use sync::locks::Mutex;

use super::directory::Directory;
use super::ledger::Ledger;
use super::open_segment::OpenSegment;
use super::{Segment, Values};
use crate::index_value::Handle;
use crate::key_hash::KeyHash;
use crate::segment::footer::{Entry, footer_bytes};
use crate::segment::record::{BLOCK_BYTES, Record};
use crate::segment_table::{Described, Range, State};

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    range: Range,
    pub(crate) state: Mutex<GroupState>,
    /// Whether a moved record of the group was read lately.
    pub(crate) is_used: AtomicBool,
    /// Whether a task reads the group's directory.
    pub(crate) is_loading: AtomicBool,
}

/// The segments of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupState {
    /// The segment that records go to.
    pub(crate) open: Option<OpenSegment>,
    /// Segments without room, from the oldest on. The next flush writes and seals them.
    pub(crate) full: Vec<OpenSegment>,
    /// Segments with a footer, by number.
    pub(crate) sealed: BTreeMap<u64, Described>,
    /// The places of the records of base segments, if it is in memory.
    pub(crate) directory: Option<Directory>,
    /// Changes of the base segments.
    pub(crate) version: u64,
    pub(crate) ledger: Ledger,
    /// Whether a segment may have void records, or has damage: no job may judge the group then.
    pub(crate) is_barred: bool,
}

impl Group {
    pub(crate) fn new(range: Range) -> Arc<Self> {
        let (state, is_used, is_loading) = Default::default();
        Arc::new(Self { range, state, is_used, is_loading })
    }

    /// Returns the positions of its records.
    pub(crate) fn range(&self) -> Range {
        self.range
    }
}

impl GroupState {
    /// Returns the segments that are not sealed, from the oldest on.
    pub(crate) fn unsealed(&mut self) -> impl Iterator<Item = &mut OpenSegment> {
        self.full.iter_mut().chain(&mut self.open)
    }

    /// Returns the bytes of records that are not on the device.
    pub(crate) fn buffered(&self) -> u64 {
        self.full.iter().chain(&self.open).map(OpenSegment::buffered).sum()
    }

    /// Returns the bytes of memory of the footers.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.full.iter().chain(&self.open).map(OpenSegment::entry_bytes).sum()
    }

    /// Returns the entries of each segment that is not sealed.
    pub(crate) fn entries(&self) -> Vec<Vec<Entry>> {
        self.full.iter().chain(&self.open).map(|one| one.entries().to_vec()).collect()
    }

    /// Notes a segment that has its footer.
    pub(crate) fn note_sealed(&mut self, sealed: Described) {
        if self.sealed.insert(sealed.number, sealed).is_none() {
            self.ledger.unknown += sealed.end() as u64;
        }
    }

    /// The same for a segment that an opening has found.
    pub(crate) fn note_found(&mut self, sealed: Described) {
        self.sealed.insert(sealed.number, sealed);
        self.ledger.found += sealed.end() as u64;
    }

    /// Returns whether a job has filled a segment.
    pub(crate) fn has_base_segments(&self) -> bool {
        let is_base =
            |sealed: &Described| matches!(sealed.state, State::Sealed { is_base: true, .. });
        self.sealed.values().any(is_base)
    }

    /// Returns the bytes of memory of the directory.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.directory.as_ref().map_or(0, Directory::bytes)
    }

    /// Ends the segment that records go to.
    pub(crate) fn end_open(&mut self) {
        self.full.extend(self.open.take());
    }

    /// Returns the bytes of a record that is not on the device.
    fn in_memory(&self, handle: Handle) -> Option<&[u8]> {
        let mut unsealed = self.full.iter().chain(&self.open);
        let found = unsealed.find(|one| one.segment.number == handle.segment)?;
        found.in_memory(handle.offset as usize, handle.bytes as usize)
    }
}

impl Values {
    /// Appends a record to its group, and returns its place. Takes memory out of `room`. Does no
    /// I/O.
    pub(crate) fn append(
        &self,
        record: &Record<'_>,
        hash: KeyHash,
        room: &mut Reservation<'_>,
    ) -> Handle {
        let bytes = record.bytes();
        // Before the record is there: a flush of it subtracts these bytes.
        self.accounts.buffers.fill(bytes as u64, room);
        self.counts.buffered.fetch_add(bytes as u64, Relaxed);
        self.accounts.entries.add(size_of::<Entry>() as u64);
        let store = self.geometry.store;
        let group = self.group(hash.position());
        let mut state = group.state.lock();
        if bytes > self.geometry.segment_bytes as usize / 2 {
            let mut long = self.begin_segment(group.range, bytes);
            let handle = long.append(record, hash, store);
            state.full.push(long);
            return handle;
        }
        let open = match state.open.take() {
            Some(open) if open.has_room(bytes) => state.open.insert(open),
            full => {
                state.full.extend(full);
                state.open.insert(self.begin_segment(group.range, bytes))
            }
        };
        open.append(record, hash, store)
    }

    /// Begins a segment of a group, with room for a record of `bytes` bytes.
    pub(crate) fn begin_segment(&self, range: Range, bytes: usize) -> OpenSegment {
        let place_bytes = self.geometry.segment_bytes as usize;
        let least = bytes.next_multiple_of(BLOCK_BYTES) + footer_bytes(1);
        let count = least.div_ceil(place_bytes).max(1);
        let place = self.volumes.take(count as u32);
        let number = self.next.fetch_add(1, Relaxed);
        let segment = Arc::new(Segment { number, range, place });
        self.segments.write().insert(number, Arc::clone(&segment));
        OpenSegment::new(segment, count * place_bytes)
    }

    /// Passes the bytes of a record to `take`, if they are in memory.
    pub(crate) fn in_memory<T>(
        &self,
        handle: Handle,
        position: u64,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let state = self.group(position).state.lock();
        state.in_memory(handle).map(take)
    }
}
