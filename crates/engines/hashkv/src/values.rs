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
//!   another value.
//! - G2. A segment is written only if its number is below the durable floor of the segment table
//!   (T2 of [`crate::segment_table`]). So no two segments that were written have the same number.
//! - G3. A record is in a buffer, in a part that is being written, or on the device. A reader that
//!   does not find it in the first two, under the group's lock, finds it on the device.
//!
//! # Concurrency
//! Lock order: `flusher`, then `table`, then a group. A writer takes only a group's lock. No lock
//! but `flusher` and `table` is held during I/O.

pub(crate) mod flush;
pub(crate) mod group;
pub(crate) mod open_segment;
pub(crate) mod read;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::{Corruption, SeqNo};
use edits::Chain;
use engine::{Barrier, Error, Health, Result};
use memory_budget::{Account, MemoryBudget};
use memtable::MemtableMemory;
use sync::locks::{Mutex, RwLock};

use crate::segment_table::{All, Described, Edit, Geometry, Range};
use crate::volumes::{Place, Volumes, file_name};
use group::Group;

/// Segment numbers that are reserved at a time.
pub(crate) const NUMBERS_AHEAD: u64 = 1 << 20;

/// A segment, as readers see it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) range: Range,
    pub(crate) place: Place,
}

/// The chain of edits of the segment table, and the changes that it does not have yet.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) chain: Chain<Edit>,
    pending: Edit,
    /// All contents, with the pending changes.
    pub(crate) all: All,
    /// Numbers below this are reserved, durably. (G2)
    floor: u64,
}

/// The value store.
pub(crate) struct Values {
    pub(crate) geometry: Geometry,
    /// In the order of their ranges, which have the same number of bits.
    pub(crate) groups: Vec<Arc<Group>>,
    segments: RwLock<HashMap<u64, Arc<Segment>>>,
    pub(crate) volumes: Volumes,
    /// The number of the next segment.
    next: AtomicU64,
    /// `None` once the store is closed.
    table: Mutex<Option<Table>>,
    /// Held by the thread that writes buffers.
    flusher: Mutex<()>,
    /// The write buffers, and reservations of their memory.
    pub(crate) buffers: Arc<MemtableMemory>,
    counts: Counts,
    /// The footers of segments that are not sealed.
    entries: Account,
    health: Arc<Health>,
    /// The host's.
    barrier: Arc<dyn Barrier>,
}

/// Counts of work.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of records in write buffers.
    buffered: AtomicU64,
    /// Flushes of write buffers, and the bytes of whole blocks that they wrote.
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    /// Segments that got their footers, and the bytes of these.
    pub(crate) sealed: AtomicU64,
    pub(crate) footer_bytes: AtomicU64,
}

impl Table {
    /// Returns the table that a chain has.
    pub(crate) fn new(chain: Chain<Edit>, all: All) -> Self {
        let floor = all.floor;
        Self { chain, pending: Edit::default(), all, floor }
    }

    /// Notes a segment for the next commit.
    pub(crate) fn put(&mut self, segment: Described) {
        self.pending.put.retain(|pending| pending.number != segment.number);
        self.pending.put.push(segment);
        self.all.segments.insert(segment.number, segment);
    }

    /// Removes a segment with the next commit.
    pub(crate) fn remove(&mut self, number: u64) {
        let before = self.pending.put.len();
        self.pending.put.retain(|pending| pending.number != number);
        let was_pending = self.pending.put.len() < before;
        self.all.segments.remove(&number);
        if !was_pending {
            self.pending.removed.push(number);
        }
    }

    /// Commits the geometry and the groups of a new store.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn begin(&mut self, geometry: Geometry, ranges: Vec<Range>) -> Result<()> {
        self.pending.geometry = Some(geometry);
        self.pending.ranges = Some(ranges.clone());
        self.all = All { geometry: Some(geometry), ranges, ..All::default() };
        self.commit()
    }

    /// Commits the changes, durably. The caller has synced the volumes.
    fn commit(&mut self) -> Result<()> {
        if edits::Edit::is_empty(&self.pending) {
            return Ok(());
        }
        self.chain.commit(&self.pending, SeqNo::ZERO, || self.all.as_edit())?;
        self.pending = Edit::default();
        self.floor = self.all.floor;
        Ok(())
    }
}

impl Values {
    /// Returns the value store of a segment table, with `host`'s barrier and memory.
    pub(crate) fn new(
        table: Table,
        geometry: Geometry,
        volumes: Volumes,
        budget: &Arc<MemoryBudget>,
        health: &Arc<Health>,
        barrier: &Arc<dyn Barrier>,
    ) -> Self {
        let segment = |described: &Described| {
            let Described { number, range, place, .. } = *described;
            (number, Arc::new(Segment { number, range, place }))
        };
        Self {
            geometry,
            groups: table.all.ranges.iter().map(|range| Group::new(*range)).collect(),
            segments: RwLock::new(table.all.segments.values().map(segment).collect()),
            volumes,
            next: AtomicU64::new(table.all.floor),
            table: Mutex::new(Some(table)),
            flusher: Mutex::default(),
            buffers: Arc::new(MemtableMemory::new(budget)),
            counts: Counts::default(),
            entries: Account::new(budget),
            health: Arc::clone(health),
            barrier: Arc::clone(barrier),
        }
    }

    /// Returns the group of a position.
    pub(crate) fn group(&self, position: u64) -> &Arc<Group> {
        let bits = self.groups.len().trailing_zeros();
        let index = position.checked_shr(u64::BITS - bits).unwrap_or(0);
        &self.groups[index as usize]
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

    /// Returns the bytes of the footers of segments that are not sealed.
    pub(crate) fn entries_bytes(&self) -> u64 {
        self.entries.bytes()
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

    /// Removes a segment that no table names, for readers.
    pub(crate) fn forget(&self, number: u64) {
        self.segments.write().remove(&number);
    }

    /// Returns the room of all places that no segment has to the device: a crash may have left
    /// bytes there.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn discard_unknown(&self) -> Result<()> {
        self.make_durable()?;
        self.noted(self.volumes.discard_unknown())
    }

    /// Makes the segment table that an opening has found durable. The segments that it names are
    /// durable already.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn make_durable(&self) -> Result<()> {
        self.noted(self.with_table(|table| table.chain.make_durable()))
    }

    /// Syncs the volumes, and commits the segment table.
    ///
    /// # Errors
    /// The device's; [`Error::Closed`].
    pub(crate) fn sync_and_commit(&self) -> Result<()> {
        self.volumes.sync()?;
        self.with_table(Table::commit)
    }

    /// Reserves more segment numbers, durably, if `number` is not reserved. (G2)
    fn reserve_number(&self, number: u64) -> Result<()> {
        let is_reserved = self.with_table(|table| Ok(number < table.floor))?;
        if is_reserved {
            return Ok(());
        }
        // A pending change may say that a segment is sealed, and so its footer has to be durable.
        self.volumes.sync()?;
        self.with_table(|table| {
            let floor = number.saturating_add(NUMBERS_AHEAD);
            (table.pending.floor, table.all.floor) = (Some(floor), floor);
            table.commit()
        })
    }

    /// Ends all changes: the store is closed.
    pub(crate) fn close(&self) {
        let _flusher = self.flusher.lock();
        *self.table.lock() = None;
    }

    /// A failure that does not pass stops later writes (law L5).
    fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done
            && error.stops_writes()
        {
            self.health.fail(error);
        }
        done
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}
