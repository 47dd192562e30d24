//! StoCs and a coordinator in memory, for tests of this crate and of those above it. They fail as a
//! test says.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod network;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use device::Device;
use environment::Environment;
use stoc::{
    DirectLink, Epoch, Identity, Kind, Limits, Link, OnReply, RangeId, Request, Stoc, ThreadLink,
};
use sync::locks::Mutex;

use network::NetworkLink;

use crate::{Change, Closing, Log, LogRecord, Mode, Registry, RegistryError, Setup, Stocs, open};

/// The range of the logs.
pub const RANGE: RangeId = RangeId(7);

/// How a StoC behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Requests are done.
    Up,
    /// Requests fail, and do nothing.
    Away,
    /// Requests are done, and the replies are lost.
    Mute,
    /// The first request gets no reply, and later ones do.
    Late,
}

#[derive(Debug)]
struct Node {
    stoc: Arc<Stoc>,
    /// Its storage; none if the test has it.
    device: Option<Arc<dyn Device>>,
    link: Arc<dyn Link>,
    /// The same link, if it leads over a network.
    network: Option<Arc<NetworkLink>>,
    behaviour: Behaviour,
    incarnation: u64,
}

type Nodes = Arc<Mutex<BTreeMap<u32, Node>>>;

/// A link that behaves as its node does.
#[derive(Debug)]
struct NodeLink {
    node: u32,
    nodes: Nodes,
    identity: Identity,
}

/// StoCs and a coordinator.
#[derive(Clone, Debug)]
pub struct World {
    nodes: Nodes,
    /// The coordinator.
    pub registry: Arc<MemoryRegistry>,
    environment: Environment,
    /// StoCs that were chosen so far.
    chosen: Arc<AtomicUsize>,
    /// Time after which a StoC without a reply has failed.
    slow: Duration,
    /// The place where StoCs keep write logs.
    mode: Mode,
}

/// A coordinator's store in memory.
#[derive(Default)]
pub struct MemoryRegistry {
    state: Mutex<State>,
    on_change: Mutex<Option<OnChange>>,
    /// Calls that fail from now on.
    failures: AtomicU64,
    /// Whether changes that fail are made.
    are_made: Mutex<bool>,
    /// Changes that are made later, if changes are held.
    held: Mutex<Option<Held>>,
}

/// Changes that are made later, each with its epoch.
type Held = Vec<(Epoch, Vec<Change>)>;

/// Gets the epoch and the record of the write log after each change.
type OnChange = Box<dyn Fn(u64, LogRecord) + Send>;

#[derive(Debug, Default)]
struct State {
    epoch: u64,
    records: BTreeMap<Kind, LogRecord>,
}

/// Returns the options of a start of a StoC.
pub fn options(node: u32, incarnation: u64) -> stoc::Options {
    stoc::Options {
        cluster: 0xc1,
        node,
        incarnation,
        last_incarnation: None,
        limits: Limits::default(),
        environment: Environment::seeded((u64::from(node) << 32) | incarnation),
    }
}

fn open_stoc(device: &Arc<dyn Device>, node: u32, incarnation: u64) -> Arc<Stoc> {
    let stoc = Stoc::open(Arc::clone(device), &options(node, incarnation));
    Arc::new(stoc.expect("memory takes it"))
}

impl World {
    /// StoCs 1 to `count`, in memory.
    pub fn new(count: u32) -> Self {
        let devices: Vec<_> = (1..=count).map(|_| device::memory()).collect();
        let stocs = (1..).zip(&devices).map(|(node, device)| open_stoc(device, node, 1));
        let world = Self::of(stocs.collect(), Arc::default());
        for (node, device) in world.nodes.lock().values_mut().zip(devices) {
            node.device = Some(device);
        }
        world
    }

    /// The same, with the write log in the memories of the StoCs.
    pub fn in_memory(count: u32) -> Self {
        Self { mode: Mode::Memory, ..Self::new(count) }
    }

    /// The same, with a thread for each.
    pub fn with_threads(count: u32) -> Self {
        let world = Self::new(count);
        for node in world.nodes.lock().values_mut() {
            let link = ThreadLink::new(Arc::clone(&node.stoc), &world.environment);
            node.link = Arc::new(link.expect("there is a thread"));
        }
        world
    }

    /// The same, each behind a network.
    pub fn with_network(count: u32) -> Self {
        // Failures are reported, so only a fault of the program would take as long.
        let world = Self { slow: Duration::from_secs(10), ..Self::new(count) };
        for node in world.nodes.lock().values_mut() {
            let link = Arc::new(NetworkLink::new(&node.stoc));
            (node.link, node.network) = (Arc::clone(&link) as _, Some(link));
        }
        world
    }

