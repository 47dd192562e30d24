//! Which keyspace gets memory from which: figures in, one step out.
//!
//! Each keyspace has counted the bytes of I/O that some more memory would have saved it since the
//! last decision. This gain, divided by the number of bytes, is the worth of a byte there. The
//! keyspace with the highest worth gets a step. Its memory is free memory, or else that of the
//! keyspace with the lowest worth, if that is clearly less. The worth of a byte falls in the
//! keyspace that gets memory and rises in the one that loses it, so steps end when no move helps.

/// Bytes of I/O saved, of all keyspaces, from which on they say something.
const EVIDENCE_BYTES: u64 = 64 * 4096;
/// How much more a byte has to be worth to the one than to the other, as a ratio of these two.
const CLEARLY: (u64, u64) = (3, 2);
/// The same for a step that takes back what the last one did.
const CLEARLY_BACK: (u64, u64) = (3, 1);
/// Limits of a step: its largest part of the whole, of the giver's share, and of the taker's share
/// is one divided by this number.
const WHOLE_PARTS: u64 = 64;
const GIVER_PARTS: u64 = 8;
const TAKER_PARTS: u64 = 2;
/// No step is smaller.
pub(crate) const STEP_BYTES_MIN: u64 = 64 << 10;

/// The figures that the decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Bytes of the database's memory.
    pub(crate) whole: u64,
    /// Free bytes among them that need not be kept free.
    pub(crate) free: u64,
    pub(crate) shares: Vec<ShareFigures>,
    /// The giver of the last step, if it is one of these, and its taker.
    pub(crate) last: (Option<usize>, Option<usize>),
}

/// A keyspace's share, and the worth of more memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareFigures {
    pub(crate) bytes: u64,
    /// Bytes below which the share cannot or must not go, and bytes above which it has no use.
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Bytes of I/O since the last decision that `reach` bytes more would have saved.
    pub(crate) saved: u64,
    pub(crate) reach: u64,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The keyspace that gives it; `None` if the memory is free.
    pub(crate) from: Option<usize>,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Too little was counted: continue to count.
    Wait,
    /// No keyspace gains; count from zero again.
    Keep,
    Move(Step),
}

impl ShareFigures {
    const fn may_give(&self) -> u64 {
        self.bytes.saturating_sub(self.least)
    }

    const fn may_take(&self) -> u64 {
        self.most.saturating_sub(self.bytes)
    }

    /// Returns whether a byte is worth more to it than to `other`, by at least this ratio.
    fn gains_clearly_more(&self, other: &Self, ratio: (u64, u64)) -> bool {
        let product = |saved: u64, reach: u64, factor: u64| {
            u128::from(saved) * u128::from(reach.max(1)) * u128::from(factor)
        };
        product(self.saved, other.reach, ratio.1) > product(other.saved, self.reach, ratio.0)
    }

    /// Returns the worth of a byte, for comparisons.
    fn worth(&self) -> u128 {
        (u128::from(self.saved) << u32::BITS) / u128::from(self.reach.max(1))
    }
}

/// Decides on the next action.
pub(crate) fn plan(figures: &Figures) -> Decision {
    let shares = &figures.shares;
    let saved = shares.iter().fold(0_u64, |sum, share| sum.saturating_add(share.saved));
    if saved < EVIDENCE_BYTES {
        return Decision::Wait;
    }
    let takers = shares.iter().enumerate().filter(|(_, share)| share.may_take() >= STEP_BYTES_MIN);
    let Some((to, taker)) = takers.max_by_key(|(_, share)| share.worth()) else {
        return Decision::Keep;
    };
    let most = (figures.whole / WHOLE_PARTS).min(taker.bytes / TAKER_PARTS).max(STEP_BYTES_MIN);
    let most = most.min(taker.may_take());
    if taker.saved == 0 {
        return Decision::Keep;
    }
    if figures.free >= STEP_BYTES_MIN {
        return Decision::Move(Step { from: None, to, bytes: most.min(figures.free) });
    }
    // Among keyspaces with the same worth the largest one gives.
    let is_giver =
        |(at, share): &(usize, &ShareFigures)| *at != to && share.may_give() >= STEP_BYTES_MIN;
    let givers = shares.iter().enumerate().filter(is_giver);
    let giver = givers.min_by_key(|(_, share)| (share.worth(), std::cmp::Reverse(share.bytes)));
    let Some((from, giver)) = giver else { return Decision::Keep };
    let is_back = figures.last == (Some(to), Some(from));
    let ratio = if is_back { CLEARLY_BACK } else { CLEARLY };
    if !taker.gains_clearly_more(giver, ratio) {
        return Decision::Keep;
    }
    let given = (giver.bytes / GIVER_PARTS).max(STEP_BYTES_MIN).min(giver.may_give());
    Decision::Move(Step { from: Some(from), to, bytes: most.min(given) })
}

#[cfg(test)]
mod tests;
