//! The members of an etcd on loopback, and ports for processes.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use environment::Seed;
use rand::RngExt;

/// Ports of processes. They are below the ports of outgoing connections: one of those may take the
/// port of a process that has ended and is to start again.
const PORTS: Range<u16> = 20_000..32_000;

/// Ports that this process has given.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns a port of loopback that is free now, and another one with each call.
pub(crate) fn free_port() -> u16 {
    let mut random = Seed::from_entropy().stream("port");
    loop {
        let port = random.random_range(PORTS);
        let is_new = GIVEN.lock().unwrap().insert(port);
        if is_new && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A member of an etcd.
pub(crate) struct Member {
    name: String,
    /// Its address for clients.
    pub(crate) client: String,
    /// Its address for the other members.
    peer: String,
}

impl Member {
    /// Returns a member with ports that are free.
    pub(crate) fn new(name: &str) -> Self {
        let [client, peer] =
            [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        Self { name: name.to_owned(), client, peer }
    }

    /// Returns the command that runs it, with its data in `dir`. All of `members` are one etcd.
    pub(crate) fn command(&self, members: &[Self], dir: &Path) -> Command {
        let Self { name, client, peer } = self;
        let all = members.iter().map(|member| format!("{}={}", member.name, member.peer));
        let all = all.collect::<Vec<_>>().join(",");
        let mut command = Command::new("etcd");
        command
            .args(["--name", name, "--data-dir"])
            .arg(dir)
            .args(["--listen-client-urls", client, "--advertise-client-urls", client])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &all]);
        command
    }
}
