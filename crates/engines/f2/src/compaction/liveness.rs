//! Which records of a piece of the hot log, or of a single one, live: those with no newer one of
//! their key in the log.
//!
//! 1. The chain of each is followed through memory, protected.
//! 2. If a chain continues on disk, its records there are read, those of many chains together,
//!    until each chain has reached a record of the key, or the record that is checked.

use engine::Result;
use workers::StopToken;

use super::copy::lost_above;
use crate::address::LogAddress;
use crate::hybrid_log::{Place, Stretch, Wanted};
use crate::record::Stored;
use crate::store::Shared;

/// Records that are checked before the epoch is refreshed.
const PROTECTED_PER_TURN: usize = 64;
/// Records of a page that are checked together, so that the reads that they need run at the same
/// time.
const RECORDS_PER_TURN: usize = 1 << 10;

/// A record, and whether it lives.
pub(super) struct CheckedRecord<'a> {
    pub(super) at: LogAddress,
    pub(super) stored: Stored<'a>,
    pub(super) lives: bool,
    /// The head that its chain had, if it lives: from there down to it there is no other of its
    /// key.
    pub(super) searched: LogAddress,
}

/// Calls `each` with the records of a page that are on a chain, not checked yet, some at a time.
pub(super) fn in_groups(
    stretch: &Stretch,
    each: &mut dyn FnMut(&mut [CheckedRecord<'_>]) -> Result<()>,
) -> Result<()> {
    let mut some = Vec::with_capacity(RECORDS_PER_TURN);
    stretch.records(&mut |at, stored| {
        if !stored.header.is_invalid() {
            some.push(CheckedRecord { at, stored: *stored, lives: false, searched: at });
        }
        if some.len() == RECORDS_PER_TURN {
            each(&mut some)?;
            some.clear();
        }
        Ok(())
    })?;
    each(&mut some)
}

/// Verdict on a record from the part of its chain that was searched.
pub(super) enum Liveness {
    Newest,
    Dead,
    /// The chain above it continues here, on disk.
    OnDisk(LogAddress),
}

impl Shared {
    /// Checks `records`, which are on disk in the hot log. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(super) fn check_liveness(
        &self,
        records: &mut [CheckedRecord<'_>],
        stop: &StopToken,
    ) -> Result<()> {
        let mut open = Vec::new();
        self.check_liveness_in_memory(records, &mut |number, _, next| open.push((number, next)));
        while !open.is_empty() && !stop.is_stopping() {
            open = self.step_on_disk(records, open, stop)?;
        }
        Ok(())
    }

    /// Checks those of `records` whose chains lead to them through memory. For each of the others,
    /// which are not live as far as is known, it calls `on_disk` with the address at which its
    /// chain continues. The caller is not protected.
    pub(super) fn check_liveness_in_memory(
        &self,
        records: &mut [CheckedRecord<'_>],
        on_disk: &mut dyn FnMut(usize, &CheckedRecord<'_>, LogAddress),
    ) {
        for (some, checked) in records.chunks_mut(PROTECTED_PER_TURN).enumerate() {
            let _guard = self.epochs.protect();
            for (number, record) in checked.iter_mut().enumerate() {
                let liveness = self.liveness_of(record);
                record.lives = matches!(liveness, Liveness::Newest);
                if let Liveness::OnDisk(next) = liveness {
                    on_disk(some * PROTECTED_PER_TURN + number, record, next);
                }
            }
        }
    }

    /// Follows the chain of a record's key through memory. The caller is protected.
    fn liveness_of(&self, checked: &mut CheckedRecord<'_>) -> Liveness {
        let CheckedRecord { at, stored, searched, .. } = checked;
        let Some(slot) = self.hot.index.find(self.hash(stored.key)) else {
            return Liveness::Dead;
        };
        *searched = self.cache.log_head(slot.address());
        let mut next = *searched;
        while next > *at {
            match self.hot.log.place(next) {
                Place::Memory(record) if record.is_of(stored.key) => return Liveness::Dead,
                Place::Memory(record) => next = record.header().previous(),
                Place::Disk => return Liveness::OnDisk(next),
                Place::Truncated => return Liveness::Dead,
            }
        }
        liveness_at(next, *at)
    }

    /// Reads the next record of each chain, and returns the chains that continue.
    fn step_on_disk(
        &self,
        records: &mut [CheckedRecord<'_>],
        open: Vec<(usize, LogAddress)>,
        stop: &StopToken,
    ) -> Result<Vec<(usize, LogAddress)>> {
        let wanted = open.iter().map(|(number, next)| Wanted {
            address: *next,
            bytes: None,
            payload: *number,
        });
        let mut go_on = Vec::new();
        self.hot.log.read_records(wanted.collect(), stop, &mut |number, newer| {
            let CheckedRecord { at, stored, lives, .. } = &mut records[number];
            let newer = newer.ok_or_else(|| lost_above(*at))?;
            let is_other = newer.key != stored.key;
            let next = if is_other { newer.header.previous() } else { LogAddress::NONE };
            if next > *at {
                go_on.push((number, next));
            } else {
                *lives = matches!(liveness_at(next, *at), Liveness::Newest);
            }
            Ok(())
        })?;
        Ok(go_on)
    }
}

/// Returns the verdict on the record at `at` whose chain has been followed down to `next`: a record
/// that lost the race to be linked is on no chain.
pub(super) fn liveness_at(next: LogAddress, at: LogAddress) -> Liveness {
    if next == at { Liveness::Newest } else { Liveness::Dead }
}
