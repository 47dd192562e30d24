//! Room on the device for all that memory still has to write: a flush never finds the device full.
//!
//! 1. A write reserves memory in the hot log, and then has room held on the device. That is room
//!    for the part of the hot log that is not flushed, for the records of all writes that have
//!    reservations, and for the pages of the other logs in memory. If there is no room for that,
//!    the write is refused. So it is refused before it is journaled.
//! 2. A flush that finds the device full takes the room of its page from the ballast
//!    ([`device::Ballast`]). So the checkpoint is made, and the journal can be trimmed, which gives
//!    room back.
//! 3. A compaction that copies holds room for all pages of the logs that it appends to before it
//!    begins.
//! 4. The room for a new superblock, and for pages that an opening replays, may come from the
//!    ballast.
//!
//! # Invariants
//! - B1. The ballast and the pages that were flushed since have room for all of the hot log below
//!   [`HeldRoom::until`]. All outstanding reservations together move the tail no further. The last
//!   writer that had room held has counted the reservations of all others, and an append moves the
//!   tail by no more than its reservation. Only writes that were not admitted, as in a replay, go
//!   beyond it, and copies of a compaction of a single log beyond the pages that it has held.
//! - B2. The ballast only gets shorter by the bytes that a flush writes, by a superblock until that
//!   has taken the place of the one before or has failed to, or when the store is closed.
//!
//! # Concurrency
//! The lock of the ballast, over I/O, is taken last. A superblock and the flush of a page may each
//! take room from the ballast at the same time. So a superblock holds again the bytes that it was
//! given ([`Ballast::lend`]), whatever the length was before: a flush has made it shorter for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

use device::{Ballast, Device};
use engine::{Error, Result, Superblock};
use environment::LongWaits;

use crate::failing_compactions::HOLD_ROOM;
use crate::hybrid_log::{BLOCK_BYTES, HybridLog};
use crate::store::Shared;

/// The ballast's file.
const BALLAST: &str = "ballast";
/// Bytes that are held for a superblock and the first blocks of segments, however little is
/// written.
const LEAST_BYTES: u64 = 64 << 10;
/// Room is held ahead of the tail of the hot log, if the device has it. It suffices for a write of
/// this length, which an update that must not wait may have, and for this share of the bytes that
/// are not flushed.
const AHEAD_WRITE_BYTES: u64 = 64 << 10;
const AHEAD_SHARE: u64 = 4;

/// The ballast, and the part of the hot log for which it holds room.
#[derive(Debug)]
pub(crate) struct HeldRoom {
    pub(crate) ballast: Arc<Ballast>,
    /// The hot log has room up to here, as an address.
    until: AtomicU64,
    /// Bytes of the longest write that does not wait and has found no room.
    wanted: AtomicU64,
    /// Compactions that are under way.
    compactions: AtomicU64,
    /// Bytes of the ballast when the store was opened.
    found_bytes: u64,
    /// Long waits of writers until the device holds room.
    pub(crate) waits: LongWaits,
}

/// Room for all that a compaction may leave in memory; released on drop.
pub(crate) struct RoomToCompact<'a>(&'a HeldRoom);

