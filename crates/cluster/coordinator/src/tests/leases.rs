//! The invariants E1 to E4 of leases, each with a test that fails without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use environment::{Environment, ManualClock};
use stoc::{Epoch, RangeId};

use super::{coordinator, db, owner};
use crate::{
    Beat, BeatReply, Coordinator, Error, LEASE, Leases, Order, Owner, RangeState, StoreError,
};

const RANGE: RangeId = RangeId(1);

/// A leader, and the LTCs that report to it.
struct Leader {
    coordinator: Arc<Coordinator>,
    leases: Leases,
    environment: Environment,
    clock: Arc<ManualClock>,
    leads: Arc<AtomicBool>,
    beats: u64,
    /// The leadership that the LTCs have heard of.
    term: u64,
}

impl Leader {
    fn new(splits: &[Vec<u8>]) -> Self {
        let db = db(&device::memory());
        let coordinator = coordinator(&db);
        coordinator.create_keyspace("users", b"", splits).expect("it is new");
        let (environment, clock) = Environment::simulated(1);
        let leads = Arc::new(AtomicBool::new(true));
        let leases = begin(&coordinator, &leads, &environment);
        let mut leader = Self { coordinator, leases, environment, clock, leads, beats: 0, term: 0 };
        // Both LTCs are known, and the first orders are given after two reports.
        leader.beat(owner(1), &[]);
        leader.beat(owner(2), &[]);
        leader.pass(LEASE / 5 * 2);
        leader
    }

    /// Another coordinator leads from now on.
    fn next_leader(&mut self) {
        self.leases = begin(&self.coordinator, &self.leads, &self.environment);
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    fn try_beat(&mut self, owner: Owner, ranges: &[RangeId]) -> crate::Result<BeatReply> {
        self.beats += 1;
        let (number, term, ranges) = (self.beats, self.term, ranges.to_vec());
        self.leases.beat(&Beat { owner, number, term, is_ending: false, ranges })
    }

    fn beat(&mut self, owner: Owner, ranges: &[RangeId]) -> BeatReply {
        let reply = self.try_beat(owner, ranges).expect("it leads");
        self.term = reply.term;
        reply
    }

    /// Has an LTC open the range by an order, and serve it.
    fn serve(&mut self, owner: Owner) -> Epoch {
        let order = self.order(owner, &[]).expect("no other LTC has it");
        let taken = self.coordinator.take_ordered(order, owner).expect("the order is new");
        self.coordinator.serve(RANGE, taken.epoch).expect("it is opening");
        taken.epoch
    }

    /// Returns the order for the range that an LTC gets.
    fn order(&mut self, owner: Owner, ranges: &[RangeId]) -> Option<Order> {
        let reply = self.beat(owner, ranges);
        reply.open.into_iter().find(|order| order.range == RANGE)
    }
}

fn begin(
    coordinator: &Arc<Coordinator>,
    leads: &Arc<AtomicBool>,
    environment: &Environment,
) -> Leases {
    let leads = Arc::clone(leads);
    let leases =
        Leases::begin(Arc::clone(coordinator), LEASE, move || leads.load(SeqCst), environment);
    leases.expect("the database is open")
}

/// E1: a range of an owner without reports is ordered when its lease is over, and not before.
#[test]
fn e1_a_range_is_given_away_after_the_lease() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    let reply = leader.beat(owner(1), &[RANGE]);
    assert_eq!((reply.lease, reply.next), (LEASE, LEASE / 5));
    assert_eq!((reply.open, reply.moving, reply.close), Default::default());
    leader.pass(LEASE - Duration::from_millis(1));
    assert_eq!(leader.order(owner(2), &[]), None);
    leader.pass(Duration::from_millis(1));
    let order = leader.order(owner(2), &[]).expect("the lease is over");
    assert_eq!((order.range, order.epoch), (RANGE, Epoch(1)));
    // The same order again, until the LTC reports the range.
    assert_eq!(leader.order(owner(2), &[]), Some(order));
    // The owner before has a lease again, but not for the range.
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
    assert_eq!(leader.order(owner(2), &[]), Some(order));
    assert_eq!(leader.beat(owner(2), &[RANGE]).close, []);
}

/// E4: an owner whose range was given away keeps no lease for it, though it reports again.
#[test]
fn e4_an_owner_that_comes_back_closes_the_range() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    leader.pass(LEASE);
    // It comes back before anything happened: it keeps the range.
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, []);
    leader.pass(LEASE);
    let order = leader.order(owner(2), &[]).expect("the lease is over");
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
    // The LTC with the order is lost. The owner before has a lease, but not for the range, so that
    // another LTC gets it.
    leader.pass(LEASE);
    leader.beat(owner(1), &[RANGE]);
    let third = leader.order(owner(3), &[]);
    assert_eq!(third, Some(order));
    let taken = leader.coordinator.take_ordered(order, owner(3)).expect("none was first");
    assert_eq!(taken.epoch, Epoch(2));
    let late = leader.coordinator.take_ordered(order, owner(2));
    assert_eq!(late, Err(Error::OldOrder(RANGE)));
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
    assert_eq!(leader.beat(owner(3), &[RANGE]).close, []);
}

