//! Merging the entries of a crowded tag: of each key that became cold several times, all entries
//! but the newest are removed.
//!
//! Each time a key becomes cold it gets an entry in front of its older ones. Cold-to-cold
//! compaction removes those, but it does not touch a log with few dead records. So keys that are
//! written once a round, in a log of others that live, would fill their chunk.
//!
//! 1. A thread that puts an entry merges the entries of its tag if the tag now has `CROWDED`
//!    (`cold_index/apply`) entries, or a multiple of that.
//! 2. The key of the newest record is read, and then the records behind it. The entries of records
//!    with the same key are removed ([X2] of `docs/design/f2.md`): entries of one key are in the
//!    order in which they were put.
//! 3. The same is done with the remaining records, of [`KEYS_MAX`] keys. Entries of further keys
//!    stay. Entries of a record that cannot be read, or no longer exists, stay too: it was copied,
//!    and the copy is met the next time.
//!
//! The records are then dead, as if compaction had found them: the index has fewer entries for a
//! log of the same length. So a tag has one entry for each key, and `CROWDED` more.

use std::collections::HashSet;

use engine::{Error, Result};
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::{Cold, WithRecord};
use crate::cold_index::Change;
use crate::position::Position;

/// Tags whose entries are merged together: one key of each is in memory.
const TAGS_PER_TURN: usize = 16;
/// Keys of a tag whose older entries are searched for, each in all entries that are left.
const KEYS_MAX: usize = 16;
/// Entries of a tag that are examined, the newest.
const ENTRIES_MAX: usize = 1024;

impl Cold {
    /// Removes the entries at `crowded` that are behind another one of the same key. Blocks; the
    /// caller is not protected. If it is stopped, some are left.
    ///
    /// # Errors
    /// Damage of the cold index, with its place; the storage's. A damaged record is no error: it
    /// stays in its place.
    pub(crate) fn merge_tag_entries(&self, crowded: &[Position], stop: &StopToken) -> Result<()> {
        crowded.chunks(TAGS_PER_TURN).try_for_each(|some| self.merge_some(some, stop))
    }

    fn merge_some(&self, tags: &[Position], stop: &StopToken) -> Result<()> {
        // Records of each tag that no key was compared with yet, the newest first.
        let mut open: Vec<Vec<LogAddress>> = vec![Vec::new(); tags.len()];
        self.lookup(tags.iter().copied(), stop, &mut |number, addresses| {
            open[number] = addresses.iter().copied().take(ENTRIES_MAX).collect();
            Ok(())
        })?;
        let mut changes = Vec::new();
        for _ in 0..KEYS_MAX {
            let newest: Vec<(LogAddress, usize)> = open
                .iter_mut()
                .enumerate()
                .filter(|(_, of_tag)| of_tag.len() > 1)
                .map(|(number, of_tag)| (of_tag.remove(0), number))
                .collect();
            if newest.is_empty() || stop.is_stopping() {
                break;
            }
            let outdated = self.behind(newest, &open, stop)?;
            for (number, of_tag) in open.iter_mut().enumerate() {
                of_tag.retain(|at| !outdated.contains(&(number, *at)));
            }
            changes.extend(outdated.into_iter().map(|(number, old)| Change {
                position: tags[number],
                old,
                new: LogAddress::NONE,
            }));
        }
        self.index.apply(&mut changes, stop).map(drop)
    }

    /// Returns each tag's `older` records of the same key as its `newest` one.
    fn behind(
        &self,
        newest: Vec<(LogAddress, usize)>,
        older: &[Vec<LogAddress>],
        stop: &StopToken,
    ) -> Result<HashSet<(usize, LogAddress)>> {
        let mut keys: Vec<Option<Box<[u8]>>> = vec![None; older.len()];
        self.each_readable(newest, stop, &mut |number, _, stored| {
            keys[number] = stored.map(|stored| stored.key.into());
            Ok(())
        })?;
        let with_key = older.iter().enumerate().filter(|(number, _)| keys[*number].is_some());
        let wanted =
            with_key.flat_map(|(number, of_tag)| of_tag.iter().map(move |at| (*at, number)));
        let mut outdated = HashSet::new();
        self.each_readable(wanted.collect(), stop, &mut |number, at, stored| {
            if stored.is_some_and(|stored| keys[number].as_deref() == Some(stored.key)) {
                outdated.insert((number, at));
            }
            Ok(())
        })?;
        Ok(outdated)
    }

    /// Reads records as [`Cold::each_record`] does, and returns the numbers that were passed with
    /// the addresses of unreadable records. If some records cannot be read, it reads the halves of
    /// the rest, down to single records.
    pub(super) fn each_readable(
        &self,
        wanted: Vec<(LogAddress, usize)>,
        stop: &StopToken,
        with: &mut WithRecord<'_, usize>,
    ) -> Result<Vec<usize>> {
        let (mut open, mut unreadable) = (vec![wanted], Vec::new());
        while let Some(some) = open.pop() {
            let mut told = vec![false; some.len()];
            let numbered = some.iter().enumerate().map(|(place, (at, _))| (*at, place));
            let read = self.each_record(numbered, stop, &mut |place, at, stored| {
                told[place] = true;
                with(some[place].1, at, stored)
            });
            if is_readable(read)? {
                continue;
            }
            let mut left: Vec<(LogAddress, usize)> =
                some.into_iter().zip(told).filter(|(_, told)| !told).map(|(one, _)| one).collect();
            if left.len() > 1 {
                let rest = left.split_off(left.len() / 2);
                open.extend([rest, left]);
            } else {
                unreadable.extend(left.into_iter().map(|(_, number)| number));
            }
        }
        Ok(unreadable)
    }
}

/// Returns whether all records could be read. A temporary failure is an error, since the records
/// are intact.
fn is_readable(read: Result<bool>) -> Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.is_retryable() => Err(error),
        Err(Error::Corruption(_) | Error::Device(_)) => Ok(false),
        Err(other) => Err(other),
    }
}
