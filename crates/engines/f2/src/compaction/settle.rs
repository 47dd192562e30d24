//! Settling a crowded tag: of each key that has become cold again and again all entries go but the newest.
//!
//! Each time a key becomes cold it gets an entry in front of its older ones. Those are taken out by
//! cold-to-cold compaction, which leaves a log alone of which little is dead: so keys that are
//! written once a round, in a log of others that live, would fill their chunk.
//!
//! 1. Who puts an entry and finds that its tag has `CROWDED` (`cold_index/apply`) by now, or a
//!    multiple of that, has the tag settled.
//! 2. The key of the newest record is read, and then the records behind it. The entries of those that
//!    have the same key are taken out ([X2] of ADR 0009): entries of one key stand in the order in which
//!    they were put.
//! 3. The same with those that are left, of [`KEYS_MAX`] keys. What is of further ones stays, and so does
//!    what cannot be read, or is gone since: it was copied, and the copy is met the next time.
//!
//! The records are dead then, as those are that compaction finds: the index has fewer entries for a log as
//! long. So a tag has as many entries as keys, and `CROWDED` more.

use std::collections::HashSet;

use engine::{Error, Result};
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::{Cold, WithRecord};
use crate::cold_index::Change;
use crate::position::Position;

/// Tags that are settled at once: one key of each is in memory.
const TAGS_AT_ONCE: usize = 16;
/// Keys of a tag of which older entries are looked for, each time in all that are left.
const KEYS_MAX: usize = 16;
/// Entries of a tag that are looked at, the newest.
const ENTRIES_MAX: usize = 1024;

impl Cold {
    /// Takes the entries at `crowded` out that stand behind another of the same key. Blocks; the caller
    /// is not protected. Where it is stopped, some are left.
    ///
    /// # Errors
    /// Damage of the cold index, with its place; the storage's. What is wrong with a record is none: it
    /// stays where it is.
    pub(crate) fn settle_crowded(&self, crowded: &[Position], stop: &StopToken) -> Result<()> {
        crowded.chunks(TAGS_AT_ONCE).try_for_each(|some| self.settle_tags(some, stop))
    }

    fn settle_tags(&self, tags: &[Position], stop: &StopToken) -> Result<()> {
        // Of each tag what no key was compared with yet, the newest first.
        let mut open: Vec<Vec<LogAddress>> = vec![Vec::new(); tags.len()];
        self.look_up(tags.iter().copied(), stop, &mut |number, addresses| {
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

    /// Of each tag's `older` records those of the same key as its `newest` one.
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

    /// Reads records as [`Cold::each_record`] does, but for those that cannot be read: answers what came
    /// with their addresses. Where some cannot, halves of what is left are read, down to single ones.
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

/// Whether all could be read.
fn is_readable(read: Result<bool>) -> Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(Error::Corruption(_) | Error::Device(_)) => Ok(false),
        Err(other) => Err(other),
    }
}
