//! The parties of a cluster: roles, numbers, starts, and how certificates name them.

use std::fmt;

/// The scheme of the name that a certificate has.
const SCHEME: &str = "thermocline://";

/// The part that a process plays in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It gives ranges to LTCs.
    Coordinator,
    /// It serves ranges.
    Ltc,
    /// It stores files.
    Stoc,
    /// It sends requests of users: a gateway, or a program with the client.
    Client,
    /// It changes and shows the cluster for an operator.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] =
        [Self::Coordinator, Self::Ltc, Self::Stoc, Self::Client, Self::Admin];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Coordinator => 1,
            Self::Ltc => 2,
            Self::Stoc => 3,
            Self::Client => 4,
            Self::Admin => 5,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.code() == code)
    }

    /// Returns its word in certificates, messages and settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Ltc => "ltc",
            Self::Stoc => "stoc",
            Self::Client => "client",
            Self::Admin => "admin",
        }
    }
}

/// The purpose of a connection. Two nodes have one connection for each class, so that large
/// requests delay no small ones of another class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Heartbeats, changes of the cluster, figures.
    Control,
    /// Log records.
    Log,
    /// Tables that are written, and copied.
    Bulk,
    /// Reads, and the requests of users.
    Read,
}

impl Class {
    const ALL: [Self; 4] = [Self::Control, Self::Log, Self::Bulk, Self::Read];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Log => 2,
            Self::Bulk => 3,
            Self::Read => 4,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.code() == code)
    }
}

/// The name that a certificate gives to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Certified {
    /// The cluster.
    pub cluster: u64,
    /// The role.
    pub role: Role,
    /// The number among the nodes of this role; none if the certificate is for all of them.
    pub node: Option<u32>,
}

impl Certified {
    /// Returns the name that the certificate has.
    pub fn uri(&self) -> String {
        let Self { cluster, role, node } = self;
        let word = role.word();
        match node {
            Some(node) => format!("{SCHEME}{cluster:016x}/{word}/{node}"),
            None => format!("{SCHEME}{cluster:016x}/{word}"),
        }
    }

    /// Returns what a name of a certificate says, if it is one of ours.
    pub fn parse(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let cluster = u64::from_str_radix(parts.next()?, 16).ok()?;
        let word = parts.next()?;
        let role = Role::ALL.into_iter().find(|role| role.word() == word)?;
        let node = match parts.next() {
            None => None,
            Some(node) => Some(node.parse().ok()?),
        };
        let certified = Self { cluster, role, node };
        // A name has one spelling.
        (certified.uri() == uri).then_some(certified)
    }

    /// Returns whether a node may name itself so.
    pub fn covers(&self, identity: &Identity) -> bool {
        self.cluster == identity.cluster
            && self.role == identity.role
            && self.node.is_none_or(|node| node == identity.node)
    }
}

/// How a node names itself in a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: u64,
    /// The role.
    pub role: Role,
    /// The number among the nodes of this role.
    pub node: u32,
    /// The number of its storage; 0 for a node without storage.
    pub cookie: u64,
    /// The number of its start, which the coordinator gives; 0 before it has one.
    pub incarnation: u64,
}

/// The node that a channel leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The role that it must have.
    pub role: Role,
    /// The number that it must have; none if any will do.
    pub node: Option<u32>,
    /// The storage that it must have; none if any will do.
    pub cookie: Option<u64>,
    /// The address at which it listens: `HOST:PORT`.
    pub place: String,
}

/// Returns the addresses of a text, which has commas between them.
///
/// # Errors
/// It names the part of the text that is no host with a port.
pub fn hosts_and_ports(text: &str) -> Result<Vec<String>, String> {
    let checked = |one: &str| {
        let parts = one.rsplit_once(':');
        let is_good =
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let refused = || format!("{one:?} is no host with a port, like 10.0.0.7:7400 or db1:7400");
        if is_good { Ok(one.to_owned()) } else { Err(refused()) }
    };
    text.split(',').map(checked).collect()
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, node, place, .. } = self;
        match node {
            Some(node) => write!(f, "{role} {node} at {place}"),
            None => write!(f, "{role} at {place}"),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, role, node, .. } = self;
        write!(f, "{role} {node} of cluster {cluster:016x}")
    }
}
