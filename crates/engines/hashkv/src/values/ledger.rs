//! The known bytes of live records and of garbage in a group's sealed segments.
//!
//! A judgement knows each record. Segments that were sealed since then may have anything: all their
//! bytes count as garbage until the next judgement. Segments that an opening has found
//! count as live, and their groups are judged soon.

use codec::SeqNo;

/// The bytes of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Bytes of live records.
    pub(crate) live: u64,
    /// Bytes that collecting does not free: the rests of last blocks and pages.
    pub(crate) rounding: u64,
    /// Bytes of records that can be dropped, and of paddings.
    pub(crate) dead: u64,
    /// Bytes of segments that were sealed since the last judgement.
    pub(crate) unknown: u64,
    /// Bytes of segments that an opening has found, before the first judgement.
    pub(crate) found: u64,
    /// Bytes of records that can be dropped, or are held, once the index is durable up to this
    /// number.
    pub(crate) pending: (u64, SeqNo),
    /// Bytes of records that snapshots held. The oldest one was at this number.
    pub(crate) held: (u64, SeqNo),
}

/// The bytes of all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// With the bytes that collecting does not free.
    pub(crate) live: u64,
    /// The most that collecting may free, without `found`.
    pub(crate) garbage: u64,
    /// Bytes that an opening has found, and that no judgement knows.
    pub(crate) found: u64,
    /// Bytes that can be freed once the index is durable.
    pub(crate) pending: u64,
    /// Bytes that snapshots hold.
    pub(crate) held: u64,
}

/// How far writes are durable in the index, and the oldest number that a snapshot may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) durable: SeqNo,
    pub(crate) oldest: SeqNo,
}

impl Ledger {
    /// Returns the bytes of the group at a moment.
    pub(crate) fn space(&self, moment: Moment) -> Space {
        let waits = |(bytes, until): (u64, SeqNo)| if moment.durable < until { bytes } else { 0 };
        let pending = waits(self.pending);
        let held = if moment.oldest <= self.held.1 { self.held.0 } else { 0 };
        let changed = self.pending.0 - pending + self.held.0 - held;
        let garbage = self.dead + self.unknown + changed;
        Space { live: self.live + self.rounding, garbage, found: self.found, pending, held }
    }
}

impl Space {
    pub(crate) fn add(&mut self, other: Self) {
        self.live += other.live;
        self.garbage += other.garbage;
        self.found += other.found;
        self.pending += other.pending;
        self.held += other.held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_waited_count_as_garbage_once_the_wait_is_over() {
        let of = SeqNo::new;
        let (live, rounding, dead, unknown, found) = (900, 100, 100, 10, 40);
        let (pending, held) = ((5, of(7)), (3, of(4)));
        let ledger = Ledger { live, rounding, dead, unknown, found, pending, held };
        let live = live + rounding;
        let space =
            |durable, oldest| ledger.space(Moment { durable: of(durable), oldest: of(oldest) });
        assert_eq!(space(6, 4), Space { live, garbage: 110, found, pending: 5, held: 3 });
        assert_eq!(space(7, 4), Space { live, garbage: 115, found, pending: 0, held: 3 });
        assert_eq!(space(6, 5), Space { live, garbage: 113, found, pending: 5, held: 0 });
    }
}
