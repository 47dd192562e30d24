//! The plan of a move of memory from one store to another: figures in, one step out.
//!
//! Each store has counted the bytes of I/O that some more memory would have saved it since the
//! last decision. This gain, divided by the number of bytes, is the worth of a byte there. The
//! store with the highest worth gets a step. Its memory is free memory, or else that of the
//! store with the lowest worth, if that is clearly less. The worth of a byte falls in the
//! store that gets memory and rises in the one that loses it, so steps end when no move helps.

/// Bytes of I/O saved, of all stores, from which on they say something.
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
pub const STEP_BYTES_MIN: u64 = 64 << 10;

/// The figures that the decision depends on.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Bytes of the database's memory.
    pub whole: u64,
    /// Free bytes among them that need not be kept free.
    pub free: u64,
    /// The shares of the stores.
    pub shares: Vec<ShareFigures>,
    /// The giver of the last step, if it is one of these, and its taker.
    pub last: (Option<usize>, Option<usize>),
}

/// A store's share, and the worth of more memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFigures {
    /// Bytes of the share.
    pub bytes: u64,
    /// Bytes below which the share cannot or must not go.
    pub least: u64,
    /// Bytes above which the share has no use.
    pub most: u64,
    /// Bytes of I/O since the last decision that `reach` bytes more would have saved.
    pub saved: u64,
    /// See `saved`.
    pub reach: u64,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The store that gives it; `None` if the memory is free.
    pub from: Option<usize>,
    /// The store that gets it.
    pub to: usize,
    /// The bytes that move.
    pub bytes: u64,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Too little was counted: continue to count.
    Wait,
    /// No store gains: count from zero again.
    Keep,
    /// One store gets memory.
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
pub fn plan_move(figures: &Figures) -> Decision {
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
    // Among stores with the same worth the largest one gives.
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
