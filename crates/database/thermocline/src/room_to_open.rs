//! Room that an opening and a full journal need: the part that the database holds for them, and the
//! bytes to free if that is too little.
//!
//! 1. An open database holds a little room in a file of its own ([`device::Ballast`]): a part for
//!    the next opening's superblocks and its journal segment, and a part for records of the
//!    journal. Engines hold room for their replays.
//! 2. An opening that finds the device full frees that room and is tried once more.
//! 3. If it fails for lack of room then, the error says how many bytes are enough.
//! 4. On a full device the journal keeps records that it cannot write. A flush of an engine waits
//!    until the journal has written them, and the journal is only trimmed after flushes. So a flush
//!    that meets a full journal gives the second part to the device, if it is enough for those
//!    records. A trim, or the next opening, takes it back. So does a close with the journal's end.
//!
//! # Invariants
//! - I1: only an opening spends the first part. However often a flush fails, the next opening has
//!   the same room.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use device::{Ballast, Device, Mode, join};
use journal::{Durability, Journal};

use crate::catalog::{self, Catalog};
use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::open::JOURNAL_DIR;

/// The file that holds the room.
const BALLAST: &str = "ballast";
/// How names of the journal's segments end.
const SEGMENT_SUFFIX: &str = ".journal";
/// The same of one that is being made, behind its number of twenty digits.
const UNFINISHED_SUFFIX: &str = ".new";
/// Bytes that are held for the journal's next segment, with the records that it takes over.
const JOURNAL_BYTES: u64 = 1 << 20;
/// Bytes that are held for each keyspace: its superblock, which is written under another name, and
/// some blocks.
const KEYSPACE_BYTES: u64 = 32 << 10;
/// Bytes on the device for each byte that is replayed: a record with its padding and the rest of
/// its page, and a copy of it by a compaction.
const REPLAY_FACTOR: u64 = 3;

/// Bytes that are held beyond those for the journal's records, or for a new `flexdb` keyspace in
/// place of one that is cleared.
const SPARE_BYTES: u64 = 1 << 20;
/// Bytes that are given to a full device in one step, for a flush or a clearing.
const GIVEN_BYTES: u64 = 256 << 10;
/// The same for the journal, with the bytes of the records that it could not write.
const RECORDS_BYTES: u64 = 16 << 10;
/// Bytes for the journal's end: two marks, and the file with the number that the journal reaches.
const END_BYTES: u64 = 64 << 10;

fn held_bytes(catalog: &Catalog) -> u64 {
    JOURNAL_BYTES + KEYSPACE_BYTES * catalog.keyspaces.len() as u64
}

/// The room that an open database holds.
#[derive(Debug)]
pub(crate) struct JournalRoom {
    ballast: Ballast,
    /// Bytes for the next opening.
    kept: u64,
    /// Bytes that it should hold.
    bytes: u64,
}

impl JournalRoom {
    /// Holds room for the next opening, and for a group of records of up to `group_bytes`, as far
    /// as there is any.
    ///
    /// # Errors
    /// The device's, but not that it is full.
    pub(crate) fn hold(
        device: &Arc<dyn Device>,
        catalog: &Catalog,
        group_bytes: u64,
    ) -> Result<Self> {
        let ballast = Ballast::found(Arc::clone(device), BALLAST)?;
        let kept = held_bytes(catalog);
        let bytes = kept + group_bytes.max(opening_bytes_max()) + SPARE_BYTES;
        ballast.fit(kept)?;
        ballast.fit(bytes)?;
        Ok(Self { ballast, kept, bytes })
    }

    /// Returns whether the device had no room for all that it should hold.
    pub(crate) fn is_short(&self) -> bool {
        self.ballast.bytes() < self.bytes
    }

    /// Does `work`, which waits for `journal`, with room from the ballast if the journal has none.
    /// Gives no room if it would not be enough for the records that the journal could not write.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn spend(
        &self,
        journal: &Journal,
        mut work: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let is_enough = |error: &Error| {
            let left = self.ballast.bytes().saturating_sub(self.kept);
            error.is_no_space() && journal.unwritten_bytes() <= left
        };
        match work() {
            Err(error) if is_enough(&error) => {}
            done => return done,
        }
        // The first gift is enough for the records, which are already known. Other writers use up
        // the rest.
        let bytes = journal.unwritten_bytes() + RECORDS_BYTES;
        self.ballast.spend((self.kept, bytes), is_enough, work)
    }

    /// Does `flush`, of a journaled keyspace, with room from the ballast if the device has none.
    /// The journal can be trimmed after it, and the trim takes the room back.
    ///
    /// # Errors
    /// Those of `flush`.
    pub(crate) fn spend_on_flush<T>(
        &self,
        flush: impl FnMut() -> engine::Result<T>,
    ) -> engine::Result<T> {
        let is_full = |error: &engine::Error| {
            matches!(error, engine::Error::Device(device::Error::NoSpace { .. }))
        };
        self.ballast.spend((self.kept, GIVEN_BYTES), is_full, flush)
    }

    /// Does `clear`, of a keyspace, with room from the ballast if the device has none.
    ///
    /// # Errors
    /// Those of `clear`.
    pub(crate) fn spend_on_clear<T>(&self, clear: impl FnMut() -> Result<T>) -> Result<T> {
        self.ballast.spend((self.kept, GIVEN_BYTES), Error::is_no_space, clear)
    }

    /// Has `journal` write the records that it had no room for.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn write_last(&self, journal: &Journal) -> Result<()> {
        self.spend(journal, || Ok(journal.wait(journal.last(), Durability::Flushed)?))
    }

    /// Holds the given room again, as far as there is room. Costs one load if none was given. If
    /// the device fails, it holds less than it should, and the next opening takes that back.
    pub(crate) fn take_back(&self) {
        let given = self.bytes.saturating_sub(self.ballast.bytes());
        let _taken = self.ballast.take_back(given);
    }

    /// Closes the journal. If there is no room for its end, that takes the place of a part of the
    /// ballast.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn close(&self, journal: &Journal) -> Result<()> {
        // The close reports a failure of this, too.
        let _written = self.write_last(journal);
        // The end takes the place of this part, and the journal is closed even if the ballast
        // fails.
        let _held = self.ballast.hold(self.ballast.bytes() + END_BYTES);
        let _given = self.ballast.give(END_BYTES);
        let closed = journal.close();
        self.take_back();
        Ok(closed?)
    }
}

