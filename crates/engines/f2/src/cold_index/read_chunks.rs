//! The present chunks of many positions, each read once, near ones together.
//!
//! 1. Items are sorted by their positions, so the items of one chunk are neighbours: a *group*.
//! 2. Groups whose chunk was never written are done immediately; the chunks of the others are
//!    read from the log.
//! 3. Groups whose chunk was changed meanwhile, or split by a doubling, are grouped and read
//!    again.

use std::ops::Range;

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::chunk::{Chunk, Name, Prefix};
use super::directory::Word;
use super::read::bytes_of;
use crate::address::LogAddress;
use crate::hybrid_log::Wanted;
use crate::position::Position;

/// Bytes of memory of an item with its group and its read.
const ITEM_BYTES: u64 = 150;
/// Items that are processed together.
const ITEMS_PER_TURN: std::ops::RangeInclusive<usize> = 256..=16 << 10;

/// Items of one chunk, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) name: Name,
    pub(super) word: Word,
    /// The items, by their indices.
    pub(super) first: usize,
    pub(super) end: usize,
}

/// Outcome of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Its chunk has been replaced.
    Again,
}

/// Called with a group and its chunk; `None`: the chunk was never written.
pub(super) type WithChunk<'a> = dyn FnMut(Group, Option<Chunk<'_>>) -> Result<Outcome> + 'a;

impl ColdIndex {
    /// Reads the chunks of many positions and calls `with` for each position with its addresses, in
    /// any order; the newest first. Each chunk is read once, and several reads are in flight at the
    /// same time. `false`: it was stopped, and `with` was not called for all. Blocks; the caller is
    /// not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's; `with`'s.
    pub(crate) fn visit<T>(
        &self,
        items: &mut [(Position, T)],
        stop: &StopToken,
        with: &mut dyn FnMut(&T, &[LogAddress]) -> Result<()>,
    ) -> Result<bool> {
        items.sort_by_key(|(position, _)| *position);
        let items = &*items;
        let mut addresses = Vec::new();
        let prefix_of = |index: usize| items.get(index).map(|item| Prefix::of(item.0));
        self.with_chunks(0..items.len(), &prefix_of, stop, &mut |group, chunk| {
            for (position, item) in &items[group.first..group.end] {
                addresses.clear();
                if let Some(chunk) = chunk {
                    chunk.addresses(Prefix::of(*position).tag(), &mut addresses);
                }
                with(item, &addresses)?;
            }
            Ok(Outcome::Done)
        })
    }

    /// Calls `with` with the present chunk of each group of `items` until it reports that all are
    /// done. `prefix_of` returns the prefix of an item; the prefixes rise. `false`: it was stopped.
    pub(super) fn with_chunks(
        &self,
        items: Range<usize>,
        prefix_of: &dyn Fn(usize) -> Option<Prefix>,
        stop: &StopToken,
        with: &mut WithChunk<'_>,
    ) -> Result<bool> {
        let mut first = items.start;
        while first < items.end {
            let end = self.end_of_slice(first, items.end, prefix_of);
            if !self.with_slice(first..end, prefix_of, stop, with)? {
                return Ok(false);
            }
            first = end;
        }
        Ok(true)
    }

    /// Returns the place to part items that are too numerous for the memory that their groups take:
    /// not within a chunk.
    pub(super) fn end_of_slice(
        &self,
        first: usize,
        end: usize,
        prefix_of: &dyn Fn(usize) -> Option<Prefix>,
    ) -> usize {
        let room = (self.log.read_bytes_max() / ITEM_BYTES) as usize;
        let wanted = first + room.clamp(*ITEMS_PER_TURN.start(), *ITEMS_PER_TURN.end());
        let level = self.directory.level();
        let Some(last) = prefix_of(wanted - 1).filter(|_| wanted < end) else { return end };
        let last = last.last_of_chunk(level);
        (wanted..end).find(|item| prefix_of(*item).is_none_or(|it| it > last)).unwrap_or(end)
    }

    fn with_slice(
        &self,
        items: Range<usize>,
        prefix_of: &dyn Fn(usize) -> Option<Prefix>,
        stop: &StopToken,
        with: &mut WithChunk<'_>,
    ) -> Result<bool> {
        let mut pending = vec![items];
        while !pending.is_empty() {
            let mut again = Vec::new();
            let mut wanted = Vec::new();
            for group in self.groups(&pending, prefix_of) {
                if stop.is_stopping() {
                    return Ok(false);
                }
                if group.word != Word::NONE {
                    let address = group.word.address();
                    wanted.push(Wanted { address, bytes: bytes_of(group.word), payload: group });
                } else if with(group, None)? == Outcome::Again {
                    again.push(group.first..group.end);
                }
            }
            let is_whole = self.log.read_records(wanted, stop, &mut |group: Group, stored| {
                let outcome = match stored {
                    Some(stored) => {
                        let prefix = group.name.first();
                        with(group, Some(self.decode(group.word.address(), prefix, stored)?))?
                    }
                    // [N3]
                    None => Outcome::Again,
                };
                if outcome == Outcome::Again {
                    again.push(group.first..group.end);
                }
                Ok(())
            })?;
            if !is_whole {
                return Ok(false);
            }
            again.sort_by_key(|range| range.start);
            pending = again;
        }
        Ok(true)
    }

    /// The groups of items at the directory's present level, with their words.
    fn groups<'a>(
        &'a self,
        ranges: &'a [Range<usize>],
        prefix_of: &'a dyn Fn(usize) -> Option<Prefix>,
    ) -> impl Iterator<Item = Group> + 'a {
        ranges.iter().flat_map(move |range| {
            let mut first = range.start;
            std::iter::from_fn(move || {
                let prefix = prefix_of(first).filter(|_| first < range.end)?;
                let (name, word) = self.directory.find(prefix);
                let last = prefix.last_of_chunk(name.level);
                let is_of = |index: &usize| prefix_of(*index).is_some_and(|other| other <= last);
                let end =
                    (first..range.end).take_while(is_of).last().map_or(first, |last| last + 1);
                let group = Group { name, word, first, end };
                first = end;
                Some(group)
            })
        })
    }
}
