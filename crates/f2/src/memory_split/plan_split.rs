//! Whether memory goes from the hot log to the read cache, or back: figures in, a decision out.
//!
//! Both sides have counted what the same number of bytes more would have saved them, the *reach*, in
//! bytes of I/O since the last decision. The side that would have saved clearly more gets a step from
//! the other. What it would save falls as it grows, and rises on the other side, so the two come
//! to be equal, which is where no step helps.

/// What a read of the device costs, in bytes of I/O: a block.
const READ_BYTES: u64 = 4096;
/// How often a byte that is appended is moved: written, and read by compaction.
const MOVES_OF_APPENDED: u64 = 2;
/// Bytes saved, of both sides, from which on they say something.
const EVIDENCE_BYTES: u64 = 16 * READ_BYTES;
/// How much more one side has to save than the other, as a ratio of these two.
const CLEARLY: (u64, u64) = (3, 2);
/// The same for a step that takes back what the last one did.
const CLEARLY_BACK: (u64, u64) = (3, 1);

/// One side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Log,
    Cache,
}

impl Side {
    /// The other one.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Log => Self::Cache,
            Self::Cache => Self::Log,
        }
    }
}

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Bytes that both sides may take together.
    pub(crate) total: u64,
    /// Bytes of a step.
    pub(crate) step: u64,
    pub(crate) log: SideFigures,
    pub(crate) cache: SideFigures,
    /// Reads of the device that more of the log would have saved, and records appended.
    pub(crate) log_reads: u64,
    pub(crate) log_appends: u64,
    /// Bytes of a record.
    pub(crate) record_bytes: u64,
    /// Reads of the device that more of the cache would have saved.
    pub(crate) cache_reads: u64,
    /// Where the last step went.
    pub(crate) last: Option<Side>,
}

/// How much memory a side may take, and within which bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideFigures {
    pub(crate) bytes: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Too little was counted: go on counting.
    Wait,
    /// Neither side gains; count anew.
    Keep,
    /// A step from the other side to this one.
    Move(Side),
    /// There are bytes that neither side takes: a step to this one.
    Grow(Side),
    /// Both take more than there is: so many bytes off this one, in whole steps.
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

/// What to do. `to`: for whom bytes are that neither side takes.
pub(crate) fn plan(figures: &Figures, to: Side) -> Decision {
    let Figures { log, cache, step, total, .. } = *figures;
    let side = |side| if side == Side::Log { log } else { cache };
    let taken = log.bytes + cache.bytes;
    if taken > total {
        let from = if log.may_give(step) { Side::Log } else { Side::Cache };
        let room = side(from).bytes.saturating_sub(side(from).least) / step;
        let steps = (taken - total).div_ceil(step).min(room);
        return if steps > 0 { Decision::Shrink(from, steps * step) } else { Decision::Wait };
    }
    if total - taken >= step {
        for to in [to, to.other()] {
            if side(to).may_take(step) {
                return Decision::Grow(to);
            }
        }
    }
    let log_saves = figures.log_reads * READ_BYTES
        + figures.log_appends * figures.record_bytes * MOVES_OF_APPENDED;
    let cache_saves = figures.cache_reads * READ_BYTES;
    if log_saves + cache_saves < EVIDENCE_BYTES {
        return Decision::Wait;
    }
    let to = if log_saves > cache_saves { Side::Log } else { Side::Cache };
    let (more, less) = (log_saves.max(cache_saves), log_saves.min(cache_saves));
    let is_back = figures.last == Some(to.other());
    let ratio = if is_back { CLEARLY_BACK } else { CLEARLY };
    let is_clear = u128::from(more) * u128::from(ratio.1) > u128::from(less) * u128::from(ratio.0);
    if is_clear && side(to).may_take(step) && side(to.other()).may_give(step) {
        Decision::Move(to)
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
            log: side(75 * MIB),
            cache: side(25 * MIB),
            log_reads: 0,
            log_appends: 0,
            record_bytes: 128,
            cache_reads: 0,
            last: None,
        }
    }

    #[test]
    fn the_side_that_saves_clearly_more_gets_a_step() {
        let reads = |log_reads, cache_reads| Figures { log_reads, cache_reads, ..figures() };
        assert_eq!(plan(&reads(0, 0), Side::Log), Decision::Wait);
        assert_eq!(plan(&reads(0, 15), Side::Log), Decision::Wait);
        assert_eq!(plan(&reads(0, 16), Side::Log), Decision::Move(Side::Cache));
        assert_eq!(plan(&reads(100, 149), Side::Log), Decision::Keep);
        assert_eq!(plan(&reads(100, 151), Side::Log), Decision::Move(Side::Cache));
        assert_eq!(plan(&reads(151, 100), Side::Log), Decision::Move(Side::Log));
        // 16 appended records of 128 bytes, moved twice, are a read.
        let appends = |log_appends| Figures { log_appends, ..reads(0, 100) };
        assert_eq!(plan(&appends(1_000), Side::Log), Decision::Move(Side::Cache));
        assert_eq!(plan(&appends(1_600), Side::Log), Decision::Keep);
        assert_eq!(plan(&appends(2_500), Side::Log), Decision::Move(Side::Log));
    }

    #[test]
    fn a_step_back_takes_more() {
        let back = |cache_reads| Figures {
            log_reads: 100,
            cache_reads,
            last: Some(Side::Log),
            ..figures()
        };
        assert_eq!(plan(&back(299), Side::Log), Decision::Keep);
        assert_eq!(plan(&back(301), Side::Log), Decision::Move(Side::Cache));
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
        assert_eq!(plan(&over(101 * MIB - 1), Side::Log), Decision::Move(Side::Cache));
    }
}
