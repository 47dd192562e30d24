//! The world of a simulation: a network, an etcd, disks, and the processes of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use coordinator::{Coordinator, LogMode};
use device::{Faults, Latency, SimulatedDisk};
use environment::Environment;
use rand::RngExt;
use simulation::Process;
use sync::Mutex;
use wire::{Certified, Cut, Endpoint as _, Identity, LocalNetwork, Node, Role};

use super::etcd::Etcd;
use super::processes;

pub(crate) const CLUSTER: u64 = 0xc1;
pub(crate) const STOCS: u32 = 5;
pub(crate) const LTCS: u32 = 3;
pub(crate) const COORDINATORS: u32 = 2;
/// The longest time of bytes on the network.
const LATENCY_MAX: Duration = Duration::from_millis(2);

/// The name of a process: its role and its number.
pub(crate) type Name = (Role, u32);

/// A running process.
struct Running {
    process: Process,
    endpoints: Arc<Mutex<Vec<usize>>>,
}

/// The world. Each process has a handle.
#[derive(Clone)]
pub(crate) struct World {
    shared: Arc<Shared>,
}

struct Shared {
    world: simulation::World,
    network: LocalNetwork,
    etcd: Arc<Etcd>,
    /// The mode of write logs.
    log: LogMode,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<Name, Running>,
    /// The disks of StoCs.
    disks: BTreeMap<u32, Arc<SimulatedDisk>>,
    /// Coordinators that do not reach etcd.
    away: BTreeMap<u32, Arc<AtomicBool>>,
    paused: Vec<Name>,
    cuts: Vec<(usize, usize)>,
    /// Starts so far, which name the processes.
    starts: u64,
    /// Processes that are about to end by themselves.
    exits: Vec<Name>,
    /// Processes that were ended.
    ended: u64,
}

/// A process, as its own threads see it.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) world: World,
    pub(crate) environment: Environment,
    endpoints: Arc<Mutex<Vec<usize>>>,
}

/// A node of the network, with the address at which it listens, if it does.
pub(crate) struct Member {
    pub(crate) node: Arc<Node>,
    pub(crate) place: String,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its disk keeps everything that was written.
    Kill,
    /// Its disk keeps what was synced, and some of the rest.
    PowerCut(u64),
    /// Its disk is lost.
    DiskLost,
}

pub(crate) fn identity(role: Role, node: u32) -> Identity {
    Identity { cluster: CLUSTER, role, node, cookie: 0, incarnation: 0 }
}

/// Whether a process ends by itself.
fn is_user(role: Role) -> bool {
    matches!(role, Role::Client | Role::Admin)
}

/// Returns the address of a coordinator.
pub(crate) fn coordinator_place(number: u32) -> String {
    format!("coordinator-{number}")
}

impl World {
    pub(crate) fn new(world: &simulation::World, seed: u64) -> Self {
        let environment = world.environment();
        let disk =
            |number: u32| (number, SimulatedDisk::new(seed + u64::from(number), Faults::none()));
        let state = State { disks: (1..=STOCS).map(disk).collect(), ..State::default() };
        let network = LocalNetwork::new(&environment, LATENCY_MAX);
        let etcd = Etcd::new(environment);
        let (world, state) = (world.clone(), Mutex::new(state));
        let log = if seed % 4 == 3 { LogMode::Memory } else { LogMode::Durable };
        Self { shared: Arc::new(Shared { world, network, etcd, log, state }) }
    }

    pub(crate) fn environment(&self) -> Environment {
        self.shared.world.environment()
    }

    /// Returns the mode of write logs.
    pub(crate) fn log(&self) -> LogMode {
        self.shared.log
    }

    /// Prints a step of the simulation, if the variable `THERMOCLINE_TRACE` is set.
    pub(crate) fn trace(&self, step: &str) {
        if std::env::var_os("THERMOCLINE_TRACE").is_some() {
            let now = Duration::from_nanos(self.environment().now().as_nanos());
            eprintln!("{now:?}: {step}");
        }
    }

