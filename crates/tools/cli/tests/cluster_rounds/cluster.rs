//! The processes of a cluster: how each is started, and the changes that an operator makes.
//!
//! Three members of an etcd, two coordinators, three LTCs, five StoCs and two gateways. Gateways
//! and coordinators have ports of their own, which other processes know. An LTC or a StoC takes
//! another port with each start. If namespaces can be made, each LTC and each StoC has its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::etcd::{Member, free_port};
use crate::etcd_leader;
use crate::network::Network;
use crate::process::Process;
use crate::program::{command, run};
use crate::time::await_that;

/// The keyspace of the Redis database 0, and the first keys of its second and third range.
pub(crate) const KEYSPACE: &str = "redis-0";
const SPLITS: [&str; 2] = ["g", "p"];
/// Memory of an LTC.
const LTC_MEMORY: &str = "128mb";
/// The address of this machine if there are no namespaces.
const LOOPBACK: &str = "127.0.0.1";

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Etcd,
    Coordinator,
    Stoc,
    Ltc,
    Gateway,
}

impl Part {
    const ALL: [Self; 5] = [Self::Etcd, Self::Coordinator, Self::Stoc, Self::Ltc, Self::Gateway];

    /// Returns the number of its processes. They are counted from 1.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Etcd | Self::Ltc => 3,
            Self::Coordinator | Self::Gateway => 2,
            Self::Stoc => 5,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Coordinator => "coordinator",
            Self::Stoc => "stoc",
            Self::Ltc => "ltc",
            Self::Gateway => "gateway",
        }
    }

    /// Returns whether its processes can be in namespaces.
    fn has_link(self) -> bool {
        matches!(self, Self::Stoc | Self::Ltc)
    }
}

/// A process of the cluster, by its kind and its number.
pub(crate) type ProcessId = (Part, u32);

/// Returns the name of a process.
fn name((part, number): ProcessId) -> String {
    format!("{}-{number}", part.word())
}

/// Returns all processes of the kinds that `is_wanted` selects.
fn ids(is_wanted: impl Fn(Part) -> bool) -> Vec<ProcessId> {
    let wanted = Part::ALL.into_iter().filter(|part| is_wanted(*part));
    wanted.flat_map(|part| (1..=part.count()).map(move |number| (part, number))).collect()
}

/// The addresses and directories that the processes get.
struct Plan {
    dir: PathBuf,
    certificates: String,
    members: Vec<Member>,
    coordinators: Vec<String>,
    gateways: Vec<SocketAddr>,
}

/// A running cluster. Dropping it kills all its processes.
pub(crate) struct Cluster {
    plan: Plan,
    processes: BTreeMap<ProcessId, Process>,
    /// The namespaces, or the reason why there are none. They are dropped after their processes.
    network: Result<Network, String>,
}

impl Plan {
    fn new(dir: &Path, network: &Result<Network, String>) -> Self {
        let host = network.as_ref().map_or(LOOPBACK.to_owned(), Network::host);
        let numbers = |part: Part| 1..=part.count();
        let member = |number| Member::new(&name((Part::Etcd, number)));
        let gateway = |_| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), free_port());
        Self {
            dir: dir.to_owned(),
            certificates: dir.join("certs").display().to_string(),
            members: numbers(Part::Etcd).map(member).collect(),
            coordinators: numbers(Part::Coordinator)
                .map(|_| format!("{host}:{}", free_port()))
                .collect(),
            gateways: numbers(Part::Gateway).map(gateway).collect(),
        }
    }

    /// Returns the options of all processes but gateways.
    fn options(&self) -> Vec<String> {
        let coordinators = self.coordinators.join(",");
        ["--json", "--certificates", &self.certificates, "--coordinators", &coordinators]
            .map(str::to_owned)
            .into()
    }

    /// Returns the addresses of the members of etcd for clients.
    fn etcd_clients(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    /// Returns the command of a process that listens at `address`, if it has a choice.
    fn command(&self, id: ProcessId, address: &str) -> Command {
        let (part, number) = id;
        let (index, dir) = (number as usize - 1, self.dir.join(name(id)));
        let number = number.to_string();
        if part == Part::Etcd {
            return self.members[index].command(&self.members, &dir);
        }
        let mut command = command();
        if part == Part::Gateway {
            let port = self.gateways[index].port().to_string();
            command.args(["serve", "--json", "--certificates", &self.certificates]);
            command.args(["--cluster", &self.coordinators.join(",")]);
            command.args(["--node", &number, "--port", &port]);
            return command;
        }
        command.arg(part.word()).args(self.options()).args(["--node", &number]).arg("--data-dir");
        command.arg(dir);
        match part {
            Part::Coordinator => {
                command.args(["--address", &self.coordinators[index]]);
                command.args(["--etcd", &self.etcd_clients().join(",")])
            }
            Part::Ltc => command.args(["--address", address, "--memory", LTC_MEMORY]),
            _ => command.args(["--address", address]),
        };
        command
    }
}

