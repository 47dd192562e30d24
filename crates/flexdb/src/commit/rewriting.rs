//! Intervals that scans have read in pieces are written as one, between commits (`fragmented.rs`).
//!
//! 1. Those that wait are looked for in the index: one that has another head by now was changed since, and
//!    is left out; what was read of the others is what they have (index, X3).
//! 2. They are written anew, neighbours one behind the other, so that one read has them.
//! 3. Readers get the base in which they lie so.
//!
//! No pair changes, so nothing waits for the device: after a crash they lie as before. It is made durable with the
//! next commit, or a moment later, so that what they had taken is free. Where there is no room nothing is done.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;
use flexspace::space::Together;

use super::changing::Changing;
use super::plan::{Known, Planner};
use super::{Committer, is_refused};
use crate::fragmented::InPieces;
use crate::index;
use crate::state::Base;
use crate::store::Shared;

impl Shared {
    /// Writes as one what waits, unless a commit runs, or was refused for want of room.
    pub(crate) fn rewrite_fragmented(self: &Arc<Self>) -> Result<()> {
        // A commit that runs has it done when it ends.
        let Some(mut committer) = self.committer.try_lock() else { return Ok(()) };
        self.health.check_writable()?;
        if committer.is_short_of_room {
            self.fragmented.clear();
            return Ok(());
        }
        let intervals = self.fragmented.take();
        if intervals.is_empty() {
            return Ok(());
        }
        let base = Arc::new(self.base_of(committer.index())?);
        let written = self
            .space
            .together(|space| Ok(self.write_as_one(space, &mut committer, &base, &intervals)));
        drop((intervals, base));
        match written {
            // Before it began.
            Err(error) if is_refused(&error) => return Ok(()),
            written => self.told(written).flatten()?,
        }
        self.renew_base(&mut committer)
    }

    /// Makes durable what was written for scans, unless a commit runs, which does so.
    pub(crate) fn sync_rewritten(&self) -> Result<()> {
        let Some(_committer) = self.committer.try_lock() else { return Ok(()) };
        self.health.check_writable()?;
        if !self.fragmented.take_unsynced() {
            return Ok(());
        }
        self.told(self.space.sync())
    }

    /// Steps 1 and 2.
    fn write_as_one(
        self: &Arc<Self>,
        space: &mut Together<'_>,
        committer: &mut Committer,
        base: &Arc<Base>,
        intervals: &[InPieces],
    ) -> Result<()> {
        let limits = self.interval_limits();
        let planner = Planner { shared: self, base, limits };
        let mut changing = Changing::new(self, space, committer);
        for InPieces { head, block, .. } in intervals {
            let found = index::find(&base.index, head.bound());
            let is_same = |there: &Arc<index::Head>| Arc::ptr_eq(there, head);
            let Some(found) = found.filter(|it| it.entry.head().is_some_and(is_same)) else {
                continue;
            };
            let known = Known::Pairs(Arc::clone(block));
            let Some(edit) = planner.plan_anew(Some(&found), &[], known)? else { continue };
            if !changing.change_planned(&edit)? {
                break;
            }
            let bytes = edit.data.len() as u64;
            self.fragmented.note_written(bytes);
            self.counts.rewritten_for_scans.fetch_add(1, Relaxed);
            self.counts.written_for_scans.fetch_add(bytes, Relaxed);
        }
        Ok(())
    }
}
