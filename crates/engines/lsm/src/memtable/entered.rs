//! Writes to a memtable, by a thread that has entered it.

use codec::SeqNo;
use engine::{Op, Reservation};
use memtable::Gate;

use super::Memtable;
use crate::planted::{Planted, is_planted};

/// The right to write to a memtable, which is not sealed meanwhile.
pub(crate) struct Entered<'a> {
    memtable: &'a Memtable,
    _gate: Gate<'a>,
}

impl Memtable {
    /// The right to write, unless it is sealed.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let gate = self.try_enter(is_planted(Planted::SealedEntered))?;
        Some(Entered::of(self, gate))
    }
}

impl<'a> Entered<'a> {
    /// Returns the right of a thread that holds the gate.
    pub(super) fn of(memtable: &'a Memtable, gate: Gate<'a>) -> Self {
        Self { memtable, _gate: gate }
    }

    /// Adds the version that `op` makes, in memory that was reserved for it. A version that is
    /// there already stays (replay).
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo, room: &mut Reservation<'_>) {
        let memtable = self.memtable;
        debug_assert!(memtable.place.bounds.covers(op.key()), "a writer was routed here");
        memtable.versions.insert(op, seqno, room);
    }
}
