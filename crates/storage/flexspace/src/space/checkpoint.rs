//! Checkpoints: the present tree is written to free slots, and writers use a new log (Flex 4.2).
//!
//! 1. Commit. Under the writers' lock, take the records that came meanwhile, and cut the tree.
//! 2. Without it: make those records durable, make sure of room for the cut's new nodes, and begin
//!    a log that follows the old one. Concurrent changes go to the new log.
//! 3. Store the new nodes of the cut; commit the superblock, which names the cut and the new log.
//! 4. Free the slots of retired nodes, and remove the old log.
//!
//! If the second step has no room, nothing was changed: the old log continues, and the next cut
//! takes over the content of this one.

use device::Device;
use engine::Superblock;
use sync::mutant;

use super::ballast::Ballast;
use super::commit::Batch;
use super::open::{log_growth_bytes, segment_records};
use super::recover::Committed;
use super::room::full_device;
use super::{Error, FlexSpace, Shared};
use crate::Cut;
use crate::extent::Extent;
use crate::log::{self, EmptyLog, LogWriter};
use crate::nodes::NodeFile;
use crate::planted::Planted;

/// The state that one checkpoint leaves for the next.
#[derive(Debug)]
pub(super) struct Checkpointer {
    pub(super) nodes: NodeFile,
    /// `None` until the space is made.
    pub(super) superblock: Option<Superblock>,
    /// The superblock's content; for a space that is being made, a state before its first life.
    pub(super) committed: Committed,
    pub(super) count: u64,
    /// A cut that there was no room for.
    pub(super) unstored: Option<Cut<Extent>>,
}

impl Checkpointer {
    pub(super) fn new(
        nodes: NodeFile,
        superblock: Option<Superblock>,
        committed: Committed,
    ) -> Self {
        Self { nodes, superblock, committed, count: 0, unstored: None }
    }
}

/// The data that is taken under the writers' lock.
struct Moment {
    batch: Option<Batch>,
    cut: Cut<Extent>,
    /// With which the next log begins.
    records: Vec<u8>,
    life: u64,
}

