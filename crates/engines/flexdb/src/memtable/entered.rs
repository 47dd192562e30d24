//! Writes to a memtable, by a thread that has entered it.

use codec::SeqNo;
use engine::{Op, Reservation};

use super::{IsSeen, Memtable};

/// The right to write to a memtable, which is not sealed meanwhile.
pub(crate) struct Entered<'a> {
    memtable: &'a Memtable,
    versions: memtable::Entered<'a>,
}

impl Memtable {
    /// The right to write, unless it is sealed.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let versions = self.try_enter(false)?;
        Some(Entered { memtable: self, versions })
    }
}

impl Entered<'_> {
    /// Adds the version that `op` makes. A version that is there already stays (replay).
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn insert(&self, op: &Op<'_>, seqno: SeqNo) {
        self.put(op, seqno, &|_, _| true, &mut Reservation::uncounted());
    }

    /// The same, in the place of the version before it, unless `is_seen` says that a snapshot,
    /// present or future, is between their numbers (M5). The caller holds the ticket of `seqno`,
    /// and no other ticket of the same key is held (law L6). A version that takes the place of a
    /// long one keeps its length, for which `room` may not suffice: the rest is charged.
    pub(crate) fn put(
        &self,
        op: &Op<'_>,
        seqno: SeqNo,
        is_seen: IsSeen<'_>,
        room: &mut Reservation<'_>,
    ) {
        self.memtable.filter.add(op.key());
        let is_unseen = |older| !is_seen(SeqNo::new(older), seqno);
        self.versions.put(op, seqno, is_unseen, room);
    }
}
