//! Many records of the log in one call, with few and long reads of the device.
//!
//! 1. Records in memory are copied and handed over immediately.
//! 2. The others are sorted by address, and become a read batch (`reads::Batch`). It reads records
//!    near each other in one segment together, with the bytes between them.
//! 3. Each record that was read is verified and handed over. A record that is longer than was
//!    guessed is read again, alone, unless all of it was read with others.

use std::sync::Arc;

use engine::{ReadSource, Result};
use memory_budget::MemoryBudget;
use reads::{Batch, RangeBytes, RangeRead, RangeReader, ReadPool};
use workers::StopToken;

use super::{HybridLog, Place, ReadOutcome, RecordRead};
use crate::address::LogAddress;
use crate::record::{Header, Read, Shape, Stored};

/// Longest spans in flight at the same time; more of shorter ones.
const FLIGHT_SPANS: usize = 8;
/// Bytes of the longest span, unless a page or the memory for reads is less: longer reads are no
/// faster on any device we know.
const SPAN_BYTES_MAX: usize = 256 << 10;
const SPAN_BYTES_MIN: usize = 64 << 10;
/// Bytes that are read for nothing rather than begin another read.
const GAP_BYTES_MAX: u64 = 32 << 10;

/// The means to read many records of the logs of a store.
pub(crate) struct RecordReads {
    /// The bytes in flight have a budget of their own. The store charges the bytes of its threads'
    /// calls from its opening to its close (`memory_use`).
    pool: ReadPool,
    source: Arc<dyn ReadSource>,
    /// Most bytes in flight of one call, or one record that is longer.
    bytes_max: u64,
}

impl RecordReads {
    /// Makes the means to read from `source`, with up to `bytes_max` bytes in flight.
    pub(crate) fn new(source: Arc<dyn ReadSource>, bytes_max: u64) -> Self {
        let pool = ReadPool::keeping_nothing(&Arc::new(MemoryBudget::new(bytes_max)));
        Self { pool, source, bytes_max }
    }
}

/// A record to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<P> {
    pub(crate) address: LogAddress,
    /// Its length, if that is known.
    pub(crate) bytes: Option<usize>,
    /// Comes back with the record.
    pub(crate) payload: P,
}

impl From<LogAddress> for Wanted<()> {
    fn from(address: LogAddress) -> Self {
        Self { address, bytes: None, payload: () }
    }
}

/// The callback of each record; `None`: the log was truncated beyond it.
pub(crate) type WithRecord<'a, P> = dyn FnMut(P, Option<&Stored<'_>>) -> Result<()> + 'a;

/// A record in memory, copied so that it can be used unprotected.
#[derive(Debug, Default)]
pub(crate) struct RecordCopy {
    key: Vec<u8>,
    value: Vec<u8>,
    is_tombstone: bool,
    previous: LogAddress,
}

/// The place of a record that was to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopiedFrom {
    /// It is in the copy.
    Memory,
    Disk,
    Truncated,
}

impl RecordCopy {
    /// The record as if it had been read from disk.
    pub(crate) fn stored(&self) -> Stored<'_> {
        let shape = Shape { key_bytes: self.key.len(), value_bytes: self.value.len() };
        Stored {
            header: Header::record(self.previous),
            key: &self.key,
            value: (!self.is_tombstone).then_some(&self.value),
            bytes: shape.bytes(),
        }
    }
}

/// Records that are being read.
struct Records<'a, P> {
    log: &'a HybridLog,
    /// The records that are not begun, in the order of their addresses.
    wanted: std::slice::Iter<'a, Wanted<P>>,
    stop: &'a StopToken,
    /// Whether the callback was called for every record.
    is_whole: bool,
    with: &'a mut WithRecord<'a, P>,
}

impl<P> Records<'_, P> {
    /// Returns whether the batch is stopped, and notes that it is not whole then.
    fn is_stopping(&mut self) -> bool {
        let is_stopping = self.stop.is_stopping();
        self.is_whole &= !is_stopping;
        is_stopping
    }
}

/// Returns the range of a read.
fn range_of<P>(read: RecordRead, payload: P) -> RangeRead<(RecordRead, P)> {
    let (file, offset, len) = (read.file(), read.offset(), read.len());
    RangeRead { file, offset, len, payload: (read, payload) }
}

