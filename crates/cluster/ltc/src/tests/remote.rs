//! Ranges over StoCs and a coordinator of other processes, behind a network that is cut.

use std::collections::BTreeMap;
use std::time::Duration;

use coordinator::{Coordinator, LocalStore, Owner, RemoteStore, StoreService};
use logc::Closing;
use rand::RngExt;
use stoc::{Limits, RangeId, Stoc, StocService};
use thermocline::Db;
use wire::{Address, Certified, Class, Cut, Endpoint as _, Identity, LocalNetwork, Node, Role};

use super::*;
use crate::{Ltc, RangeOptions, RemoteStocs};

const CLUSTER: u64 = 0xc1;
const STOCS: u32 = 5;

/// A node of the network with its endpoint.
struct Process {
    node: Arc<Node>,
    endpoint: usize,
    /// The address at which it listens, if it does.
    place: String,
}

/// A StoC, and its storage.
struct StocProcess {
    device: Arc<dyn Device>,
    running: Option<(Process, Arc<StocService>)>,
}

/// A coordinator and StoCs behind a network.
struct World {
    network: LocalNetwork,
    stocs: BTreeMap<u32, StocProcess>,
    coordinator: Process,
    _service: Arc<StoreService>,
    _db: Db,
}

/// An LTC that serves one range.
struct Serving {
    process: Process,
    ltc: Ltc,
    stocs: Arc<RemoteStocs>,
    keyspace: Keyspace,
    closing: Closing,
}

fn node_options(identity: Identity) -> wire::Options {
    let mut options = wire::Options::new(identity, Environment::real());
    options.silence = Duration::from_millis(600);
    options
}

fn process(
    network: &LocalNetwork,
    identity: Identity,
    handler: Option<Arc<dyn wire::Handler>>,
) -> Process {
    let Identity { cluster, role, node, .. } = identity;
    let mut endpoint = network.endpoint(Certified { cluster, role, node: Some(node) });
    let id = endpoint.id();
    let place = match handler {
        Some(_) => endpoint.listen(&format!("{role}:0")).expect("the port is free"),
        None => String::new(),
    };
    let options = wire::Options { handler, ..node_options(identity) };
    let node = Arc::new(Node::start(endpoint, options).expect("there is a thread"));
    Process { node, endpoint: id, place }
}

fn identity(role: Role, node: u32) -> Identity {
    Identity { cluster: CLUSTER, role, node, cookie: 0, incarnation: 0 }
}

impl World {
    fn new() -> Self {
        let network = LocalNetwork::default();
        let options =
            thermocline::Options { memory_bytes: 32 << 20, ..thermocline::Options::default() };
        let db = Db::open_on(device::memory(), "coordinator", options).expect("memory takes it");
        let store = Arc::new(LocalStore::open(db.clone()).expect("memory takes it"));
        let service = StoreService::new(store, &Environment::real()).expect("there are threads");
        let service = Arc::new(service);
        let of_coordinator = identity(Role::Coordinator, 1);
        let coordinator = process(&network, of_coordinator, Some(Arc::clone(&service) as _));
        let stoc = |number| (number, StocProcess { device: device::memory(), running: None });
        let stocs = (1..=STOCS).map(stoc).collect();
        let mut world = Self { network, stocs, coordinator, _service: service, _db: db };
        let first = process(&world.network, identity(Role::Admin, 1), None);
        let found = Coordinator::found(world.store(&first.node), CLUSTER);
        let made = found.and_then(|found| found.create_keyspace("data", b"", &[]));
        assert_eq!(made.map(|made| made.ranges), Ok(vec![RangeId(1)]));
        (1..=STOCS).for_each(|number| world.start_stoc(number));
        world
    }

    fn store(&self, node: &Node) -> Arc<RemoteStore> {
        let place = self.coordinator.place.clone();
        let to = Address { role: Role::Coordinator, node: None, cookie: None, place };
        Arc::new(RemoteStore::new(vec![node.channel(to, Class::Control)]))
    }

    fn coordinator(&self, node: &Node) -> Arc<Coordinator> {
        Arc::new(Coordinator::join(self.store(node), CLUSTER).expect("it can be reached"))
    }

    /// Starts a StoC on its storage.
    fn start_stoc(&mut self, number: u32) {
        let client = process(&self.network, identity(Role::Stoc, number), None);
        let coordinator = self.coordinator(&client.node);
        let start = coordinator.begin_stoc(number).expect("it can be reached");
        let options = stoc::Options {
            cluster: CLUSTER,
            node: number,
            incarnation: start.incarnation,
            last_incarnation: start.last_incarnation,
            limits: Limits::default(),
            environment: Environment::real(),
        };
        let Some(stoc) = self.stocs.get_mut(&number) else { return };
        let opened = Stoc::open(Arc::clone(&stoc.device), &options).expect("memory takes it");
        let of_stoc = opened.identity();
        let service = StocService::new(Arc::new(opened), 3, &Environment::real());
        let service = Arc::new(service.expect("there are threads"));
        let named = Identity {
            cookie: of_stoc.cookie,
            incarnation: of_stoc.incarnation,
            ..identity(Role::Stoc, number)
        };
        let process = process(&self.network, named, Some(Arc::clone(&service) as _));
        let noted = coordinator.complete_stoc(of_stoc, Some(&process.place));
        assert_eq!(noted, Ok(false));
        stoc.running = Some((process, service));
    }

