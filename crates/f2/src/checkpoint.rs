//! Making what was applied durable: the log up to a block's end, then the superblock that says so.
//!
//! 1. Pin the present: every write up to the pin is applied.
//! 2. End the tail's block, make everything below read-only (*fold-over*), wait until nobody
//!    changes it any more, flush and sync it.
//! 3. Let the journal reach all that may be in it (law L3), and commit the superblock.
//! 4. Remove segments that lie below the log's beginning.
//!
//! What was applied after the pin may be in the log too. It is in the journal, and replaying it
//! gives what it gave: a put or a delete does not depend on what was there before.

mod format;
pub(crate) mod recover;

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use device::Device;
use engine::{Error, Result, Superblock};
use sync::thread::yield_now;

use crate::address::LogAddress;
use crate::store::Shared;

pub(crate) use format::{Identity, SUPERBLOCK, SUPERBLOCK_KIND, Standing};

/// What one checkpoint leaves for the next.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    /// `None` once the store is closed.
    superblock: Option<Superblock>,
    standing: Standing,
    /// Where the log ended when all of it was durable: at the last commit, or when it was opened.
    durable_tail: LogAddress,
}

impl Checkpointer {
    pub(crate) fn new(superblock: Superblock, standing: Standing, tail: LogAddress) -> Self {
        Self { superblock: Some(superblock), standing, durable_tail: tail }
    }

    /// Lets go of the file.
    pub(crate) fn close(&mut self) {
        self.superblock = None;
    }
}

impl Shared {
    /// Makes everything applied so far durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.health.check_writable()?;
        let mut checkpointer = self.checkpointer.lock();
        self.health.check_writable()?;
        match self.fold_over(&mut checkpointer) {
            Ok(()) => Ok(()),
            // The journal's failure and a close are none of these files; a later flush may try.
            Err(error @ (Error::Journal(_) | Error::Closed)) => Err(error),
            Err(error) => {
                self.health.fail(&error);
                Err(error)
            }
        }
    }

    fn fold_over(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        // The number is enough: what a pin holds back is of no use here.
        let pinned = self.host.sequence.pin().seqno();
        let begin = self.log.begin();
        let end = self.make_durable(checkpointer)?;
        let last = self.host.sequence.last();
        let reached = self.host.barrier.reach(last)?;
        let persisted = pinned.min(reached).max(self.persisted());
        let standing = Standing { begin, end, persisted, ..checkpointer.standing };
        if standing == checkpointer.standing {
            return Ok(());
        }
        let superblock = checkpointer.superblock.as_mut().ok_or(Error::Closed)?;
        superblock.commit(&standing.encode())?;
        checkpointer.standing = standing;
        checkpointer.durable_tail = checkpointer.durable_tail.max(end);
        self.persisted.store(persisted.get(), Release);
        self.log.segments.remove_below(begin)
    }

    /// Flushes and syncs the log, and answers where it ends. Nothing is done if nothing was appended
    /// since the last commit: then nothing was changed in place either, because a commit leaves
    /// everything read-only. That a page is flushed says nothing: it may not be synced or named.
    fn make_durable(&self, checkpointer: &Checkpointer) -> Result<LogAddress> {
        if self.log.is_at(checkpointer.durable_tail) {
            return Ok(checkpointer.standing.end);
        }
        let guard = self.epochs.protect();
        let end = self.log.end_block();
        self.log.shift_read_only(end);
        drop(guard);
        while self.log.safe_read_only() < end {
            yield_now();
        }
        self.log.flush_until(end)?;
        self.log.segments.sync()?;
        Ok(end)
    }

    /// Writes a whole, openable copy to `into`.
    pub(crate) fn checkpoint(&self, into: Arc<dyn Device>) -> Result<()> {
        self.flush()?;
        let checkpointer = self.checkpointer.lock();
        let standing = checkpointer.standing;
        self.log.segments.copy(&*into, standing.begin, standing.end)?;
        Superblock::create(&*into, SUPERBLOCK, SUPERBLOCK_KIND, &standing.encode())?;
        Ok(())
    }
}