    /// Ends the connections to a StoC, if it is behind a network.
    pub fn reset(&self, node: u32) {
        let nodes = self.nodes.lock();
        let network = nodes.get(&node).and_then(|node| node.network.clone());
        drop(nodes);
        network.into_iter().for_each(|network| network.reset());
    }

    /// These StoCs, which have the numbers from 1 on.
    pub fn of(stocs: Vec<Arc<Stoc>>, registry: Arc<MemoryRegistry>) -> Self {
        let node = |stoc: Arc<Stoc>| {
            let link: Arc<dyn Link> = Arc::new(DirectLink(Arc::clone(&stoc)));
            let incarnation = stoc.identity().incarnation;
            let (device, network, behaviour) = (None, None, Behaviour::Up);
            Node { stoc, device, link, network, behaviour, incarnation }
        };
        let nodes: BTreeMap<u32, Node> = (1..).zip(stocs.into_iter().map(node)).collect();
        let environment = Environment::seeded(3);
        let (nodes, chosen) = (Arc::new(Mutex::new(nodes)), Arc::default());
        let (slow, mode) = (Duration::from_millis(30), Mode::Durable);
        Self { nodes, registry, environment, chosen, slow, mode }
    }

    /// Has a StoC behave in this way from now on.
    pub fn set(&self, node: u32, behaviour: Behaviour) {
        self.nodes.lock().get_mut(&node).expect("there is such a StoC").behaviour = behaviour;
    }

    /// Puts an empty directory in the place of that of a StoC.
    pub fn replace(&self, number: u32) {
        self.start(number, Some(device::memory()));
    }

    /// Ends a StoC, and starts it again on its directory.
    pub fn restart(&self, number: u32) {
        self.start(number, None);
    }

    fn start(&self, number: u32, device: Option<Arc<dyn Device>>) {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(&number).expect("there is such a StoC");
        node.incarnation += 1;
        node.device = device.or(node.device.take());
        let device = node.device.as_ref().expect("the world has its storage");
        node.stoc = open_stoc(device, number, node.incarnation);
        (node.link, node.network) = (Arc::new(DirectLink(Arc::clone(&node.stoc))), None);
    }

    /// Returns a StoC.
    pub fn stoc(&self, node: u32) -> Arc<Stoc> {
        Arc::clone(&self.nodes.lock().get(&node).expect("there is such a StoC").stoc)
    }

    /// Files of all StoCs.
    pub fn file_count(&self) -> usize {
        let nodes = self.nodes.lock();
        nodes.values().map(|node| node.stoc.list(RANGE).len()).sum()
    }

    /// Returns what the owner of an epoch opens its logs with.
    pub fn setup(&self, epoch: u64) -> Setup {
        Setup {
            range: RANGE,
            epoch: Epoch(epoch),
            registry: Arc::clone(&self.registry) as _,
            stocs: Arc::new(self.clone()),
            ensemble: 3,
            quorum: 2,
            mode: self.mode,
            slow: self.slow,
            backlog_bytes: 1 << 20,
            gives_up_log: false,
            environment: self.environment.clone(),
            closing: Closing::default(),
        }
    }

    /// Opens the write log under an epoch, which the coordinator gives first.
    ///
    /// # Errors
    /// Those of [`open`].
    pub fn try_open(&self, epoch: u64) -> crate::Result<Log> {
        self.registry.raise(epoch);
        let opened = open(&self.setup(epoch), &[Kind::Log]);
        opened.map(|mut logs| logs.pop().expect("there is one log"))
    }

    /// The same, with enough StoCs up.
    pub fn open(&self, epoch: u64) -> Log {
        self.try_open(epoch).expect("enough StoCs are up")
    }
}

impl Stocs for World {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        let nodes = self.nodes.lock();
        let identity = nodes.get(&node)?.stoc.identity();
        Some(Arc::new(NodeLink { node, nodes: Arc::clone(&self.nodes), identity }))
    }

    /// Chooses StoCs in turn, and prefers StoCs that are up.
    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let nodes = self.nodes.lock();
        let mut all: Vec<u32> = nodes.keys().copied().collect();
        let turn = self.chosen.fetch_add(count, SeqCst) % all.len();
        all.rotate_left(turn);
        let is_away =
            |node: &u32| nodes.get(node).is_none_or(|node| node.behaviour != Behaviour::Up);
        all.sort_by_key(is_away);
        drop(nodes);
        let free = all.into_iter().filter(|node| !avoid.contains(node));
        free.filter_map(|node| self.link(node)).take(count).collect()
    }
}

