//! Which keyspace gets memory from which: figures in, one step out.
//!
//! Each keyspace has counted what the same kind of gain, bytes of I/O, some more memory would have been
//! worth since the last decision. Divided by how much more that is, it says what a byte is worth there.
//! The keyspace to which it is worth most gets a step: of what nobody has, or else of the one to which it
//! is worth least, if that is clearly less. What a byte is worth falls where memory comes and rises where it
//! goes, so steps end where no move helps.

/// Bytes of I/O saved, of all keyspaces, from which on they say something.
const EVIDENCE_BYTES: u64 = 64 * 4096;
/// How much more a byte has to be worth to the one than to the other, as a ratio of these two.
const CLEARLY: (u64, u64) = (3, 2);
/// The same for a step that takes back what the last one did.
const CLEARLY_BACK: (u64, u64) = (3, 1);
/// A step is one part in so many of the whole, at most; of the giver's share; and of the taker's.
const WHOLE_PARTS: u64 = 64;
const GIVER_PARTS: u64 = 8;
const TAKER_PARTS: u64 = 2;
/// No step is smaller.
pub(crate) const STEP_BYTES_MIN: u64 = 64 << 10;

/// What the decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Bytes of the database's memory.
    pub(crate) whole: u64,
    /// Of them, those that nobody has and that need not be kept free.
    pub(crate) free: u64,
    pub(crate) shares: Vec<ShareFigures>,
    /// Who gave the last step, if one of these did, and who got it.
    pub(crate) last: (Option<usize>, Option<usize>),
}

/// A keyspace's share, and what more of it would be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareFigures {
    pub(crate) bytes: u64,
    /// What it cannot or must not go below, and what it has no use above.
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Bytes of I/O since the last decision that `reach` bytes more would have saved.
    pub(crate) saved: u64,
    pub(crate) reach: u64,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Who gives it; nobody, where it is free.
    pub(crate) from: Option<usize>,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Too little was counted: go on counting.
    Wait,
    /// Nobody gains; count anew.
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

    /// Whether a byte is worth so many times more to it than to another one.
    fn gains_clearly_more(&self, other: &Self, ratio: (u64, u64)) -> bool {
        let product = |saved: u64, reach: u64, factor: u64| {
            u128::from(saved) * u128::from(reach.max(1)) * u128::from(factor)
        };
        product(self.saved, other.reach, ratio.1) > product(other.saved, self.reach, ratio.0)
    }

    /// What a byte is worth, to be compared.
    fn worth(&self) -> u128 {
        (u128::from(self.saved) << u32::BITS) / u128::from(self.reach.max(1))
    }
}

/// What to do.
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
    // Of those to whom it is worth the same the largest one gives.
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
