//! Leases of LTCs, and the assignment of ranges. (Nova-LSM, section 4)
//!
//! 1. An LTC reports the ranges that it has open, five times in the time of a lease.
//! 2. The leader replies with a lease, with orders to open ranges, and with the ranges that the
//!    LTC is to move or to close.
//! 3. The LTC counts the lease from the time at which it sent the report, and ends it a tenth
//!    early. The leader counts from its reply. So the lease of the LTC ends first.
//! 4. Without reports the lease ends. Then the leader gives the ranges of the LTC to others.
//!
//! A lease never protects data: epochs do. It bounds how long an LTC that was cut off may serve
//! reads.
//!
//! # Invariants
//! - E1. No LTC gets an order for a range while another one may serve reads of it: until the lease
//!   of the owner is over, or the owner has closed the range.
//! - E2. A leader replies only while its own lease is valid. A new leader gives no range of an
//!   owner away before one lease has passed, since the leader before may have granted one.
//! - E3. Of two processes with the number of one LTC, the earlier start gets no lease.
//! - E4. An LTC reports a range from the order on until it has closed the range and noted that. Its
//!   reports have numbers that grow, and name the leadership that it has heard of last. So a report
//!   without a range, in the present leadership, shows that the LTC does not serve the range.
//! - E5. Once a leader has ordered an LTC to open a range, no lease covers the owner before, also
//!   if that owner reports again. The same holds once the owner was to close the range.

mod dropped;
mod metrics;
mod report;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use environment::{Environment, Monotonic};
use stoc::{Epoch, RangeId};
use sync::Mutex;
use wire::Role;

use crate::coordinator::{Coordinator, Order};
use crate::descriptor::{Descriptor, Owner, RangeState};
use crate::error::{Error, Result};
use crate::records::LtcRecord;
use crate::store::StoreError;

pub use report::{LeaseReport, LtcLease, RangeLease};

/// Dropped ranges that are forgotten at one report: other reports wait meanwhile.
const FORGOTTEN_MAX: usize = 16;
/// Time for which a report gives a lease.
pub const LEASE: Duration = Duration::from_secs(5);
/// Reports of an LTC in the time of a lease.
const BEATS: u32 = 5;
/// Time between two reports while a range moves to an LTC, or from it.
const BEAT_OF_MOVES: Duration = Duration::from_millis(50);
/// Orders for one range that an LTC has not followed, after which another LTC gets it.
const FAILURES_MAX: u32 = 3;

/// A report of an LTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The LTC, in its present start.
    pub owner: Owner,
    /// Its number among the reports of this start.
    pub number: u64,
    /// The leadership of the last reply; 0 before the first.
    pub term: u64,
    /// Whether the LTC ends, and opens no range any more.
    pub is_ending: bool,
    /// The ranges that it has open, is opening or closing.
    pub ranges: Vec<RangeId>,
}

/// The reply to a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatReply {
    /// The leadership.
    pub term: u64,
    /// The lease, from the time at which the report was sent.
    pub lease: Duration,
    /// Time until the next report.
    pub next: Duration,
    /// Ranges that the LTC is to open.
    pub open: Vec<Order>,
    /// Ranges that it is to flush, and then to leave: they move.
    pub moving: Vec<RangeId>,
    /// Ranges that it is to close. The lease does not cover them.
    pub close: Vec<RangeId>,
}

/// The leases of LTCs, as the leader knows them.
pub struct Leases {
    coordinator: Arc<Coordinator>,
    leads: Box<dyn Fn() -> bool + Send + Sync>,
    environment: Environment,
    state: Mutex<State>,
}

struct State {
    term: u64,
    lease: Duration,
    /// The time at which the leadership began.
    began: Monotonic,
    /// The present start of each LTC that reports.
    ltcs: BTreeMap<u32, Ltc>,
    /// The ends of all leases that this leader has given.
    ends: BTreeMap<Owner, Monotonic>,
    /// Orders and covers of ranges, of their present epochs.
    ranges: BTreeMap<RangeId, Cover>,
    /// Moves that have ended at their targets.
    moves: u64,
}

/// An LTC that reports.
#[derive(Clone, Debug)]
struct Ltc {
    start: u64,
    /// The number of its last report.
    number: u64,
    /// The time of that report.
    at: Monotonic,
    /// The ranges that it has.
    ranges: usize,
    is_ending: bool,
}

