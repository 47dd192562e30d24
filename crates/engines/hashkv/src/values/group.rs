//! A group: the records of all keys in one range of positions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use codec::SeqNo;
use engine::Reservation;
use sync::Mutex;

use super::bound::{User, charge, segments_for};
use super::directory::Directory;
use super::key_filter::{KnownKeys, Marks};
use super::ledger::{Ledger, Moment};
use super::open_segment::{ENTRY_MEMORY_BYTES, OpenSegment};
use super::{Segment, Values};
use crate::index_value::Handle;
use crate::key_hash::KeyHash;
use crate::segment::footer::{Entry, footer_bytes};
use crate::segment::record::{BLOCK_BYTES, Kind, Record};
use crate::segment_table::{Described, Range, State};
use crate::space::{Need, spend};
use crate::volumes::HEADER_BYTES;

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    range: Range,
    pub(crate) state: Mutex<GroupState>,
    /// Whether a moved record of the group was read lately.
    pub(crate) is_used: AtomicBool,
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
    pub(crate) directory: Option<Arc<Directory>>,
    /// The keys of its records.
    pub(crate) keys: KnownKeys,
    /// Changes of the base segments.
    pub(crate) version: u64,
    pub(crate) ledger: Ledger,
    /// Whether a segment may have void records, or has damage: no job may judge the group then.
    pub(crate) is_barred: bool,
    /// Whether records were appended since the last judgement.
    pub(crate) is_changed: bool,
    /// The reservations of writes.
    pub(crate) reserved: Reserved,
}

/// Space that writes of a group have reserved, and not taken yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Charges of records that share segments.
    pub(crate) shared: u64,
    /// Bytes of the places of longer records.
    pub(crate) long: u64,
    /// Bytes that the bound counts for them.
    pub(crate) promised: u64,
}

impl Group {
    pub(crate) fn new(range: Range) -> Arc<Self> {
        let state = GroupState { keys: KnownKeys::of_empty_group(), ..GroupState::default() };
        Arc::new(Self { range, state: Mutex::new(state), is_used: AtomicBool::new(false) })
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

    /// Returns the bytes on the device, and the number of records there: of sealed segments, and
    /// of the others.
    pub(crate) fn on_device(&self) -> (u64, u64) {
        let sealed = self.sealed.values();
        let sealed = sealed.map(|sealed| (sealed.end() as u64, u64::from(sealed.entries())));
        let others = self.full.iter().chain(&self.open);
        let others = others.map(|one| (one.written(), one.entries().len() as u64));
        sealed.chain(others).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        let sealed: u64 = self.sealed.values().map(|sealed| u64::from(sealed.entries())).sum();
        let others = self.full.iter().chain(&self.open).map(|one| one.entries().len() as u64);
        sealed + others.sum::<u64>()
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
            self.ledger.note_sealed(sealed.end() as u64, sealed.entries());
        }
    }

    /// Notes a segment that an opening has found. The keys of the group are not known then.
    pub(crate) fn note_found(&mut self, found: &Described) {
        self.keys = KnownKeys::default();
        if let State::Sealed { .. } = found.state {
            self.sealed.insert(found.number, *found);
            self.ledger.found += found.end() as u64;
        }
    }

    /// Returns whether a job has filled a segment.
    pub(crate) fn has_base_segments(&self) -> bool {
        let is_base =
            |sealed: &Described| matches!(sealed.state, State::Sealed { is_base: true, .. });
        self.sealed.values().any(is_base)
    }

    /// Returns the bytes of memory of the directory.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.directory.as_ref().map_or(0, |directory| directory.bytes())
    }

    /// Returns whether the ledger knows all bytes of the sealed segments, and there are no others
    /// that a flush seals.
    pub(crate) fn is_judged(&self, moment: &Moment) -> bool {
        let space = self.ledger.space(moment);
        !self.is_changed
            && self.full.is_empty()
            && space.pending == 0
            && space.found == 0
            && space.garbage == self.ledger.dead
    }

    /// Returns the bytes of segments that reserved records may begin.
    fn needed(&self, reserved: Reserved, segment_bytes: u64) -> u64 {
        let free = self.open.as_ref().map_or(0, OpenSegment::free);
        // A long record may begin a volume.
        let headers = reserved.long / segment_bytes * HEADER_BYTES;
        segments_for(reserved.shared, free, segment_bytes) * segment_bytes + reserved.long + headers
    }

    /// Returns the bytes of a record that is not on the device.
    fn in_memory(&self, handle: Handle) -> Option<&[u8]> {
        let mut unsealed = self.full.iter().chain(&self.open);
        let found = unsealed.find(|one| one.segment.number == handle.segment)?;
        found.in_memory(handle.offset as usize, handle.bytes as usize)
    }
}