impl HeldRoom {
    /// The ballast that the device holds.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn found(device: &Arc<dyn Device>) -> Result<Self> {
        let ballast = Arc::new(Ballast::found(Arc::clone(device), BALLAST)?);
        let found_bytes = ballast.bytes();
        let (until, wanted, compactions, waits) = Default::default();
        Ok(Self { ballast, until, wanted, compactions, found_bytes, waits })
    }

    /// Does `work`, a flush, which may take up to `bytes` bytes from the ballast. The room for a
    /// superblock stays: without it, no checkpoint can name what was flushed.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn spend<T>(
        ballast: &Ballast,
        bytes: u64,
        work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        ballast.spend((Superblock::FILE_BYTES, bytes), is_full, work)
    }

    /// Makes the superblock durable by replacing its file. The room of the new file may come from
    /// the ballast, which holds it again afterwards, also if this fails. A flush may take room from
    /// the ballast meanwhile.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn make_durable(
        ballast: &Ballast,
        superblock: &mut Superblock,
        device: &dyn Device,
    ) -> Result<()> {
        ballast.lend(Superblock::FILE_BYTES, is_full, || superblock.make_durable_in(device))
    }

    /// Holds `bytes` bytes, which is room for the hot log up to `until`.
    fn hold(&self, bytes: u64, until: u64) -> Result<()> {
        self.ballast.hold(bytes)?;
        self.until.fetch_max(until, AcqRel);
        Ok(())
    }

    /// Returns whether the hot log has room up to `end`.
    fn reaches(&self, end: u64) -> bool {
        end <= self.until.load(Acquire)
    }

    /// Notes that a write of `bytes` bytes has found no room, and does not wait.
    fn request(&self, bytes: u64) {
        self.wanted.fetch_max(bytes, AcqRel);
    }

    /// Returns whether a writer wants room that is not held.
    fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire) > 0
    }

    /// Takes the bytes of the longest write that has found no room: 0 if there is none.
    fn take_wanted(&self) -> u64 {
        self.wanted.swap(0, AcqRel)
    }

    /// Counts a compaction that begins, until the result is dropped.
    fn begin_compaction(&self) -> RoomToCompact<'_> {
        self.compactions.fetch_add(1, AcqRel);
        RoomToCompact(self)
    }

    fn is_compacting(&self) -> bool {
        self.compactions.load(Acquire) > 0
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Device(device::Error::NoSpace { .. }))
}

impl Drop for RoomToCompact<'_> {
    fn drop(&mut self) {
        self.0.compactions.fetch_sub(1, AcqRel);
    }
}

impl HybridLog {
    /// Bytes that it takes on the device from the end of its flushed part up to `until`.
    fn unflushed_bytes(&self, until: u64) -> u64 {
        let bytes = until.saturating_sub(self.flushed().get()).next_multiple_of(BLOCK_BYTES);
        // The first block of each segment that begins there.
        bytes + BLOCK_BYTES * (bytes / self.geometry.segment_bytes() + 2)
    }

    /// The same up to its tail, or of all pages that may be in memory, if a compaction appends to
    /// it.
    fn background_bytes(&self, is_appended_to: bool) -> u64 {
        let (flushed, tail) = (self.flushed().get(), self.tail().get());
        let pages = (self.frames() + 1) * self.geometry.page_bytes();
        match is_appended_to {
            true => self.unflushed_bytes(tail.max(flushed + pages)),
            false if tail == flushed => 0,
            false => self.unflushed_bytes(tail),
        }
    }
}

impl Shared {
    /// Returns the address that the hot log may reach by all writes that have reservations, and by
    /// a write of `more` bytes that has none yet.
    fn end_of_writes(&self, more: u64) -> u64 {
        let log = &self.hot.log;
        // Before the tail: a writer that returns its reservation has moved the tail before.
        let reserved = log.reserved_reach(more);
        log.tail().get() + reserved
    }

    /// Returns whether room is held for all writes that have reservations. Costs a few loads.
    pub(crate) fn holds_room(&self) -> bool {
        self.admission.room.reaches(self.end_of_writes(0))
    }

