//! Ingestion of many pairs in order, which bypasses the path of single writes.

use codec::SeqNo;

use crate::error::Result;

/// Pairs that are gathered next to all other work, and put in as one write. Dropped before that, it
/// leaves nothing.
pub trait Ingestion: Send {
    /// Adds a pair whose key is behind all that were added. A pair that is refused for its content
    /// ([`crate::Error::is_refused`]) changes nothing; any other error ends the ingestion.
    ///
    /// # Errors
    /// [`crate::Error::NotAscending`], [`crate::Error::KeyTooLong`],
    /// [`crate::Error::ValueTooLong`]; the storage's.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Makes the added pairs durable, as far as that is possible before readers see them.
    ///
    /// # Errors
    /// The storage's.
    fn finish(&mut self) -> Result<()>;

    /// Does the part of [`Ingestion::commit`] that needs room, as far as possible before the write
    /// has its number: so a refusal ends this ingestion alone. From now on the host allows no other
    /// write of the engine, until the commit has returned or this is dropped.
    ///
    /// # Errors
    /// The storage's and the journal's.
    fn prepare(&mut self) -> Result<()>;

    /// Puts all pairs in, as write `seqno`: all or none, also after a crash. On return they are
    /// durable, and [`crate::Engine::persisted`] is not below `seqno`.
    ///
    /// From before the number was taken until this returns the host allows no other write of the
    /// engine. Its journal, if it has one, has the number, with a record of no steps: ingested
    /// pairs are not applied again.
    ///
    /// # Errors
    /// The storage's and the journal's. Unless the engine accepts no writes any more, nothing was
    /// put in, and the number is of no write.
    fn commit(self: Box<Self>, seqno: SeqNo) -> Result<()>;
}
