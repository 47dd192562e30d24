//! Settling a crowded tag: of a key that has become cold again and again all entries go but the newest.
//!
//! Each time a key becomes cold it gets an entry in front of its older ones. Those are taken out by
//! cold-to-cold compaction, which leaves a log alone of which little is dead: so one key that is
//! written once a round, in a log of others that live, would fill its chunk.
//!
//! 1. Who puts an entry and finds that its tag has `CROWDED` (`cold_index/apply`) by now, or a
//!    multiple of that, has the tag settled.
//! 2. The key of the newest record is read, and then the records behind it. The entries of those that
//!    have the same key are taken out ([X2] of ADR 0009).
//! 3. What is of another key stays, and so does what cannot be read, or is gone since: it was copied,
//!    and the copy is met the next time.
//!
//! A tag whose entries are of as many keys is not read again before it has twice as many. The records
//! are dead then, as those are that compaction finds: the index has fewer entries for a log as long.

use std::iter::once;

use engine::{Error, Result};
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::{Cold, WithRecord};
use crate::cold_index::Change;
use crate::position::Position;

/// Tags that are settled at once: one key of each is in memory.
const TAGS_AT_ONCE: usize = 16;

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
        let (mut newest, mut older) = (Vec::new(), Vec::new());
        self.look_up(tags.iter().copied(), stop, &mut |number, addresses| {
            if let Some((first, behind)) = addresses.split_first() {
                newest.push((*first, number));
                older.extend(behind.iter().map(|at| (*at, number)));
            }
            Ok(())
        })?;
        let mut keys: Vec<Option<Box<[u8]>>> = vec![None; tags.len()];
        self.each_readable(&newest, stop, &mut |number, _, stored| {
            keys[number] = stored.map(|stored| stored.key.into());
            Ok(())
        })?;
        let mut changes = Vec::new();
        self.each_readable(&older, stop, &mut |number, at, stored| {
            if stored.is_some_and(|stored| keys[number].as_deref() == Some(stored.key)) {
                changes.push(Change { position: tags[number], old: at, new: LogAddress::NONE });
            }
            Ok(())
        })?;
        self.index.apply(&mut changes, stop).map(drop)
    }

    /// Reads records as [`Cold::each_record`] does, but for those that cannot be read. `with` may be told
    /// of a record twice.
    fn each_readable(
        &self,
        wanted: &[(LogAddress, usize)],
        stop: &StopToken,
        with: &mut WithRecord<'_, usize>,
    ) -> Result<()> {
        if readable(self.each_record(wanted.iter().copied(), stop, with))? {
            return Ok(());
        }
        for one in wanted {
            readable(self.each_record(once(*one), stop, with))?;
        }
        Ok(())
    }
}

/// Whether it could be read.
fn readable(read: Result<bool>) -> Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(Error::Corruption(_) | Error::Device(_)) => Ok(false),
        Err(other) => Err(other),
    }
}