impl NodeLink {
    fn set(&self, behaviour: Behaviour) {
        let mut nodes = self.nodes.lock();
        nodes.get_mut(&self.node).expect("there is such a StoC").behaviour = behaviour;
    }
}

impl Link for NodeLink {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let nodes = self.nodes.lock();
        let node = nodes.get(&self.node).expect("there is such a StoC");
        let (link, behaviour) = (Arc::clone(&node.link), node.behaviour);
        drop(nodes);
        let unreachable = Err(stoc::Error::Unreachable { node: self.node });
        match behaviour {
            Behaviour::Up => link.send(request, on_reply),
            Behaviour::Away => on_reply(unreachable),
            Behaviour::Late => {
                drop(on_reply);
                self.set(Behaviour::Up);
            }
            Behaviour::Mute => {
                link.send(request, Box::new(|_| ()));
                on_reply(unreachable);
            }
        }
    }
}

impl std::fmt::Debug for MemoryRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryRegistry").field("state", &self.state).finish_non_exhaustive()
    }
}

impl MemoryRegistry {
    /// Has the next calls fail. If `are_made`, failed changes are made.
    pub fn fail(&self, calls: u64, are_made: bool) {
        *self.are_made.lock() = are_made;
        self.failures.store(calls, SeqCst);
    }

    /// From now on changes fail, and [`Self::make_held`] makes them later. Loads do not fail.
    pub fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }

    /// Makes the changes that were held, the oldest first, as far as their records are the present
    /// ones. Later changes are not held.
    pub fn make_held(&self) {
        // Other changes wait for the end of this.
        let mut held = self.held.lock();
        for (epoch, changes) in held.take().into_iter().flatten() {
            let _is_made = self.make(epoch, &changes);
        }
    }

    /// Makes changes, unless a test has the call fail.
    fn make(&self, epoch: Epoch, changes: &[Change]) -> Result<(), RegistryError> {
        let checked = self.check();
        if checked.is_err() && !*self.are_made.lock() {
            return checked;
        }
        let mut state = self.state.lock();
        let is_present = |change: &Change| {
            let record = state.records.get(&change.kind).cloned().unwrap_or_default();
            record == change.before
        };
        if state.epoch != epoch.0 || !changes.iter().all(is_present) {
            return checked.and(Err(RegistryError::Fenced));
        }
        for change in changes {
            state.records.insert(change.kind, change.after.clone());
        }
        drop(state);
        self.notify();
        checked
    }

    /// Returns the record of a log.
    pub fn record(&self, kind: Kind) -> LogRecord {
        self.state.lock().records.get(&kind).cloned().unwrap_or_default()
    }

    /// Puts a record in the place of the present one.
    pub fn set_record(&self, kind: Kind, record: LogRecord) {
        self.state.lock().records.insert(kind, record);
    }

    /// Has `on_change` called after each change.
    pub fn on_change(&self, on_change: impl Fn(u64, LogRecord) + Send + 'static) {
        *self.on_change.lock() = Some(Box::new(on_change));
    }

    /// Returns the epoch and a record.
    pub fn state_of(&self, kind: Kind) -> (u64, LogRecord) {
        let state = self.state.lock();
        (state.epoch, state.records.get(&kind).cloned().unwrap_or_default())
    }

    /// Gives the range to an epoch.
    pub fn raise(&self, epoch: u64) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.max(epoch);
        drop(state);
        self.notify();
    }

    fn notify(&self) {
        if let Some(on_change) = &*self.on_change.lock() {
            let (epoch, record) = self.state_of(Kind::Log);
            on_change(epoch, record);
        }
    }

    fn check(&self) -> Result<(), RegistryError> {
        let less = |calls: u64| calls.checked_sub(1);
        match self.failures.fetch_update(SeqCst, SeqCst, less) {
            Ok(_) => Err(RegistryError::Unavailable("as the test says".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

impl Registry for MemoryRegistry {
    fn load(&self, kind: Kind) -> Result<LogRecord, RegistryError> {
        self.check()?;
        Ok(self.record(kind))
    }

    fn change(&self, epoch: Epoch, changes: &[Change]) -> Result<(), RegistryError> {
        if let Some(held) = &mut *self.held.lock() {
            held.push((epoch, changes.to_vec()));
            return Err(RegistryError::Unavailable("the change is held".to_owned()));
        }
        self.make(epoch, changes)
    }
}