/// The order for a range of one epoch, and the cover of its owner.
#[derive(Clone, Copy, Debug)]
struct Cover {
    epoch: Epoch,
    /// The LTC to which it moves in this epoch.
    target: Option<u32>,
    /// The LTC that has an order to open it.
    ordered: Option<Owner>,
    /// The time after which no lease covers the owner. (E4, E5)
    uncovered: Option<Monotonic>,
    /// Whether the owner has reported that it does not have the range. (E4)
    is_idle: bool,
    /// Orders that were not followed, also of earlier epochs, and the LTC that has not done so.
    failures: u32,
    failed: Option<Owner>,
    /// The LTC gets no order for it before this time.
    avoided: Option<Monotonic>,
}

/// A look at the records for one reply.
struct Look<'a> {
    beat: &'a Beat,
    draining: &'a [u32],
    /// The records of all ranges.
    ranges: &'a [Descriptor],
    now: Monotonic,
    /// The end of the lease that the LTC had before.
    before: Monotonic,
}

/// Ranges that are to move, and the LTCs that are to get them.
type Moves = Vec<(RangeId, u32)>;

impl Leases {
    /// Begins a leadership. `leads` returns whether this coordinator still leads, by its own
    /// lease. (E2)
    ///
    /// # Errors
    /// Those of the coordinator.
    pub fn begin(
        coordinator: Arc<Coordinator>,
        lease: Duration,
        leads: impl Fn() -> bool + Send + Sync + 'static,
        environment: &Environment,
    ) -> Result<Self> {
        let term = coordinator.lead()?;
        let (ltcs, ends, ranges) = Default::default();
        let began = environment.now();
        let state = Mutex::new(State { term, lease, began, ltcs, ends, ranges, moves: 0 });
        let (leads, environment) = (Box::new(leads), environment.clone());
        Ok(Self { coordinator, leads, environment, state })
    }

    /// Notes a report, and returns the reply to it.
    ///
    /// # Errors
    /// [`Error::OldStart`] for an LTC of which a later start has reported (E3), and for a report
    /// that comes after a later one; [`StoreError::NotLeader`]; those of the coordinator.
    pub fn beat(&self, beat: &Beat) -> Result<BeatReply> {
        // Reports are noted one at a time, so that an earlier look at the ranges is never noted
        // after a later one. (E5)
        let mut state = self.state.lock();
        let ltcs = self.coordinator.ltcs()?;
        let ranges = self.coordinator.ranges()?;
        let is_draining = |(node, record): &(u32, LtcRecord)| record.is_draining.then_some(*node);
        let draining: Vec<u32> = ltcs.iter().filter_map(is_draining).collect();
        let now = self.environment.now();
        let before = state.meet(beat, now)?;
        let look = Look { beat, draining: &draining, ranges: &ranges, now, before };
        let (reply, moves) = state.note(&look);
        for (range, target) in moves {
            // A change that fails, or came too late, is made at the next report.
            let _ = self.coordinator.move_range(range, target);
        }
        for range in state.closed_for_good(&ranges, now).into_iter().take(FORGOTTEN_MAX) {
            let _ = self.coordinator.forget_range(range);
        }
        // The lease counts from here.
        if (self.leads)() { Ok(reply) } else { Err(StoreError::NotLeader.into()) }
    }

    /// Returns the coordinator that gives them.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Returns the LTCs with a lease, and the number of their ranges.
    pub fn ltcs(&self) -> Vec<(Owner, usize)> {
        let state = self.state.lock();
        let now = self.environment.now();
        let present = state.ltcs.iter();
        let present = present.map(|(ltc, seen)| (Owner { ltc: *ltc, start: seen.start }, seen));
        let alive = present.filter(|(owner, _)| state.lease_end(*owner) > now);
        alive.map(|(owner, seen)| (owner, seen.ranges)).collect()
    }
}

impl State {
    /// Gives an LTC a lease. Returns the end of the lease before. (E3)
    fn meet(&mut self, beat: &Beat, now: Monotonic) -> Result<Monotonic> {
        let Beat { owner, number, .. } = *beat;
        let is_late = |seen: &Ltc| seen.start == owner.start && seen.number >= number;
        let (start, lease) = (owner.start, self.lease);
        let new = || Ltc { start, number: 0, at: now, ranges: 0, is_ending: false };
        let seen = self.ltcs.entry(owner.ltc).or_insert_with(new);
        let is_old = seen.start > start;
        if is_old || is_late(seen) {
            let (role, node, given, last) = (Role::Ltc, owner.ltc, start, seen.start);
            return Err(Error::OldStart { role, node, given, last });
        }
        let (ranges, is_ending) = (beat.ranges.len(), beat.is_ending);
        *seen = Ltc { start, number, at: now, ranges, is_ending };
        let before = self.lease_end(owner);
        self.ends.retain(|_, end| *end > now);
        self.ends.insert(owner, now + lease);
        Ok(before)
    }