    /// Starts a process that is not running.
    pub(crate) fn start(&self, name: Name) {
        let (role, number) = name;
        let mut state = self.shared.state.lock();
        if state.running.contains_key(&name) {
            return;
        }
        state.starts += 1;
        let process = self.shared.world.process(&format!("{role}-{number}-{}", state.starts));
        // Within the tenth by which leases end early.
        let purpose = format!("clock of {role}-{number}-{}", state.starts);
        let rate = self.environment().random(&purpose).random_range(970_000..=1_030_000);
        process.set_clock_rate(rate);
        let endpoints = Arc::new(Mutex::new(Vec::new()));
        let own = Own {
            world: self.clone(),
            environment: process.environment(),
            endpoints: Arc::clone(&endpoints),
        };
        state.running.insert(name, Running { process: process.clone(), endpoints });
        let disk = state.disks.get(&number).cloned();
        let away = Arc::clone(state.away.entry(number).or_default());
        drop(state);
        self.trace(&format!("{role} {number} starts"));
        let work = move || match role {
            Role::Coordinator => processes::coordinator(&own, number, &away),
            Role::Stoc => processes::stoc(&own, number, disk.expect("a StoC has a disk")),
            _ => processes::ltc(&own, number),
        };
        // It runs until it is killed.
        drop(process.spawn("main", work).expect("the operating system starts a thread"));
    }

    /// Ends a process, if it is running.
    pub(crate) fn end(&self, name: Name, end: End) {
        let running = {
            let mut state = self.shared.state.lock();
            state.paused.retain(|paused| *paused != name);
            let Some(running) = state.running.remove(&name) else { return };
            state.ended += 1;
            running
        };
        self.trace(&format!("{} {} ends: {end:?}", name.0, name.1));
        running.process.kill();
        for endpoint in running.endpoints.lock().iter() {
            self.shared.network.kill(*endpoint);
        }
        let (role, number) = name;
        if role == Role::Stoc {
            let mut state = self.shared.state.lock();
            if let Some(disk) = state.disks.get_mut(&number) {
                *disk = match end {
                    End::Kill => disk.kill(),
                    End::PowerCut(seed) => disk.crash(seed),
                    End::DiskLost => SimulatedDisk::new(u64::from(number), Faults::none()),
                };
            }
        }
    }

    /// Ends the processes that have asked for it. Their disks do not change.
    pub(crate) fn reap(&self) {
        let exits = std::mem::take(&mut self.shared.state.lock().exits);
        exits.into_iter().for_each(|name| self.end(name, End::Kill));
    }

