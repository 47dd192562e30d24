//! The value store: groups of segments, and the segment table.
//!
//! 1. An append goes to the group of the key's hash, at its final place, into the write buffer of
//!    the group's open segment ([`group`]). It does no I/O.
//! 2. A flush cuts the buffers, makes the journal durable up to the newest cut record, and writes
//!    the cut parts ([`flush`]). So the device never has a record that the journal lacks.
//! 3. The barrier of the index does the same for all groups, syncs, and commits the segment table,
//!    before the index makes a table durable. So a durable table of the index names only durable
//!    records.
//!
//! # Invariants
//! - G1. A record never moves, and no byte of a segment that was written is written again with
//!   another value. A record in a buffer may be replaced by a later one of its key
//!   ([`open_segment`]).
//! - G2. A segment is written only if its number is below the durable floor of the segment table
//!   (T2 of [`crate::segment_table`]). So no two segments that were written have the same number.
//! - G3. A record is in a buffer, in a part that is being written, or on the device. A reader that
//!   does not find it in the first two, under the group's lock, finds it on the device.
//!
//! # Concurrency
//! Lock order: `exchanges`, `flusher`, `examined`, `table`, then a group, then `segments`. A writer
//! takes only the last two. No lock but the first four is held during I/O.

pub(crate) mod bound;
pub(crate) mod directory;
pub(crate) mod failures;
pub(crate) mod flush;
pub(crate) mod gates;
pub(crate) mod group;
pub(crate) mod key_filter;
pub(crate) mod ledger;
pub(crate) mod open_segment;
pub(crate) mod pending_record;
pub(crate) mod read;
pub(crate) mod table;

use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock, Weak};

use codec::Corruption;
use engine::{Barrier, Error, Health, Host, Result};
use memory_budget::Account;
use memtable::MemtableMemory;
use sync::{Mutex, RwLock};

use crate::key_index::{KeyIndex, of_index};
use crate::memory_split::filter_bytes;
use crate::segment_table::{Described, Geometry, Range};
use crate::volumes::{HEADER_BYTES, Place, Volumes, file_name};
use bound::Bound;
use failures::Failures;
use gates::Gates;
use group::{Group, GroupState};
use key_filter::KnownKeys;
use ledger::{Moment, Space};
use table::Table;

/// Segment numbers that are reserved at a time.
pub(crate) const NUMBERS_AHEAD: u64 = 1 << 20;

/// A segment, as readers see it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) range: Range,
    pub(crate) place: Place,
    /// The bytes that the bound counts for it.
    disk_bytes: AtomicU64,
}

/// The value store.
pub(crate) struct Values {
    pub(crate) geometry: Geometry,
    /// In the order of their ranges, which have the same number of bits.
    pub(crate) groups: Vec<Arc<Group>>,
    segments: RwLock<HashMap<u64, Arc<Segment>>>,
    pub(crate) volumes: Volumes,
    pub(crate) bound: Bound,
    /// The number of the next segment.
    next: AtomicU64,
    /// `None` once the store is closed.
    table: Mutex<Option<Table>>,
    pub(crate) gates: Gates,
    counts: Counts,
    pub(crate) accounts: Accounts,
    pub(crate) failures: Failures,
    links: Links,
}

/// The parts outside of the value store that it calls.
struct Links {
    /// The host's.
    barrier: Arc<dyn Barrier>,
    /// The store whose barrier the value store is.
    index: OnceLock<Weak<dyn KeyIndex>>,
}

/// Memory of the value store.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// The write buffers, and reservations of their memory.
    pub(crate) buffers: Arc<MemtableMemory>,
    /// The footers of segments that are not sealed.
    entries: Account,
    /// The directories of groups.
    pub(crate) directories: Account,
    /// Steps over groups to drop their directories.
    hand: AtomicU64,
    /// The filters of groups, and the most that they may take.
    pub(crate) filters: Account,
    filter_bytes_max: AtomicU64,
}

