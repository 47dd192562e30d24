//! A walk over the pairs of a keyspace.

use std::fmt;
use std::sync::Arc;

use device::OfProcess;
use engine::{Cursor, TryNext};

use crate::error::Result;
use crate::keyspace_entry::KeyspaceInstance;

/// The pairs of a range at one moment, in order. Owned, so it may be kept and sent. While it lives,
/// old versions in all keyspaces of the database are kept from that moment on, and take space.
pub struct Scan {
    // The cursor before the engine, so that it is dropped first.
    cursor: OfProcess<(Box<dyn Cursor>, Arc<KeyspaceInstance>)>,
    has_ended: bool,
    /// Set by an error, after which no seek continues the scan.
    has_failed: bool,
}

impl Scan {
    pub(crate) fn new(cursor: Box<dyn Cursor>, instance: Arc<KeyspaceInstance>) -> Self {
        let (has_ended, has_failed) = Default::default();
        Self { cursor: OfProcess::new((cursor, instance)), has_ended, has_failed }
    }

    /// Returns the next pair without copying it, or `None` at the end.
    ///
    /// # Errors
    /// Damage or a failure of the device, [`crate::Error::Closed`], [`crate::Error::Forked`]. The
    /// scan has ended then: every later call returns `None`.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match self.step(true)? {
            TryNext::Pair(key, value) => Ok(Some((key, value))),
            TryNext::End | TryNext::WouldBlock => Ok(None),
        }
    }

    /// The same without waiting for the device. After [`TryNext::WouldBlock`] the scan has not
    /// moved, and [`Scan::next_ref`] reads the device for the same pair.
    ///
    /// # Errors
    /// The same.
    pub fn try_next(&mut self) -> Result<TryNext<'_>> {
        self.step(false)
    }

    fn step(&mut self, may_wait: bool) -> Result<TryNext<'_>> {
        if self.has_ended {
            return Ok(TryNext::End);
        }
        // Set until the cursor has returned, since an error ends the scan.
        (self.has_ended, self.has_failed) = (true, true);
        let process = self.cursor.process();
        if !process.is_current() {
            return Err(process.forked().into());
        }
        let (cursor, instance) = &mut *self.cursor;
        let found = match may_wait {
            true => cursor.next().map(TryNext::known),
            false => cursor.try_next(),
        };
        let pair = instance.placed(found)?;
        (self.has_ended, self.has_failed) = (pair == TryNext::End, false);
        Ok(pair)
    }

    /// Moves the scan within its range, forth or back: the next pair is the first one at or behind
    /// `key`, for a scan in reverse order the last one at or before it. The scan still shows its
    /// moment. After its end it continues from there; after an error it stays at its end. The next
    /// pair has the cost of the first one of a scan.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let users = db.keyspace("users", Default::default())?;
    /// for name in [&b"ada"[..], b"alan", b"grace"] {
    ///     users.put(name, b"")?;
    /// }
    /// let mut scan = users.scan(KeyRange::all())?;
    /// scan.seek(b"b");
    /// assert_eq!(scan.next_ref()?.map(|(key, _)| key), Some(&b"grace"[..]));
    /// scan.seek(b"al");
    /// assert_eq!(scan.next_ref()?.map(|(key, _)| key), Some(&b"alan"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek(&mut self, key: &[u8]) {
        // In a child of a fork the next call reports the error.
        if self.has_failed || !self.cursor.process().is_current() {
            return;
        }
        self.cursor.0.seek(key);
        self.has_ended = false;
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
