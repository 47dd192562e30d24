//! A walk over the pairs of a keyspace.

use std::fmt;
use std::sync::Arc;

use engine::Cursor;

use crate::error::Result;
use crate::slot::Generation;

/// The pairs of a range at one moment, in order. Owned, so it may be kept and sent; while it lives
/// it holds back the old versions that it may still show.
pub struct Scan {
    // Before `_generation`, so that it is dropped first.
    cursor: Box<dyn Cursor>,
    _generation: Arc<Generation>,
}

impl Scan {
    pub(crate) fn new(cursor: Box<dyn Cursor>, generation: Arc<Generation>) -> Self {
        Self { cursor, _generation: generation }
    }

    /// The next pair without copying it, or `None` at the end.
    ///
    /// # Errors
    /// Damage or a failure of the device; the scan then stays at its end.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.cursor.next()?)
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.next_ref().transpose()?;
        Some(pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}
