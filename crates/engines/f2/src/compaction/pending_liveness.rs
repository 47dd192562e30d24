//! Records of a single log that may live: a newer one of their chain is on disk.
//!
//! 1. They are gathered, with the addresses at which their chains continue, while the memory
//!    reserved for them lasts. The values stay on disk.
//! 2. Then all chains take a step together, in the order of addresses. So the device is read in few
//!    and long pieces: the more records, the fewer reads for each, and never more than the log has
//!    bytes.
//! 3. A record is live if its chain leads to it without another record of its key. Live records are
//!    read again, and copied.

use std::ops::Range;

use engine::Result;
use workers::StopToken;

use super::Copied;
use super::copy::lost_above;
use super::liveness::{CheckedRecord, Liveness, liveness_at};
use crate::address::LogAddress;
use crate::hybrid_log::Wanted;
use crate::store::Shared;

/// A record whose liveness is not known yet.
#[derive(Clone, Copy, Debug)]
struct PendingRecord {
    at: LogAddress,
    /// The head that its chain had; from there to `next` there is no other record of its key.
    searched: LogAddress,
    next: LogAddress,
    key: (u32, u32),
}

/// Bytes of memory of one record in addition to its key, also while all chains take their step.
/// This includes its place in the order, its read of the device, and its number among the chains
/// that continue.
const BYTES: u64 =
    (size_of::<PendingRecord>() + 2 * size_of::<Wanted<u32>>() + size_of::<u32>()) as u64;

/// Greatest memory that is reserved for these records. It suffices for one record in each piece
/// that the device reads of a log of some gigabytes.
const BYTES_MAX: u64 = 16 << 20;

/// The records that are gathered.
pub(super) struct PendingLiveness {
    records: Vec<PendingRecord>,
    keys: Vec<u8>,
    bytes_max: u64,
}

impl PendingLiveness {
    /// Makes an empty list of records that take at most the smaller of `bytes_max` and
    /// [`BYTES_MAX`].
    pub(super) fn within(bytes_max: u64) -> Self {
        Self { records: Vec::new(), keys: Vec::new(), bytes_max: bytes_max.min(BYTES_MAX) }
    }

    /// Adds a record whose chain continues at `next`, on disk.
    pub(super) fn push(&mut self, checked: &CheckedRecord<'_>, next: LogAddress) {
        let key = (self.keys.len() as u32, checked.stored.key.len() as u32);
        self.keys.extend_from_slice(checked.stored.key);
        self.records.push(PendingRecord { at: checked.at, searched: checked.searched, next, key });
    }

    /// Returns whether the memory reserved for them is used up.
    pub(super) fn are_many(&self) -> bool {
        self.records.len() as u64 * BYTES + self.keys.len() as u64 >= self.bytes_max
    }

    fn key(&self, record: &PendingRecord) -> &[u8] {
        let (begin, len) = record.key;
        let range: Range<usize> = begin as usize..(begin + len) as usize;
        self.keys.get(range).unwrap_or_default()
    }
}

impl Shared {
    /// Copies the live ones, and forgets all of them. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(super) fn copy_pending(
        &self,
        pending: &mut PendingLiveness,
        stop: &StopToken,
        copied: &mut Copied,
    ) -> Result<()> {
        let mut open: Vec<u32> = (0..pending.records.len() as u32).collect();
        let mut live = Vec::new();
        while !open.is_empty() && !stop.is_stopping() {
            open = self.step(pending, &open, &mut live, stop)?;
        }
        let wanted = live.iter().map(|number| Wanted {
            address: pending.records[*number as usize].at,
            bytes: None,
            payload: *number,
        });
        self.hot.log.read_records(wanted.collect(), stop, &mut |number, stored| {
            let PendingRecord { at, searched, .. } = pending.records[number as usize];
            let stored = stored.ok_or_else(|| lost_above(at))?;
            if self.copy_newest(stored.key, stored.value, at, searched)? {
                copied.records_live += 1;
                copied.bytes_live += stored.bytes as u64;
            }
            Ok(())
        })?;
        pending.records.clear();
        pending.keys.clear();
        Ok(())
    }

    /// Makes the chains of `open` take a step each, and returns the chains that continue.
    fn step(
        &self,
        pending: &mut PendingLiveness,
        open: &[u32],
        live: &mut Vec<u32>,
        stop: &StopToken,
    ) -> Result<Vec<u32>> {
        let wanted = open.iter().map(|number| Wanted {
            address: pending.records[*number as usize].next,
            bytes: None,
            payload: *number,
        });
        let mut go_on = Vec::new();
        self.hot.log.read_records(wanted.collect(), stop, &mut |number, newer| {
            let record = pending.records[number as usize];
            let newer = newer.ok_or_else(|| lost_above(record.at))?;
            if newer.key == pending.key(&record) {
                return Ok(());
            }
            let next = newer.header.previous();
            if next > record.at {
                pending.records[number as usize].next = next;
                go_on.push(number);
            } else if matches!(liveness_at(next, record.at), Liveness::Newest) {
                live.push(number);
            }
            Ok(())
        })?;
        Ok(go_on)
    }
}
