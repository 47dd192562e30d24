//! Network namespaces for processes, so that the link of each one can be cut.
//!
//! Each namespace has one end of a pair of virtual links. The other end is a port of a bridge of
//! this machine. The addresses are of the block that RFC 2544 has set aside for tests. All names
//! contain the number of this process. Without the rights of root there are no namespaces.

use std::collections::BTreeMap;
use std::process::Command;

/// The last part of the bridge's address, and of the first namespace's.
const BRIDGE: usize = 1;
const FIRST: usize = 10;

/// The namespaces of processes. Dropping it removes them.
pub(crate) struct Network {
    bridge: String,
    /// The first three parts of all addresses.
    block: String,
    /// The namespaces, by the names of their processes.
    namespaces: BTreeMap<String, Namespace>,
}

/// The namespace of a process.
struct Namespace {
    name: String,
    /// The end of its link that the bridge has.
    port: String,
    address: String,
}

/// Runs `ip`.
///
/// # Errors
/// Its message.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new("ip").args(arguments).output();
    let ran = ran.map_err(|error| format!("the program ip: {error}"))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!(
            "ip {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&ran.stderr).trim()
        )),
    }
}

impl Network {
    /// Makes a namespace for each of the processes.
    ///
    /// # Errors
    /// The message of `ip`. Everything that was made is removed again.
    pub(crate) fn make(processes: &[String]) -> Result<Self, String> {
        let pid = std::process::id();
        let block = format!("198.{}.{}", 18 + (pid >> 8) % 2, pid % 256);
        let mut network = Self { bridge: format!("tcb{pid}"), block, namespaces: BTreeMap::new() };
        ip(&["link", "add", &network.bridge, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", network.host()), "dev", &network.bridge])?;
        ip(&["link", "set", &network.bridge, "up"])?;
        for (index, process) in processes.iter().enumerate() {
            let namespace = Namespace {
                name: format!("tcn{pid}-{index}"),
                port: format!("tcv{pid}-{index}"),
                address: format!("{}.{}", network.block, FIRST + index),
            };
            // From now on the network removes it, whatever was made of it.
            let namespace = network.namespaces.entry(process.clone()).or_insert(namespace);
            namespace.make(&network.bridge)?;
        }
        Ok(network)
    }

    /// Returns the address of this machine in the network.
    pub(crate) fn host(&self) -> String {
        format!("{}.{BRIDGE}", self.block)
    }

    /// Returns the address of a process.
    pub(crate) fn address(&self, process: &str) -> &str {
        &self.namespaces[process].address
    }

    /// Returns the command that runs `command` in the namespace of a process, and becomes it.
    pub(crate) fn inside(&self, process: &str, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.namespaces[process].name]);
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// Cuts the link of a process, or joins it again.
    pub(crate) fn set_link(&self, process: &str, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        ip(&["link", "set", &self.namespaces[process].port, state]).unwrap();
    }
}

impl Namespace {
    fn make(&self, bridge: &str) -> Result<(), String> {
        let Self { name, port, address } = self;
        ip(&["netns", "add", name])?;
        ip(&["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name])?;
        ip(&["link", "set", port, "master", bridge, "up"])?;
        ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
        ip(&["-n", name, "link", "set", "eth0", "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Each part may be missing, if the network could not be made.
        for Namespace { name, port, .. } in self.namespaces.values() {
            let _ = ip(&["link", "del", port]);
            let _ = ip(&["netns", "del", name]);
        }
        let _ = ip(&["link", "del", &self.bridge]);
    }
}
