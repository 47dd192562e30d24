//! Writes to a memtable, by a thread that has entered it.

use codec::SeqNo;
use engine::{Op, Reservation};
use sync::mutant;

use super::Memtable;
use crate::planted::Planted;

/// The right to write to a memtable, which is not sealed meanwhile.
pub(crate) struct Entered<'a> {
    memtable: &'a Memtable,
    versions: memtable::Entered<'a>,
}

impl Memtable {
    /// The right to write, unless it is sealed.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let versions = self.try_enter(mutant!(Planted::SealedEntered, false, true))?;
        Some(Entered { memtable: self, versions })
    }
}

impl Entered<'_> {
    /// Adds the version that `op` makes, in memory that was reserved for it. A version that is
    /// there already stays (replay).
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo, room: &mut Reservation<'_>) {
        let place = &self.memtable.place;
        debug_assert!(place.bounds.covers(op.key()), "a writer was routed here");
        self.versions.insert(op, seqno, room);
    }
}
