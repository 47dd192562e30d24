//! Cold to cold: the live records in the oldest part of the cold log are appended to it again.
//!
//! The part is read in pieces of a number of records for which there is memory. For each piece:
//!
//! 1. Its records' positions and addresses are collected, and looked up in the cold index, each
//!    chunk once. A record that no entry names is dead. One with entries of the same bits in front
//!    of it is pending: they may have its key.
//! 2. The records in front of a pending record are read, and their keys compared. If one is of the
//!    same key, the record is dead, and its entry is to be removed ([X2] of `docs/design/f2.md`). A
//!    record that cannot be read decides nothing: the pending record is copied. That brings no old
//!    value back. An entry that is changed keeps its place [K1 of `cold_index/chunk`], so a lookup
//!    of the key finds the damaged record first, and returns an error. If the damaged record can be
//!    read again, a later round finds the copy dead.
//! 3. The piece is read again, by several threads, each with a page of its own. Live records are
//!    appended, and the entry of each is to be changed to the copy ([X3]); if the entry was removed
//!    meanwhile, the copy is dead too. The order of copies means nothing. At most one record of
//!    each key is live, except for records of which nothing was decided; the places of their
//!    entries show which of these is newer [K1].
//! 4. The changes are applied to the cold index, each chunk once.
//!
//! Then the cold log begins behind the part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{Error, Result};
use sync::locks::Mutex;
use workers::StopToken;

use super::liveness::{CheckedRecord, in_groups};

use crate::address::LogAddress;
use crate::cold::Cold;
use crate::cold_index::{Moves, Verdict};
use crate::compaction::Copied;
use crate::hybrid_log::{Scan, Stretch};
use crate::store::Shared;

/// Margin of addresses: a piece ends before its end or the log's tail is this near to the greatest
/// address that a move can have.
const FAR: u64 = 1 << 34;
/// Pending records whose keys are in memory at the same time, with the records in front of them.
const PENDING_PER_TURN: usize = 1 << 10;
/// Share of the memory for a piece that the keys of pending records take, as a divisor; one key is
/// always taken.
const KEYS_SHARE: u64 = 4;
/// Bytes of memory of a piece for each record: its move, and a pending pair for every second
/// record.
const BYTES_PER_RECORD: u64 = Moves::BYTES + size_of::<(LogAddress, LogAddress)>() as u64 / 2;

/// Calls `work` on all items, at most `at_once` of them in one call. `work` returns the items for
/// which it had no room, never all of them. The next portion then has the number of items for which
/// there was room, and portions grow again when there is more.
fn in_portions<T>(
    mut items: Vec<T>,
    at_once: usize,
    work: &mut dyn FnMut(&[T]) -> Result<Vec<T>>,
) -> Result<()> {
    let mut portion = at_once;
    while !items.is_empty() {
        let some = items.split_off(items.len().saturating_sub(portion));
        let left = work(&some)?;
        portion = match some.len() - left.len() {
            all if left.is_empty() => (2 * all).clamp(1, at_once),
            done => done.max(1),
        };
        items.extend(left);
    }
    Ok(())
}

/// Step 3.
struct Copy {
    shared: Arc<Shared>,
    scan: Mutex<Scan>,
    moves: Mutex<Moves>,
    copied: Mutex<Copied>,
    error: Mutex<Option<Error>>,
    stop: StopToken,
}

impl Shared {
    /// Appends the live records between `from` and `until`, which are on disk, again. `None`: it
    /// was stopped; copies that were appended until then are valid, and the rest stays at its old
    /// place.
    pub(super) fn copy_cold(
        self: &Arc<Self>,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let mut at = from;
        while at < until {
            let (mut moves, end) = self.collect(cold, at, until, stop)?;
            self.resolve_cold(cold, &mut moves, stop)?;
            if stop.is_stopping() {
                // A record that was not examined counts as unnamed.
                return Ok(None);
            }
            let (mut moves, of_piece) = self.copy_piece(cold, (at, end), moves, stop)?;
            copied += of_piece;
            if stop.is_stopping() || !cold.index.apply_moves(&mut moves, stop)? {
                return Ok(None);
            }
            at = end;
            self.compactions.cold.figures.note_progress(at);
        }
        Ok(Some(copied))
    }

