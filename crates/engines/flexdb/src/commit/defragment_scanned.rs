//! Intervals that scans have read in pieces are written as one, between commits
//! (`fragmented_queue.rs`).
//!
//! 1. The intervals that wait are looked up in the index. One that has another head now was changed
//!    since, and is left out; the bytes that were read of the others are still their content
//!    (index, X3).
//! 2. They are rewritten, each neighbour directly behind the one before it, so that one read has
//!    them.
//! 3. Readers get the base that has them in this layout.
//!
//! No pair changes, so nothing waits for the device: after a crash they have their old layout. The
//! change becomes durable with the next commit, or a moment later, so that the room that they took
//! before is free. If there is no room, nothing is done.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;
use flexspace::space::Together;

use super::changing::Changing;
use super::plan::{Known, Planner};
use super::{Committer, is_refused};
use crate::fragmented_queue::InPieces;
use crate::index;
use crate::state::Base;
use crate::store::Shared;

/// The intervals and bytes that were written as one.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) intervals: u64,
    pub(super) bytes: u64,
    /// Whether there was room for all of it.
    pub(super) is_whole: bool,
}

impl Shared {
    /// Writes waiting intervals as one, unless a commit runs, or was refused for lack of room.
    pub(crate) fn rewrite_fragmented(self: &Arc<Self>) -> Result<()> {
        // A commit that runs starts it when it ends.
        let Some(mut committer) = self.committer.try_lock() else { return Ok(()) };
        self.health.check_writable()?;
        if committer.is_short_of_room {
            self.background.fragmented_queue.clear();
            return Ok(());
        }
        let intervals = self.background.fragmented_queue.take();
        if intervals.is_empty() {
            return Ok(());
        }
        let written = self.write_together(&mut committer, intervals)?;
        self.background.fragmented_queue.note_written(written.bytes);
        self.figures.counts.rewritten_for_scans.fetch_add(written.intervals, Relaxed);
        self.figures.counts.written_for_scans.fetch_add(written.bytes, Relaxed);
        Ok(())
    }

    /// Writes intervals as one, in one hold of the space's writers' lock, as far as there is room.
    pub(super) fn write_together(
        self: &Arc<Self>,
        committer: &mut Committer,
        intervals: Vec<InPieces>,
    ) -> Result<Written> {
        let base = Arc::new(self.base_of(committer.index())?);
        let written =
            self.space.together(|space| Ok(self.write_as_one(space, committer, &base, &intervals)));
        drop((intervals, base));
        let written = match written {
            // Before it began.
            Err(error) if is_refused(&error) => return Ok(Written::default()),
            written => self.noted(written).flatten()?,
        };
        self.background.fragmented_queue.note_unsynced();
        self.renew_base(committer)?;
        Ok(written)
    }

    /// Makes the writes for scans durable, unless a commit runs, which does so.
    pub(crate) fn sync_rewritten(&self) -> Result<()> {
        let Some(_committer) = self.committer.try_lock() else { return Ok(()) };
        self.health.check_writable()?;
        if !self.background.fragmented_queue.take_unsynced() {
            return Ok(());
        }
        self.noted(self.space.sync())
    }

    /// Steps 1 and 2.
    fn write_as_one(
        self: &Arc<Self>,
        space: &mut Together<'_>,
        committer: &mut Committer,
        base: &Arc<Base>,
        intervals: &[InPieces],
    ) -> Result<Written> {
        let limits = self.interval_limits();
        let planner = Planner { shared: self, base, limits };
        let mut changing = Changing::new(self, space, committer);
        let mut written = Written::default();
        for InPieces { head, block, .. } in intervals {
            let found = index::find(&base.index, head.bound());
            let is_same = |there: &Arc<index::Head>| Arc::ptr_eq(there, head);
            let Some(found) = found.filter(|it| it.entry.head().is_some_and(is_same)) else {
                continue;
            };
            let known = Known::Pairs(Arc::clone(block));
            let Some(edit) = planner.plan_rewrite(Some(&found), &[], known)? else { continue };
            if !changing.change_planned(&edit)? {
                return Ok(written);
            }
            written.intervals += 1;
            written.bytes += edit.data.len() as u64;
        }
        Ok(Written { is_whole: true, ..written })
    }
}
