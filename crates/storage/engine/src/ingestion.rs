//! Many pairs at once, in order, past the way that single writes take.

use codec::SeqNo;

use crate::error::Result;

/// Pairs that are gathered beside everything else, and put in as one write. Dropped before that, it
/// leaves nothing.
pub trait Ingestion: Send {
    /// Adds a pair whose key lies behind all that were added. A pair that is refused for what it is
    /// ([`crate::Error::is_refusal`]) changes nothing; any other error ends the ingestion.
    ///
    /// # Errors
    /// [`crate::Error::NotAscending`], [`crate::Error::KeyTooLong`],
    /// [`crate::Error::ValueTooLong`]; the storage's.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Makes what was added durable, as far as that goes before anybody sees it.
    ///
    /// # Errors
    /// The storage's.
    fn finish(&mut self) -> Result<()>;

    /// Does what [`Ingestion::commit`] wants room for, as far as that can be done before the write has its
    /// number: so that a refusal costs this ingestion alone. From now on the host lets no other write of
    /// the engine be under way, until the commit has returned or this is dropped.
    ///
    /// # Errors
    /// The storage's and the journal's.
    fn prepare(&mut self) -> Result<()>;

    /// Puts all pairs in, as write `seqno`: all or none, also after a crash. On return they are
    /// durable, and [`crate::Engine::persisted`] is not below `seqno`.
    ///
    /// From before the number was taken until this returns the host lets no other write of the
    /// engine be under way. Its journal, if it has one, has the number, with a record of no steps:
    /// what is ingested is not applied again.
    ///
    /// # Errors
    /// The storage's and the journal's. Unless the engine takes no writes any more, nothing was put
    /// in, and the number stands for nothing.
    fn commit(self: Box<Self>, seqno: SeqNo) -> Result<()>;
}