/// Counts of work.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of records in write buffers.
    buffered: AtomicU64,
    /// Bytes of records that replaced others in write buffers.
    pub(crate) absorbed_bytes: AtomicU64,
    /// Deletes and small pairs whose groups had no record of the key.
    pub(crate) omitted_markers: AtomicU64,
    /// Flushes of write buffers, and the bytes of whole blocks that they wrote.
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    /// Segments that got their footers, and the bytes of these.
    pub(crate) sealed: AtomicU64,
    pub(crate) footer_bytes: AtomicU64,
    /// Jobs, the segments that they collected, and the bytes that they copied.
    pub(crate) collections: AtomicU64,
    pub(crate) collected: AtomicU64,
    /// Bytes of footers that judgements read.
    pub(crate) judged_bytes: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
}

impl Values {
    /// Returns the value store of a segment table, with `host`'s barrier and memory.
    pub(crate) fn new(
        table: Table,
        geometry: Geometry,
        volumes: Volumes,
        host: &Host,
        health: &Arc<Health>,
    ) -> Self {
        let bound = Bound::new(geometry.segment_bytes, table.all.ranges.len());
        bound.take((volumes.count() as u64 + 1) * HEADER_BYTES);
        let segment = |described: &Described| {
            let Described { number, range, place, .. } = *described;
            let bytes = described.disk_bytes(geometry.segment_bytes);
            bound.take(bytes);
            (number, Arc::new(Segment { number, range, place, disk_bytes: bytes.into() }))
        };
        let groups: Vec<_> = table.all.ranges.iter().map(|range| Group::new(*range)).collect();
        for described in table.all.segments.values() {
            let group = &groups[group_index(groups.len(), described.range.first)];
            group.state.lock().note_found(described);
        }
        let segments = RwLock::new(table.all.segments.values().map(segment).collect());
        Self {
            geometry,
            groups,
            segments,
            volumes,
            bound,
            next: AtomicU64::new(table.all.floor),
            table: Mutex::new(Some(table)),
            gates: Gates::default(),
            counts: Counts::default(),
            accounts: Accounts {
                buffers: Arc::new(MemtableMemory::new(&host.memory)),
                entries: Account::new(&host.memory),
                directories: Account::new(&host.memory),
                hand: AtomicU64::new(0),
                filters: Account::new(&host.memory),
                filter_bytes_max: AtomicU64::new(filter_bytes(host.memory.limit())),
            },
            failures: Failures::new(health, &host.environment),
            links: Links { barrier: Arc::clone(&host.barrier), index: OnceLock::new() },
        }
    }

    /// Notes the index, which was opened after this.
    pub(crate) fn set_index(&self, index: &Arc<dyn KeyIndex>) {
        let _ = self.links.index.set(Arc::downgrade(index));
    }

    /// Makes the state of the index durable that its opening has found.
    ///
    /// # Errors
    /// The device's; [`Error::Closed`].
    pub(crate) fn make_index_durable(&self) -> Result<()> {
        let index = self.links.index.get().and_then(Weak::upgrade).ok_or(Error::Closed)?;
        index.make_durable().map(|_| ()).map_err(of_index)
    }

    /// Returns the group of a position.
    pub(crate) fn group(&self, position: u64) -> &Arc<Group> {
        &self.groups[self.group_number(position)]
    }

    /// Returns the number of the group of a position.
    pub(crate) fn group_number(&self, position: u64) -> usize {
        group_index(self.groups.len(), position)
    }

    /// Returns a segment by its number.
    pub(crate) fn segment(&self, number: u64) -> Option<Arc<Segment>> {
        self.segments.read().get(&number).cloned()
    }

    /// Returns the number of segments.
    pub(crate) fn segment_count(&self) -> u64 {
        self.segments.read().len() as u64
    }

    /// Returns the bytes of records in write buffers.
    pub(crate) fn buffered(&self) -> u64 {
        self.counts.buffered.load(Relaxed)
    }

    /// Returns the counts since the store was opened.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the bytes of segments on the device, and the number of their records.
    pub(crate) fn records_on_device(&self) -> (u64, u64) {
        let of = self.groups.iter().map(|group| group.state.lock().on_device());
        of.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the bytes of memory of the footers of segments that are not sealed.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.accounts.entries.bytes()
    }

