//! The limit on open files, raised to admit the configured number of clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the database and the server itself may have open besides the clients' sockets: 256 of
/// tables, which all keyspaces of the engine `lsm` keep open together, and the same number of
/// others.
const RESERVED: u64 = 512;

/// Raises the process's limit as far as `clients_max` clients need and the hard limit allows; how
/// many clients fit.
pub(crate) fn fit_clients(clients_max: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (clients_max as u64).saturating_add(RESERVED);
    if limit.current.is_none_or(|current| current >= wanted) {
        return clients_max;
    }
    let reachable = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    // If even this is refused, the limit stays unchanged.
    let now = if setrlimit(Resource::Nofile, raised).is_ok() {
        reachable
    } else {
        limit.current.unwrap_or(wanted)
    };
    usize::try_from(now.saturating_sub(RESERVED).max(1)).unwrap_or(clients_max).min(clients_max)
}
