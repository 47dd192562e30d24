//! A walk over all entries, chunk by chunk, in the order of positions.

use std::iter::successors;

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::chunk::Prefix;
use super::read_chunks::Outcome;
use crate::address::LogAddress;
use crate::position::Position;

/// A few chunks of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// The entries: the first position that begins as the key's does, and the record's address. In
    /// the order of positions; of equal ones the newest first.
    pub(crate) entries: Vec<(Position, LogAddress)>,
    /// The position at which the walk continues; nothing at the end.
    pub(crate) next: Option<Position>,
}

impl ColdIndex {
    /// Returns the position at which [`ColdIndex::next_chunks`] would continue now.
    pub(crate) fn end_of_chunks(&self, from: Position, chunks: usize) -> Option<Position> {
        let level = self.directory.level();
        let behind = |first: &Prefix| first.last_of_chunk(level).next();
        let first = Prefix::of(from).name(level).first();
        successors(Some(first), behind).nth(chunks.max(1)).map(Prefix::position)
    }

    /// Returns all entries of the chunk that `from` belongs to, also those before it, and of the
    /// chunks behind it, `chunks` in all. No other chunk has positions between `from` and the
    /// position at which the walk continues. At most one read of the device a chunk, several in
    /// flight; blocks, so the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn next_chunks(&self, from: Position, chunks: usize) -> Result<Walked> {
        loop {
            let level = self.directory.level();
            let behind = |first: &Prefix| first.last_of_chunk(level).next();
            let first = Prefix::of(from).name(level).first();
            let firsts: Vec<_> = successors(Some(first), behind).take(chunks.max(1)).collect();
            let mut entries = Vec::new();
            let mut is_of_level = true;
            let prefix_of = |index: usize| firsts.get(index).copied();
            let stop = StopToken::default();
            self.with_chunks(0..firsts.len(), &prefix_of, &stop, &mut |group, chunk| {
                is_of_level &= group.name.level == level;
                let part = chunk.map_or_else(Vec::new, |chunk| chunk.part(group.name));
                let position = |tag| group.name.first().with_tag(tag).position();
                entries.extend(part.iter().map(|it| (position(it.tag()), it.address())));
                Ok(Outcome::Done)
            })?;
            // After a doubling these were chunks half as long, with others between them.
            if is_of_level {
                entries.sort_by_key(|(position, _)| *position);
                let next = firsts.last().and_then(behind).map(Prefix::position);
                return Ok(Walked { entries, next });
            }
        }
    }
}
