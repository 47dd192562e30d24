//! A walk over all entries, chunk by chunk, in the order of positions.

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::chunk::Prefix;
use super::fetch::Outcome;
use crate::address::LogAddress;
use crate::position::Position;

/// One chunk of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkedChunk {
    /// The entries: the first position that begins as the key's does, and the record's address. In
    /// the order of positions; of equal ones the newest first.
    pub(crate) entries: Vec<(Position, LogAddress)>,
    /// Where the walk goes on; nothing at the end.
    pub(crate) next: Option<Position>,
}

impl ColdIndex {
    /// All entries of the chunk that `from` belongs to, also those before it: no other chunk has
    /// positions between `from` and where the walk goes on. At most one read of the device; blocks,
    /// so the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn next_chunk(&self, from: Position) -> Result<WalkedChunk> {
        let prefix = Prefix::of(from);
        let mut walked = WalkedChunk::default();
        self.with_chunks(0..1, &|_| Some(prefix), &StopToken::default(), &mut |group, chunk| {
            let first = group.name.first();
            let entries = chunk.map_or_else(Vec::new, |chunk| chunk.part(group.name));
            let position = |tag| first.with_tag(tag).position();
            walked.entries =
                entries.iter().map(|entry| (position(entry.tag()), entry.address())).collect();
            let last = first.last_of_chunk(group.name.level);
            walked.next = last.next().map(Prefix::position);
            Ok(Outcome::Done)
        })?;
        Ok(walked)
    }
}
