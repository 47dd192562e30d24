//! Releasing the disk space of compacted parts: a checkpoint names the beginnings of the logs, and
//! then their older segments are removed.
//!
//! 1. Each round of a compaction owes such a checkpoint, and tries to make it without waiting for a
//!    flush.
//! 2. If a flush has the superblock, or the checkpoint fails for a reason that may pass, it stays
//!    owed. Upkeep tries again after pauses that grow, and does not sleep before it has succeeded.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use engine::{Error, Result};

use super::{Checkpointer, Checkpoints, Committed, OfEach, Span, moved};
use crate::address::LogAddress;
use crate::failing_compactions::RELEASE;
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

/// Whether a checkpoint is due that releases disk space.
#[derive(Default)]
pub(crate) struct OwedRelease {
    is_owed: AtomicBool,
}

impl OwedRelease {
    /// Whether a checkpoint is owed.
    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed.load(Acquire)
    }
}

impl Shared {
    /// After a round of a compaction: makes the copies durable, and releases the disk space that no
    /// checkpoint needs any more. Upkeep does it later if a flush has the superblock.
    ///
    /// # Errors
    /// The storage's. If the error may pass, upkeep tries again.
    pub(crate) fn release(&self) -> Result<()> {
        let owed = &self.checkpoints.owed_release;
        owed.is_owed.store(true, Release);
        let released = self.release_if_owed();
        if owed.is_owed() {
            self.wake_upkeep();
        }
        released
    }

    /// Releases the disk space that is due, unless that failed a short time ago.
    pub(crate) fn release_again(&self) {
        let (owed, errors) = (&self.checkpoints.owed_release, &self.background.errors);
        if owed.is_owed() && errors.pausing(RELEASE, &self.host.environment).is_none() {
            // A failure is a background error of the store until an attempt succeeds.
            let _failed: Result<()> = self.release_if_owed();
        }
    }

    fn release_if_owed(&self) -> Result<()> {
        self.health.check_writable()?;
        let Checkpoints { checkpointer, owed_release: owed, .. } = &self.checkpoints;
        let Some(mut checkpointer) = checkpointer.try_lock() else { return Ok(()) };
        // Before the beginnings are read: a round that ends after this owes another checkpoint.
        if !owed.is_owed.swap(false, AcqRel) {
            return Ok(());
        }
        let released = self.release_with(&mut checkpointer);
        if released.as_ref().is_err_and(Error::is_retryable) {
            owed.is_owed.store(true, Release);
        }
        self.background.errors.note(RELEASE, &released, &self.host.environment);
        released
    }

    /// With two logs, the hot log stays mutable in memory: if it became read-only, all of it that
    /// is in use would be appended again. So the checkpoint still has its old end, which is right
    /// only if the journal is replayed on top of it: a record may be dead because of a newer one
    /// behind the checkpoint's end. Without a journal the space waits for a whole checkpoint. It is
    /// made when the space exceeds the limit of the hot log, or when the hot log has not changed
    /// since the last checkpoint.
    ///
    /// With a journal, a checkpoint that ends before the log begins would have the journal replay
    /// records of which a compaction has made copies. They would take room twice, at most that of
    /// all copies since the checkpoint, which a full device does not have. So a whole checkpoint is
    /// made once compactions have passed the end of the one before. That is once for each time that
    /// the hot log is compacted from end to end.
    ///
    /// With a single log the copies are at its end, so the checkpoint is a whole one.
    fn release_with(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        if self.cold.is_none() {
            return self.commit(checkpointer, Self::fold_over);
        }
        if self.host.barrier.is_journaled() {
            let [hot, ..] = checkpointer.committed.spans();
            // Read once: a compaction that continues must not pass the end in between.
            let begins = self.begins();
            if self.hot.log.gaps.bytes_between(hot.end, begins[0].unwrap_or_default()) > 0 {
                return self.commit(checkpointer, Self::fold_over);
            }
            return self.commit(checkpointer, |store, one| store.advance_begins(one, begins));
        }
        let waiting = |(log, named): (Option<&Arc<HybridLog>>, Span)| {
            log.map_or(0, |log| log.gaps.bytes_between(named.begin, log.begin()))
        };
        let named = checkpointer.committed.spans();
        let waiting: u64 = self.logs().into_iter().zip(named).map(waiting).sum();
        // If nothing was appended to the hot log since, no record that is in use becomes read-only.
        let is_idle = self.hot.log.is_at(checkpointer.durable_tails[0]);
        if !is_idle && waiting <= self.hot_disk_bytes_max().unwrap_or(0) {
            return Ok(());
        }
        self.commit(checkpointer, Self::fold_over)
    }

    fn advance_begins(
        &self,
        checkpointer: &mut Checkpointer,
        begins: OfEach<Option<LogAddress>>,
    ) -> Result<()> {
        let directory = self.snapshot_directory(checkpointer)?;
        let ([cold, chunks], counts) = self.cut_cold(checkpointer.durable_tails);
        let cuts = [None, cold, chunks];
        self.make_durable(cuts)?;
        self.host.barrier.reach(self.host.sequence.last())?;
        let named = checkpointer.committed;
        let spans = moved(named.spans(), begins, cuts);
        let cold_live_bytes = self.cold_live_bytes(spans);
        let committed = Committed { directory, counts, cold_live_bytes, ..named.with_spans(spans) };
        self.name(checkpointer, committed, cuts)
    }
}
