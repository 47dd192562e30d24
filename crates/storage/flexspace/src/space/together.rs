//! Several changes of which a crash leaves all or none.
//!
//! A commit takes its records under the writers' lock (`commit.rs`), so changes in one hold of it
//! are in one frame of the log.

use sync::MutexGuard;

use super::{Error, FlexSpace, Shared, Writer};
use crate::log::Change;

/// A space whose other writers wait; see [`FlexSpace::together`].
#[derive(Debug)]
pub struct Together<'a> {
    shared: &'a Shared,
    writer: MutexGuard<'a, Writer>,
}

impl FlexSpace {
    /// Makes several changes, of which a crash leaves all or none. Other writers wait; readers may
    /// see some of them before others, but each as a whole.
    ///
    /// If one change is refused, the changes before it stay: `work` decides whether to revert them
    /// or to continue.
    ///
    /// # Errors
    /// The errors of `work`, and those of [`Self::splice`].
    pub fn together<R>(
        &self,
        work: impl FnOnce(&mut Together<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let shared = &*self.shared;
        let writer = shared.writer_for_change()?;
        work(&mut Together { shared, writer })
    }
}

impl Together<'_> {
    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.shared.state.read().tree.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`FlexSpace::splice`].
    ///
    /// # Errors
    /// As [`FlexSpace::splice`].
    pub fn splice(
        &mut self,
        offset: u64,
        removed: u64,
        data: &[u8],
        tag: u16,
    ) -> Result<(), Error> {
        self.shared.splice(&mut self.writer, Some(offset), Some(removed), data, tag)
    }

    /// As [`FlexSpace::splice_hole`].
    ///
    /// # Errors
    /// As [`FlexSpace::splice_hole`].
    pub fn splice_hole(&mut self, offset: u64, removed: u64, length: u64) -> Result<(), Error> {
        self.shared.splice_hole(&mut self.writer, offset, removed, length)
    }

    /// As [`FlexSpace::set_tag`].
    ///
    /// # Errors
    /// As [`FlexSpace::splice`].
    pub fn set_tag(&mut self, offset: u64, tag: u16) -> Result<(), Error> {
        self.shared.set_tag(&mut self.writer, offset, tag)
    }
}

impl Shared {
    pub(super) fn set_tag(&self, writer: &mut Writer, offset: u64, tag: u16) -> Result<(), Error> {
        self.health.check_writable()?;
        let len = self.state.read().tree.len();
        if offset >= len {
            return Err(Error::BehindTheEnd { end: offset.saturating_add(1), len });
        }
        self.apply(writer, &Change::SetTag { offset, tag })
    }
}
