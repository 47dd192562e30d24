//! Checkpoints: the tree as it is goes to free slots, while writers go on in a new log (Flex 4.2).
//!
//! 1. Commit; under the writers' lock, commit what came meanwhile, begin a log that follows the old
//!    one, and cut the tree.
//! 2. Store what is new of the cut; commit the superblock, which names the cut and the new log.
//! 3. Free the slots of retired nodes, and remove the old log.

use device::Device;
use engine::Superblock;

use super::open::{log_growth_bytes, segment_records};
use super::recover::{SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use super::{Error, FlexSpace, Shared};
use crate::Cut;
use crate::extent::Extent;
use crate::log::{self, LogWriter};
use crate::nodes::NodeFile;

/// What one checkpoint leaves for the next.
#[derive(Debug)]
pub(super) struct Checkpointer {
    pub(super) nodes: NodeFile,
    superblock: Superblock,
    pub(super) standing: Standing,
    pub(super) count: u64,
}

impl Checkpointer {
    pub(super) fn new(nodes: NodeFile, superblock: Superblock, standing: Standing) -> Self {
        Self { nodes, superblock, standing, count: 0 }
    }
}

impl FlexSpace {
    /// Makes all that was done before the call durable, and the log short: the tree's nodes that are
    /// new since the last checkpoint are written, in time by their number. Readers and writers go
    /// on meanwhile.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        let shared = &self.shared;
        shared.health.check_writable()?;
        let mut checkpointer = shared.checkpointer.lock();
        let checkpointer = &mut *checkpointer;
        let old = checkpointer.standing.log;
        let (cut, number) = shared.begin_checkpoint()?;
        let root = shared.health.stop_on(checkpointer.nodes.store(&cut))?;
        let len = cut.snapshot.len();
        let standing = Standing { log: number, len, root, ..checkpointer.standing };
        shared.health.stop_on(checkpointer.superblock.commit(&standing.encode()))?;
        checkpointer.standing = standing;
        checkpointer.count += 1;
        checkpointer.nodes.retire(&cut.retired);
        shared.health.stop_on(remove_logs(&*shared.device, &[old]))
    }
}

impl Shared {
    /// The first step: the state that is to be stored, and the log that goes on from it.
    fn begin_checkpoint(&self) -> Result<(Cut<Extent>, u64), Error> {
        let mut log = self.log.lock();
        // Most of what is to be done, while others write.
        self.commit_to(&mut log)?;
        let mut writer = self.writer.lock();
        self.health.check_writable()?;
        if let Some(batch) = self.take_batch(&mut log, &mut writer)? {
            self.make_durable(&mut log, &batch)?;
            self.free(&mut writer, batch);
        }
        let records = segment_records(&writer.segments, &self.data);
        let number = log.number() + 1;
        let growth_bytes = log_growth_bytes(self.data.geometry);
        let place = (writer.life, number);
        let next = LogWriter::create(&*self.device, place, log.end(), growth_bytes, &records);
        let next = self.health.stop_on(next)?;
        self.health.stop_on(self.device.sync_dir(""))?;
        *log = next;
        Ok((self.state.write().tree.cut(), number))
    }
}

/// Commits a superblock, which is made if there is none yet.
pub(super) fn commit(
    device: &dyn Device,
    superblock: Option<Superblock>,
    payload: &[u8],
) -> Result<Superblock, Error> {
    match superblock {
        None => Ok(Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, payload)?),
        Some(mut superblock) => {
            superblock.commit(payload)?;
            Ok(superblock)
        }
    }
}

/// Removes logs that nothing names any more.
pub(super) fn remove_logs(device: &dyn Device, numbers: &[u64]) -> Result<(), device::Error> {
    for &number in numbers {
        device.remove(&log::file_name(number))?;
    }
    Ok(())
}
