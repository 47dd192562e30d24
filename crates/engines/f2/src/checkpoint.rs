//! Making applied writes durable: the logs up to their cuts, then the superblock that names them.
//!
//! 1. Read up to which number every write is applied. Read the beginnings of the logs. If the chunk
//!    log has grown much, write the directory of the cold index to a file (`snapshot` of
//!    [`crate::cold_index`]).
//! 2. *Cut* the logs one by one without a pause. Their order is hot log, chunk log, cold log.
//!    Records above a log's cut are appended from now on, and records below it are read-only
//!    (*fold-over*).
//! 3. Wait until no thread changes the part below the cuts any more, flush and sync it.
//! 4. Let the journal reach all that may be in it (law L3), and commit the superblock.
//! 5. Remove segments below the logs' beginnings, and the file of an older directory.
//!
//! No thread is stopped: step 2 is a few instructions, during which every write is appended. Data
//! of the last checkpoint is not written again.
//!
//! # Invariants
//! - K1. *Prefix.* A checkpoint has, with any write, all writes that had ended before that one
//!   began; so it has a prefix of each thread's writes. It follows from `hybrid_log/read_only.rs`
//!   for the hot log. Chains are rebuilt in the order of addresses, which is the order of the
//!   writes of a chain [H7 of the log].
//! - K2. Records that had left the hot log in step 1 are in the chunk log and in the cold log: they
//!   are cut later.
//! - K3. The cold index has no entry for a record above the hot log's cut (`checkpoint_gate`).
//!   Records from below that moved to the cold log after step 1 are in the checkpoint twice; the
//!   hot log comes first.
//! - K4. Every record that a chunk names is there: the cold log is cut after the chunk log, and its
//!   beginning was read before.
//! - K5. Nothing that the superblock names is removed: segments go in step 5 alone, under the lock
//!   under which it is committed. After a commit that failed it is unknown which state the
//!   superblock names. So nothing more is committed, and a close keeps all segments.
//! - K7. An opening does not make the superblock durable if all files are inside the parts that it
//!   names. The state that was found may be in the page cache alone, and a power cut leaves the
//!   state before it. The files of that state are in these parts, too, since its segments are
//!   removed only after a commit that succeeded. The superblock is made durable before the next
//!   commit, or by [`FoundState::make_durable`](engine::FoundState::make_durable).
//! - K6. A thread that writes a copy has open the files of the state that was current when the copy
//!   began, and holds no lock. The part of these files below the cuts never changes, and a file
//!   that is removed meanwhile stays readable for a thread that has it open. So checkpoints
//!   continue, and disk space is released, except that of these files.
//!
//! If there is a journal, writes above that number may be both in the checkpoint and in the
//! journal. Replaying them gives the same result: a put or a delete does not depend on the state
//! before it.

mod between_cuts;
mod checkpoint_gate;
mod checkpoints;
mod format;
mod in_part;
pub(crate) mod recover;
mod release;

use std::sync::Arc;

use device::Device;
use engine::{Error, GoOn, Result, SeqNo, Superblock};
use sync::thread::yield_now;

use crate::address::LogAddress;
use crate::cold_index::{Counts, NamedSnapshot};
use crate::failing_compactions::{FLUSH, HOLD_ROOM};
use crate::held_room::HeldRoom;
use crate::hybrid_log::{HeldSegments, HybridLog};
use crate::store::{Shared, Store};

use between_cuts::between_cuts;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use between_cuts::meanwhile_between_cuts;
use checkpoint_gate::CheckpointGate;
pub(crate) use checkpoints::Checkpoints;
pub(crate) use format::{Committed, Identity, LogUnits, SUPERBLOCK, SUPERBLOCK_KIND, Span};
use in_part::Marks;
use release::OwedRelease;

/// A whole checkpoint, as a store reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    /// Each has a higher one than those before it; an empty store's is 0.
    pub number: u64,
    /// Every write of the host's sequence up to this is in it.
    pub persisted: SeqNo,
}

/// Of the hot, the cold and the chunk log, as [`Shared::logs`] has them.
pub(crate) type OfEach<T> = [T; 3];

/// State that one checkpoint leaves for the next.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    /// `None` once the store is closed, or once a commit has failed for good.
    superblock: Option<Superblock>,
    committed: Committed,
    /// The end of each log when all of it was durable: at the last commit, or when it was opened.
    durable_tails: OfEach<LogAddress>,
}

impl Checkpointer {
    pub(crate) fn new(
        superblock: Superblock,
        committed: Committed,
        durable_tails: OfEach<LogAddress>,
    ) -> Self {
        Self { superblock: Some(superblock), committed, durable_tails }
    }

    /// The state that the superblock names, unless the store is closed or a commit has failed for
    /// good. After such a failure the superblock may name this state or the next.
    pub(crate) fn committed_if_known(&self) -> Option<Committed> {
        self.superblock.as_ref().map(|_| self.committed)
    }

