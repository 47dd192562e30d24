//! Defragmentation: what is neighbours in the space becomes so in the file (Flex 4.1, defrag).

use super::{Error, FlexSpace};
use crate::log::Change;

/// What is rewritten before other writers may go on.
const BYTES_AT_ONCE: u64 = 1 << 20;

impl FlexSpace {
    /// Writes the `length` bytes at `offset` anew, one behind the other, so that reading them costs
    /// one read for each extent of the greatest length. Bytes and tags stay as they are; tags go on
    /// parting extents. Other writers may come in between, a MiB at a time.
    ///
    /// # Errors
    /// As [`Self::splice`], and [`Error::Corruption`] if a byte is not what was written.
    pub fn defrag(&self, offset: u64, length: u64) -> Result<(), Error> {
        let end = offset.saturating_add(length);
        let len = self.len();
        if end > len {
            return Err(Error::BehindTheEnd { end, len });
        }
        let mut at = offset;
        while at < end {
            let part = (end - at).min(BYTES_AT_ONCE);
            self.rewrite(at, part)?;
            at += part;
        }
        Ok(())
    }

    fn rewrite(&self, offset: u64, length: u64) -> Result<(), Error> {
        let shared = &self.shared;
        let mut writer = shared.writer_for_change()?;
        let snapshot = shared.snapshot();
        // Others may have taken bytes out since the range was looked at.
        let bytes = snapshot.read(offset, length.min(snapshot.len().saturating_sub(offset)))?;
        // The tree that is changed now should not have to be copied first.
        drop(snapshot);
        let mut at = offset;
        for piece in shared.place(&mut writer, &bytes)? {
            let change = Change::Relocate { offset: at, piece };
            at += u64::from(piece.length);
            shared.apply(&mut writer, &change)?;
        }
        Ok(())
    }
}
