//! Compaction as FASTER had it first, which the F2 paper compares with (its section 5): kept as a
//! baseline for a single log, chosen by [`crate::Options::scan_compaction`].
//!
//! 1. The part is read, and the newest record of each of its keys is put into a table in memory.
//! 2. The rest of the log on disk is read, and every key that is met leaves the table.
//! 3. Each candidate that is left in the table is appended, unless the unread part of its chain
//!    has a record of its key.
//!
//! # Memory
//! The table holds every key and value of the part at the same time: the bytes of the part, and
//! more. That it is not in the budget is one of the reasons why it is only a baseline.

use std::collections::HashMap;

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::compaction::Copied;
use crate::hybrid_log::{PageFull, Scan};
use crate::ops::Found;
use crate::record::Shape;
use crate::store::Shared;

/// The newest value of each key of the part, as long as no newer record of the key was met.
type Candidates = HashMap<Box<[u8]>, Box<[u8]>>;

/// How an attempt to append a candidate ended.
enum Attempt {
    Appended,
    Dead,
    /// The part of the chain that was not read continues here, on disk.
    OnDisk {
        head: LogAddress,
        from: LogAddress,
    },
}

impl Shared {
    /// Copies the live records between `from` and `until`, which are on disk. `None`: it was
    /// stopped.
    pub(super) fn copy_by_scan(
        &self,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let Some(mut candidates) = self.candidates(from, until, stop, &mut copied)? else {
            return Ok(None);
        };
        let read_until = self.hot.log.flushed();
        if !self.strike_out(&mut candidates, until, read_until, stop)? {
            return Ok(None);
        }
        // The same store is compacted the same way each time.
        let mut candidates: Vec<_> = candidates.into_iter().collect();
        candidates.sort_unstable();
        for (key, value) in candidates {
            if stop.is_stopping() {
                return Ok(None);
            }
            if self.append_candidate(&key, &value, read_until)? {
                let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
                copied.records_live += 1;
                copied.bytes_live += shape.bytes() as u64;
            }
        }
        Ok(Some(copied))
    }

    /// Step 1.
    fn candidates(
        &self,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
        copied: &mut Copied,
    ) -> Result<Option<Candidates>> {
        let mut candidates = Candidates::new();
        let mut scan = Scan::new(&self.hot.log.geometry, from, until);
        while let Some(stretch) = scan.next(&self.hot.log.segments)? {
            if stop.is_stopping() {
                return Ok(None);
            }
            copied.bytes += stretch.len() as u64;
            stretch.records(&mut |_, stored| {
                copied.records += 1;
                match stored.value {
                    _ if stored.header.is_invalid() => {}
                    Some(value) => drop(candidates.insert(stored.key.into(), value.into())),
                    None => drop(candidates.remove(stored.key)),
                }
                Ok(())
            })?;
        }
        Ok(Some(candidates))
    }

    /// Step 2. `false`: it was stopped.
    fn strike_out(
        &self,
        candidates: &mut Candidates,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<bool> {
        let mut scan = Scan::new(&self.hot.log.geometry, from, until);
        while let Some(stretch) = scan.next(&self.hot.log.segments)? {
            if stop.is_stopping() {
                return Ok(false);
            }
            stretch.records(&mut |_, stored| {
                if !stored.header.is_invalid() {
                    candidates.remove(stored.key);
                }
                Ok(())
            })?;
        }
        Ok(true)
    }

    /// Does step 3, for one key. Records below `read_until` were read.
    fn append_candidate(&self, key: &[u8], value: &[u8], read_until: LogAddress) -> Result<bool> {
        let mut searched = read_until;
        let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
        let bytes = shape.bytes() as u64;
        loop {
            let room = self.hot.log.reserve(bytes)?;
            let appended = self.with_room(&room, || self.try_append(key, value, searched))?;
            drop(room);
            match appended {
                Attempt::Appended => return Ok(true),
                Attempt::Dead => return Ok(false),
                Attempt::OnDisk { head, from } => {
                    if self.is_on_disk(key, from, searched)? {
                        return Ok(false);
                    }
                    searched = head.plus(1);
                }
            }
        }
    }

    /// Returns whether the chain that continues at `from` on disk has a record of the key at or
    /// above `until`.
    fn is_on_disk(&self, key: &[u8], from: LogAddress, until: LogAddress) -> Result<bool> {
        let mut next = from;
        while next >= until {
            let previous = self.hot.log.read_stored(next, |stored| {
                (stored.key != key).then_some(stored.header.previous())
            })?;
            match previous.flatten() {
                Some(previous) => next = previous,
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Appends the value if the chain from `searched` on is in memory and has no record of the key.
    /// The caller is protected.
    fn try_append(
        &self,
        key: &[u8],
        value: &[u8],
        searched: LogAddress,
    ) -> std::result::Result<Attempt, PageFull> {
        let hash = self.hash(key);
        let Some(slot) = self.hot.index.find(hash) else { return Ok(Attempt::Dead) };
        let head = self.cache.log_head(slot.address());
        match self.walk(head, searched, key) {
            Found::Here(..) => return Ok(Attempt::Dead),
            Found::OnDisk(from) => return Ok(Attempt::OnDisk { head, from }),
            Found::Nothing => {}
        }
        let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
        let copy = self.hot.log.try_allocate(shape.bytes() as u64)?;
        self.hot.log.live(copy).write(head, key, Some(value));
        if slot.compare_exchange(copy).is_ok() {
            return Ok(Attempt::Appended);
        }
        self.hot.log.live(copy).invalidate();
        // Another record of the chain was linked: its new part is searched.
        Ok(Attempt::OnDisk { head, from: LogAddress::NONE })
    }
}
