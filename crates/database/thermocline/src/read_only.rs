//! Opening a database to read it alone.
//!
//! It is opened as any other is, on a device that keeps the opening's writes in memory
//! ([`device::overlay`]), and with a pool without threads.
//!
//! # Invariants
//! - R1. No file of the directory is made, changed or removed, but an empty one to lock if there
//!   was none and one can be made.
//! - R2. Any number of readers have a database open, or one writer. If there is no file to lock and
//!   none can be made, readers have it open without a lock ([`crate::directory`]): then no writer
//!   has it open, but one that comes later is not kept out.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use device::Device;

use crate::catalog::Catalog;
use crate::database::Db;
use crate::directory::{check_still_unlocked, lock_to_read};
use crate::error::{Error, Result};
use crate::memory_limit;
use crate::open::check_place;
use crate::options::Options;

/// The access for which a database was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// Returns the error by which writes to the database in `place` are refused from the beginning,
    /// if they are.
    pub(crate) fn refusal(self, place: &str) -> OnceLock<Error> {
        match self {
            Self::Write => OnceLock::new(),
            Self::Read => OnceLock::from(Error::OpenedReadOnly { path: place.to_owned() }),
        }
    }
}

impl Db {
    /// Opens the database in `path` to read it: gets, scans, walks and snapshots. Writes are
    /// refused ([`Error::OpenedReadOnly`]). The directory does not change, no thread is started for
    /// background work, and others may open it in the same way at the same time.
    ///
    /// Shows the state that an opening would recover. Records that only the journal has are applied
    /// again in memory, beyond [`Options::memory_bytes`] if they are more than engines keep there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// use thermocline::{Db, Error, Options};
    /// let db = Db::open(path, Options::default())?;
    /// db.keyspace("users", Default::default())?.put(b"ada", b"analyst")?;
    /// let refused = Db::open_read_only(path, Options::default()).unwrap_err();
    /// assert!(matches!(refused, Error::InUse { .. }), "somebody writes");
    /// db.close()?;
    ///
    /// let one = Db::open_read_only(path, Options::default())?;
    /// let other = Db::open_read_only(path, Options::default())?;
    /// for db in [one, other] {
    ///     let users = db.existing_keyspace("users")?;
    ///     assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"analyst"[..]));
    ///     assert!(matches!(users.put(b"ada", b""), Err(Error::OpenedReadOnly { .. })));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::open`]; [`Error::InUse`] while a writer has it open. On a file system that is
    /// mounted to be read, or in a directory of another user, a database without a file `LOCK` is
    /// opened without a lock. A writer of another process that begins later is not kept out then,
    /// and reads may fail with damage that is none.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        check_place(path, false)?;
        let device =
            device::open(path, device::Options { io: options.io, ..device::Options::default() })?;
        Self::open_read_only_on(device, &path.display().to_string(), options)
    }

    /// The same on any device; `place` is its name in messages.
    ///
    /// # Errors
    /// As [`Db::open_read_only`].
    pub fn open_read_only_on(
        device: Arc<dyn Device>,
        place: &str,
        options: Options,
    ) -> Result<Self> {
        memory_limit::check_setting(&options)?;
        // Before a file is made to lock.
        Catalog::existing(&*device, place)?;
        let lock = lock_to_read(&*device, place)?;
        let is_locked = lock.is_some();
        let options = Options { create_if_missing: false, discard_journal: false, ..options };
        let shown = device::overlay(Arc::clone(&device));
        let db = Self::open_locked(shown, place, options, lock, Access::Read)?;
        if !is_locked {
            check_still_unlocked(&*device, place)?;
        }
        Ok(db)
    }
}