    /// Ends a StoC in the midst of its work.
    fn stop_stoc(&mut self, number: u32) {
        let running = self.stocs.get_mut(&number).and_then(|stoc| stoc.running.take());
        let Some((process, service)) = running else { return };
        process.node.stop();
        service.stop();
    }

    /// Has an LTC take the range, whether another one has it or not.
    fn serve(&self, ltc: u32, start: u64) -> crate::Result<Serving> {
        let named = Identity { incarnation: start, ..identity(Role::Ltc, ltc) };
        let process = process(&self.network, named, None);
        let coordinator = self.coordinator(&process.node);
        let environment = Environment::real();
        let node = Arc::clone(&process.node);
        let stocs = RemoteStocs::new(Arc::clone(&coordinator), node, environment.clone())?;
        let stocs = Arc::new(stocs);
        let (owner, closing) = (Owner { ltc, start }, Closing::default());
        let ranges = RangeOptions { slow: Duration::from_millis(300), ..RangeOptions::default() };
        let served = Ltc::new(
            coordinator,
            Arc::clone(&stocs) as _,
            owner,
            ranges,
            environment,
            closing.clone(),
        );
        let options = thermocline::Options {
            memory_bytes: 64 << 20,
            background_threads: 1,
            ..thermocline::Options::default()
        };
        let db = served.open(RangeId(1), options)?;
        let engine = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
        let keyspace = db.keyspace("data", engine)?.durability(Durability::Flushed);
        Ok(Serving { process, ltc: served, stocs, keyspace, closing })
    }

    /// Cuts an LTC off from a StoC, or ends the cut.
    fn cut(&self, serving: &Serving, number: u32, cut: Option<Cut>) {
        let running = self.stocs.get(&number).and_then(|stoc| stoc.running.as_ref());
        let Some((process, _)) = running else { return };
        self.network.cut(serving.process.endpoint, process.endpoint, cut);
    }
}

impl Serving {
    /// Ends it without a close.
    fn kill(self) {
        self.closing.close();
        self.process.node.stop();
        drop(self.ltc.close());
    }
}

#[test]
fn a_range_survives_the_end_of_stocs_and_of_its_owner() {
    let mut world = World::new();
    let first = world.serve(1, 1).expect("all StoCs are up");
    put(&first.keyspace, 0..200);
    first.keyspace.flush().expect("all StoCs are up");
    world.stop_stoc(2);
    put(&first.keyspace, 200..400);
    check(&first.keyspace, 0..400);
    world.start_stoc(2);
    assert!(first.stocs.refresh().is_ok());
    world.stop_stoc(3);
    put(&first.keyspace, 400..500);
    first.keyspace.flush().expect("four StoCs are up");
    put(&first.keyspace, 500..600);
    world.start_stoc(3);
    first.kill();
    let second = world.serve(2, 1).expect("all StoCs are up");
    check(&second.keyspace, 0..600);
    put(&second.keyspace, 600..700);
    second.ltc.close().expect("all StoCs are up");
    let third = world.serve(1, 2).expect("all StoCs are up");
    check(&third.keyspace, 0..700);
}

/// R1: an LTC that has lost its range without noticing acknowledges nothing any more.
#[test]
fn an_old_owner_acknowledges_nothing() {
    let world = World::new();
    let first = world.serve(1, 1).expect("all StoCs are up");
    put(&first.keyspace, 0..100);
    let second = world.serve(2, 1).expect("all StoCs are up");
    for key in 100..110_u32 {
        assert!(first.keyspace.put(&key.to_be_bytes(), b"late").is_err(), "{key}");
    }
    check(&second.keyspace, 0..100);
    assert_eq!(second.keyspace.get(&100_u32.to_be_bytes()).expect("it is open"), None);
    put(&second.keyspace, 100..200);
    first.kill();
    check(&second.keyspace, 0..200);
}

/// Owners, StoCs and connections that end at random. Two of five StoCs at a time are away.
#[test]
fn acknowledged_writes_survive_random_faults() {
    for seed in 0..4 {
        let mut random = Environment::seeded(seed).random("remote ranges");
        let mut world = World::new();
        let mut serving = world.serve(1, 1).expect("all StoCs are up");
        let mut acknowledged = 0;
        for step in 1..=12_u64 {
            let away = [random.random_range(1..=STOCS), random.random_range(1..=STOCS)];
            for (number, fault) in away.into_iter().zip([random.random_range(0..3), 0]) {
                match fault {
                    0 => world.stop_stoc(number),
                    1 => world.cut(&serving, number, Some(Cut::Reset)),
                    _ => world.cut(&serving, number, Some(Cut::Silent)),
                }
            }
            put(&serving.keyspace, acknowledged..acknowledged + 20);
            acknowledged += 20;
            if random.random() {
                serving.keyspace.flush().expect("three StoCs are up");
            }
            for number in away {
                world.cut(&serving, number, None);
                let is_stopped = |stoc: &StocProcess| stoc.running.is_none();
                if world.stocs.get(&number).is_some_and(is_stopped) {
                    world.start_stoc(number);
                }
            }
            assert!(serving.stocs.refresh().is_ok());
            if step % 3 == 0 {
                let next = world.serve(step as u32 % 2 + 1, step + 1);
                let next = next.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                check(&next.keyspace, 0..acknowledged);
                std::mem::replace(&mut serving, next).kill();
            }
        }
    }
}