    /// Returns the bytes of memory of the directories.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.accounts.directories.bytes()
    }

    /// Returns the bytes of memory of the filters.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.accounts.filters.bytes()
    }

    /// Returns damage of a segment of the table, at the offset that it has.
    pub(crate) fn damage_in(&self, described: &Described, damage: Corruption) -> Error {
        let place = described.place;
        damage.at(&file_name(place.volume), self.volumes.offset(place)).into()
    }

    /// Returns damage at an offset of a segment.
    pub(crate) fn damage(&self, segment: &Segment, what: &str, offset: u64) -> Error {
        let base = self.volumes.offset(segment.place);
        Corruption::new(what, offset).at(&file_name(segment.place.volume), base).into()
    }

    /// Calls `work` with the segment table.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Closed`].
    pub(crate) fn with_table<T>(&self, work: impl FnOnce(&mut Table) -> Result<T>) -> Result<T> {
        work(self.table.lock().as_mut().ok_or(Error::Closed)?)
    }

    /// Removes a segment that no table names, and returns its room to the device.
    ///
    /// # Errors
    /// The device's. The place stays taken then, and counts.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        let removed = self.segments.write().remove(&number);
        let Some(segment) = removed else { return Ok(()) };
        self.group(segment.range.first).state.lock().sealed.remove(&number);
        self.release(segment)
    }

    fn release(&self, segment: Arc<Segment>) -> Result<()> {
        if let Err(error) = self.volumes.release(segment.place) {
            self.gates.unreleased.lock().push(segment);
            return Err(error);
        }
        self.bound.release(segment.disk_bytes.swap(0, Relaxed));
        Ok(())
    }

    /// Returns the room of segments to the device that could not be returned when they were
    /// removed.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn retry_releases(&self) -> Result<()> {
        let segments = std::mem::take(&mut *self.gates.unreleased.lock());
        // Each is tried, and none is forgotten.
        let released = segments.into_iter().map(|segment| self.release(segment));
        self.failures.noted(released.fold(Ok(()), Result::and))
    }

    /// Notes a segment that has its footer, for the next commit and for jobs.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn note_sealed(&self, sealed: Described) -> Result<()> {
        self.with_table(|table| {
            table.put(sealed);
            Ok(())
        })?;
        self.count_sealed(&sealed);
        self.group(sealed.range.first).state.lock().note_sealed(sealed);
        Ok(())
    }

    /// Counts a segment that has its footer: nothing is behind that.
    pub(crate) fn count_sealed(&self, sealed: &Described) {
        let Some(segment) = self.segment(sealed.number) else { return };
        let bytes = sealed.disk_bytes(self.geometry.segment_bytes);
        let before = segment.disk_bytes.swap(bytes, Relaxed);
        self.bound.take(bytes.saturating_sub(before));
        self.bound.release(before.saturating_sub(bytes));
    }

    /// Keeps jobs from the group of a segment that may have void records or damage, or ends that.
    pub(crate) fn bar(&self, described: &Described, is_barred: bool) {
        self.group(described.range.first).state.lock().is_barred = is_barred;
    }

    /// Returns the bytes of all groups.
    pub(crate) fn count_space(&self, moment: &Moment) -> Space {
        let mut space = Space::default();
        for group in &self.groups {
            let state = group.state.lock();
            let own = state.ledger.space(moment);
            space.add(if state.is_barred { own.of_barred() } else { own });
        }
        space
    }

    /// Returns the group with the most garbage beyond its part of `target`, of those with at least
    /// `bytes` bytes of garbage. All groups have `live` live bytes.
    pub(crate) fn dirtiest(
        &self,
        moment: &Moment,
        bytes: u64,
        (target, live): (u64, u64),
    ) -> Option<Arc<Group>> {
        let found = self.groups.iter().filter_map(|group| {
            let state = group.state.lock();
            let space = state.ledger.space(moment);
            let garbage = space.garbage + space.found;
            let beyond = garbage.saturating_sub(share_of(target, space.live, live));
            let is_wanted = !state.is_barred && garbage >= bytes.max(1);
            is_wanted.then_some(((beyond, garbage), group))
        });
        found.max_by_key(|(most, _)| *most).map(|(_, group)| Arc::clone(group))
    }

    /// Drops directories of groups that were not used lately, until all directories together have
    /// at most `bytes_max` bytes.
    pub(crate) fn drop_directories(&self, bytes_max: u64) {
        // Each group gets a second chance, and the next call begins with the next group.
        for _ in 0..2 * self.groups.len() {
            if self.directory_bytes() <= bytes_max {
                return;
            }
            let at = self.accounts.hand.fetch_add(1, Relaxed) as usize;
            let group = &self.groups[at % self.groups.len()];
            if !group.is_used.swap(false, Relaxed) {
                let mut state = group.state.lock();
                self.accounts.directories.release(state.directory_bytes());
                state.directory = None;
            }
        }
    }

    /// Returns the most bytes that filters may take.
    pub(crate) fn filter_bytes_max(&self) -> u64 {
        self.accounts.filter_bytes_max.load(Relaxed)
    }

    /// Sets the most bytes that filters may take, and drops filters if they take more.
    pub(crate) fn fit_filters(&self, bytes_max: u64) {
        self.accounts.filter_bytes_max.store(bytes_max, Relaxed);
        for group in &self.groups {
            if self.filter_bytes() <= bytes_max {
                return;
            }
            let mut state = group.state.lock();
            self.accounts.filters.release(state.keys.bytes());
            state.keys = KnownKeys::default();
        }
    }

    /// Changes what is known of a group's keys. Nothing is known any more if filters would take too
    /// much memory.
    pub(crate) fn change_keys<T>(
        &self,
        state: &mut GroupState,
        change: impl FnOnce(&mut KnownKeys) -> T,
    ) -> T {
        let before = state.keys.bytes();
        let done = change(&mut state.keys);
        let after = state.keys.bytes();
        if after > before && self.filter_bytes() + (after - before) > self.filter_bytes_max() {
            state.keys = KnownKeys::default();
            self.accounts.filters.release(before);
        } else if after != before {
            self.accounts.filters.add(after);
            self.accounts.filters.release(before);
        }
        done
    }

    /// Makes the segment table that an opening has found durable. The segments that it names are
    /// durable already.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn make_durable(&self) -> Result<()> {
        self.failures.health.check_writable()?;
        self.failures.noted(self.with_table(|table| table.chain.make_durable()))
    }

    /// Syncs the volumes, and commits the segment table.
    ///
    /// # Errors
    /// The device's; [`Error::Closed`].
    pub(crate) fn sync_and_commit(&self) -> Result<()> {
        self.volumes.sync()?;
        self.with_table(Table::commit)
    }

    /// Returns whether a segment with this number may be written. (G2)
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn is_reserved(&self, number: u64) -> Result<bool> {
        let has_discarded = self.gates.has_discarded.load(Acquire);
        self.with_table(|table| Ok(number < table.floor && has_discarded))
    }

    /// Reserves more segment numbers, durably, if `number` is not reserved. The first time since
    /// the opening, returns the room of all places that no segment of the table has to the device:
    /// a crash may have left bytes there. The caller has the flusher's lock. (G2)
    ///
    /// # Errors
    /// The device's; [`Error::Closed`].
    pub(crate) fn reserve_number(&self, number: u64) -> Result<()> {
        if self.is_reserved(number)? {
            return Ok(());
        }
        // A pending change may say that a segment is sealed, and so its footer has to be durable.
        self.volumes.sync()?;
        self.with_table(|table| {
            let floor = number.saturating_add(NUMBERS_AHEAD);
            (table.pending.floor, table.all.floor) = (Some(floor), floor);
            table.commit()
        })?;
        self.discard_unknown()
    }

    /// Returns the room of all places that no segment of the table has to the device, once. No
    /// segment was written since the opening, and the table has no pending changes.
    fn discard_unknown(&self) -> Result<()> {
        if self.gates.has_discarded.load(Acquire) {
            return Ok(());
        }
        let places = |table: &mut Table| {
            Ok(table.all.segments.values().map(|segment| segment.place).collect::<Vec<_>>())
        };
        self.volumes.discard_all_but(&self.with_table(places)?)?;
        self.gates.has_discarded.store(true, Release);
        Ok(())
    }

    /// Ends all changes, and closes the files: the store is closed.
    pub(crate) fn close(&self) {
        let _flusher = self.gates.flusher.lock();
        *self.table.lock() = None;
        self.volumes.close();
    }
}

/// Returns the part of `bytes` that `own` has of `all`.
pub(crate) fn share_of(bytes: u64, own: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(own) / u128::from(all.max(1))) as u64
}

/// Returns the number of the group that has a position.
fn group_index(groups: usize, position: u64) -> usize {
    let bits = groups.trailing_zeros();
    position.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}
