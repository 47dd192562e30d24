//! Hot to cold: what lives in the oldest part of the hot log moves to the cold log.
//!
//! 1. Each record of the part lives if the hot log has no newer one of its key. A value that lives
//!    is appended to the cold log, and a change of the cold index noted; of a tombstone its key is
//!    noted.
//! 2. Whenever so many notes have come together as there is memory for, they are applied to the cold
//!    index, each chunk once: values get entries, and tombstones take those of their key out.
//!    Until then cold-to-cold compaction leaves what was appended alone.
//! 3. When all are applied the hot log begins behind the part ([X1] of ADR 0009).
//!
//! Superfluous copies do no harm: what the hot log has of a key comes first.

use std::collections::HashSet;

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::Cold;
use crate::cold_index::Change;
use crate::compaction::Copied;
use crate::hybrid_log::{Place, Stretch, stretches};
use crate::position::Position;
use crate::record::Stored;
use crate::store::Shared;

/// Records that are judged before the epoch is refreshed.
const RECORDS_AT_ONCE: usize = 64;

/// What a note takes in memory, and a little of what applying it takes.
const BYTES_PER_NOTE: u64 = 32;

/// What is to be changed in the cold index.
#[derive(Default)]
struct Notes {
    changes: Vec<Change>,
    removals: Vec<(Position, Box<[u8]>)>,
    bytes: u64,
}

impl Notes {
    fn put(&mut self, position: Position, at: LogAddress) {
        self.bytes += BYTES_PER_NOTE;
        self.changes.push(Change { position, old: LogAddress::NONE, new: at });
    }

    fn remove(&mut self, position: Position, key: &[u8]) {
        self.bytes += 6 * BYTES_PER_NOTE + key.len() as u64;
        self.removals.push((position, key.into()));
    }
}

/// What the hot log says of a record.
enum Standing {
    Newest,
    Dead,
    /// The chain above it goes on here, on disk.
    OnDisk(LogAddress),
}

impl Shared {
    /// Moves what lives between `from` and `until`, which are on disk, to the cold log. `None`: it
    /// was stopped; what was moved until then does no harm.
    pub(super) fn move_to_cold(
        &self,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let mut notes = Notes::default();
        let mut stopped = false;
        cold.unnamed_from.begin(cold.log.tail());
        stretches(&self.log.segments, &self.log.geometry, from, until, &mut |stretch| {
            stopped |= stop.is_stopping();
            if stopped {
                return Ok(());
            }
            copied.bytes += stretch.len() as u64;
            self.move_stretch(cold, stretch, &mut notes, &mut copied)?;
            if notes.bytes > self.work_bytes {
                self.apply_notes(cold, std::mem::take(&mut notes))?;
                cold.unnamed_from.begin(cold.log.tail());
            }
            Ok(())
        })?;
        if stopped {
            return Ok(None);
        }
        self.apply_notes(cold, notes)?;
        Ok(Some(copied))
    }

    fn move_stretch(
        &self,
        cold: &Cold,
        stretch: &Stretch,
        notes: &mut Notes,
        copied: &mut Copied,
    ) -> Result<()> {
        let mut records = Vec::new();
        stretch.records(&mut |address, stored| {
            if !stored.header.is_invalid() {
                records.push((address, *stored));
            }
            copied.records += 1;
            Ok(())
        })?;
        for some in records.chunks(RECORDS_AT_ONCE) {
            let guard = self.epochs.protect();
            let standings = some.iter().map(|(at, stored)| self.standing_of(*at, stored));
            let standings: Vec<Standing> = standings.collect();
            drop(guard);
            for ((at, stored), standing) in some.iter().zip(standings) {
                let lives = match standing {
                    Standing::Newest => true,
                    Standing::Dead => false,
                    Standing::OnDisk(next) => self.is_newest(stored.key, next, *at, *at)?,
                };
                if !lives {
                    continue;
                }
                let position = self.index.position(self.hash(stored.key));
                match stored.value {
                    Some(value) => {
                        notes.put(position, cold.append(stored.key, value)?);
                        copied.records_live += 1;
                        copied.bytes_live += stored.bytes as u64;
                    }
                    None => notes.remove(position, stored.key),
                }
            }
        }
        Ok(())
    }

    /// Follows the chain of a record's key down to the record. The caller is protected.
    fn standing_of(&self, at: LogAddress, stored: &Stored<'_>) -> Standing {
        let Some(slot) = self.index.find(self.hash(stored.key)) else { return Standing::Dead };
        let mut next = self.cache.log_head(slot.address());
        while next > at {
            match self.log.place(next) {
                Place::Memory(record) if record.is_of(stored.key) => return Standing::Dead,
                Place::Memory(record) => next = record.header().previous(),
                Place::Disk => return Standing::OnDisk(next),
                Place::Truncated => return Standing::Dead,
            }
        }
        // A record that lost the race to be linked is on no chain.
        if next == at { Standing::Newest } else { Standing::Dead }
    }

    /// Step 2. What another compaction changes meanwhile is looked up again.
    fn apply_notes(&self, cold: &Cold, notes: Notes) -> Result<()> {
        let Notes { mut changes, mut removals, .. } = notes;
        loop {
            let again = self.note_removals(cold, &removals, &mut changes)?;
            let missed = cold.index.apply(&mut changes, &StopToken::default())?.missed;
            changes.clear();
            let mut again: HashSet<Position> = again.into_iter().collect();
            again.extend(missed.iter().map(|change| change.position));
            removals.retain(|(position, _)| again.contains(position));
            if removals.is_empty() {
                return Ok(());
            }
        }
    }

    /// Notes the entries that keys have in the cold index, to be taken out. Answers the positions of
    /// which a record moved meanwhile.
    fn note_removals(
        &self,
        cold: &Cold,
        removals: &[(Position, Box<[u8]>)],
        changes: &mut Vec<Change>,
    ) -> Result<Vec<Position>> {
        let mut named = Vec::new();
        let positions = removals.iter().map(|(position, _)| *position);
        let never = StopToken::default();
        cold.look_up(positions, &never, &mut |number, addresses| {
            named.extend(addresses.iter().map(|at| (*at, number)));
            Ok(())
        })?;
        let mut again = Vec::new();
        cold.each_record(named.into_iter(), &never, &mut |number, at, record| {
            let (position, removed) = &removals[number];
            match record {
                Some(stored) if stored.key == &**removed => {
                    changes.push(Change { position: *position, old: at, new: LogAddress::NONE });
                }
                Some(_) => {}
                None => again.push(*position),
            }
            Ok(())
        })?;
        Ok(again)
    }
}
