//! The known bytes of live records and of garbage in a group's sealed segments.
//!
//! A judgement knows each record. Segments that were sealed since then may have anything: all their
//! bytes count as garbage until the next judgement. Each of their records may also supersede a
//! longer one: it counts as a live record of average length, if that is more. Segments that an
//! opening has found count as live, and their groups are judged soon.

use codec::SeqNo;

/// The bytes of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Bytes of live records, and their number.
    pub(crate) live: u64,
    pub(crate) live_records: u64,
    /// Bytes that collecting does not free: the rests of last blocks and pages.
    pub(crate) rounding: u64,
    /// Bytes of records that can be dropped, and of paddings.
    pub(crate) dead: u64,
    /// Bytes of segments that were sealed since the last judgement, or of records that they may
    /// supersede.
    pub(crate) unknown: u64,
    /// Bytes of segments that an opening has found, before the first judgement.
    pub(crate) found: u64,
    /// Bytes of records that can be dropped, or are held, once the index is durable up to this
    /// number.
    pub(crate) pending: (u64, SeqNo),
    /// Bytes of records that snapshots held, and the numbers of these, in their order.
    pub(crate) held: u64,
    pub(crate) pins: Vec<SeqNo>,
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

/// How far writes are durable in the index, and the numbers of all snapshots, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) durable: SeqNo,
    pub(crate) pins: Vec<SeqNo>,
}

impl Ledger {
    /// Returns the bytes of the group at a moment.
    pub(crate) fn space(&self, moment: &Moment) -> Space {
        let waits = |(bytes, until): (u64, SeqNo)| if moment.durable < until { bytes } else { 0 };
        let pending = waits(self.pending);
        let is_there = |pin: &SeqNo| moment.pins.binary_search(pin).is_ok();
        let held = if self.pins.iter().all(is_there) { self.held } else { 0 };
        let changed = self.pending.0 - pending + self.held - held;
        let garbage = self.dead + self.unknown + changed;
        Space { live: self.live + self.rounding, garbage, found: self.found, pending, held }
    }

    /// Notes a segment that was sealed, with `bytes` bytes and this number of records.
    pub(crate) fn note_sealed(&mut self, bytes: u64, records: u32) {
        let average = self.live / self.live_records.max(1);
        let superseded = average.saturating_mul(u64::from(records)).min(self.live);
        self.unknown += bytes.max(superseded);
    }
}

impl Space {
    /// Returns the same of a group that no job may judge: nothing of it can be freed.
    pub(crate) fn of_barred(self) -> Self {
        let Self { live, garbage, found, pending, held } = self;
        Self { live: live + garbage + found + pending + held, ..Self::default() }
    }

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
        let ledger = Ledger {
            live: 900,
            live_records: 9,
            rounding: 100,
            dead: 100,
            unknown: 10,
            found: 40,
            pending: (5, of(7)),
            held: 3,
            pins: vec![of(2), of(4)],
        };
        let space = |durable, pins: &[u64]| {
            let pins = pins.iter().map(|pin| of(*pin)).collect();
            let space = ledger.space(&Moment { durable: of(durable), pins });
            assert_eq!((space.live, space.found), (1000, 40));
            (space.garbage, space.pending, space.held)
        };
        assert_eq!(space(6, &[2, 4]), (110, 5, 3));
        assert_eq!(space(7, &[2, 4, 9]), (115, 0, 3));
        // Whichever snapshot has ended.
        assert_eq!(space(6, &[4]), (113, 5, 0));
        assert_eq!(space(6, &[2, 9]), (113, 5, 0));
    }

    #[test]
    fn short_records_may_supersede_long_ones() {
        let mut ledger = Ledger { live: 9000, live_records: 9, ..Ledger::default() };
        ledger.note_sealed(300, 2);
        assert_eq!(ledger.unknown, 2000);
        ledger.note_sealed(4096, 1);
        assert_eq!(ledger.unknown, 6096);
        ledger.note_sealed(500, 100);
        assert_eq!(ledger.unknown, 15096, "no more than all live ones");
    }
}