/// E4: a report that comes after a later one is refused.
#[test]
fn e4_an_old_report_is_refused() {
    let mut leader = Leader::new(&[]);
    let number = leader.beats;
    let old = Beat { owner: owner(1), number, term: 0, is_ending: false, ranges: Vec::new() };
    leader.beat(owner(1), &[RANGE]);
    assert!(matches!(leader.leases.beat(&old), Err(Error::OldStart { .. })));
}

/// E2: a leader whose own lease is over gives none, and a new one waits.
#[test]
fn e2_a_lease_is_within_the_lease_of_the_leader() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    leader.leads.store(false, SeqCst);
    let refused = leader.try_beat(owner(1), &[RANGE]);
    assert_eq!(refused, Err(Error::Store(StoreError::NotLeader)));
    leader.leads.store(true, SeqCst);
    leader.next_leader();
    assert_eq!(leader.order(owner(2), &[]), None);
    leader.pass(LEASE - Duration::from_millis(1));
    assert_eq!(leader.order(owner(2), &[]), None);
    leader.pass(Duration::from_millis(1));
    assert!(leader.order(owner(2), &[]).is_some());
}

/// E3: the earlier start of an LTC gets no lease, and its range waits for the end of its last one.
#[test]
fn e3_the_later_start_of_an_ltc_counts() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    let later = Owner { ltc: 1, start: 2 };
    assert_eq!(leader.order(later, &[]), None);
    let refused = leader.try_beat(owner(1), &[RANGE]);
    assert!(matches!(refused, Err(Error::OldStart { given: 1, last: 2, .. })));
    leader.pass(LEASE - Duration::from_millis(1));
    assert_eq!(leader.order(later, &[]), None);
    leader.pass(Duration::from_millis(1));
    assert!(leader.order(later, &[]).is_some());
    // A leader that never saw the earlier start does not know its lease.
    leader.next_leader();
    assert_eq!(leader.order(later, &[]), None);
}

/// The target of a move gets the range when the owner has closed it.
#[test]
fn e1_a_range_moves_when_its_owner_has_closed_it() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    let epoch = leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    leader.coordinator.move_range(RANGE, 9).expect("it serves");
    // A target without a lease gets nothing.
    assert_eq!(leader.beat(owner(1), &[RANGE]).moving, []);
    leader.coordinator.move_range(RANGE, 2).expect("it serves");
    assert_eq!(leader.order(owner(2), &[]), None);
    assert_eq!(leader.beat(owner(1), &[RANGE]).moving, [RANGE]);
    leader.coordinator.leave(RANGE, epoch).expect("it moves");
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
    assert_eq!(leader.order(owner(2), &[]), None);
    leader.coordinator.left(RANGE, epoch).expect("it leaves");
    assert_eq!(leader.order(owner(1), &[]), None);
    let order = leader.order(owner(2), &[]).expect("it is closed");
    leader.coordinator.take_ordered(order, owner(2)).expect("the order is new");
}

/// A target that is lost after the owner has closed the range: another LTC gets it.
#[test]
fn a_target_can_be_lost() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    let epoch = leader.serve(owner(1));
    leader.coordinator.move_range(RANGE, 2).expect("it serves");
    leader.coordinator.leave(RANGE, epoch).expect("it moves");
    leader.coordinator.left(RANGE, epoch).expect("it leaves");
    leader.pass(LEASE);
    assert!(leader.order(owner(3), &[]).is_some());
}

#[test]
fn ranges_are_spread_and_an_ltc_is_drained() {
    let mut leader = Leader::new(&[b"g".to_vec(), b"m".to_vec(), b"t".to_vec()]);
    let mut has = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        for (ltc, has) in (1..).zip(&mut has) {
            let reply = leader.beat(owner(ltc), has);
            for order in reply.open {
                let taken = leader.coordinator.take_ordered(order, owner(ltc));
                let taken = taken.expect("the order is new");
                leader.coordinator.serve(order.range, taken.epoch).expect("it is opening");
                has.push(order.range);
            }
        }
    }
    assert_eq!(has.each_ref().map(Vec::len), [2, 2], "{has:?}");
    let [first, second] = &has;
    leader.coordinator.begin_ltc(1).expect("the database is open");
    leader.coordinator.drain_ltc(1, true).expect("it is there");
    leader.beat(owner(2), second);
    leader.beat(owner(1), first);
    for range in first {
        let state = leader.coordinator.range(*range).map(|range| range.state);
        assert_eq!(state, Ok(RangeState::Moving { target: 2 }));
    }
    assert_eq!(leader.beat(owner(1), first).moving, *first);
}

