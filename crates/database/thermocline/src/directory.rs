//! A database's directory, and the files in it that hold no data: the one that is locked, and the
//! mark of an orderly close.
//!
//! # Invariants
//! - D1. Every opening to write locks [`LOCK_FILE`] alone, and makes it if it is missing. So if
//!   there is none, no writer has the database open.
//! - D2. [`CLOSED_FILE`] is there only while no process has changed anything since all files were
//!   synced without a failure. It is not synced itself: after a power cut everything that is found
//!   is on the disk, with or without it.

use std::sync::Arc;

use device::{Device, File, Mode};

use crate::error::{Error, Result};
use crate::open::{LOCK_FILE, in_use};
use crate::read_only::Access;

/// The directory of a database, and how it was opened.
pub(crate) struct Directory {
    /// The database's name in messages.
    pub(crate) place: String,
    pub(crate) device: Arc<dyn Device>,
    /// The access that it was opened for.
    pub(crate) access: Access,
    /// Records that the opening replayed from its journal.
    pub(crate) replayed_records: u64,
}

/// The mark of an orderly close.
const CLOSED_FILE: &str = "CLOSED";

/// Keeps writers out as long as the returned file is open, by a lock that readers share. Returns
/// `None` if there is no file to lock and none can be made, because the file system is mounted to
/// be read or belongs to another user: then there is no writer (D1). [`check_still_unlocked`] must
/// follow.
///
/// # Errors
/// [`Error::InUse`]; the device's, also if the file is there and must not be read.
pub(crate) fn lock_to_read(device: &dyn Device, place: &str) -> Result<Option<Arc<dyn File>>> {
    match device.lock_shared(LOCK_FILE) {
        Err(error) if error.is_write_protected() && !device.exists(LOCK_FILE)? => Ok(None),
        locked => locked.map(Some).map_err(|error| in_use(error, place)),
    }
}

/// Refuses the result of a read without a lock if a writer has opened the database meanwhile.
///
/// # Errors
/// [`Error::InUse`].
pub(crate) fn check_still_unlocked(device: &dyn Device, place: &str) -> Result<()> {
    match device.exists(LOCK_FILE)? {
        true => Err(Error::InUse { path: place.to_owned() }),
        false => Ok(()),
    }
}

/// Makes the file that is locked, in a copy that may be moved to where nothing can be made.
pub(crate) fn make_lock_file(device: &dyn Device) -> Result<()> {
    device.open(LOCK_FILE, Mode::Create)?;
    Ok(())
}

/// Takes the mark of an orderly close away and runs `open`, which returns the opened keyspaces.
/// Also returns whether a close had left the mark. If `open` fails before it has cleared its
/// argument, and nothing was written, the mark is left again.
///
/// The mark is removed first, since the background work of a keyspace begins in its opening (D2).
pub(crate) fn without_closed_mark<T>(
    device: &dyn Device,
    access: Access,
    open: impl FnOnce(&mut bool) -> Result<T>,
) -> Result<(T, bool)> {
    let was_closed = access == Access::Write && take_closed_mark(device)?;
    let written = device.accounting().counts().write_ops;
    let mut is_unchanged = true;
    let opened = open(&mut is_unchanged);
    let is_written = device.accounting().counts().write_ops != written;
    if opened.is_err() && was_closed && is_unchanged && !is_written {
        leave_closed_mark(device);
    }
    Ok((opened?, was_closed))
}

/// Takes the mark away. Returns whether a close has left it: a close leaves an empty file.
fn take_closed_mark(device: &dyn Device) -> Result<bool> {
    let is_empty = match device.open(CLOSED_FILE, Mode::Read) {
        Ok(file) => file.len()? == 0,
        Err(device::Error::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    device.remove(CLOSED_FILE)?;
    Ok(is_empty)
}

/// Leaves the mark of an orderly close, unless a write or a sync has failed on the device. Without
/// it the next opening costs a little more.
pub(crate) fn leave_closed_mark(device: &dyn Device) {
    if !device.accounting().has_failed() {
        let _ = device.open(CLOSED_FILE, Mode::Create);
    }
}
