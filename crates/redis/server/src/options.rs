//! The options of a server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use thermocline::{Durability, EngineKind};

/// How a server serves. Plain values; [`crate::Server::start`] checks them.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to which clients connect. Default 127.0.0.1:6379; port 0 takes a free one. An
    /// address other than loopback wants a [`Options::password`].
    pub listen: SocketAddr,
    /// The address of `GET /metrics`; `None` (the default) serves no metrics. It has no
    /// authentication, so keep it on loopback or behind something that has.
    pub metrics: Option<SocketAddr>,
    /// The password that clients must give to AUTH before anything else. Default none.
    pub password: Option<Secret>,
    /// How durable a write is before its reply goes out. Default `Flushed`: in the kernel.
    pub durability: Durability,
    /// The engine of numbered databases that are made. Default [`EngineKind::Memory`]; existing
    /// databases keep their own.
    pub engine: EngineKind,
    /// Threads that serve clients. Default: one per core, at most 4.
    pub threads: usize,
    /// Clients at the same time. Default 10,000. The limit on open files is raised for them; if it
    /// cannot be raised, fewer fit.
    pub clients_max: usize,
    /// Seconds without a command after which a client is disconnected; 0 (the default) is never.
    pub idle_timeout_s: u64,
    /// How long a client may take to authenticate, if a password is set. Default 10 s.
    pub auth_deadline: Duration,
    /// Largest argument, and so the largest value, in bytes. Default 64 MiB; three quarters of
    /// [`Options::client_memory_bytes`] if that is less.
    pub value_bytes_max: usize,
    /// Output that one client may leave unread, in bytes. A reply of several values that would pass
    /// it is an error; a reply of one value never is. From half of it on (or a quarter of
    /// [`Options::client_memory_bytes`]) a client's commands wait until it reads, and it is
    /// disconnected if it does not within ten seconds. Default 256 MiB.
    pub output_bytes_max: usize,
    /// Memory that all clients together may take for their requests and unread replies, in bytes.
    /// Default 1 GiB. Above it, new clients and commands are refused, and clients that hold more
    /// than an equal part of it are disconnected.
    pub client_memory_bytes: usize,
    /// The directory of backups ([`thermocline::Backups`]) to which BGSAVE adds one. Default none:
    /// then it makes everything durable, as SAVE does.
    pub backups: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6379)),
            metrics: None,
            password: None,
            durability: Durability::Flushed,
            engine: EngineKind::Memory,
            threads: cores.min(4),
            clients_max: 10_000,
            idle_timeout_s: 0,
            auth_deadline: Duration::from_secs(10),
            value_bytes_max: 64 << 20,
            output_bytes_max: 256 << 20,
            client_memory_bytes: 1 << 30,
            backups: None,
        }
    }
}

/// Most arguments in one command.
pub(crate) const ARGS_MAX: usize = 1 << 20;
/// Most keys that one client watches: WATCH and EXEC look at each while all other clients wait.
pub(crate) const WATCHED_KEYS_MAX: usize = 16_384;

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`. An empty one is no secret: use `None`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether `guess` is the secret, in time that depends on the lengths alone.
    pub(crate) fn is(&self, guess: &[u8]) -> bool {
        use subtle::ConstantTimeEq;
        bool::from(self.0.as_bytes().ct_eq(guess))
    }

    /// Whether nothing is kept secret.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
