//! Whether memory goes from one use of it to another: figures in, a decision out.
//!
//! For each *side* it is known how many bytes of I/O the same amount of additional memory, the
//! *reach*, would have saved since the last decision. For hot log and read cache this is counted,
//! for the digests of chunks it is calculated. The side that would have saved clearly more gets a
//! step from the one that would have saved least. The savings of a side fall as it grows, and rise
//! on the other side. So they become equal, and then no step helps.

/// Cost of a read of the device, in bytes of I/O: a block.
const READ_BYTES: u64 = 4096;
/// How often a byte that is appended is moved: written, and read by compaction.
const MOVES_OF_APPENDED: u64 = 2;
/// Fewest bytes saved, of all sides together, on which a decision is based. They must also be at
/// least the bytes of a step, since about that is lost if a step was wrong.
const EVIDENCE_BYTES: u64 = 16 * READ_BYTES;
/// How much more one side has to save than the other, as a ratio of these two.
const CLEARLY: (u64, u64) = (4, 3);
/// The same for a step that takes back what the last one did.
const CLEARLY_BACK: (u64, u64) = (2, 1);

/// One side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Log,
    Cache,
    Digests,
}

/// All sides, in the order in which they give if the sum is too large.
const SIDES: [Side; 3] = [Side::Log, Side::Cache, Side::Digests];

/// Figures that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Bytes that all sides may take together.
    pub(crate) total: u64,
    /// Bytes of a step, and of the unit that a step is a multiple of: each side can take whole
    /// units.
    pub(crate) step: u64,
    pub(crate) unit: u64,
    pub(crate) log: SideFigures,
    pub(crate) cache: SideFigures,
    pub(crate) digests: SideFigures,
    /// Reads of the device that more of the log would have saved, and records appended.
    pub(crate) log_reads: u64,
    pub(crate) log_appends: u64,
    /// Bytes of a record.
    pub(crate) record_bytes: u64,
    /// Reads of the device that more of the cache would have saved.
    pub(crate) cache_reads: u64,
    /// And more digests.
    pub(crate) digest_reads: u64,
    /// Giver and receiver of the last step.
    pub(crate) last: Option<(Side, Side)>,
}

/// How much memory a side may take, and within which bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideFigures {
    pub(crate) bytes: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// A decision about the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Too little was counted: continue counting.
    Wait,
    /// No side gains; start the counts again.
    Keep,
    /// A step from the first side to the second.
    Move(Side, Side),
    /// There are bytes that no side takes: a step to this one.
    Grow(Side),
    /// The sides take more than the total: take this number of bytes off this one, in whole steps.
    Shrink(Side, u64),
}

impl SideFigures {
    const fn may_give(self, step: u64) -> bool {
        self.bytes >= self.least + step
    }

    const fn may_take(self, step: u64) -> bool {
        self.bytes + step <= self.most
    }
}

/// Returns the bytes of I/O of this number of reads of the device.
pub(crate) const fn of_reads(reads: u64) -> u64 {
    reads * READ_BYTES
}

/// Returns the same of reads and of appended records of `record_bytes` bytes.
pub(crate) const fn of_log(reads: u64, appends: u64, record_bytes: u64) -> u64 {
    of_reads(reads) + appends * record_bytes * MOVES_OF_APPENDED
}

impl Figures {
    const fn side(&self, side: Side) -> SideFigures {
        match side {
            Side::Log => self.log,
            Side::Cache => self.cache,
            Side::Digests => self.digests,
        }
    }

    pub(crate) const fn side_mut(&mut self, side: Side) -> &mut SideFigures {
        match side {
            Side::Log => &mut self.log,
            Side::Cache => &mut self.cache,
            Side::Digests => &mut self.digests,
        }
    }

    /// Bytes of I/O that a reach more of memory would have saved a side.
    const fn saves(&self, side: Side) -> u64 {
        match side {
            Side::Log => of_log(self.log_reads, self.log_appends, self.record_bytes),
            Side::Cache => of_reads(self.cache_reads),
            Side::Digests => self.digest_reads * READ_BYTES,
        }
    }
}

