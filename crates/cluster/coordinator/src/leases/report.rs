//! The leases as a report for operators.

use std::time::Duration;

use environment::Monotonic;
use stoc::RangeId;

use super::{Leases, State};
use crate::descriptor::{Descriptor, Owner};
use crate::error::Result;

/// The leases of LTCs and the covers of ranges, as the leader knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseReport {
    /// The leadership.
    pub term: u64,
    /// Moves that have ended at their targets in this leadership.
    pub moves: u64,
    /// The LTCs that have reported in this leadership.
    pub ltcs: Vec<LtcLease>,
    /// The ranges that are in the records.
    pub ranges: Vec<RangeLease>,
}

/// The lease of an LTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LtcLease {
    /// The LTC, in its present start.
    pub owner: Owner,
    /// Time since its last report.
    pub silent: Duration,
    /// Time until the end of its lease; zero if it is over.
    pub left: Duration,
    /// The ranges that it has reported.
    pub ranges: u32,
    /// Whether it ends, and opens no range any more.
    pub is_ending: bool,
}

/// The cover of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLease {
    /// The range.
    pub range: RangeId,
    /// Whether a lease may cover its owner. After the begin of a leadership it may be one that the
    /// leader before has given.
    pub is_covered: bool,
    /// The LTC that has an order to open it.
    pub ordered: Option<u32>,
}

impl Leases {
    /// Returns the leases and the covers of all ranges.
    ///
    /// # Errors
    /// Those of the coordinator.
    pub fn report(&self) -> Result<LeaseReport> {
        Ok(self.report_of(&self.coordinator.ranges()?))
    }

    /// Returns the leases, and the covers of these ranges.
    pub(super) fn report_of(&self, ranges: &[Descriptor]) -> LeaseReport {
        let state = self.state.lock();
        let now = self.environment.now();
        let ltcs = state.ltcs.iter().map(|(ltc, seen)| {
            let owner = Owner { ltc: *ltc, start: seen.start };
            LtcLease {
                owner,
                silent: now - seen.at,
                left: state.lease_end(owner) - now,
                ranges: u32::try_from(seen.ranges).unwrap_or(u32::MAX),
                is_ending: seen.is_ending,
            }
        });
        LeaseReport {
            term: state.term,
            moves: state.moves,
            ltcs: ltcs.collect(),
            ranges: ranges.iter().map(|range| state.cover_of(range, now)).collect(),
        }
    }
}

impl State {
    /// Returns the cover of a range.
    pub(super) fn cover_of(&self, range: &Descriptor, now: Monotonic) -> RangeLease {
        let cover = self.ranges.get(&range.id).filter(|cover| cover.epoch == range.epoch);
        let ordered = cover.and_then(|cover| cover.ordered).map(|owner| owner.ltc);
        let uncovered = cover.and_then(|cover| cover.uncovered);
        let end = range.owner.map(|owner| uncovered.unwrap_or_else(|| self.lease_end(owner)));
        let is_covered = ordered.is_none() && end.is_some_and(|end| now < end);
        RangeLease { range: range.id, is_covered, ordered }
    }
}
