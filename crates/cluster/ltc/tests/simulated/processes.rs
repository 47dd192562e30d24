//! The processes of a cluster: each starts as the command of its role does, and runs until it is
//! killed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use coordinator::{Campaign, Coordinator, RemoteStore, StoreService};
use device::{Device, SimulatedDisk};
use logc::Closing;
use stoc::{Limits, Stoc, StocService};
use thermocline::{SharedParts, lsm};
use thermocline_ltc::{
    Beats, Ltc, RangeOptions, RangeService, RemoteStocs, ServeOptions, StocChoice,
};
use wire::{Address, Class, Identity, Node, Role};

use super::world::{CLUSTER, COORDINATORS, Own, coordinator_place, identity, latency};

/// Time between two attempts of a coordinator to lead.
const CAMPAIGN: Duration = Duration::from_secs(1);
/// Time after which a request of a StoC that is under way ends the process.
const STALL_MAX: Duration = Duration::from_secs(20);
/// Memory of an LTC.
const MEMORY_BYTES: u64 = 256 << 20;

/// Returns the store of the coordinators.
pub(crate) fn store(node: &Node) -> Arc<RemoteStore> {
    let channel = |number| {
        let place = coordinator_place(number);
        node.channel(
            Address { role: Role::Coordinator, node: None, cookie: None, place },
            Class::Control,
        )
    };
    Arc::new(RemoteStore::new((1..=COORDINATORS).map(channel).collect()))
}

/// A coordinator over etcd.
pub(crate) fn coordinator(own: &Own, number: u32, is_away: &Arc<AtomicBool>) {
    let store = Arc::new(own.etcd().client(&own.environment, Arc::clone(is_away)));
    let service = StoreService::new(Arc::clone(&store) as _, &own.environment);
    let service = Arc::new(service.expect("there are threads"));
    let place = coordinator_place(number);
    let handler = Arc::clone(&service) as Arc<dyn wire::Handler>;
    let member = own.node(identity(Role::Coordinator, number), Some((handler, &place)));
    let mut campaign = Campaign::new(
        (store, service),
        (CLUSTER, member.place),
        coordinator::LEASE,
        &own.environment,
        Box::new(|_line| ()),
    );
    loop {
        campaign.step();
        own.environment.sleep(CAMPAIGN);
    }
}

/// A StoC on a disk.
pub(crate) fn stoc(own: &Own, number: u32, disk: Arc<SimulatedDisk>) {
    let name = (Role::Stoc, number);
    disk.set_latency(&own.environment, latency());
    let client = own.node(identity(Role::Stoc, number), None);
    let coordinator = own.reach(|| Coordinator::join(store(&client.node), CLUSTER));
    let start = own.reach(|| coordinator.begin_stoc(number));
    let options = stoc::Options {
        cluster: CLUSTER,
        node: number,
        incarnation: start.incarnation,
        last_incarnation: start.last_incarnation,
        limits: Limits::default(),
        environment: own.environment.clone(),
    };
    let opened = Stoc::open(disk as Arc<dyn Device>, &options).expect("its disk is whole");
    let opened = Arc::new(opened);
    let of_stoc = opened.identity();
    let service = StocService::new(Arc::clone(&opened), 4, &own.environment);
    let service = Arc::new(service.expect("there are threads"));
    let (cookie, incarnation) = (of_stoc.cookie, of_stoc.incarnation);
    let named = Identity { cookie, incarnation, ..identity(Role::Stoc, number) };
    let handler = Arc::clone(&service) as Arc<dyn wire::Handler>;
    let member = own.node(named, Some((handler, "stoc:0")));
    own.reach(|| coordinator.complete_stoc(of_stoc, Some(&member.place), None));
    loop {
        own.environment.sleep(Duration::from_secs(1));
        if service.longest_run() > STALL_MAX || opened.stopped().is_some() {
            own.exit(name);
        }
    }
}

/// An LTC.
pub(crate) fn ltc(own: &Own, number: u32) {
    let environment = &own.environment;
    let client = own.node(identity(Role::Ltc, number), None);
    let coordinator = own.reach(|| Coordinator::join(store(&client.node), CLUSTER));
    let owner = own.reach(|| coordinator.begin_ltc(number));
    let service = Arc::new(RangeService::new(6, environment).expect("there are threads"));
    let named = Identity { incarnation: owner.start, ..identity(Role::Ltc, number) };
    let handler = Arc::clone(&service) as Arc<dyn wire::Handler>;
    let member = own.node(named, Some((handler, "ltc:0")));
    let coordinator = Arc::new(own.reach(|| Coordinator::join(store(&member.node), CLUSTER)));
    let stocs = own.reach(|| {
        let (coordinator, node) = (Arc::clone(&coordinator), Arc::clone(&member.node));
        RemoteStocs::new(coordinator, node, StocChoice::default(), environment.clone())
    });
    let stocs = Arc::new(stocs);
    own.reach(|| coordinator.complete_ltc(owner, &member.place));
    let ltc = Ltc::new(
        Arc::clone(&coordinator),
        Arc::clone(&stocs) as _,
        owner,
        RangeOptions::default(),
        environment.clone(),
        Closing::default(),
    );
    let small = lsm::Options {
        memtable_bytes_max: 32 << 10,
        table_bytes: 16 << 10,
        level1_bytes: 64 << 10,
        ..lsm::Options::default()
    };
    let database = thermocline::Options {
        background_threads: 1,
        environment: environment.clone(),
        engines: small.into(),
        ..thermocline::Options::default()
    };
    let shared = SharedParts::default();
    let options = ServeOptions { memory_bytes: MEMORY_BYTES, database, shared };
    let parts = (Arc::new(ltc), stocs);
    let of_coordinator = (store(&member.node), coordinator);
    let beats = Beats::start(parts, of_coordinator, service, options, environment);
    let beats = beats.expect("there are threads");
    loop {
        environment.sleep(Duration::from_secs(1));
        if beats.failure().is_some() {
            own.exit((Role::Ltc, number));
        }
    }
}