impl Values {
    /// Appends a record to its group, and returns its place. Takes memory and space out of `room`.
    /// Does no I/O. If `is_seen` is there, the record may replace the latest record of its key, and
    /// takes nothing then (`open_segment.rs`).
    pub(crate) fn append(
        &self,
        record: &Record<'_>,
        hash: KeyHash,
        is_seen: Option<&dyn Fn(SeqNo, SeqNo) -> bool>,
        room: &mut Reservation<'_>,
    ) -> Handle {
        let bytes = record.bytes();
        let store = self.geometry.store;
        let number = self.group_number(hash.position());
        let group = &self.groups[number];
        let mut state = group.state.lock();
        if let (Some(is_seen), Some(open)) = (is_seen, &mut state.open)
            && let Some(handle) = open.replace(record, hash, store, is_seen)
        {
            state.is_changed = true;
            self.counts.absorbed_bytes.fetch_add(bytes as u64, Relaxed);
            return handle;
        }
        // With the group locked: a flush that counts these bytes also finds the record.
        self.accounts.buffers.fill(bytes as u64, room);
        self.counts.buffered.fetch_add(bytes as u64, Relaxed);
        self.accounts.entries.add(ENTRY_MEMORY_BYTES);
        state.is_changed = true;
        let mut reserved = state.reserved;
        let handle = if self.is_long(bytes) {
            self.bound.take(self.long_bytes(bytes));
            let mut long = self.begin_segment(group.range, bytes);
            let handle = long.append(record, hash, store);
            state.full.push(long);
            reserved.long -= spend(room, number, true, self.long_bytes(bytes));
            handle
        } else {
            let open = match state.open.take() {
                Some(open) if open.has_room(bytes) => state.open.insert(open),
                full => {
                    state.full.extend(full);
                    self.bound.take(u64::from(self.geometry.segment_bytes));
                    state.open.insert(self.begin_segment(group.range, bytes))
                }
            };
            let handle = open.append(record, hash, store);
            if record.kind == Kind::Value && self.may_replace() {
                open.note_replaceable(hash);
            }
            reserved.shared -= spend(room, number, false, charge(bytes));
            handle
        };
        if record.kind == Kind::Value {
            self.change_keys(&mut state, |keys| keys.add(hash));
        }
        // Not more than before, unless the record was not reserved. (B2)
        let _ = self.promise(&mut state, reserved, None);
        handle
    }

    /// Returns whether a delete or a small pair has to leave a marker in its group. Only the write
    /// of the key adds records of it, so the group has none until that write is done.
    pub(crate) fn marks(&self, hash: KeyHash) -> Marks {
        let marks = self.group(hash.position()).state.lock().keys.marks(hash);
        if !marks.is_needed {
            self.counts.omitted_markers.fetch_add(1, Relaxed);
        }
        marks
    }

    /// Returns whether a put may replace a record in a buffer. After a crash the index may have the
    /// handle of the earlier write, and a replay of the journal brings that of the later one.
    /// Without a journal the earlier handle would stay, and a job would move the record under a
    /// number that the handle does not have.
    pub(crate) fn may_replace(&self) -> bool {
        self.links.barrier.is_journaled()
    }

    /// Returns whether a record gets a segment of its own.
    pub(crate) fn is_long(&self, bytes: usize) -> bool {
        bytes > self.geometry.segment_bytes as usize / 2
    }

    /// Returns the places of a segment with room for a record of `bytes` bytes.
    fn places(&self, bytes: usize) -> usize {
        let least = bytes.next_multiple_of(BLOCK_BYTES) + footer_bytes(1);
        least.div_ceil(self.geometry.segment_bytes as usize).max(1)
    }

    /// Returns the bytes of the segment of a long record.
    pub(crate) fn long_bytes(&self, bytes: usize) -> u64 {
        self.places(bytes) as u64 * u64::from(self.geometry.segment_bytes)
    }

    /// Begins a segment of a group, with room for a record of `bytes` bytes. The caller has counted
    /// its bytes.
    pub(crate) fn begin_segment(&self, range: Range, bytes: usize) -> OpenSegment {
        let place_bytes = self.geometry.segment_bytes as usize;
        let count = self.places(bytes);
        let (place, is_new_volume) = self.volumes.take(count as u32);
        if is_new_volume {
            // Of the next volume: that of this one was counted before.
            self.bound.take(HEADER_BYTES);
        }
        let number = self.next.fetch_add(1, Relaxed);
        let bytes = (count * place_bytes) as u64;
        let segment = Arc::new(Segment { number, range, place, disk_bytes: bytes.into() });
        self.segments.write().insert(number, Arc::clone(&segment));
        OpenSegment::new(segment, count * place_bytes)
    }

    /// Reserves space for records of a group, or withdraws reservations. `user` is `None` if the
    /// limit does not matter. Returns whether there was space.
    fn promise(&self, state: &mut GroupState, mut reserved: Reserved, user: Option<User>) -> bool {
        let before = state.reserved.promised;
        reserved.promised = state.needed(reserved, u64::from(self.geometry.segment_bytes));
        let is_promised = self.bound.promise(before, reserved.promised, user);
        if is_promised {
            state.reserved = reserved;
        }
        is_promised
    }

    /// Reserves space for records of a group. Returns whether there was space.
    pub(crate) fn reserve_space(&self, group: usize, need: &Need, user: Option<User>) -> bool {
        let mut state = self.groups[group].state.lock();
        let mut reserved = state.reserved;
        reserved.shared += need.shared;
        reserved.long += need.long;
        self.promise(&mut state, reserved, user)
    }

    /// Withdraws a reservation.
    pub(crate) fn return_space(&self, group: usize, need: &Need) {
        let mut state = self.groups[group].state.lock();
        let mut reserved = state.reserved;
        reserved.shared = reserved.shared.saturating_sub(need.shared);
        reserved.long = reserved.long.saturating_sub(need.long);
        let _ = self.promise(&mut state, reserved, None);
    }

    /// Ends the segment that records of a group go to, if there is space for another one. Returns
    /// the bytes of its entries then.
    pub(crate) fn try_end_open(&self, group: &Group) -> u64 {
        let mut state = group.state.lock();
        let open = state.open.take();
        let reserved = state.reserved;
        if !self.promise(&mut state, reserved, Some(User::Replaces)) {
            state.open = open;
            return 0;
        }
        let ended = open.as_ref().map_or(0, OpenSegment::entry_bytes);
        state.full.extend(open);
        ended
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