impl Cluster {
    /// Starts all processes, with their files in `dir`, and makes the keyspace.
    ///
    /// # Errors
    /// The process that did not start, with its messages.
    pub(crate) fn start(dir: &Path) -> Result<Self, String> {
        let linked: Vec<String> = ids(Part::has_link).into_iter().map(name).collect();
        let network = Network::make(&linked);
        let plan = Plan::new(dir, &network);
        let made = run(["cluster", "certs", &plan.certificates]);
        assert_eq!(made.code, 0, "{made:?}");
        let mut cluster = Self { plan, processes: BTreeMap::new(), network };
        for id in ids(|_| true) {
            let command = cluster.command(id);
            let mut process = Process::new(name(id), command, dir);
            process.start();
            cluster.processes.insert(id, process);
        }
        for id in ids(|_| true) {
            cluster.await_announced(id)?;
        }
        let splits = SPLITS.iter().flat_map(|split| ["--split-at", *split]);
        let command: Vec<&str> =
            ["cluster", "keyspace", KEYSPACE].into_iter().chain(splits).collect();
        await_that("the keyspace is made", || Ok(cluster.administer(&command).is_ok()))?;
        Ok(cluster)
    }

    fn command(&self, id: ProcessId) -> Command {
        match &self.network {
            Ok(network) if id.0.has_link() => {
                let name = name(id);
                let command = self.plan.command(id, &format!("{}:0", network.address(&name)));
                network.inside(&name, &command)
            }
            _ => self.plan.command(id, &format!("{LOOPBACK}:0")),
        }
    }

    /// Returns why no link can be cut, if so.
    pub(crate) fn without_links(&self) -> Option<&str> {
        self.network.as_ref().err().map(String::as_str)
    }

    pub(crate) fn certificates(&self) -> &Path {
        Path::new(&self.plan.certificates)
    }

    /// Returns the addresses of the coordinators.
    pub(crate) fn coordinators(&self) -> &[String] {
        &self.plan.coordinators
    }

    /// Returns the addresses of the gateways for Redis clients.
    pub(crate) fn gateways(&self) -> &[SocketAddr] {
        &self.plan.gateways
    }

    pub(crate) fn process(&mut self, id: ProcessId) -> &mut Process {
        self.processes.get_mut(&id).unwrap()
    }

    /// Cuts the link of a process, or joins it again.
    pub(crate) fn set_link(&self, id: ProcessId, is_up: bool) {
        self.network.as_ref().unwrap().set_link(&name(id), is_up);
    }

    /// Starts a process again that was killed, and waits until it serves.
    ///
    /// # Errors
    /// Its messages.
    pub(crate) fn start_again(&mut self, id: ProcessId) -> Result<(), String> {
        self.process(id).start();
        self.await_announced(id)
    }

    /// Waits until a process serves. A member of etcd does not print that it does.
    fn await_announced(&mut self, id: ProcessId) -> Result<(), String> {
        let process = self.process(id);
        let what = format!("{} serves", process.name);
        await_that(&what, || {
            process.check()?;
            Ok(id.0 == Part::Etcd || process.is_announced())
        })
    }

    /// Returns the member of etcd that leads.
    ///
    /// # Errors
    /// None leads for long.
    pub(crate) fn etcd_leader(&self) -> Result<ProcessId, String> {
        let clients = self.plan.etcd_clients();
        let mut leader = None;
        await_that("a member of etcd leads", || {
            leader = etcd_leader::leader(&clients);
            Ok(leader.is_some())
        })?;
        let index = leader.unwrap();
        Ok((Part::Etcd, index as u32 + 1))
    }

    /// Runs a command of an operator, and returns its output.
    ///
    /// # Errors
    /// Its message.
    pub(crate) fn administer(&self, command: &[&str]) -> Result<Value, String> {
        let command = command.iter().map(|word| (*word).to_owned());
        let said = run(command.chain(self.plan.options()));
        if said.code == 0 { Ok(said.json()) } else { Err(said.err) }
    }

    /// Checks that all processes run, and that no thread has panicked.
    ///
    /// # Errors
    /// The first one that does not run, with its messages.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.processes.values_mut().try_for_each(Process::check)
    }
}