impl FlexSpace {
    /// Makes all changes before the call durable, and the log short: writes the tree's nodes that
    /// are new since the last checkpoint, in time by their number. Readers and writers proceed
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Self::sync`]. Also [`Error::NoSpace`] if the tree has no room; all is durable then, and
    /// the call may be repeated.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.shared.ready()?;
        self.shared.checkpoint_with(&mut self.shared.checkpoints.lock())
    }
}

impl Shared {
    /// Makes a long log short, unless another thread does: then it waits if `waits`, or if the log
    /// is very long. Without room the log continues.
    pub(super) fn shorten_log(&self, waits: bool) -> Result<(), Error> {
        if self.checkpoints.is_storing()
            && !waits
            && !self.is_very_long(begun(&mut self.log.lock()))
        {
            return Ok(());
        }
        let mut checkpointer = self.checkpoints.lock();
        // Another one may have made it short.
        if !self.is_long(begun(&mut self.log.lock())) {
            return Ok(());
        }
        match self.checkpoint_with(&mut checkpointer) {
            Err(error) if error.leaves_log() => Ok(()),
            stored => stored,
        }
    }

    pub(super) fn checkpoint_with(&self, checkpointer: &mut Checkpointer) -> Result<(), Error> {
        self.health.check_writable()?;
        self.checkpoints.store(|| self.store(checkpointer))
    }

    fn store(&self, checkpointer: &mut Checkpointer) -> Result<(), Error> {
        let (cut, number) = self.begin_checkpoint(checkpointer)?;
        let root = self.health.stop_on(checkpointer.nodes.store(&cut))?;
        let len = cut.snapshot.len();
        let committed = Committed { log: number, len, root, ..checkpointer.committed };
        self.health.check_writable()?;
        let old = checkpointer.committed.log;
        self.health.stop_on(checkpointer.commit(&*self.directory.device, committed))?;
        checkpointer.count += 1;
        checkpointer.nodes.retire(&cut.retired);
        self.ballast.stored(checkpointer.nodes.slots().1);
        self.remove_logs(&[old])?;
        self.fit_ballast()
    }

    /// Removes logs that nothing names any more.
    pub(super) fn remove_logs(&self, numbers: &[u64]) -> Result<(), Error> {
        for &number in numbers {
            match self.directory.device.remove(&log::file_name(number)) {
                // The next life removes it.
                Err(error) if error.is_retryable() => {}
                removed => self.health.stop_on(removed)?,
            }
        }
        Ok(())
    }

    /// Does the first two steps: returns the state to be stored, and begins the log that follows
    /// it.
    fn begin_checkpoint(
        &self,
        checkpointer: &mut Checkpointer,
    ) -> Result<(Cut<Extent>, u64), Error> {
        let mut log = self.log.lock();
        let log = begun(&mut log);
        // Most of the work, while others write.
        self.commit_to(log)?;
        let Moment { batch, mut cut, records, life } = self.moment(log)?;
        if let Some(batch) = batch {
            self.make_durable(log, &batch)?;
            self.free(batch);
        }
        if let Some(unstored) = checkpointer.unstored.take() {
            cut.include(unstored);
        }
        let number = log.number() + 1;
        let slots = NodeFile::slots_of(&cut);
        let empty = self.room_for_checkpoint(&checkpointer.nodes, slots, number, &records);
        let empty = match empty {
            Err(error) if error.is_full_device() => {
                checkpointer.unstored = Some(cut);
                self.ballast.owes(u64::from(slots));
                return Err(full_device(&self.writer.lock(), records.len() as u64));
            }
            Err(error) if error.is_retryable() => {
                checkpointer.unstored = Some(cut);
                return Err(error);
            }
            made => self.health.stop_on(made)?,
        };
        let growth_bytes = log_growth_bytes(self.data.geometry);
        let next = LogWriter::begin(empty, life, log.end(), growth_bytes, &records);
        *log = self.health.stop_on(next)?;
        Ok((cut, number))
    }

    fn moment(&self, log: &mut LogWriter) -> Result<Moment, Error> {
        let mut writer = self.writer.lock();
        self.health.check_writable()?;
        let batch = self.take_batch(log, &mut writer)?;
        let (records, life) = (segment_records(&writer.segments, &self.data), writer.life);
        let held = mutant!(Planted::CutLate, true, false).then_some(writer);
        let cut = self.state.write().tree.cut();
        drop(held);
        Ok(Moment { batch, cut, records, life })
    }

    /// Makes room for nodes, and the file of the next log with a durable name: from then on no
    /// descriptor is needed.
    fn room_for_checkpoint(
        &self,
        nodes: &NodeFile,
        slots: u32,
        number: u64,
        records: &[u8],
    ) -> Result<EmptyLog, Error> {
        reserve_slots(&self.ballast, nodes, slots)?;
        let empty = empty_log(&self.ballast, &*self.directory.device, number, records)?;
        self.directory.device.sync_dir("")?;
        Ok(empty)
    }
}

/// Room for nodes in the tree file, which may be taken from the ballast.
pub(super) fn reserve_slots(ballast: &Ballast, nodes: &NodeFile, slots: u32) -> Result<(), Error> {
    ballast.spend(nodes.bytes_of(slots), || Ok(nodes.reserve(slots)?))
}

/// Returns the file of a log, for which room may be taken from the ballast.
pub(super) fn empty_log(
    ballast: &Ballast,
    device: &dyn Device,
    number: u64,
    records: &[u8],
) -> Result<EmptyLog, Error> {
    ballast.spend(records.len() as u64, || Ok(EmptyLog::create(device, number, records)?))
}

/// Returns the log of a life that has begun, as it has before any change, commit or checkpoint.
pub(super) fn begun(log: &mut Option<LogWriter>) -> &mut LogWriter {
    log.as_mut().expect("the life has begun")
}