/// Opens by `open`, if need be with the room that is held for it.
///
/// # Errors
/// The errors of `open`; [`Error::NoRoomToOpen`] in the place of errors for lack of room.
pub(crate) fn open_with_room<T>(
    device: &Arc<dyn Device>,
    open: impl Fn() -> Result<T>,
) -> Result<T> {
    let ballast = Ballast::found(Arc::clone(device), BALLAST)?;
    match open() {
        Err(error) if error.is_no_space() => {
            let held = ballast.give(u64::MAX)?;
            let again = if held > 0 { open() } else { Err(error) };
            again.or_else(|error| {
                remove_unfinished(&**device)?;
                ballast.take_back(held)?;
                Err(explain(&**device, error))
            })
        }
        opened => opened,
    }
}

/// Removes the journal segment that an opening without room has begun, as the next one would.
fn remove_unfinished(device: &dyn Device) -> Result<()> {
    if !device.exists(JOURNAL_DIR)? {
        return Ok(());
    }
    for entry in device.list(JOURNAL_DIR)? {
        if is_numbered(&entry.name, UNFINISHED_SUFFIX) {
            device.remove(&join(JOURNAL_DIR, &entry.name))?;
        }
    }
    Ok(())
}

/// Returns whether a name is the one that the journal gives to a file with this suffix.
fn is_numbered(name: &str, suffix: &str) -> bool {
    let number = name.strip_suffix(suffix);
    number.is_some_and(|number| number.len() == 20 && number.parse::<u64>().is_ok())
}

/// Returns the error with the number of bytes that are enough.
fn explain(device: &dyn Device, error: Error) -> Error {
    if !error.is_no_space() {
        return error;
    }
    match bytes_to_open(device) {
        Ok(needed_bytes) => Error::NoRoomToOpen { needed_bytes, cause: Arc::new(error) },
        Err(_unreadable) => error,
    }
}

/// Returns the lengths of the journal's segments, oldest first. Other files in its directory may be
/// unreadable, and have no effect.
pub(crate) fn segment_lengths(device: &dyn Device) -> Result<Vec<u64>> {
    let segments = device.list(JOURNAL_DIR)?.into_iter();
    let segments = segments.filter(|entry| is_numbered(&entry.name, SEGMENT_SUFFIX));
    segments.map(|entry| len(device, &join(JOURNAL_DIR, &entry.name))).collect()
}

fn len(device: &dyn Device, name: &str) -> Result<u64> {
    Ok(device.open(name, Mode::Read)?.len()?)
}

/// Returns the most bytes that the opening of one keyspace may need, if its engine has no ballast
/// of its own any more.
fn opening_bytes_max() -> u64 {
    let bytes = EngineKind::ALL.iter().map(|engine| engine.driver().opening_bytes);
    bytes.max().unwrap_or(0)
}

/// Returns the bytes with which an opening succeeds. They are for the newest segment of the
/// journal, of which all may be taken over, and for all records of the journal, if any engine
/// writes the records that it replays.
fn bytes_to_open(device: &dyn Device) -> Result<u64> {
    let Some(catalog) = Catalog::load(device)? else { return Ok(0) };
    let segments = segment_lengths(device)?;
    let newest = segments.last().copied().unwrap_or_default();
    let mut bytes = held_bytes(&catalog) + newest;
    for keyspace in &catalog.keyspaces {
        let driver = keyspace.options.engine.driver();
        bytes += driver.opening_bytes;
        // `subdevice` would make a directory that is missing.
        if catalog::has_files(device, keyspace)? {
            bytes += (driver.rewritten_bytes)(&*device.subdevice(&keyspace.dir())?)?;
        }
    }
    // The others write nothing before a flush.
    let writes = |engine: EngineKind| engine.driver().has_share();
    if catalog.keyspaces.iter().any(|one| one.options.journaled && writes(one.options.engine)) {
        bytes += REPLAY_FACTOR * segments.iter().sum::<u64>();
    }
    Ok(bytes)
}
