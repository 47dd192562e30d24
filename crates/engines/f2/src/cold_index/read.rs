//! A lookup: the word of the chunk, the chunk or its digest, the entries of the position's tag.

use engine::Result;

use super::ColdIndex;
use super::chunk::{Chunk, Prefix, record_bytes};
use super::directory::Word;
use crate::address::LogAddress;
use crate::hybrid_log::{CopiedFrom, RecordCopy, RecordRead};
use crate::position::Position;
use crate::record::Stored;

/// Result of a lookup without the disk.
pub(crate) enum Lookup {
    /// The entries are known.
    Known,
    /// The same from a digest. Its caller counts the digest ([`super::Digests::note_found`]) unless
    /// the lookup is abandoned and made again.
    ByDigest,
    /// This record has them; [`ColdIndex::addresses_in`] reads them from it. Its chunk was the
    /// present one during the lookup, which is all that absence needs.
    OnDisk(RecordRead),
}

impl ColdIndex {
    /// Returns the address of the chunk of `position`.
    #[cfg(test)]
    pub(crate) fn chunk_address(&self, position: Position) -> LogAddress {
        self.directory.find(Prefix::of(position)).1.address()
    }

    /// Replaces the content of `into` by the addresses of all records that may be of a key at
    /// `position`, the newest first. At most one read of the device, two if the chunk is longer
    /// than its word can represent; blocks, so the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    #[cfg(test)]
    pub(crate) fn find(&self, position: Position, into: &mut Vec<LogAddress>) -> Result<()> {
        loop {
            match self.look(position, into)? {
                Lookup::Known => return Ok(()),
                Lookup::ByDigest => {
                    self.digests.note_found(1);
                    return Ok(());
                }
                Lookup::OnDisk(read) => {
                    let address = read.address();
                    let found = self.log.read_stored(read.wanted(), |stored| {
                        self.note_chunk_read(position, address, stored, into)
                    })?;
                    // [N3]
                    if let Some(found) = found {
                        return found;
                    }
                }
            }
        }
    }

    /// The same without a read of the device: if a read is needed, it is returned to the caller.
    ///
    /// # Errors
    /// Damage with its place; the store was closed.
    pub(crate) fn look(&self, position: Position, into: &mut Vec<LogAddress>) -> Result<Lookup> {
        into.clear();
        let prefix = Prefix::of(position);
        let mut copy = RecordCopy::default();
        loop {
            let guard = self.log.epochs.protect();
            let (name, word) = self.directory.find(prefix);
            if word == Word::NONE {
                return Ok(Lookup::Known);
            }
            if self.digests.find(name, word.address(), prefix.tag(), into) {
                return Ok(Lookup::ByDigest);
            }
            let from = self.log.copy_record(word.address(), &mut copy);
            drop(guard);
            match from {
                CopiedFrom::Memory => {
                    self.addresses_in(position, word.address(), &copy.stored(), into)?;
                    return Ok(Lookup::Known);
                }
                CopiedFrom::Disk => {
                    let read = self.log.record_read_of(word.address(), bytes_of(word))?;
                    if let Some(read) = read {
                        return Ok(Lookup::OnDisk(read));
                    }
                }
                // [N3]
                CopiedFrom::Truncated => {}
            }
        }
    }

    /// Replaces the content of `into` by the addresses that a chunk, read at `address`, has for a
    /// position.
    ///
    /// # Errors
    /// Damage with its place.
    pub(crate) fn addresses_in(
        &self,
        position: Position,
        address: LogAddress,
        stored: &Stored<'_>,
        into: &mut Vec<LogAddress>,
    ) -> Result<()> {
        into.clear();
        let prefix = Prefix::of(position);
        let chunk = self.decode(address, prefix, stored)?;
        chunk.addresses(prefix.tag(), into);
        if self.digests.is_used() {
            self.keep_digest(prefix, address, chunk);
        }
        Ok(())
    }

    /// The same for a lookup that has read the chunk from the device.
    ///
    /// # Errors
    /// Damage with its place.
    pub(crate) fn note_chunk_read(
        &self,
        position: Position,
        address: LogAddress,
        stored: &Stored<'_>,
        into: &mut Vec<LogAddress>,
    ) -> Result<()> {
        self.digests.note_read();
        self.addresses_in(position, address, stored, into)
    }

    /// Keeps the digest of a chunk that was read at `address`, if it still is the present one.
    fn keep_digest(&self, prefix: Prefix, address: LogAddress, chunk: Chunk<'_>) {
        let (name, word) = self.directory.find(prefix);
        if word.address() == address {
            self.digests.keep_if_free(name, address, &chunk.part(name));
        }
    }

    /// Reads the chunk at `address`, which is to cover a position.
    pub(super) fn decode<'a>(
        &self,
        address: LogAddress,
        prefix: Prefix,
        stored: &Stored<'a>,
    ) -> Result<Chunk<'a>> {
        let damaged = |damage| self.log.damage(address, damage);
        let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
        chunk.must_cover(prefix).map_err(damaged)?;
        Ok(chunk)
    }
}

/// Returns the bytes of the record that a word leads to, if the word has them.
pub(super) fn bytes_of(word: Word) -> Option<usize> {
    word.entries().map(record_bytes)
}
