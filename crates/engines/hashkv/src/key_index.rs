//! The ordered index, which maps each key to a small value or to the handle of a record.

use codec::SeqNo;
use engine::{Engine, Error, Result};

/// An ordered store that is the index of another one.
pub(crate) trait KeyIndex: Engine {
    /// Returns whether a write with this number would change nothing: it was applied before, and
    /// comes a second time from a journal.
    ///
    /// # Errors
    /// [`engine::Error::Closed`].
    fn was_applied(&self, seqno: SeqNo) -> Result<bool>;
}

impl KeyIndex for lsm::Store {
    fn was_applied(&self, seqno: SeqNo) -> Result<bool> {
        Self::was_applied(self, seqno)
    }
}

/// Returns an error of the index with the paths of its files in the directory of the store.
pub(crate) fn of_index(error: Error) -> Error {
    error.in_dir(crate::INDEX_DIR)
}
