//! The end of ranges whose keyspace was dropped.
//!
//! 1. The drop of a keyspace removes its record, and changes the state of its ranges to Dropped.
//! 2. The owners close them, as the replies to their reports say.
//! 3. The leader forgets a dropped range when no LTC may have it open.
//! 4. StoCs ask which of their ranges are forgotten, and release the files of these.

use environment::Monotonic;
use stoc::RangeId;

use super::State;
use crate::descriptor::{Descriptor, RangeState};

impl State {
    /// Returns the dropped ranges that no LTC has open, or may serve.
    pub(super) fn closed_for_good(&self, ranges: &[Descriptor], now: Monotonic) -> Vec<RangeId> {
        let is_closed = |range: &&Descriptor| {
            // An LTC with an order cannot take a dropped range any more.
            range.state == RangeState::Dropped && !self.cover_of(range, now).is_covered
        };
        ranges.iter().filter(is_closed).map(|range| range.id).collect()
    }
}
