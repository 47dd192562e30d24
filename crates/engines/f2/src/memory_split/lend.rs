//! Memory that hot log and read cache have a right to and do not fill, lent to the digests of
//! chunks. Figures go in, the lent bytes come out.
//!
//! After opening, both are empty, and fill only as fast as the load writes and reads. Digests of
//! all chunks are made in a second or two, and dropped immediately. So until log and cache want it
//! themselves, the digests have the memory.

/// A side that may lend.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lender {
    /// Bytes that it has a right to.
    pub(super) share: u64,
    /// Bytes that it fills.
    pub(super) filled: u64,
    /// Bytes that it works with.
    pub(super) least: u64,
}

/// Bytes that each side lends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) log: u64,
    pub(super) cache: u64,
}

impl Lent {
    pub(super) const fn sum(self) -> u64 {
        self.log + self.cache
    }
}

/// Bytes that a side keeps in addition to one and a half times the bytes that it fills, so that it
/// is not full before the next look: the total divided by this.
const MARGIN_SHARE: u64 = 16;

impl Lender {
    fn may_lend(self, margin: u64, unit: u64) -> u64 {
        let wanted = (self.filled + self.filled / 2 + margin).max(self.least);
        self.share.saturating_sub(wanted) / unit * unit
    }
}

/// Returns the bytes to be lent, in multiples of `unit`, if digests have a use for `wanted` bytes
/// beyond their own, of `total` that all have. It lends more than `now` only if `grows`.
pub(super) fn lend(
    [log, cache]: [Lender; 2],
    (total, unit): (u64, u64),
    wanted: u64,
    now: Lent,
    grows: bool,
) -> Lent {
    let may_lend = |side: Lender, now| {
        let bytes = side.may_lend(total / MARGIN_SHARE, unit);
        if grows { bytes } else { bytes.min(now) }
    };
    let wanted = wanted / unit * unit;
    let log = may_lend(log, now.log).min(wanted);
    Lent { log, cache: may_lend(cache, now.cache).min(wanted - log) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn lender(share: u64, filled: u64) -> Lender {
        Lender { share: share * MIB, filled: filled * MIB, least: 2 * MIB }
    }

    fn lend_of(log: Lender, cache: Lender, wanted: u64) -> [u64; 2] {
        let lent = lend([log, cache], (64 * MIB, MIB), wanted * MIB, Lent::default(), true);
        [lent.log / MIB, lent.cache / MIB]
    }

    #[test]
    fn what_is_not_filled_is_lent() {
        // Four are the margin.
        assert_eq!(lend_of(lender(48, 0), lender(16, 0), 100), [44, 12]);
        assert_eq!(lend_of(lender(48, 8), lender(16, 4), 100), [32, 6]);
        assert_eq!(lend_of(lender(48, 29), lender(16, 8), 100), [0, 0]);
        assert_eq!(lend_of(lender(48, 48), lender(16, 16), 100), [0, 0]);
        assert_eq!(lend_of(lender(3, 0), lender(2, 0), 100), [0, 0]);
        let unfilled = Lender { least: 30 * MIB, ..lender(48, 0) };
        assert_eq!(lend_of(unfilled, lender(0, 0), 100), [18, 0]);
    }

    #[test]
    fn no_more_is_lent_than_is_wanted() {
        assert_eq!(lend_of(lender(48, 0), lender(16, 0), 50), [44, 6]);
        assert_eq!(lend_of(lender(48, 0), lender(16, 0), 20), [20, 0]);
        assert_eq!(lend_of(lender(48, 0), lender(16, 0), 0), [0, 0]);
    }

    #[test]
    fn what_is_lent_comes_back_for_any_side_and_grows_only_if_it_may() {
        let now = Lent { log: 10 * MIB, cache: 5 * MIB };
        let lend = |log| lend([log, lender(16, 0)], (64 * MIB, MIB), 100 * MIB, now, false);
        assert_eq!(lend(lender(48, 0)), now);
        assert_eq!(lend(lender(48, 24)), Lent { log: 8 * MIB, ..now });
        assert_eq!(lend(lender(48, 32)), Lent { log: 0, ..now });
    }
}
