//! Copying live records to the tail.

use std::ops::AddAssign;

use engine::{Corruption, Error, Result};
use workers::StopToken;

use super::liveness::{CheckedRecord, in_groups};
use super::pending_liveness::PendingLiveness;
use crate::address::LogAddress;
use crate::hybrid_log::{PageFull, Place, Scan};
use crate::key_hash::KeyHash;
use crate::record::Shape;
use crate::store::Shared;

/// Records and bytes that a round has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) records: u64,
    pub(crate) records_live: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_live: u64,
}

impl AddAssign for Copied {
    fn add_assign(&mut self, more: Self) {
        self.records += more.records;
        self.records_live += more.records_live;
        self.bytes += more.bytes;
        self.bytes_live += more.bytes_live;
    }
}

/// The chain's verdict on a record.
enum Verdict {
    /// It is the newest of its key, or has been copied: nothing is left to do.
    Copied,
    /// There is a newer one, or the record was never linked.
    Dead,
    /// The new part of the chain above it continues here, on disk.
    OnDisk { head: LogAddress, from: LogAddress },
    /// Another record of the chain was linked; look again.
    Lost { head: LogAddress },
}

/// The records above a record that is compacted are not dropped before it. If it were taken for
/// dead here, a record could be lost.
pub(super) fn lost_above(at: LogAddress) -> Error {
    Corruption::new("the chain above a record that is compacted ends too soon", at.get()).into()
}

impl Shared {
    /// Copies the live records between `from` and `until`, which are on disk. `None`: it was
    /// stopped. Memory: one page, the memory reserved for notes, and the memory of the reads in
    /// flight. Reads of the device: the part itself, and the records on disk above each record in
    /// its chain, many in one step ([`super::pending_liveness`]).
    pub(crate) fn copy_live(
        &self,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let mut pending = PendingLiveness::within(self.compactions.work.notes);
        let mut scan = Scan::new(&self.hot.log.geometry, from, until);
        while !stop.is_stopping()
            && let Some(stretch) = scan.next(&self.hot.log.segments)?
        {
            copied.bytes += stretch.len() as u64;
            in_groups(&stretch, &mut |records| {
                copied.records += records.len() as u64;
                // A tombstone is never copied [C2].
                self.check_liveness_in_memory(records, &mut |_, record, next| {
                    if record.stored.value.is_some() {
                        pending.push(record, next);
                    }
                });
                for record in records.iter().filter(|record| record.lives) {
                    if self.copy_if_live(record)? {
                        copied.records_live += 1;
                        copied.bytes_live += record.stored.bytes as u64;
                    }
                }
                match pending.are_many() {
                    true => self.copy_pending(&mut pending, stop, &mut copied),
                    false => Ok(()),
                }
            })?;
        }
        self.copy_pending(&mut pending, stop, &mut copied)?;
        Ok((!stop.is_stopping()).then_some(copied))
    }

    /// Copies one record that was live when it was checked, unless it is dead now; returns whether
    /// it did.
    fn copy_if_live(&self, checked: &CheckedRecord<'_>) -> Result<bool> {
        let CheckedRecord { at, stored, searched, .. } = *checked;
        // [C2]
        let Some(value) = stored.value else { return Ok(false) };
        self.copy_newest(stored.key, Some(value), at, searched)
    }

    /// Appends the record at `at` again, or the tombstone, if it still is the newest of its key. It
    /// was the newest when the chain's head was `searched`. Returns whether it did; the caller is
    /// not protected.
    pub(super) fn copy_newest(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        at: LogAddress,
        mut searched: LogAddress,
    ) -> Result<bool> {
        let hash = self.hash(key);
        let shape = Shape { key_bytes: key.len(), value_bytes: value.map_or(0, <[u8]>::len) };
        let bytes = shape.bytes() as u64;
        // The records above `at` and at or below `searched` are not of the key.
        loop {
            let room = self.hot.log.reserve(bytes)?;
            let copy = || self.try_copy(hash, key, value, at, searched);
            let verdict = self.with_room(&room, copy)?;
            drop(room);
            match verdict {
                Verdict::Copied => return Ok(true),
                Verdict::Dead => return Ok(false),
                Verdict::Lost { head } => searched = head,
                Verdict::OnDisk { head, from } => {
                    if !self.is_newest(key, from, searched, at)? {
                        return Ok(false);
                    }
                    searched = head;
                }
            }
        }
    }

    /// Appends a copy of the record at `at`, if the chain above `searched` is in memory and has no
    /// record of the key. The caller is protected.
    fn try_copy(
        &self,
        hash: KeyHash,
        key: &[u8],
        value: Option<&[u8]>,
        at: LogAddress,
        searched: LogAddress,
    ) -> std::result::Result<Verdict, PageFull> {
        let Some(slot) = self.hot.index.find(hash) else { return Ok(Verdict::Dead) };
        let head = self.cache.log_head(slot.address());
        let mut next = head;
        while next > searched {
            match self.hot.log.place(next) {
                Place::Memory(record) if record.is_of(key) => return Ok(Verdict::Dead),
                Place::Memory(record) => next = record.header().previous(),
                Place::Disk => return Ok(Verdict::OnDisk { head, from: next }),
                Place::Truncated => return Ok(Verdict::Dead),
            }
        }
        // The end of the walk shows whether the record is on the chain at all: one that lost the
        // race to be linked is not, and must not become live.
        if next < searched {
            return Ok(Verdict::Dead);
        }
        let shape = Shape { key_bytes: key.len(), value_bytes: value.map_or(0, <[u8]>::len) };
        let copy = self.hot.log.try_allocate(shape.bytes() as u64)?;
        self.hot.log.live(copy).write(head, key, value);
        debug_assert!(copy > at, "a copy lies behind its original");
        if slot.compare_exchange(copy).is_ok() {
            return Ok(Verdict::Copied);
        }
        self.hot.log.live(copy).invalidate();
        Ok(Verdict::Lost { head })
    }

    /// Returns whether the chain that continues at `from` on disk leads down to `searched` without
    /// another record of `key`. The caller is not protected.
    pub(super) fn is_newest(
        &self,
        key: &[u8],
        from: LogAddress,
        searched: LogAddress,
        at: LogAddress,
    ) -> Result<bool> {
        let mut next = from;
        while next > searched {
            let step = self.hot.log.read_stored(next, |stored| {
                (stored.key != key).then_some(stored.header.previous())
            })?;
            match step {
                Some(Some(previous)) => next = previous,
                Some(None) => return Ok(false),
                None => return Err(lost_above(at)),
            }
        }
        Ok(next == searched)
    }
}