    /// Does the first half of step 1: returns the records from `from` on, and the end of the piece.
    fn collect(
        &self,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<(Moves, LogAddress)> {
        let mut moves = Moves::new(from, cold.log.tail());
        let mut scan = Scan::new(&cold.log.geometry, from, until);
        let mut end = from;
        let room = (self.compactions.work.piece - self.compactions.work.piece / KEYS_SHARE).max(1);
        while (moves.len() as u64) * BYTES_PER_RECORD < room
            && moves.reaches(end.plus(FAR), cold.log.tail().plus(FAR))
            && !stop.is_stopping()
        {
            let Some(stretch) = scan.next(&cold.log.segments)? else { return Ok((moves, until)) };
            stretch.records(&mut |at, stored| {
                if !stored.header.is_invalid() {
                    moves.push(self.hot.index.position(self.hash(stored.key)), at);
                }
                Ok(())
            })?;
            end = stretch.end();
        }
        Ok((moves, end))
    }

    /// The rest of step 1, and step 2.
    fn resolve_cold(&self, cold: &Cold, moves: &mut Moves, stop: &StopToken) -> Result<()> {
        // Each pending record, with a record in front of it.
        let mut pending: Vec<(LogAddress, LogAddress)> = Vec::new();
        cold.index.check_liveness(moves, stop, &mut |at, newer| pending.push((at, newer)))?;
        pending.sort_unstable();
        in_portions(pending, PENDING_PER_TURN, &mut |some| match stop.is_stopping() {
            true => Ok(Vec::new()),
            false => self.resolve(cold, moves, some, stop),
        })
    }

    /// Compares the keys of some pending records with those of the records in front of them.
    /// Returns the pairs for whose keys there was no room.
    fn resolve(
        &self,
        cold: &Cold,
        moves: &mut Moves,
        pending: &[(LogAddress, LogAddress)],
        stop: &StopToken,
    ) -> Result<Vec<(LogAddress, LogAddress)>> {
        let mut keys: BTreeMap<LogAddress, Box<[u8]>> = BTreeMap::new();
        let mut without_room: BTreeSet<LogAddress> = BTreeSet::new();
        let mut room = self.compactions.work.piece / KEYS_SHARE;
        let mut own: Vec<LogAddress> = pending.iter().map(|(at, _)| *at).collect();
        own.dedup();
        cold.each_record(own.into_iter().map(|at| (at, ())), stop, &mut |(), at, stored| {
            let Some(stored) = stored else { return Ok(()) };
            if keys.is_empty() || stored.key.len() as u64 <= room {
                room = room.saturating_sub(stored.key.len() as u64);
                keys.insert(at, stored.key.into());
            } else {
                without_room.insert(at);
            }
            Ok(())
        })?;
        let with_room = pending.iter().enumerate().filter(|(_, (at, _))| keys.contains_key(at));
        let newer = with_room.map(|(number, (_, newer))| (*newer, number)).collect();
        // A record that no longer exists was copied, or is outdated itself; and the key of a record
        // that cannot be read is unknown. Both cases leave the record undecided, so it is copied.
        cold.each_readable(newer, stop, &mut |number, _, stored| {
            let at = pending[number].0;
            if stored.is_some_and(|stored| keys.get(&at).is_some_and(|key| **key == *stored.key))
                && let Some(number) = moves.number_of(at)
            {
                moves.decide(number, Verdict::Outdated);
            }
            Ok(())
        })?;
        Ok(pending.iter().copied().filter(|(at, _)| without_room.contains(at)).collect())
    }

    fn copy_piece(
        self: &Arc<Self>,
        cold: &Cold,
        (from, end): (LogAddress, LogAddress),
        moves: Moves,
        stop: &StopToken,
    ) -> Result<(Moves, Copied)> {
        let step = Arc::new(Copy {
            shared: Arc::clone(self),
            scan: Mutex::new(Scan::new(&cold.log.geometry, from, end)),
            moves: Mutex::new(moves),
            copied: Mutex::default(),
            error: Mutex::default(),
            stop: stop.clone(),
        });
        let work = Arc::clone(&step);
        self.in_company(move || work.run());
        let step = Arc::into_inner(step).expect("all workers have ended");
        match step.error.into_inner() {
            Some(error) => Err(error),
            None => Ok((step.moves.into_inner(), step.copied.into_inner())),
        }
    }
}

impl Copy {
    /// The work of each thread.
    fn run(&self) {
        if let Err(error) = self.copy_pages() {
            self.error.lock().get_or_insert(error);
        }
    }

    fn copy_pages(&self) -> Result<()> {
        let Some(cold) = &self.shared.cold else { return Ok(()) };
        while !self.stop.is_stopping() && self.error.lock().is_none() {
            let stretch = self.scan.lock().next(&cold.log.segments)?;
            let Some(stretch) = stretch else { return Ok(()) };
            self.copy_stretch(cold, &stretch)?;
        }
        Ok(())
    }

    fn copy_stretch(&self, cold: &Cold, stretch: &Stretch) -> Result<()> {
        self.copied.lock().bytes += stretch.len() as u64;
        in_groups(stretch, &mut |records| {
            let Some(first) = self.check_records(records) else { return Ok(()) };
            let mut copied = Copied { records: records.len() as u64, ..Copied::default() };
            let mut copies = Vec::new();
            for (number, record) in (first..).zip(&*records).filter(|(_, record)| record.lives) {
                let CheckedRecord { stored, .. } = record;
                copies.push((number, cold.append(stored.key, stored.value.unwrap_or_default())?));
                copied.records_live += 1;
                copied.bytes_live += stored.bytes as u64;
            }
            let mut moves = self.moves.lock();
            for (number, copy) in copies {
                moves.decide(number, Verdict::Copied(copy));
            }
            drop(moves);
            *self.copied.lock() += copied;
            Ok(())
        })
    }

    /// Sets for consecutive records of a page whether they are live, and returns the number of the
    /// first one.
    fn check_records(&self, records: &mut [CheckedRecord<'_>]) -> Option<usize> {
        let moves = self.moves.lock();
        let first = moves.number_of(records.first()?.at).expect("a piece reads the same twice");
        for (number, record) in (first..).zip(records) {
            let (seen, verdict) = moves.verdict(number).expect("a piece reads the same twice");
            assert_eq!(seen, record.at, "a piece reads the same twice");
            record.lives = verdict == Verdict::Lives;
        }
        Some(first)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