    /// Holds room for all writes that have reservations, and for one of `more` bytes that has none.
    /// Blocks if it has to ask the device; the caller is not protected.
    ///
    /// # Errors
    /// [`Error::SpaceUsedUp`] if the device has no room.
    pub(crate) fn hold_room(&self, more: u64) -> Result<()> {
        if self.admission.room.reaches(self.end_of_writes(more)) {
            return Ok(());
        }
        let (environment, errors) = (&self.host.environment, &self.background.errors);
        if let Some(cause) = errors.pausing(HOLD_ROOM, environment) {
            return Err(self.refusal_of_room(cause));
        }
        let held = self.hold_ahead(self.end_of_writes(more));
        errors.note(HOLD_ROOM, &held, environment);
        match held {
            Err(cause) if cause.is_retryable() => Err(self.refusal_of_room(cause)),
            Err(error) => {
                self.health.fail(&error);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Opening: holds room for first writes, if there is any.
    ///
    /// # Errors
    /// The storage's, but not that there is none.
    pub(crate) fn hold_first_room(&self) -> Result<()> {
        match self.hold_ahead(self.end_of_writes(0)) {
            Err(error) if error.is_retryable() => Ok(()),
            held => held,
        }
    }

    /// Has the background hold room for a write of `bytes` bytes that does not wait.
    pub(crate) fn request_held_room(&self, bytes: u64) {
        self.admission.room.request(bytes);
        self.wake_upkeep();
    }

    /// Returns whether a writer wants room that is not held.
    pub(crate) fn wants_held_room(&self) -> bool {
        self.admission.room.is_wanted()
    }

    /// Holds the room that writers want that do not wait. Asks the device again for room that it
    /// did not have, unless it was asked just now.
    pub(crate) fn hold_wanted_room(&self) {
        let wanted = self.admission.room.take_wanted();
        if wanted > 0 {
            // The writer that waits next gets the error.
            let _: Result<()> = self.hold_room(wanted);
        }
        let (environment, errors) = (&self.host.environment, &self.background.errors);
        if errors.is_failing(HOLD_ROOM) && errors.pausing(HOLD_ROOM, environment).is_none() {
            let bytes = self.hot.log.record_bytes();
            let held = self.hold_until(self.end_of_writes(bytes));
            errors.note(HOLD_ROOM, &held, environment);
        }
    }

    fn refusal_of_room(&self, cause: Error) -> Error {
        Error::SpaceUsedUp {
            what: "the device space that is reserved for unflushed data",
            bytes: self.room_bytes(self.end_of_writes(0)),
            limit: self.admission.room.ballast.bytes(),
            cause: Arc::new(cause),
        }
    }

    /// Holds room up to `until`, and more if the device has it.
    fn hold_ahead(&self, until: u64) -> Result<()> {
        let unflushed = until.saturating_sub(self.hot.log.flushed().get());
        let ahead = (unflushed / AHEAD_SHARE).max(self.hot.log.reserved_reach(AHEAD_WRITE_BYTES));
        match self.hold_until(until + ahead) {
            Err(error) if error.is_retryable() => self.hold_until(until),
            held => held,
        }
    }

    fn hold_until(&self, until: u64) -> Result<()> {
        self.admission.room.hold(self.room_bytes(until), until)
    }

    /// Holds room for all pages that a compaction may leave in memory.
    ///
    /// # Errors
    /// The device has no room for that; the storage's.
    pub(crate) fn hold_room_to_compact(&self) -> Result<RoomToCompact<'_>> {
        let held = &self.admission.room;
        let room = held.begin_compaction();
        let until = held.until.load(Acquire).max(self.hot.log.tail().get());
        held.ballast.hold(self.room_bytes(until))?;
        Ok(room)
    }

    /// Bytes of room that all logs need if the hot log is written up to `until`.
    fn room_bytes(&self, until: u64) -> u64 {
        let is_compacting = self.admission.room.is_compacting();
        let [hot, cold, chunks] = self.logs();
        // A single log is compacted into itself.
        let copies = hot.filter(|_| cold.is_none() && is_compacting);
        let copied = copies.map_or(0, |log| log.background_bytes(true));
        let others = [cold, chunks].into_iter().flatten();
        let others: u64 = others.map(|log| log.background_bytes(is_compacting)).sum();
        LEAST_BYTES + self.hot.log.unflushed_bytes(until).max(copied) + others
    }

    /// Closing: removes the segments that the next opening would remove, and leaves room for its
    /// superblock and its replay. If a commit has failed for good, the superblock may name any
    /// segment: then all of them stay, and the ballast too.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn leave_room(&self) -> Result<()> {
        let checkpointer = &self.checkpoints.checkpointer;
        let Some(committed) = checkpointer.lock().committed_if_known() else { return Ok(()) };
        for (log, span) in self.logs().into_iter().zip(committed.spans()) {
            log.map_or(Ok(()), |log| log.segments.remove_outside(span.begin, span.end))?;
        }
        let [hot, ..] = committed.spans();
        let replayed = match self.host.barrier.is_journaled() {
            true => self
                .hot
                .log
                .gaps
                .bytes_between(hot.end.max(self.hot.log.begin()), self.hot.log.tail()),
            false => 0,
        };
        // An opening that failed has replayed a part of the journal alone.
        let was_never_flushed = committed.checkpoint() == self.checkpoints.recovery.checkpoint;
        let HeldRoom { ballast, found_bytes, .. } = &self.admission.room;
        let found = if was_never_flushed { *found_bytes } else { 0 };
        let wanted = (LEAST_BYTES + replayed).max(found);
        ballast.give(ballast.bytes().saturating_sub(wanted))?;
        Ok(ballast.fit(wanted)?)
    }
}