/// Returns the decision. `receiver`: the side that gets bytes that no side takes.
pub(crate) fn plan(figures: &Figures, receiver: Side) -> Decision {
    let Figures { step, total, .. } = *figures;
    let may_give = |side: &Side| figures.side(*side).may_give(step);
    let may_take = |side: &Side| figures.side(*side).may_take(step);
    let taken: u64 = SIDES.iter().map(|side| figures.side(*side).bytes).sum();
    if taken > total {
        let Some(from) = SIDES.into_iter().find(may_give) else { return Decision::Wait };
        let side = figures.side(from);
        let steps = (taken - total).div_ceil(step).min((side.bytes - side.least) / step);
        return Decision::Shrink(from, steps * step);
    }
    if total - taken >= step {
        let takers = [receiver].into_iter().chain(SIDES);
        // Digests take only bytes that were meant for them.
        let mut takers = takers.filter(|side| *side == receiver || *side != Side::Digests);
        if let Some(to) = takers.find(may_take) {
            return Decision::Grow(to);
        }
    }
    let evidence: u64 = SIDES.iter().map(|side| figures.saves(*side)).sum();
    if evidence < step.max(EVIDENCE_BYTES) {
        return Decision::Wait;
    }
    let takers = SIDES.into_iter().filter(may_take);
    let Some(to) = takers.max_by_key(|side| figures.saves(*side)) else { return Decision::Keep };
    let givers = SIDES.into_iter().filter(|side| *side != to && may_give(side));
    let Some(from) = givers.min_by_key(|side| figures.saves(*side)) else { return Decision::Keep };
    let (more, less) = (figures.saves(to), figures.saves(from));
    let ratio = if figures.last == Some((to, from)) { CLEARLY_BACK } else { CLEARLY };
    if u128::from(more) * u128::from(ratio.1) > u128::from(less) * u128::from(ratio.0) {
        Decision::Move(from, to)
    } else {
        Decision::Keep
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn figures() -> Figures {
        let side = |bytes| SideFigures { bytes, least: 4 * MIB, most: 96 * MIB };
        Figures {
            total: 100 * MIB,
            step: MIB,
            unit: MIB,
            log: side(75 * MIB),
            cache: side(25 * MIB),
            digests: SideFigures::default(),
            log_reads: 0,
            log_appends: 0,
            record_bytes: 128,
            cache_reads: 0,
            digest_reads: 0,
            last: None,
        }
    }

    #[test]
    fn the_side_that_saves_clearly_more_gets_a_step() {
        let reads = |log_reads, cache_reads| Figures { log_reads, cache_reads, ..figures() };
        assert_eq!(plan(&reads(0, 0), Side::Log), Decision::Wait);
        // A step is as long as 256 reads.
        assert_eq!(plan(&reads(0, 255), Side::Log), Decision::Wait);
        assert_eq!(plan(&reads(0, 256), Side::Log), Decision::Move(Side::Log, Side::Cache));
        assert_eq!(plan(&reads(300, 399), Side::Log), Decision::Keep);
        assert_eq!(plan(&reads(300, 401), Side::Log), Decision::Move(Side::Log, Side::Cache));
        assert_eq!(plan(&reads(401, 300), Side::Log), Decision::Move(Side::Cache, Side::Log));
        // 16 appended records of 128 bytes, moved twice, are a read.
        let appends = |log_appends| Figures { log_appends, ..reads(0, 300) };
        assert_eq!(plan(&appends(3_000), Side::Log), Decision::Move(Side::Log, Side::Cache));
        assert_eq!(plan(&appends(4_800), Side::Log), Decision::Keep);
        assert_eq!(plan(&appends(7_500), Side::Log), Decision::Move(Side::Cache, Side::Log));
    }

    #[test]
    fn a_step_back_takes_more() {
        let back = |cache_reads| Figures {
            log_reads: 200,
            cache_reads,
            last: Some((Side::Cache, Side::Log)),
            ..figures()
        };
        assert_eq!(plan(&back(399), Side::Log), Decision::Keep);
        assert_eq!(plan(&back(401), Side::Log), Decision::Move(Side::Log, Side::Cache));
    }

    #[test]
    fn neither_side_leaves_its_bounds() {
        let mut least = figures();
        least.cache_reads = 1_000;
        (least.log.bytes, least.cache.bytes) = (4 * MIB, 96 * MIB);
        assert_eq!(plan(&least, Side::Log), Decision::Keep);
        least.total += MIB;
        assert_eq!(plan(&least, Side::Cache), Decision::Grow(Side::Log), "the cache has its most");
    }

    #[test]
    fn the_sum_is_kept_before_anything_else() {
        let over = |total| Figures { total, cache_reads: 1_000, ..figures() };
        assert_eq!(plan(&over(99 * MIB), Side::Log), Decision::Shrink(Side::Log, MIB));
        assert_eq!(plan(&over(96 * MIB - 1), Side::Log), Decision::Shrink(Side::Log, 5 * MIB));
        assert_eq!(plan(&over(MIB), Side::Log), Decision::Shrink(Side::Log, 71 * MIB));
        let mut small = over(3 * MIB);
        small.log.bytes = small.log.least;
        assert_eq!(plan(&small, Side::Log), Decision::Shrink(Side::Cache, 21 * MIB));
        small.cache.bytes = small.cache.least;
        assert_eq!(plan(&small, Side::Log), Decision::Wait);
        assert_eq!(plan(&over(101 * MIB), Side::Cache), Decision::Grow(Side::Cache));
        assert_eq!(plan(&over(101 * MIB - 1), Side::Log), Decision::Move(Side::Log, Side::Cache));
    }

    #[test]
    fn digests_are_a_side_like_the_others() {
        let mut figures = figures();
        figures.log.bytes = 70 * MIB;
        figures.digests = SideFigures { bytes: 5 * MIB, least: 0, most: 6 * MIB };
        (figures.log_reads, figures.cache_reads) = (200, 100);
        let with = |digest_reads| Figures { digest_reads, ..figures };
        assert_eq!(plan(&with(100), Side::Log), Decision::Move(Side::Cache, Side::Log));
        assert_eq!(plan(&with(301), Side::Log), Decision::Move(Side::Cache, Side::Digests));
        assert_eq!(plan(&with(0), Side::Log), Decision::Move(Side::Digests, Side::Log));
        // They have all that they can use.
        let full = |digest_reads| {
            let digests = SideFigures { bytes: 6 * MIB, least: 0, most: 6 * MIB };
            Figures { digests, total: 101 * MIB, ..with(digest_reads) }
        };
        assert_eq!(plan(&full(1_000), Side::Log), Decision::Move(Side::Cache, Side::Log));
        // Bytes that no side takes go to the digests only where they were meant for them.
        let spare = Figures { total: 101 * MIB, ..with(0) };
        assert_eq!(plan(&spare, Side::Digests), Decision::Grow(Side::Digests));
        assert_eq!(plan(&spare, Side::Cache), Decision::Grow(Side::Cache));
        let mut last = spare;
        last.total = 200 * MIB;
        (last.log.bytes, last.cache.bytes) = (96 * MIB, 96 * MIB);
        assert_eq!(plan(&last, Side::Cache), Decision::Keep, "they save nothing");
    }
}