#[test]
fn a_dropped_range_is_closed_and_forgotten() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    let forgotten = |leader: &Leader| leader.coordinator.forgotten(&[RANGE, RangeId(2)]);
    leader.coordinator.drop_keyspace("users").expect("it is there");
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
    leader.beat(owner(2), &[]);
    assert_eq!(forgotten(&leader), Ok(Vec::new()), "its owner may serve it");
    // The owner has closed it.
    assert_eq!(leader.beat(owner(1), &[]).open, []);
    assert_eq!(forgotten(&leader), Ok(vec![RANGE]), "the other one was not given");
    assert_eq!(leader.beat(owner(1), &[RANGE]).close, [RANGE]);
}

/// A dropped range whose owner is away is forgotten when the lease of the owner is over.
#[test]
fn a_dropped_range_of_a_lost_ltc_is_forgotten() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    leader.coordinator.drop_keyspace("users").expect("it is there");
    let mut rounds = 0;
    while leader.coordinator.range(RANGE).is_ok() {
        leader.pass(LEASE / 5);
        leader.beat(owner(2), &[]);
        rounds += 1;
    }
    assert_eq!(rounds, 5);
}

/// An LTC that does not follow its orders loses them to another one.
#[test]
fn a_range_that_an_ltc_cannot_open_goes_to_another_one() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    leader.beat(owner(2), &[]);
    let orders: Vec<u32> = (0..10)
        .map(|_| {
            leader.pass(LEASE / 5);
            let first = leader.order(owner(1), &[]).is_some();
            let second = leader.order(owner(2), &[]).is_some();
            u32::from(first) + 2 * u32::from(second)
        })
        .collect();
    assert!(orders.contains(&1) && orders.contains(&2), "{orders:?}");
    // An owner that fails after it has taken the range.
    let mut takers = Vec::new();
    for _ in 0..12 {
        leader.pass(LEASE / 5);
        for ltc in [1, 2] {
            if let Some(order) = leader.order(owner(ltc), &[]) {
                leader.coordinator.take_ordered(order, owner(ltc)).expect("the order is new");
                takers.push(ltc);
            }
        }
    }
    assert!(takers.contains(&1) && takers.contains(&2), "{takers:?}");
}

/// An LTC that ends gets no range, and one that hangs while it closes a range loses it.
#[test]
fn an_ltc_that_ends_or_hangs_keeps_no_range() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    let epoch = leader.serve(owner(1));
    leader.coordinator.left(RANGE, epoch).expect("it serves");
    let (number, term) = (leader.beats + 1, leader.term);
    let ending = Beat { owner: owner(1), number, term, is_ending: true, ranges: Vec::new() };
    leader.beats += 1;
    assert_eq!(leader.leases.beat(&ending).map(|reply| reply.open), Ok(Vec::new()));
    let epoch = leader.serve(owner(2));
    leader.beat(owner(2), &[RANGE]);
    leader.beat(owner(3), &[]);
    leader.coordinator.move_range(RANGE, 3).expect("it serves");
    leader.coordinator.leave(RANGE, epoch).expect("it moves");
    for _ in 0..5 {
        assert_eq!(leader.beat(owner(2), &[RANGE]).close, [RANGE]);
        assert_eq!(leader.order(owner(3), &[]), None);
        leader.pass(LEASE / 5);
    }
    assert!(leader.order(owner(3), &[]).is_some());
}

/// The report of the leader follows a range from one LTC to another one, and until its lease ends.
#[test]
fn the_report_shows_leases_orders_and_moves() {
    let mut leader = Leader::new(&[]);
    leader.pass(LEASE);
    let shown = |leader: &Leader| {
        let report = leader.leases.report().expect("the database is open");
        let range = *report.ranges.first().expect("there is a range");
        (range.is_covered, range.ordered, report.moves)
    };
    assert_eq!(shown(&leader), (false, None, 0));
    let epoch = leader.serve(owner(1));
    leader.beat(owner(1), &[RANGE]);
    leader.beat(owner(2), &[]);
    assert_eq!(shown(&leader), (true, None, 0));
    leader.coordinator.move_range(RANGE, 2).expect("it serves");
    assert_eq!(leader.beat(owner(1), &[RANGE]).moving, [RANGE]);
    leader.coordinator.leave(RANGE, epoch).expect("it moves");
    leader.coordinator.left(RANGE, epoch).expect("it leaves");
    leader.beat(owner(1), &[]);
    let order = leader.order(owner(2), &[]).expect("it is closed");
    assert_eq!(shown(&leader), (false, Some(2), 0));
    let taken = leader.coordinator.take_ordered(order, owner(2)).expect("the order is new");
    leader.coordinator.serve(RANGE, taken.epoch).expect("it is opening");
    leader.beat(owner(2), &[RANGE]);
    assert_eq!(shown(&leader), (true, None, 1));
    leader.pass(LEASE / 2);
    leader.beat(owner(1), &[]);
    let ltcs = leader.leases.report().expect("the database is open").ltcs;
    let times: Vec<_> = ltcs.iter().map(|ltc| (ltc.owner, ltc.silent, ltc.left)).collect();
    let (none, half) = (Duration::ZERO, LEASE / 2);
    assert_eq!(times, [(owner(1), none, LEASE), (owner(2), half, half)]);
    leader.pass(LEASE);
    assert_eq!(shown(&leader), (false, None, 1));
}
