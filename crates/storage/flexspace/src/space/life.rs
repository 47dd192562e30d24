//! The beginning of a life: an opening only reads until the first change.
//!
//! 1. Make the superblock durable whatever happened to its last write.
//! 2. Sync the files that will be written to, as the first sync after a failed one may do nothing.
//! 3. Make a log of this life, store the tree, and commit the superblock: from here on changes are
//!    taken. Then the older logs go.
//!
//! A step that finds no room, or no descriptor, has changed nothing that the superblock leads to,
//! and is repeated with the next change. Room may be taken from the ballast. A failed step releases
//! the room that it took, and the ballast is as long as before: on a device that stays full no
//! attempt uses up any room.
//!
//! # Invariants
//! - L1. Before its life has begun an opening writes no file of the space, and removes none. So
//!   whichever of the superblock's two states a power cut leaves, all that it leads to is there.
//! - L2. A life begins once, under the locks of the checkpointer and of the log, and before the
//!   first change takes the writers' lock.

use device::{Device, SyncKind};
use engine::Superblock;

use super::ballast::Ballast;
use super::checkpoint::{self, Checkpointer};
use super::open::{log_growth_bytes, segment_records};
use super::recover::{Committed, SUPERBLOCK, SUPERBLOCK_KIND};
use super::room::full_device;
use super::{Error, FlexSpace, Shared};
use crate::Cut;
use crate::data::Geometry;
use crate::extent::Extent;
use crate::log::{self, EmptyLog, LogEnd, LogWriter};
use crate::nodes::NodeFile;

impl FlexSpace {
    /// Begins the life of this opening, unless it has begun. All that the opening has found is
    /// durable on return. Costs eight syncs, once.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn begin(&self) -> Result<(), Error> {
        self.shared.ready()
    }

    /// Does the same, or returns `false` without waiting if a commit or a checkpoint is under way.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn try_begin(&self) -> Result<bool, Error> {
        let shared = &self.shared;
        if shared.log.has_begun() {
            return Ok(true);
        }
        let Some(mut checkpointer) = shared.checkpoints.try_lock() else { return Ok(false) };
        let Some(mut log) = shared.log.try_lock() else { return Ok(false) };
        shared.begin_life(&mut checkpointer, &mut log)?;
        Ok(true)
    }

    /// Returns whether this opening has begun its life: whether something was to be changed.
    pub fn has_begun(&self) -> bool {
        self.shared.log.has_begun()
    }
}

impl Shared {
    /// Makes sure that a life has begun. The caller holds no lock behind the collector's.
    pub(super) fn ready(&self) -> Result<(), Error> {
        if self.log.has_begun() {
            return Ok(());
        }
        // Also for the ballast: a close, which releases the lock on the directory, happens before
        // or after.
        let mut checkpointer = self.checkpoints.lock();
        let begun = self.begin_life(&mut checkpointer, &mut self.log.lock());
        match begun {
            Err(error) if error.is_full_device() => Err(full_device(&self.writer.lock(), 0)),
            Err(error) => Err(error),
            Ok(()) => self.fit_ballast(),
        }
    }