    /// Returns the end of the last lease of an LTC in one of its starts. The leader before may have
    /// given one. (E2)
    fn lease_end(&self, owner: Owner) -> Monotonic {
        self.ends.get(&owner).copied().unwrap_or(self.began + self.lease)
    }

    /// Decides about all ranges.
    fn note(&mut self, look: &Look<'_>) -> (BeatReply, Moves) {
        let mut reply = BeatReply {
            term: self.term,
            lease: self.lease,
            next: self.lease / BEATS,
            ..BeatReply::default()
        };
        let mut moves = Moves::new();
        for range in look.ranges {
            self.cover(range);
            match look.beat.ranges.contains(&range.id) {
                true => self.keep(look, range, (&mut reply, &mut moves)),
                false => self.give(look, range, &mut reply),
            }
        }
        let is_known = |id: &RangeId| look.ranges.iter().any(|range| range.id == *id);
        self.ranges.retain(|id, _| is_known(id));
        // Dropped ranges have no record.
        reply.close.extend(look.beat.ranges.iter().filter(|id| !is_known(id)));
        (reply, moves)
    }

    /// Returns the cover of a range. Its order, and the end of its cover, are of one epoch.
    fn cover(&mut self, range: &Descriptor) -> &mut Cover {
        let epoch = range.epoch;
        let new = Cover {
            epoch,
            target: None,
            ordered: None,
            uncovered: None,
            is_idle: false,
            failures: 0,
            failed: None,
            avoided: None,
        };
        let cover = self.ranges.entry(range.id).or_insert(new);
        if cover.epoch != epoch {
            let Cover { target, failures, failed, avoided, .. } = *cover;
            let has_moved = target.is_some() && target == range.owner.map(|owner| owner.ltc);
            self.moves += u64::from(has_moved);
            *cover = Cover { failures, failed, avoided, ..new };
        }
        cover.target = range.state.target();
        cover
    }

    /// Decides about a range that the LTC has.
    fn keep(
        &mut self,
        look: &Look<'_>,
        range: &Descriptor,
        (reply, moves): (&mut BeatReply, &mut Moves),
    ) {
        let owner = look.beat.owner;
        let cover = self.cover(range);
        if cover.ordered == Some(owner) && range.state != RangeState::Dropped {
            // It is opening the range.
            return;
        }
        let is_ours = range.owner == Some(owner) && cover.ordered.is_none();
        cover.is_idle &= range.owner != Some(owner);
        let is_draining = look.draining.contains(&owner.ltc);
        match range.state {
            RangeState::Opening if is_ours => {}
            RangeState::Serving | RangeState::Moving { .. } if is_ours => {
                (cover.failures, cover.failed) = (0, None);
                let target = match range.state {
                    RangeState::Moving { target } => Some(target),
                    _ => None,
                };
                if target.is_some_and(|target| self.may_take(target, look.now)) {
                    reply.moving.push(range.id);
                    reply.next = BEAT_OF_MOVES;
                } else if is_draining && let Some(refuge) = self.refuge(look, range, moves) {
                    moves.push((range.id, refuge));
                    reply.next = BEAT_OF_MOVES;
                }
            }
            RangeState::Leaving { .. } if is_ours => {
                // No reply covers the range any more. [E5]
                cover.uncovered.get_or_insert(look.before);
                reply.close.push(range.id);
                reply.next = BEAT_OF_MOVES;
            }
            _ => reply.close.push(range.id),
        }
    }

