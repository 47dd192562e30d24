//! The way through the front door: `thermocline serve`, pipelining clients, kill, serve again.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::model::{Script, State};
use crate::resp::{self, Client, Reply};
use crate::round::{Bug, Round, Way, check_offline, thermocline};
use crate::sigkill::kill;

/// A server process, killed when dropped.
struct Server {
    child: Child,
    addr: SocketAddr,
}

impl Server {
    /// Starts it on a free port and waits until it prints its address.
    fn start(round: &Round, path: &Path) -> Self {
        let mut server = thermocline();
        match round.way {
            Way::Cluster => server.args(["cluster", "dev", "--data"]).arg(path),
            _ => server.args(["serve", "--engine", round.engine, "--dir"]).arg(path),
        };
        let sync_interval = if round.bug == Bug::Durability { "off" } else { "50ms" };
        let mut child = server
            .args(["--json", "--port", "0", "--threads", "2", "--memory", "512mb"])
            .args(["--durability", round.asked_durability(), "--journal-max", round.journal_max])
            .args(["--sync-interval", sync_interval])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let addr = listening.as_ref().and_then(|told| told["listening"].as_str());
        let Some(addr) = addr.and_then(|addr| addr.parse().ok()) else {
            let mut why = String::new();
            let _ = child.kill();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("the server did not start: {line}{why}");
        };
        Self { child, addr }
    }

    fn kill(mut self) {
        kill(&mut self.child);
        // A thread that served a connection and panicked leaves the process alive.
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(!told.contains("panicked at"), "the server: {told}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far a client's script was sent, and how far it was acknowledged.
struct Progress {
    script: Script,
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

pub(crate) fn run(round: &Round, path: &Path) -> String {
    let script = |client| {
        let script = Script::new(round.seed, client, round.keys_per_client, round.value_bytes_max);
        Progress { script, sent: AtomicU64::new(0), acknowledged: AtomicU64::new(0) }
    };
    let clients: Vec<Progress> = (0..round.clients).map(script).collect();
    let mut unacknowledged = 0;
    for life in 0..round.lives_ms.len() {
        let server = Server::start(round, path);
        thread::scope(|scope| {
            for client in &clients {
                let addr = server.addr;
                scope.spawn(move || write_until_killed(client, addr, round.pipeline));
            }
            let before = acknowledged(&clients);
            while round.acknowledged_first && acknowledged(&clients) == before {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(round.life(life));
            server.kill();
        });
        check_offline(path);
        let server = Server::start(round, path);
        for client in &clients {
            let found = read_all(&client.script, server.addr);
            let (acknowledged, sent) = (client.acknowledged.load(SeqCst), client.sent.load(SeqCst));
            let resolved = client.script.resolve(&found, acknowledged, sent);
            unacknowledged += resolved - acknowledged;
            // The next life continues from the writes that survived.
            client.sent.store(resolved, SeqCst);
            client.acknowledged.store(resolved, SeqCst);
        }
    }
    let total: u64 = clients.iter().map(|client| client.sent.load(SeqCst)).sum();
    format!("{total} writes verified, {unacknowledged} of them not acknowledged")
}

fn acknowledged(clients: &[Progress]) -> u64 {
    clients.iter().map(|client| client.acknowledged.load(SeqCst)).sum()
}

/// Writes on until the connection breaks.
fn write_until_killed(client: &Progress, addr: SocketAddr, pipeline: usize) {
    // The kill may come before the connection is made.
    let Ok(mut connection) = Client::connect(addr) else { return };
    loop {
        let mut commands = Vec::new();
        let first = client.sent.load(SeqCst) + 1;
        let last = first + pipeline as u64 - 1;
        for number in first..=last {
            let write = client.script.write(number);
            match &write.value {
                Some(value) => resp::command(&mut commands, &[b"SET", &write.key, value]),
                None => resp::command(&mut commands, &[b"DEL", &write.key]),
            }
        }
        client.sent.store(last, SeqCst);
        if connection.send(&commands).is_err() {
            return;
        }
        for number in first..=last {
            match connection.reply() {
                Ok(Reply::Error(error)) => panic!("write {number} was refused: {error}"),
                Ok(_) => client.acknowledged.store(number, SeqCst),
                Err(_) => return,
            }
        }
    }
}

/// All keys of a client that are there.
fn read_all(script: &Script, addr: SocketAddr) -> State {
    let mut connection = Client::connect(addr).unwrap();
    let keys = script.keys();
    let mut commands = Vec::new();
    for key in &keys {
        resp::command(&mut commands, &[b"GET", key]);
    }
    connection.send(&commands).unwrap();
    let mut found = State::new();
    for key in keys {
        match connection.reply().unwrap() {
            Reply::Bulk(Some(value)) => _ = found.insert(key, value),
            Reply::Bulk(None) => {}
            other => panic!("GET was answered with {other:?}"),
        }
    }
    found
}
