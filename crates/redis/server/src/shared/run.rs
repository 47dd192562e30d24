//! The run of a server: where it listens, and since when.

use std::net::SocketAddr;
use std::time::Duration;

use thermocline::environment::Monotonic;

/// One run of a server, from its start to its end.
pub(crate) struct Run {
    /// The address where it listens.
    pub(crate) addr: SocketAddr,
    pub(crate) started: Monotonic,
    /// INFO's `run_id`.
    pub(crate) id: String,
}

impl Run {
    /// Returns for how long the server has run.
    pub(crate) fn uptime(&self, now: Monotonic) -> Duration {
        now - self.started
    }
}