    pub(super) fn begin_life(
        &self,
        checkpointer: &mut Checkpointer,
        log: &mut Option<LogWriter>,
    ) -> Result<(), Error> {
        if log.is_some() {
            return Ok(());
        }
        self.health.check_writable()?;
        let (device, geometry) = (&*self.directory.device, self.data.geometry);
        self.stop_unless_refused(checkpointer.make_durable(&self.ballast, device))?;
        self.health.stop_on(self.data.file.sync(SyncKind::Data))?;
        self.health.stop_on(checkpointer.nodes.sync())?;
        let life = checkpointer.committed.life + 1;
        let listed = device.list("").map_err(Error::from);
        let found = log::numbers(&self.stop_unless_refused(listed)?);
        let number = found.last().map_or(1, |last| last + 1);
        let (records, mut cut) = {
            let writer = self.writer.lock();
            let records = segment_records(&writer.segments, &self.data);
            (records, self.state.write().tree.cut())
        };
        if let Some(unstored) = checkpointer.unstored.take() {
            cut.include(unstored);
        }
        let held = self.ballast.bytes();
        let empty = self.room_for_life(&checkpointer.nodes, &cut, number, &records);
        let empty = match self.stop_unless_refused(empty) {
            Ok(empty) => empty,
            Err(error) => {
                checkpointer.unstored = Some(cut);
                self.health.stop_on(self.undo_room_for_life(&checkpointer.nodes, held))?;
                return Err(error);
            }
        };
        let begun = begin_log(empty, (life, &records), geometry);
        let begun = begun.and_then(|log| Ok((log, checkpointer.nodes.store(&cut)?)));
        let begun = begun.inspect_err(|_| {
            // Nothing names it. Should it stay, the next life removes it.
            let _ = device.remove(&log::file_name(number));
        });
        let (begun, root) = self.health.stop_on(begun)?;
        let len = cut.snapshot.len();
        let committed = Committed { life, log: number, len, root, ..checkpointer.committed };
        self.health.stop_on(checkpointer.commit(device, committed))?;
        checkpointer.nodes.retire(&cut.retired);
        self.ballast.stored(checkpointer.nodes.slots().1);
        self.remove_logs(&found)?;
        self.writer.lock().life = life;
        self.log.begin(log, begun);
        Ok(())
    }

    /// Room for the tree, and the file of a log with a durable name.
    fn room_for_life(
        &self,
        nodes: &NodeFile,
        cut: &Cut<Extent>,
        number: u64,
        records: &[u8],
    ) -> Result<EmptyLog, Error> {
        checkpoint::reserve_slots(&self.ballast, nodes, NodeFile::slots_of(cut))?;
        let empty = checkpoint::empty_log(&self.ballast, &*self.directory.device, number, records)?;
        // Here, since it may lack a descriptor, and the next attempt makes another file.
        let synced = self.directory.device.sync_dir("").inspect_err(|_| {
            let _ = self.directory.device.remove(&log::file_name(number));
        });
        synced.map(|()| empty).map_err(Error::from)
    }

    /// Releases the room that a life which could not begin has taken, and restores the length of
    /// the ballast. So the next attempt has the same room.
    fn undo_room_for_life(&self, nodes: &NodeFile, held: u64) -> Result<(), Error> {
        nodes.release()?;
        Ok(self.ballast.take_back(held)?)
    }

    /// Passes on an error after which the step may be repeated; any other one stops all writes
    /// (F3).
    fn stop_unless_refused<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        match done {
            Err(error) if error.is_retryable() => Err(error),
            done => self.health.stop_on(done),
        }
    }
}

impl Checkpointer {
    /// Makes the superblock's content durable, and keeps its file open: a checkpoint must not lack
    /// a descriptor between a new log and the commit. Does nothing for a space that is being made.
    fn make_durable(&mut self, ballast: &Ballast, device: &dyn Device) -> Result<(), Error> {
        let Some(superblock) = &mut self.superblock else { return Ok(()) };
        ballast.lend(Superblock::FILE_BYTES, || Ok(superblock.make_durable_in(device)?))?;
        Ok(superblock.hold_open(device)?)
    }

    /// Commits the superblock, which is made if there is none yet.
    pub(super) fn commit(
        &mut self,
        device: &dyn Device,
        committed: Committed,
    ) -> Result<(), Error> {
        let payload = committed.encode();
        match &mut self.superblock {
            Some(superblock) => superblock.commit(device, &payload)?,
            none => {
                let made = Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, &payload)?;
                none.insert(made).hold_open(device)?;
            }
        }
        self.committed = committed;
        Ok(())
    }
}

/// Begins the log of a life.
fn begin_log(
    empty: EmptyLog,
    (life, records): (u64, &[u8]),
    geometry: Geometry,
) -> Result<LogWriter, Error> {
    // It follows nothing: the recovered changes are in the tree that is stored now.
    let follows = LogEnd::default();
    Ok(LogWriter::begin(empty, life, follows, log_growth_bytes(geometry), records)?)
}
