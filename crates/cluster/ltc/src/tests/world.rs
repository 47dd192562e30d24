//! A coordinator and StoCs behind a network, for tests of LTCs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Leases, LocalStore, RemoteStore, StoreService};
use device::Device;
use environment::Environment;
use stoc::{Limits, RangeId, Stoc, StocService};
use thermocline::Db;
use wire::{Address, Certified, Class, Endpoint as _, Identity, LocalNetwork, Node, Role};

pub(super) const CLUSTER: u64 = 0xc1;
pub(super) const STOCS: u32 = 5;
/// The lease of an LTC.
pub(super) const LEASE: Duration = Duration::from_millis(600);

/// A node of the network with its endpoint.
pub(super) struct Process {
    pub(super) node: Arc<Node>,
    pub(super) endpoint: usize,
    /// The address at which it listens, if it does.
    pub(super) place: String,
}

/// A StoC, and its storage.
pub(super) struct StocProcess {
    pub(super) device: Arc<dyn Device>,
    pub(super) domain: Option<&'static str>,
    pub(super) running: Option<(Process, Arc<StocService>)>,
}

/// A coordinator and StoCs behind a network.
pub(super) struct World {
    pub(super) network: LocalNetwork,
    pub(super) stocs: BTreeMap<u32, StocProcess>,
    pub(super) coordinator: Process,
    pub(super) service: Arc<StoreService>,
    store: Arc<LocalStore>,
    _db: Db,
}

pub(super) fn node_options(identity: Identity) -> wire::Options {
    let mut options = wire::Options::new(identity, Environment::real());
    options.silence = Duration::from_millis(600);
    options
}

pub(super) fn process(
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

pub(super) fn identity(role: Role, node: u32) -> Identity {
    Identity { cluster: CLUSTER, role, node, cookie: 0, incarnation: 0 }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_domains(&[None; STOCS as usize])
    }

    /// Returns a world with a StoC in each of these failure domains.
    pub(super) fn with_domains(domains: &[Option<&'static str>]) -> Self {
        let network = LocalNetwork::default();
        let options =
            thermocline::Options { memory_bytes: 32 << 20, ..thermocline::Options::default() };
        let db = Db::open_on(device::memory(), "coordinator", options).expect("memory takes it");
        let store = Arc::new(LocalStore::open(db.clone()).expect("memory takes it"));
        let service = StoreService::new(Arc::clone(&store) as _, &Environment::real())
            .expect("there are threads");
        let service = Arc::new(service);
        let of_coordinator = identity(Role::Coordinator, 1);
        let coordinator = process(&network, of_coordinator, Some(Arc::clone(&service) as _));
        let stoc = |domain: &Option<&'static str>| StocProcess {
            device: device::memory(),
            domain: *domain,
            running: None,
        };
        let stocs = (1..).zip(domains.iter().map(stoc)).collect();
        let mut world = Self { network, stocs, coordinator, service, store, _db: db };
        let first = process(&world.network, identity(Role::Admin, 1), None);
        let found = Coordinator::found(world.store(&first.node), CLUSTER);
        let made = found.and_then(|found| found.create_keyspace("data", b"", &[]));
        assert_eq!(made.map(|made| made.ranges), Ok(vec![RangeId(1)]));
        world.lead();
        (1..).zip(domains).for_each(|(number, _)| world.start_stoc(number));
        world
    }

    /// Has the coordinator begin to lead, as after a change of the leader.
    pub(super) fn lead(&self) {
        let leases = Leases::begin(self.local_coordinator(), LEASE, || true, &Environment::real());
        self.service.lead(Some(Arc::new(leases.expect("it is open"))));
    }

    /// Returns the coordinator without a network between.
    pub(super) fn local_coordinator(&self) -> Arc<Coordinator> {
        let store = Arc::clone(&self.store) as _;
        Arc::new(Coordinator::join(store, CLUSTER).expect("it is open"))
    }

    pub(super) fn store(&self, node: &Node) -> Arc<RemoteStore> {
        let place = self.coordinator.place.clone();
        let to = Address { role: Role::Coordinator, node: None, cookie: None, place };
        Arc::new(RemoteStore::new(vec![node.channel(to, Class::Control)]))
    }

    pub(super) fn coordinator(&self, node: &Node) -> Arc<Coordinator> {
        Arc::new(Coordinator::join(self.store(node), CLUSTER).expect("it can be reached"))
    }

    /// Starts a StoC on its storage.
    pub(super) fn start_stoc(&mut self, number: u32) {
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
        let noted = coordinator.complete_stoc(of_stoc, Some(&process.place), stoc.domain);
        assert_eq!(noted, Ok(false));
        stoc.running = Some((process, service));
    }

    /// Starts a StoC again, on a wrapper of its storage.
    pub(super) fn wrap<D: Device + 'static>(
        &mut self,
        number: u32,
        wrap: impl FnOnce(Arc<dyn Device>) -> Arc<D>,
    ) -> Arc<D> {
        self.stop_stoc(number);
        let stoc = self.stocs.get_mut(&number).expect("it is one of the StoCs");
        let wrapped = wrap(Arc::clone(&stoc.device));
        stoc.device = Arc::clone(&wrapped) as _;
        self.start_stoc(number);
        wrapped
    }

    /// Ends a StoC in the midst of its work.
    pub(super) fn stop_stoc(&mut self, number: u32) {
        let running = self.stocs.get_mut(&number).and_then(|stoc| stoc.running.take());
        let Some((process, service)) = running else { return };
        process.node.stop();
        service.stop();
    }
}
