//! A server of the case's own on a free port, which ends with the case.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Client;
use crate::place::{self, Place};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Time for a server to take its first connection.
const START_MAX: Duration = Duration::from_secs(20);

/// A running server.
pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts `thermocline serve` with the engine `memory`.
    pub(super) fn thermocline(place: &Place, memory: &str) -> Result<Self> {
        let arguments = ["serve", "--engine", "memory", "--memory", memory, "--dir"];
        let mut command = Command::new(place::program()?);
        command.args(arguments).arg(place.path("served"));
        Self::start(place, command, "thermocline-log")
    }

    /// Starts `redis-server`, or returns none if it is not installed.
    pub(super) fn redis(place: &Place) -> Result<Option<Self>> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            return Ok(None);
        }
        let mut command = Command::new("redis-server");
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(place.path(""));
        Self::start(place, command, "redis-log").map(Some)
    }

    fn start(place: &Place, mut command: Command, log: &str) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(place.path(log))?;
        let child = command
            .args(["--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = Self { child, port };
        let is_up = || server.client().and_then(|mut client| client.call("PING")).is_ok();
        match place::until(START_MAX, is_up) {
            true => Ok(server),
            false => Err("the server does not start".into()),
        }
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::connect(self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        place::kill(&mut self.child);
    }
}