    /// Orders the LTC to open a range that it does not have, if it is to have it.
    fn give(&mut self, look: &Look<'_>, range: &Descriptor, reply: &mut BeatReply) {
        let owner = look.beat.owner;
        let is_of_term = look.beat.term == self.term;
        let lease = self.lease;
        let cover = self.cover(range);
        let is_owner = is_of_term && range.owner == Some(owner);
        let was_ordered = is_of_term && cover.ordered == Some(owner);
        if is_owner {
            // The owner does not serve the range. [E4]
            (cover.uncovered, cover.is_idle) = (Some(look.now), true);
        }
        if was_ordered {
            // Its order is not void: the owner before stays without cover. [E5]
            cover.ordered = None;
            cover.uncovered.get_or_insert(look.now);
        }
        if was_ordered || is_owner && range.state == RangeState::Opening {
            // It has not opened the range.
            let failures = if cover.failed == Some(owner) { cover.failures } else { 0 };
            (cover.failures, cover.failed) = (failures + 1, Some(owner));
            cover.avoided = (failures + 1 >= FAILURES_MAX).then(|| look.now + lease);
        }
        if let RangeState::Moving { target } | RangeState::Leaving { target } = range.state
            && target == owner.ltc
        {
            reply.next = BEAT_OF_MOVES;
        }
        if range.state == RangeState::Dropped || self.taker(look, range) != Some(owner.ltc) {
            return;
        }
        self.cover(range).ordered = Some(owner);
        reply.open.push(Order { range: range.id, epoch: range.epoch, term: self.term });
    }

    /// Returns the LTC that is to open a range which no LTC may serve. (E1)
    fn taker(&mut self, look: &Look<'_>, range: &Descriptor) -> Option<u32> {
        let now = look.now;
        let Cover { ordered, uncovered, is_idle, .. } = *self.cover(range);
        if let Some(owner) = range.owner {
            let end = match (ordered, uncovered) {
                (Some(_), _) => now,
                (None, Some(uncovered)) => uncovered,
                (None, None) => self.lease_end(owner),
            };
            if now < end {
                return None;
            }
        }
        let is_free = |ltc: u32| self.may_take(ltc, now) && !self.is_avoided(range.id, ltc, now);
        if let Some(to) = ordered.filter(|to| self.is_present(*to, now) && is_free(to.ltc)) {
            return Some(to.ltc);
        }
        if let RangeState::Moving { target } | RangeState::Leaving { target } = range.state
            && is_free(target)
        {
            return Some(target);
        }
        // The owner opens a range again that it has lost by a fault.
        if let Some(owner) = range.owner.filter(|owner| is_idle && self.is_present(*owner, now))
            && is_free(owner.ltc)
            && !matches!(range.state, RangeState::Leaving { .. })
        {
            return Some(owner.ltc);
        }
        // Before this, some LTCs may not have reported.
        if now < self.began + self.lease / BEATS * 2 {
            return None;
        }
        self.refuge(look, range, &[])
    }

    /// Returns the LTC with the fewest ranges, but for the owner of a range that it is to leave.
    fn refuge(&self, look: &Look<'_>, range: &Descriptor, moves: &[(RangeId, u32)]) -> Option<u32> {
        let now = look.now;
        let free = self.ltcs.iter().filter(|(node, _)| {
            self.may_take(**node, now)
                && !look.draining.contains(node)
                && !self.is_avoided(range.id, **node, now)
        });
        let load = |(node, ltc): &(&u32, &Ltc)| {
            let its = Owner { ltc: **node, start: ltc.start };
            let owned = look.ranges.iter().filter(|range| match range.state {
                RangeState::Moving { target } | RangeState::Leaving { target } => target == **node,
                _ => range.owner == Some(its),
            });
            // Orders that the LTC has not followed yet count, too.
            let ordered = self.ranges.values().filter(|cover| cover.ordered == Some(its));
            let moves = moves.iter().filter(|(_, target)| target == *node);
            (owned.count() + ordered.count() + moves.count(), **node)
        };
        free.min_by_key(load).map(|(node, _)| *node)
    }

    /// Returns whether an LTC has a lease, and opens ranges.
    fn may_take(&self, ltc: u32, now: Monotonic) -> bool {
        let seen = self.ltcs.get(&ltc).filter(|seen| !seen.is_ending);
        seen.is_some_and(|seen| self.lease_end(Owner { ltc, start: seen.start }) > now)
    }

    /// Returns whether an LTC has failed to open a range a short time ago.
    fn is_avoided(&self, range: RangeId, ltc: u32, now: Monotonic) -> bool {
        self.ranges.get(&range).is_some_and(|cover| {
            cover.failed.is_some_and(|failed| failed.ltc == ltc)
                && cover.avoided.is_some_and(|end| now < end)
        })
    }

    /// Returns whether an LTC has a lease in this start.
    fn is_present(&self, owner: Owner, now: Monotonic) -> bool {
        let seen = self.ltcs.get(&owner.ltc);
        seen.is_some_and(|seen| seen.start == owner.start) && self.lease_end(owner) > now
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}