impl<P: Copy> RangeReader<(RecordRead, P)> for Records<'_, P> {
    fn next_range(&mut self) -> Result<Option<RangeRead<(RecordRead, P)>>> {
        while let Some(Wanted { address, bytes, payload }) = self.wanted.next() {
            if self.is_stopping() {
                break;
            }
            match self.log.record_read_of(*address, *bytes)? {
                Some(read) => return Ok(Some(range_of(read, *payload))),
                None => (self.with)(*payload, None)?,
            }
        }
        Ok(None)
    }

    fn take_bytes(
        &mut self,
        (mut read, payload): (RecordRead, P),
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<(RecordRead, P)>>> {
        // The record may be longer than was guessed, and still be in the span.
        match read.check(bytes.map(|bytes| bytes.and_more))? {
            ReadOutcome::Record(stored) => (self.with)(payload, Some(&stored)).map(|()| None),
            ReadOutcome::Longer => Ok((!self.is_stopping()).then(|| range_of(read, payload))),
        }
    }
}

impl HybridLog {
    /// Copies the record at `address` if it is in memory. The caller is protected.
    pub(crate) fn copy_record(&self, address: LogAddress, into: &mut RecordCopy) -> CopiedFrom {
        match self.place(address) {
            Place::Memory(record) => {
                into.previous = record.header().previous();
                record.read_key(&mut into.key);
                into.is_tombstone = record.read(&mut into.value) == Read::Tombstone;
                CopiedFrom::Memory
            }
            Place::Disk => CopiedFrom::Disk,
            Place::Truncated => CopiedFrom::Truncated,
        }
    }

    /// Reads and verifies all wanted records and hands each to `with`, in any order. Returns
    /// `false` if it was stopped and `with` has not had all. Blocks; the caller is not protected,
    /// and neither is `with`, which may append to the log.
    ///
    /// # Errors
    /// Damage with its place; the storage's; `with`'s.
    pub(crate) fn read_records<P: Copy>(
        &self,
        mut wanted: Vec<Wanted<P>>,
        stop: &StopToken,
        with: &mut WithRecord<'_, P>,
    ) -> Result<bool> {
        wanted.sort_by_key(|wanted| wanted.address);
        let mut on_disk = Vec::new();
        let mut copy = RecordCopy::default();
        for wanted in wanted {
            if stop.is_stopping() {
                return Ok(false);
            }
            // A record on disk stays there, so this needs no protection to be true.
            if wanted.address < self.head() {
                on_disk.push(wanted);
                continue;
            }
            let guard = self.epochs.protect();
            let from = self.copy_record(wanted.address, &mut copy);
            drop(guard);
            match from {
                CopiedFrom::Memory => with(wanted.payload, Some(&copy.stored()))?,
                CopiedFrom::Disk => on_disk.push(wanted),
                CopiedFrom::Truncated => with(wanted.payload, None)?,
            }
        }
        let wanted = on_disk.iter();
        let mut records = Records { log: self, wanted, stop, is_whole: true, with };
        let RecordReads { pool, source, .. } = &*self.reads.many;
        pool.read_batch(source, self.batch(), &mut records)?;
        Ok(records.is_whole)
    }

    /// Reads and verifies one record and hands it to `with`. `None`: the log was truncated beyond
    /// it. One read of the device, two if the record is longer than was guessed; blocks, so the
    /// caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn read_stored<T>(
        &self,
        wanted: impl Into<Wanted<()>>,
        mut with: impl FnMut(&Stored<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut result = None;
        self.read_records(vec![wanted.into()], &StopToken::default(), &mut |(), stored| {
            result = stored.map(&mut with);
            Ok(())
        })?;
        Ok(result)
    }

    /// Returns the most bytes in flight of one call that reads many records.
    pub(crate) fn read_bytes_max(&self) -> u64 {
        self.reads.many.bytes_max
    }

    /// Returns the limits of a batch.
    fn batch(&self) -> Batch {
        let in_flight = self.read_bytes_max() as usize;
        // A few spans at the same time are faster than one.
        let share = (in_flight / 4).max(SPAN_BYTES_MIN);
        let span_bytes_max = SPAN_BYTES_MAX.min(share).min(self.geometry.page_bytes() as usize);
        let bytes_max = in_flight.min(FLIGHT_SPANS * span_bytes_max);
        Batch { gap: GAP_BYTES_MAX, span_bytes_max, bytes_max }
    }
}
