//! Replicated logs over the records of a coordinator.

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use logc::{Closing, Error, Setup, Stocs};
use stoc::{DirectLink, Epoch, Kind, Limits, Link, RangeId, Stoc};

use super::{coordinator, db, owner};
use crate::{Coordinator, RangeLogs};

const RANGE: RangeId = RangeId(1);

/// Three StoCs of this process.
#[derive(Debug)]
struct ThreeStocs(Vec<Arc<Stoc>>);

impl ThreeStocs {
    fn start(coordinator: &Coordinator) -> Self {
        let start = |node: u32| {
            let start = coordinator.begin_stoc(node).expect("the database is open");
            let options = stoc::Options {
                cluster: coordinator.cluster(),
                node,
                incarnation: start.incarnation,
                last_incarnation: start.last_incarnation,
                limits: Limits::default(),
                environment: Environment::seeded(u64::from(node)),
            };
            let stoc = Stoc::open(device::memory(), &options).expect("memory takes it");
            coordinator.complete_stoc(stoc.identity(), None, None).expect("it is the last start");
            Arc::new(stoc)
        };
        Self((1..=3).map(start).collect())
    }
}

impl Stocs for ThreeStocs {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        let stoc = self.0.iter().find(|stoc| stoc.identity().node == node)?;
        Some(Arc::new(DirectLink(Arc::clone(stoc))))
    }

    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let nodes = (1..=3).filter(|node| !avoid.contains(node));
        nodes.filter_map(|node| self.link(node)).take(count).collect()
    }
}

fn setup(coordinator: &Arc<Coordinator>, stocs: &Arc<ThreeStocs>, epoch: Epoch) -> Setup {
    Setup {
        range: RANGE,
        epoch,
        registry: Arc::new(RangeLogs::new(Arc::clone(coordinator), RANGE)),
        stocs: Arc::clone(stocs) as _,
        ensemble: 3,
        quorum: 2,
        mode: logc::Mode::Durable,
        slow: Duration::from_millis(100),
        backlog_bytes: 1 << 20,
        gives_up_log: false,
        environment: Environment::seeded(9),
        closing: Closing::default(),
    }
}

/// Both logs of a range go from one owner to the next.
#[test]
fn logs_of_a_range_belong_to_the_owner_of_its_epoch() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    let stocs = Arc::new(ThreeStocs::start(&coordinator));
    let kinds = [Kind::Log, Kind::Manifest];
    let first = coordinator.take(RANGE, owner(1)).expect("it is there").epoch;
    let opened = logc::open(&setup(&coordinator, &stocs, first), &kinds);
    let old = opened.expect("three StoCs are up");
    for (at, log) in old.iter().enumerate() {
        log.begin_file(1).expect("three StoCs are up");
        log.append(1, 0, format!("log {at}").as_bytes()).expect("three StoCs are up");
    }
    coordinator.serve(RANGE, first).expect("it is opening");
    let second = coordinator.take(RANGE, owner(2)).expect("it is there").epoch;
    let fenced = Error::Fenced { range: RANGE, epoch: first };
    // A change of the logs is refused before any StoC is fenced.
    let refused = old.first().map(|log| log.begin_file(2).and_then(|()| log.begin_file(3)));
    assert_eq!(refused, Some(Err(fenced.clone())));
    let opened = logc::open(&setup(&coordinator, &stocs, second), &kinds);
    let new = opened.expect("three StoCs are up");
    for (at, log) in new.iter().enumerate() {
        assert_eq!(log.read(1, 0, 5), Ok(format!("log {at}").into_bytes()));
    }
    let late = old.last().map(|log| log.append(1, 5, b"late"));
    assert_eq!(late, Some(Err(fenced.clone())));
    let opened = logc::open(&setup(&coordinator, &stocs, first), &kinds);
    assert_eq!(opened.err(), Some(fenced));
    // Other changes of the range do not disturb its logs.
    coordinator.serve(RANGE, second).expect("it is opening");
    coordinator.move_range(RANGE, 1).expect("it serves");
    new.iter().for_each(|log| log.begin_file(2).expect("the epoch is the same"));
}
