//! The rule that no engine's files run ahead of the journal.

use codec::SeqNo;

use crate::error::Result;

/// Makes the journal durable before an engine's own files are.
pub trait Barrier: Send + Sync {
    /// Returns once every write up to `seqno` that was journaled is durable in the journal. Returns
    /// the journal's last number, if that is less: higher numbers are of writes that never were in
    /// the journal, and may be given out again after a crash.
    ///
    /// # Errors
    /// The journal failed; the engine must not make the write durable either.
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo>;

    /// Returns whether every write above the engine's persisted number is in the journal, and
    /// applied again after a crash.
    fn is_journaled(&self) -> bool {
        false
    }

    /// Is called by an engine that opens, with the newest such write, if its files hold an effect
    /// of a write above its persisted number. The journal must have it, or it is not the one that
    /// belongs to these files.
    fn holds(&self, _newest: SeqNo) {}
}

/// The barrier of an engine that is used without a journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Barrier for NoJournal {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        Ok(seqno)
    }
}
