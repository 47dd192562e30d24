//! Making what was applied durable: the log up to a block's end, then the superblock that says so.
//!
//! 1. Pin the present: every write up to the pin is applied. Read where the logs begin.
//! 2. Of the hot log, end the tail's block, make everything below read-only (*fold-over*), wait
//!    until nobody changes it any more, flush and sync it.
//! 3. The same of the chunk log, and then of the cold log. So what had left the hot log in step 1
//!    is in them, and every record that a chunk names is there.
//! 4. Let the journal reach all that may be in it (law L3), and commit the superblock.
//! 5. Remove segments that lie below the logs' beginnings.
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
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

pub(crate) use format::{Identity, LogUnits, SUPERBLOCK, SUPERBLOCK_KIND, Span, Standing};

/// What one checkpoint leaves for the next.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    /// `None` once the store is closed.
    superblock: Option<Superblock>,
    standing: Standing,
    durable_tails: DurableTails,
}

/// Where each log ended when all of it was durable: at the last commit, or when it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DurableTails {
    pub(crate) hot: LogAddress,
    pub(crate) cold: LogAddress,
    pub(crate) chunks: LogAddress,
}

impl Checkpointer {
    pub(crate) fn new(superblock: Superblock, standing: Standing, tails: DurableTails) -> Self {
        Self { superblock: Some(superblock), standing, durable_tails: tails }
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
        self.commit(&mut checkpointer, Self::fold_over)
    }

    fn commit(
        &self,
        checkpointer: &mut Checkpointer,
        make: impl FnOnce(&Self, &mut Checkpointer) -> Result<()>,
    ) -> Result<()> {
        self.health.check_writable()?;
        match make(self, checkpointer) {
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
        let named = checkpointer.standing;
        let begins = self.logs().map(|log| log.map(|log| log.begin()));
        let mut tails = checkpointer.durable_tails;
        let hot = self.make_durable(Some(&self.log), begins[0], named.hot, &mut tails.hot)?;
        let [_, cold_log, chunk_log] = self.logs();
        let chunks = self.make_durable(chunk_log, begins[2], named.chunks, &mut tails.chunks)?;
        let cold = self.make_durable(cold_log, begins[1], named.cold, &mut tails.cold)?;
        let last = self.host.sequence.last();
        let reached = self.host.barrier.reach(last)?;
        let persisted = pinned.min(reached).max(self.persisted());
        self.name(checkpointer, Standing { hot, cold, chunks, persisted, ..named }, tails)
    }

    /// After a compaction: makes the cold and the chunk log durable, and gives the disk space back
    /// that no checkpoint needs any more.
    ///
    /// The hot log stays as it is in memory: making it read-only would have all of it that is in use
    /// appended anew. So the checkpoint still ends where it did, which is right only where the journal
    /// is replayed on top of it: a record may be dead because of a newer one behind the checkpoint's
    /// end. Without a journal the space waits for a whole checkpoint, which comes when it is as much
    /// as the hot log should take.
    pub(crate) fn give_back(&self) -> Result<()> {
        self.health.check_writable()?;
        // Whoever writes a copy of the store holds it for long; the next round gives back more.
        let Some(mut checkpointer) = self.checkpointer.try_lock() else { return Ok(()) };
        if self.host.barrier.is_journaled() {
            return self.commit(&mut checkpointer, Self::advance_begins);
        }
        let named = checkpointer.standing;
        let named = [named.hot.begin, named.cold.begin, named.chunks.begin];
        let waiting = |(log, named): (Option<&Arc<HybridLog>>, LogAddress)| {
            log.map_or(0, |log| log.begin().get().saturating_sub(named.get()))
        };
        let waiting: u64 = self.logs().into_iter().zip(named).map(waiting).sum();
        if waiting <= self.disk_bytes_max.unwrap_or(0) {
            return Ok(());
        }
        self.commit(&mut checkpointer, Self::fold_over)
    }

    fn advance_begins(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        let named = checkpointer.standing;
        let begins = self.logs().map(|log| log.map(|log| log.begin()));
        let mut tails = checkpointer.durable_tails;
        let [_, cold_log, chunk_log] = self.logs();
        let chunks = self.make_durable(chunk_log, begins[2], named.chunks, &mut tails.chunks)?;
        let cold = self.make_durable(cold_log, begins[1], named.cold, &mut tails.cold)?;
        self.host.barrier.reach(self.host.sequence.last())?;
        let hot = named.hot.from(begins[0].unwrap_or(named.hot.begin));
        self.name(checkpointer, Standing { hot, cold, chunks, ..named }, tails)
    }

    /// Commits what stands now, and removes the segments that it does not need.
    fn name(
        &self,
        checkpointer: &mut Checkpointer,
        standing: Standing,
        tails: DurableTails,
    ) -> Result<()> {
        if standing == checkpointer.standing {
            return Ok(());
        }
        let superblock = checkpointer.superblock.as_mut().ok_or(Error::Closed)?;
        superblock.commit(&standing.encode())?;
        checkpointer.standing = standing;
        checkpointer.durable_tails = tails;
        self.persisted.store(standing.persisted.get(), Release);
        let spans = [standing.hot, standing.cold, standing.chunks];
        for (log, span) in self.logs().into_iter().zip(spans) {
            log.map_or(Ok(()), |log| log.segments.remove_below(span.begin))?;
        }
        Ok(())
    }

    /// Flushes and syncs a log, and answers which part of it stands now. Nothing is done if nothing
    /// was appended since the last commit: then nothing was changed in place either, because a
    /// commit leaves everything read-only. That a page is flushed says nothing: it may not be
    /// synced or named.
    fn make_durable(
        &self,
        log: Option<&Arc<HybridLog>>,
        begin: Option<LogAddress>,
        named: Span,
        durable_tail: &mut LogAddress,
    ) -> Result<Span> {
        let Some((log, begin)) = log.zip(begin) else { return Ok(named) };
        if log.is_at(*durable_tail) {
            return Ok(named.from(begin));
        }
        let guard = self.epochs.protect();
        let end = log.end_block();
        log.shift_read_only(end);
        drop(guard);
        while log.safe_read_only() < end {
            yield_now();
        }
        log.flush_until(end)?;
        log.segments.sync()?;
        *durable_tail = end.max(*durable_tail);
        Ok(Span { begin, end })
    }

    /// Writes a whole, openable copy to `into`.
    pub(crate) fn checkpoint(&self, into: Arc<dyn Device>) -> Result<()> {
        self.health.check_writable()?;
        let mut checkpointer = self.checkpointer.lock();
        self.commit(&mut checkpointer, Self::fold_over)?;
        let standing = checkpointer.standing;
        let spans = [standing.hot, standing.cold, standing.chunks];
        for (log, span) in self.logs().into_iter().zip(spans) {
            log.map_or(Ok(()), |log| log.segments.copy(&*into, span.begin, span.end))?;
        }
        Superblock::create(&*into, SUPERBLOCK, SUPERBLOCK_KIND, &standing.encode())?;
        Ok(())
    }
}