    /// Closes the file.
    pub(crate) fn close(&mut self) {
        self.superblock = None;
    }
}

impl Store {
    /// Returns the checkpoint that this store was opened from. In a store without a journal it has
    /// all writes that were not lost: with any write, all that had ended before that one began.
    pub fn recovered(&self) -> Checkpoint {
        self.shared.checkpoints.recovery.checkpoint
    }

    /// Returns the newest checkpoint. When an [`Engine::flush`] returns, the newest checkpoint has
    /// all writes that had ended before the flush began.
    ///
    /// [`Engine::flush`]: engine::Engine::flush
    pub fn newest_checkpoint(&self) -> Checkpoint {
        self.shared.checkpoints.newest()
    }
}

impl Shared {
    /// Makes everything applied so far durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.health.check_writable()?;
        let mut checkpointer = self.checkpoints.checkpointer.lock();
        let flushed = self.commit(&mut checkpointer, Self::fold_over);
        self.background.errors.note(FLUSH, &flushed, &self.host.environment);
        flushed
    }

    /// Tries a flush again that has failed for a reason that may pass, after pauses that grow. Also
    /// flushes while the device has no room for writes: the journal can be trimmed after it.
    /// Returns without waiting if another flush has the superblock.
    pub(crate) fn flush_again(&self) {
        let (environment, errors) = (&self.host.environment, &self.background.errors);
        let lacks_room = self.host.barrier.is_journaled() && errors.is_failing(HOLD_ROOM);
        let is_wanted = errors.is_failing(FLUSH) || lacks_room;
        if !is_wanted || errors.pausing(FLUSH, environment).is_some() {
            return;
        }
        let Some(mut checkpointer) = self.checkpoints.checkpointer.try_lock() else { return };
        let flushed = self.commit(&mut checkpointer, Self::fold_over);
        errors.note(FLUSH, &flushed, environment);
    }

    /// Makes the state that opening has found durable [K7]. Returns `false` if a flush has the
    /// superblock.
    pub(crate) fn make_opening_durable(&self) -> Result<bool> {
        let Some(mut checkpointer) = self.checkpoints.checkpointer.try_lock() else {
            return Ok(false);
        };
        self.commit(&mut checkpointer, Self::make_superblock_durable)?;
        Ok(true)
    }

    fn make_superblock_durable(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        let superblock = checkpointer.superblock.as_mut().ok_or(Error::Closed)?;
        if superblock.is_durable() {
            return Ok(());
        }
        HeldRoom::make_durable(&self.admission.room.ballast, superblock, &*self.host.device)
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
            Err(error @ (Error::Journal { .. } | Error::Closed)) => Err(error),
            // A flush may also try again when there is room: the data not written is still in
            // memory.
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                self.health.fail(&error);
                Err(error)
            }
        }
    }

    fn fold_over_whole(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        // This takes no pin, which would wait for writes in progress: one of them may wait for a
        // page to be flushed, by the thread that this runs on. The data that they are about to
        // write needs no place here. Writes that were applied concurrently are below the cuts,
        // whatever number is named.
        let applied = self.host.sequence.visible();
        let begins = self.begins();
        let directory = self.snapshot_directory(checkpointer)?;
        let tails = checkpointer.durable_tails;
        let (cuts, counts) = {
            let _held = self.checkpoints.gate.hold(self.hot.log.tail());
            let hot = self.cut(Some(&self.hot.log), tails[0]);
            let ([cold, chunks], counts) = self.cut_cold(tails);
            ([hot, cold, chunks], counts)
        };
        self.make_durable(cuts)?;
        let last = self.host.sequence.last();
        let reached = self.host.barrier.reach(last)?;
        let persisted = applied.min(reached).max(self.checkpoints.persisted());
        let named = checkpointer.committed;
        let spans = moved(named.spans(), begins, cuts);
        let cold_live_bytes = self.cold_live_bytes(spans);
        let named = named.with_spans(spans);
        let committed = Committed { persisted, directory, counts, cold_live_bytes, ..named };
        self.name(checkpointer, committed, cuts)
    }

    /// The directory's snapshot that is to be named: a new one, if it is due. Before the logs are
    /// cut.
    fn snapshot_directory(&self, checkpointer: &Checkpointer) -> Result<NamedSnapshot> {
        let Committed { directory, number, .. } = checkpointer.committed;
        let Some(cold) = &self.cold else { return Ok(directory) };
        let new = cold.index.snapshot_if_due(&*self.host.device, directory, number + 1)?;
        Ok(new.unwrap_or(directory))
    }

    /// Commits the state after these cuts, and removes the segments that it does not need.
    fn name(
        &self,
        checkpointer: &mut Checkpointer,
        committed: Committed,
        cuts: OfEach<Option<LogAddress>>,
    ) -> Result<()> {
        self.make_superblock_durable(checkpointer)?;
        if committed == checkpointer.committed {
            return Ok(());
        }
        let committed = Committed { number: committed.number + 1, ..committed };
        let superblock = checkpointer.superblock.as_mut().ok_or(Error::Closed)?;
        let outcome = superblock.commit(&*self.host.device, &committed.encode());
        if outcome.as_ref().is_err_and(|error| !error.is_retryable()) {
            checkpointer.superblock = None;
        }
        outcome?;
        let before = std::mem::replace(&mut checkpointer.committed, committed);
        for (tail, cut) in checkpointer.durable_tails.iter_mut().zip(cuts) {
            *tail = cut.unwrap_or_default().max(*tail);
        }
        self.checkpoints.note_committed(&committed);
        if before.directory != committed.directory {
            // Nothing names it any more. If it stays, opening removes it.
            let _left: Result<()> = before.directory.remove(&*self.host.device);
        }
        self.remove_below(&committed)
    }

    /// Removes the segments that a checkpoint does not need. [K5]
    fn remove_below(&self, committed: &Committed) -> Result<()> {
        for (log, span) in self.logs().into_iter().zip(committed.spans()) {
            log.map_or(Ok(()), |log| log.segments.remove_below(span.begin))?;
        }
        Ok(())
    }

    /// Returns the live bytes of the cold log that are to be named. Records from after the cut are
    /// among them; the number is only an estimate.
    fn cold_live_bytes(&self, [_, span, _]: OfEach<Span>) -> u64 {
        self.cold.as_ref().map_or(0, |cold| cold.live.sum().min(span.bytes()))
    }

    fn begins(&self) -> OfEach<Option<LogAddress>> {
        self.logs().map(|log| log.map(|log| log.begin()))
    }

    /// Cuts the cold log and the chunk log, in the order of [K4], and returns the cold index's
    /// counts.
    fn cut_cold(&self, tails: OfEach<LogAddress>) -> ([Option<LogAddress>; 2], Counts) {
        let Some(cold) = &self.cold else { return Default::default() };
        let cut_chunks = || self.cut(Some(&cold.chunk_log), tails[2]);
        let (chunk_cut, counts) = cold.index.cut_and_count(cut_chunks);
        between_cuts();
        ([self.cut(Some(&cold.log), tails[1]), chunk_cut], counts)
    }

    /// Cuts a log. Nothing is done if nothing was appended since the last commit: then nothing was
    /// changed in place either, because a commit leaves everything read-only. It is not enough that
    /// a page is flushed: it may not be synced or named.
    fn cut(&self, log: Option<&Arc<HybridLog>>, durable_tail: LogAddress) -> Option<LogAddress> {
        let log = log.filter(|log| !log.is_at(durable_tail))?;
        let _guard = self.epochs.protect();
        Some(log.cut())
    }

    /// Flushes and syncs the parts of the logs below the cuts.
    fn make_durable(&self, cuts: OfEach<Option<LogAddress>>) -> Result<()> {
        for (log, cut) in self.logs().into_iter().zip(cuts) {
            let Some((log, cut)) = log.zip(cut) else { continue };
            while log.safe_read_only() < cut {
                yield_now();
            }
            log.flush_until(cut)?;
            log.segments.sync()?;
        }
        Ok(())
    }

    /// Writes a whole, openable copy to `into`: of the state when it begins. [K6]
    pub(crate) fn checkpoint(&self, into: &dyn Device, go_on: &GoOn<'_>) -> Result<()> {
        self.health.check_writable()?;
        let (committed, held, directory) = {
            let mut checkpointer = self.checkpoints.checkpointer.lock();
            self.commit(&mut checkpointer, Self::fold_over)?;
            let committed = checkpointer.committed;
            let logs = self.logs().into_iter().zip(committed.spans());
            let hold = |(log, span): (Option<&Arc<HybridLog>>, Span)| {
                Some(log?.segments.hold(span.begin, span.end))
            };
            let held: Vec<HeldSegments> = logs.filter_map(hold).collect();
            // A copy without it, or with a part of it, is opened from its chunk log.
            let directory = committed.directory.open(&*self.host.device).unwrap_or_default();
            (committed, held, directory)
        };
        let goes_on = || self.health.check_open().and_then(|()| go_on());
        for segments in held {
            segments.copy(into, &goes_on)?;
        }
        if let Some(directory) = directory {
            let _is_whole: Result<()> = committed.directory.copy(&*directory, into, &goes_on);
        }
        goes_on()?;
        Superblock::create(into, SUPERBLOCK, SUPERBLOCK_KIND, &committed.encode())?;
        Ok(())
    }
}

/// Returns the span of each log that is to be named.
fn moved(
    named: OfEach<Span>,
    begins: OfEach<Option<LogAddress>>,
    cuts: OfEach<Option<LogAddress>>,
) -> OfEach<Span> {
    std::array::from_fn(|log| {
        let begin = begins[log].unwrap_or(named[log].begin);
        // A log that was not cut may begin behind its named end.
        Span { begin, end: cuts[log].unwrap_or(named[log].end).max(begin) }
    })
}
