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

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::Cold;
use crate::cold_index::Change;
use crate::compaction::Copied;
use crate::hybrid_log::stretches;
use crate::position::Position;
use crate::store::Shared;

/// A record of a piece.
struct Seen {
    at: LogAddress,
    position: Position,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Lives,
    /// No entry names it.
    Unnamed,
    /// There is a newer record of its key, so its entry goes with it.
    Outdated,
}

/// What a piece takes in memory for each record, at most: what is known of it, a change, and what its
/// look-up and the reads for one in doubt take, without its key.
const BYTES_PER_RECORD: u64 = 256;

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
            self.judge(cold, &mut seen, stop)?;
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
    ) -> Result<(Vec<Seen>, LogAddress)> {
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
                        bytes += BYTES_PER_RECORD + stored.key.len() as u64;
                        seen.push(Seen { at, position, verdict: Verdict::Unnamed });
                    }
                    Ok(())
                })
            })?;
            end = page_end;
        }
        Ok((seen, end))
    }

    /// The rest of step 1, and step 2.
    fn judge(&self, cold: &Cold, seen: &mut [Seen], stop: &StopToken) -> Result<()> {
        // Whatever stands in front of a record in doubt, and the record itself: both are read.
        let mut doubts: Vec<(LogAddress, usize)> = Vec::new();
        let places: Vec<(LogAddress, Position)> =
            seen.iter().map(|record| (record.at, record.position)).collect();
        let positions = places.iter().map(|(_, position)| *position);
        cold.look_up(positions, stop, &mut |number, addresses| {
            if let Some(place) = addresses.iter().position(|at| *at == places[number].0) {
                seen[number].verdict = Verdict::Lives;
                doubts.extend(addresses[..place].iter().map(|newer| (*newer, number)));
            }
            Ok(())
        })?;
        if doubts.is_empty() {
            return Ok(());
        }
        let mut in_doubt: Vec<usize> = doubts.iter().map(|(_, number)| *number).collect();
        in_doubt.dedup();
        let mut keys: Vec<Option<Box<[u8]>>> = seen.iter().map(|_| None).collect();
        let own: Vec<_> = in_doubt.iter().map(|number| (seen[*number].at, *number)).collect();
        cold.each_record(own.into_iter(), stop, &mut |number, _, stored| {
            keys[number] = stored.map(|stored| stored.key.into());
            Ok(())
        })?;
        cold.each_record(doubts.into_iter(), stop, &mut |number, _, stored| {
            // One that is gone was copied, or is outdated itself: undecided, so the record stays.
            if stored.is_some_and(|stored| keys[number].as_deref() == Some(stored.key)) {
                seen[number].verdict = Verdict::Outdated;
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
        seen: &[Seen],
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
                let Some(record) = next.next() else { return Ok(()) };
                debug_assert_eq!(record.at, at, "a piece reads the same twice");
                let (position, old) = (record.position, at);
                match record.verdict {
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