    /// Returns how many processes were ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.shared.state.lock().ended
    }

    /// Ends all processes but the clients.
    pub(crate) fn end_all(&self) {
        let all: Vec<Name> = self.shared.state.lock().running.keys().copied().collect();
        let servers = all.into_iter().filter(|(role, _)| !is_user(*role));
        servers.for_each(|name| self.end(name, End::Kill));
    }

    pub(crate) fn is_running(&self, name: Name) -> bool {
        self.shared.state.lock().running.contains_key(&name)
    }

    pub(crate) fn pause(&self, name: Name) {
        let mut state = self.shared.state.lock();
        let Some(running) = state.running.get(&name) else { return };
        let process = running.process.clone();
        state.paused.push(name);
        drop(state);
        self.trace(&format!("{} {} is paused", name.0, name.1));
        process.pause();
    }

    pub(crate) fn resume(&self, name: Name) {
        let mut state = self.shared.state.lock();
        state.paused.retain(|paused| *paused != name);
        let process = state.running.get(&name).map(|running| running.process.clone());
        drop(state);
        if let Some(process) = process {
            self.trace(&format!("{} {} continues", name.0, name.1));
            process.resume();
        }
    }

    pub(crate) fn move_wall_clock(&self, name: Name, by_ms: i64) {
        let process = {
            let state = self.shared.state.lock();
            state.running.get(&name).map(|running| running.process.clone())
        };
        if let Some(process) = process {
            process.move_wall_clock(by_ms);
        }
    }

    /// Fills the disk of a StoC, or gives it room again.
    pub(crate) fn set_full(&self, stoc: u32, is_full: bool) {
        self.trace(&format!("the disk of StoC {stoc} is full: {is_full}"));
        let no_space_ppm = if is_full { 1_000_000 } else { 0 };
        if let Some(disk) = self.shared.state.lock().disks.get(&stoc) {
            disk.set_faults(Faults { no_space_ppm, ..Faults::none() });
        }
    }

    /// Has a coordinator not reach etcd, or reach it again.
    pub(crate) fn set_away(&self, coordinator: u32, is_away: bool) {
        let away = Arc::clone(self.shared.state.lock().away.entry(coordinator).or_default());
        self.trace(&format!("etcd is away from coordinator {coordinator}: {is_away}"));
        away.store(is_away, SeqCst);
    }

    /// Cuts two processes off from each other.
    pub(crate) fn cut(&self, one: Name, other: Name, cut: Cut) {
        self.trace(&format!("{cut:?} cut: {} {} from {} {}", one.0, one.1, other.0, other.1));
        let (ones, others) = (self.endpoints(one), self.endpoints(other));
        let pairs = ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        for (one, other) in &pairs {
            self.shared.network.cut(*one, *other, Some(cut));
        }
        self.shared.state.lock().cuts.extend(pairs);
    }

    /// Ends all cuts and pauses.
    pub(crate) fn heal(&self) {
        self.trace("all cuts and pauses end");
        let (cuts, paused) = {
            let mut state = self.shared.state.lock();
            state.away.values().for_each(|away| away.store(false, SeqCst));
            (std::mem::take(&mut state.cuts), std::mem::take(&mut state.paused))
        };
        cuts.into_iter().for_each(|(one, other)| self.shared.network.cut(one, other, None));
        paused.into_iter().for_each(|name| self.resume(name));
    }

    /// Makes one attempt to change the records of the cluster, as an operator does. Returns whether
    /// it has succeeded.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&Coordinator) -> coordinator::Result<()> + Send + 'static,
    ) -> bool {
        let changes = move |own: &Own| {
            let member = own.node(identity(Role::Admin, 1), None);
            let joined = Coordinator::join(processes::store(&member.node), CLUSTER);
            let changed = joined.and_then(|coordinator| change(&coordinator));
            member.node.stop();
            changed.is_ok()
        };
        let operator = self.spawn((Role::Admin, 1), changes);
        operator.join().expect("an operator does not panic")
    }

    fn endpoints(&self, name: Name) -> Vec<usize> {
        let state = self.shared.state.lock();
        let running = state.running.get(&name);
        running.map(|running| running.endpoints.lock().clone()).unwrap_or_default()
    }

    /// Runs a client on a process of its own, which is never killed.
    pub(crate) fn client<T: Send + 'static>(
        &self,
        number: u32,
        work: impl FnOnce(&Own) -> T + Send + 'static,
    ) -> environment::JoinHandle<T> {
        self.spawn((Role::Client, number), work)
    }

    fn spawn<T: Send + 'static>(
        &self,
        name: Name,
        work: impl FnOnce(&Own) -> T + Send + 'static,
    ) -> environment::JoinHandle<T> {
        let (role, number) = name;
        let process = self.shared.world.process(&format!("{role}-{number}"));
        let endpoints = Arc::new(Mutex::new(Vec::new()));
        let running = Running { process: process.clone(), endpoints: Arc::clone(&endpoints) };
        self.shared.state.lock().running.insert(name, running);
        let own = Own { world: self.clone(), environment: process.environment(), endpoints };
        process.spawn("client", move || work(&own)).expect("a thread starts")
    }
}

impl Own {
    /// Starts a node of the network.
    pub(crate) fn node(
        &self,
        identity: Identity,
        serve: Option<(Arc<dyn wire::Handler>, &str)>,
    ) -> Member {
        let Identity { cluster, role, node, .. } = identity;
        let certified = Certified { cluster, role, node: Some(node) };
        let mut endpoint = self.world.shared.network.endpoint(certified);
        self.endpoints.lock().push(endpoint.id());
        let place = match &serve {
            Some((_, place)) => endpoint.listen(place).expect("the address is free"),
            None => String::new(),
        };
        let mut options = wire::Options::new(identity, self.environment.clone());
        options.handler = serve.map(|(handler, _)| handler);
        let node = Node::start(endpoint, options).expect("there is a thread");
        Member { node: Arc::new(node), place }
    }

    pub(crate) fn etcd(&self) -> &Arc<Etcd> {
        &self.world.shared.etcd
    }

    /// Calls until a call succeeds.
    pub(crate) fn reach<T, E: std::fmt::Display>(&self, call: impl Fn() -> Result<T, E>) -> T {
        loop {
            match call() {
                Ok(result) => return result,
                Err(_away) => self.environment.sleep(Duration::from_millis(500)),
            }
        }
    }

    /// Has the world end this process. A process cannot do that itself: its disk is judged after
    /// its last step.
    pub(crate) fn exit(&self, name: Name) {
        self.world.shared.state.lock().exits.push(name);
        loop {
            self.environment.sleep(Duration::from_secs(3600));
        }
    }
}

/// The time that disks take.
pub(crate) fn latency() -> Latency {
    Latency {
        read_max: Duration::from_micros(400),
        write_max: Duration::from_micros(100),
        sync_max: Duration::from_millis(2),
        stall_ppm: 20,
        stall: Duration::from_millis(500),
    }
}
