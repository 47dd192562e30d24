//! Room by deletes: the pairs that memtables delete are taken out if a commit lacks room.
//!
//! If a commit was refused for lack of room, this is done before anything is put into the space.
//!
//! A delete waits behind writes that need the room which it would free: writes of smaller keys, and
//! writes of older memtables (commit, C3).
//!
//! 1. The keys are visited whose newest version in all memtables is a tombstone, up to a number
//!    that the journal reaches (law L3).
//! 2. Pins that see the present state get a base of it, unless they have one. This is done before
//!    the first pair is taken out, since the later steps may fail in the middle, and no later base
//!    has the pairs that are then gone.
//! 3. The pairs of these keys are taken out of the intervals, in place, so that nothing is written
//!    for it.
//!
//! Nothing is put in, and no number is advanced: the commits that follow find these pairs gone. The
//! commit that was refused continues where it stopped, so it does not put again its own pairs that
//! were taken out. After a crash the journal has the deletes, since it reached them.
//!
//! It is not done again before the commit has got further, or something was written: if the change
//! of an interval is broken off, the next try puts the same updates in again.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Error, Result};
use flexspace::space::Together;

use super::Committer;
use super::changing::Changing;
use super::plan::Planner;
use super::plan_parallel::bound_behind;
use crate::memtable::{Memtable, Walker};
use crate::state::{Base, Pinned};
use crate::store::Shared;

/// Whether a commit ended for lack of room.
pub(super) fn is_for_want_of_room(error: &Error) -> bool {
    matches!(error, Error::Device(device::Error::NoSpace { .. }))
}

impl Shared {
    /// Takes out the deleted pairs, and returns whether there were any.
    pub(super) fn reclaim_for_deletes(self: &Arc<Self>, committer: &mut Committer) -> Result<bool> {
        let state = self.open_state()?;
        let memtables: Vec<_> = state.memtables().cloned().collect();
        let newest = memtables.iter().map(|it| it.newest()).max().unwrap_or(SeqNo::ZERO);
        let moment = (committer.stopped.clone(), newest);
        if committer.relieved.as_ref() == Some(&moment) {
            return Ok(false);
        }
        let Some(pins) = self.host.sequence.pins_below(newest) else { return Ok(false) };
        self.host.barrier.reach(newest)?;
        let before = Arc::new(self.base_of(committer.index())?);
        let taken = self.space.together(|space| {
            Ok(self.take_out(space, committer, &before, &pins, &memtables, newest))
        });
        let pairs = self.noted(taken).flatten()?;
        committer.relieved = Some(moment);
        if pairs == 0 {
            return Ok(false);
        }
        self.figures.counts.relieved_pairs.fetch_add(pairs, Relaxed);
        let base = Arc::new(self.base_of(committer.index())?);
        let _install = self.state.lock();
        let Some(state) = self.state.load_full() else { return Err(Error::Closed) };
        self.state.replace(state.with_base(base, None, state.pinned.clone()));
        Ok(true)
    }

    /// Step 2.
    fn pin_base(&self, committer: &Committer, before: &Arc<Base>, pins: &[SeqNo]) -> Result<()> {
        let _install = self.state.lock();
        let Some(state) = self.state.load_full() else { return Err(Error::Closed) };
        let mut pinned = state.pinned.clone();
        for pin in pins.iter().filter(|pin| !committer.keeps(**pin)) {
            let seen = || Pinned { base: Arc::clone(before), memtables: Vec::new() };
            pinned.entry(*pin).or_insert_with(seen);
        }
        let next = state.with_base(Arc::clone(&state.base), None, pinned);
        self.state.replace(next);
        Ok(())
    }

    /// Steps 2 and 3; returns how many pairs were taken out.
    pub(super) fn take_out(
        self: &Arc<Self>,
        space: &mut Together<'_>,
        committer: &mut Committer,
        base: &Arc<Base>,
        pins: &[SeqNo],
        memtables: &[Arc<Memtable>],
        newest: SeqNo,
    ) -> Result<u64> {
        let mut deleted = Deleted::new(memtables, newest);
        let mut changing = Changing::new(self, space, committer);
        let planner = Planner { shared: self, base, limits: self.interval_limits() };
        let (mut pairs, mut delta) = (0, 0_u64);
        let mut next = deleted.next();
        while let Some(first) = next.take() {
            let Some(found) = base.interval_of(&first) else { break };
            let bound = bound_behind(base, &found);
            let mut keys = vec![first];
            while let Some(key) = deleted.next() {
                if bound.is_some_and(|bound| *key >= **bound) {
                    next = Some(key);
                    break;
                }
                keys.push(key);
            }
            let Some((edit, count)) = planner.take_out(&found, &keys)? else { continue };
            let length: u64 = edit.pieces.iter().map(|(length, _)| u64::from(*length)).sum();
            let offset = edit.offset.wrapping_add(delta);
            if pairs == 0 {
                self.pin_base(changing.committer, base, pins)?;
            }
            if changing.change(&edit, offset)? {
                pairs += count;
                delta = delta.wrapping_add(length.wrapping_sub(u64::from(edit.length)));
            }
        }
        Ok(pairs)
    }
}

/// The keys whose newest version in memtables is a tombstone, in order.
struct Deleted<'a> {
    /// The youngest first.
    walkers: Vec<Walker<'a>>,
}

impl<'a> Deleted<'a> {
    fn new(memtables: &'a [Arc<Memtable>], upto: SeqNo) -> Self {
        let mut walkers: Vec<_> =
            memtables.iter().map(|memtable| Walker::new(memtable, SeqNo::ZERO, upto)).collect();
        walkers.iter_mut().for_each(|walker| walker.seek(Bound::Unbounded));
        Self { walkers }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let least = self.walkers.iter().filter_map(|walker| walker.here()).map(|it| it.key());
            let key = least.min()?.to_vec();
            let mut is_deleted = None;
            for walker in &mut self.walkers {
                let Some(update) = walker.here().filter(|it| it.key() == key) else { continue };
                is_deleted.get_or_insert(update.value().is_none());
                walker.take_one();
            }
            if is_deleted == Some(true) {
                return Some(key);
            }
        }
    }
}
