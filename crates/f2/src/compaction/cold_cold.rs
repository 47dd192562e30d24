//! Cold to cold: what lives in the oldest part of the cold log is appended to it anew.
//!
//! The part is taken in pieces, of as many records as there is memory for. Of each piece:
//!
//! 1. Its records' positions and addresses are collected, and looked up in the cold index, each chunk
//!    once. A record that no entry names is dead. One with entries of the same bits in front of it
//!    is in doubt: they may be of its key.
//! 2. The records that stand in front of one in doubt are read, and their keys compared. If one is of
//!    the same key the record is dead, and its entry is to be taken out ([X2] of ADR 0009).
//! 3. The piece is read again. What lives is appended, and its entry is to be changed to the copy
//!    ([X3]); if the entry is gone by then, the copy is dead too.
//! 4. The changes are applied to the cold index, each chunk once.
//!
//! Then the cold log begins behind the part.

use std::cell::Cell;
use std::collections::BTreeMap;

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::Cold;
use crate::cold_index::Change;
use crate::compaction::Copied;
use crate::hybrid_log::stretches;
use crate::position::Position;
use crate::store::Shared;

/// A record of a piece, beside its position.
struct Seen {
    at: LogAddress,
    verdict: Cell<Verdict>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Lives,
    /// No entry names it.
    Unnamed,
    /// There is a newer record of its key, so its entry goes with it.
    Outdated,
}

/// Records in doubt whose keys are in memory at once, with those in front of them.
const DOUBTS_AT_ONCE: usize = 1 << 10;
/// What a piece takes in memory for each record: what is known of it, and a change.
const BYTES_PER_RECORD: u64 = (size_of::<(Position, Seen)>() + size_of::<Change>()) as u64;

impl Shared {
    /// Appends what lives between `from` and `until`, which are on disk, anew. `None`: it was
    /// stopped; what was appended until then is right, and the rest stays where it is.
    pub(super) fn copy_cold(
        &self,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let mut at = from;
        while at < until {
            if stop.is_stopping() {
                return Ok(None);
            }
            let (mut seen, end) = self.collect(cold, at, until)?;
            self.judge_cold(cold, &mut seen, stop)?;
            if stop.is_stopping() {
                // What was not looked at counts as unnamed.
                return Ok(None);
            }
            self.copy_piece(cold, at, end, &seen, &mut copied)?;
            at = end;
        }
        Ok(Some(copied))
    }

    /// The first half of step 1: the records from `from` on, and where the piece ends.
    fn collect(
        &self,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
    ) -> Result<(Vec<(Position, Seen)>, LogAddress)> {
        let mut seen = Vec::new();
        let mut bytes = 0;
        let mut end = from;
        let geometry = &cold.log.geometry;
        while end < until && bytes < self.work_bytes {
            let page_end = geometry.page_begin(geometry.page(end) + 1).min(until);
            stretches(&cold.log.segments, geometry, end, page_end, &mut |stretch| {
                stretch.records(&mut |at, stored| {
                    if !stored.header.is_invalid() {
                        let position = self.index.position(self.hash(stored.key));
                        bytes += BYTES_PER_RECORD;
                        seen.push((position, Seen { at, verdict: Cell::new(Verdict::Unnamed) }));
                    }
                    Ok(())
                })
            })?;
            end = page_end;
        }
        Ok((seen, end))
    }

    /// The rest of step 1, and step 2. What is seen is in the order of addresses again afterwards.
    fn judge_cold(
        &self,
        cold: &Cold,
        seen: &mut [(Position, Seen)],
        stop: &StopToken,
    ) -> Result<()> {
        // Each record in doubt, and those that stand in front of it.
        let mut doubts: Vec<(LogAddress, LogAddress)> = Vec::new();
        cold.index.visit(seen, stop, &mut |record, addresses| {
            if let Some(place) = addresses.iter().position(|at| *at == record.at) {
                record.verdict.set(Verdict::Lives);
                doubts.extend(addresses[..place].iter().map(|newer| (record.at, *newer)));
            }
            Ok(())
        })?;
        seen.sort_unstable_by_key(|(_, record)| record.at);
        doubts.sort_unstable();
        for some in doubts.chunks(DOUBTS_AT_ONCE) {
            self.settle(cold, seen, some, stop)?;
        }
        Ok(())
    }

    /// Compares the keys of some records in doubt with those of the records in front of them.
    fn settle(
        &self,
        cold: &Cold,
        seen: &[(Position, Seen)],
        doubts: &[(LogAddress, LogAddress)],
        stop: &StopToken,
    ) -> Result<()> {
        let mut keys: BTreeMap<LogAddress, Box<[u8]>> = BTreeMap::new();
        let mut own: Vec<LogAddress> = doubts.iter().map(|(at, _)| *at).collect();
        own.dedup();
        cold.each_record(own.into_iter().map(|at| (at, ())), stop, &mut |(), at, stored| {
            keys.extend(stored.map(|stored| (at, stored.key.into())));
            Ok(())
        })?;
        let newer = doubts.iter().map(|(at, newer)| (*newer, *at));
        cold.each_record(newer, stop, &mut |at, _, stored| {
            // One that is gone was copied, or is outdated itself: undecided, so the record stays.
            if stored.is_some_and(|stored| keys.get(&at).is_some_and(|key| **key == *stored.key))
                && let Ok(number) = seen.binary_search_by_key(&at, |(_, record)| record.at)
            {
                seen[number].1.verdict.set(Verdict::Outdated);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Steps 3 and 4.
    fn copy_piece(
        &self,
        cold: &Cold,
        from: LogAddress,
        end: LogAddress,
        seen: &[(Position, Seen)],
        copied: &mut Copied,
    ) -> Result<()> {
        let mut changes = Vec::new();
        let mut next = seen.iter();
        stretches(&cold.log.segments, &cold.log.geometry, from, end, &mut |stretch| {
            copied.bytes += stretch.len() as u64;
            stretch.records(&mut |at, stored| {
                copied.records += 1;
                if stored.header.is_invalid() {
                    return Ok(());
                }
                let Some((position, record)) = next.next() else { return Ok(()) };
                debug_assert_eq!(record.at, at, "a piece reads the same twice");
                let (position, old) = (*position, at);
                match record.verdict.get() {
                    Verdict::Unnamed => {}
                    Verdict::Outdated => {
                        changes.push(Change { position, old, new: LogAddress::NONE });
                    }
                    Verdict::Lives => {
                        let new = cold.append(stored.key, stored.value.unwrap_or_default())?;
                        changes.push(Change { position, old, new });
                        copied.records_live += 1;
                        copied.bytes_live += stored.bytes as u64;
                    }
                }
                Ok(())
            })
        })?;
        // What is missed was taken out meanwhile: the copy is dead, as its record is.
        cold.index.apply(&mut changes, &StopToken::default())?;
        Ok(())
    }
}
