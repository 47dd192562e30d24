//! `thermocline serve`: opens a database and serves it until a signal or a client ends it.
//!
//! 1. The server's options are checked and its ports taken, with `--next-free-port` the next ones
//!    if the first are taken: a server that is refused makes no database.
//! 2. The database is opened. A client that connects before recovery is done waits for it.
//! 3. The server's address is printed: one line, or JSON on standard output for a program that
//!    waits. `--quiet` asks for no lines.
//! 4. Errors of its engines' background work are reported on standard error, when they begin and
//!    when they are over.
//! 5. SIGINT and SIGTERM ask it to stop; it finishes the commands that it has received, syncs and
//!    closes.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use environment::Environment;
use serde_json::json;
use server::{Bound, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thermocline::{BackgroundError, Db, Error};

use super::Context;
use crate::arguments::Serve;
use crate::failure::{Failure, Outcome};
use crate::output;

/// The number of ports that are tried after the requested one.
const PORTS_TRIED: u16 = 100;

pub(super) fn run(context: &Context, arguments: &Serve) -> Outcome {
    let environment = Environment::real();
    let (database, options) = context.settings.serving().map_err(Failure::usage)?;
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::io("signals", &error))?;
    let asked = options.listen.port();
    let has_password = options.password.is_some();
    let bound = bind(options, arguments.next_free_port)?;
    let db = Db::open(&arguments.dir, database).map_err(|error| match error {
        Error::MemoryTooSmall { needed, .. } => {
            let whole = context.settings.memory_to_serve(needed).unwrap_or(needed);
            Failure::memory(&error, whole)
        }
        other => Failure::opening(&arguments.dir, other),
    })?;
    let server = bound.serve(&db, environment.clone()).map_err(Failure::server)?;
    tell(context, arguments, &server, asked, has_password)?;

    let stopper = server.stopper();
    let listening = signals.handle();
    let waiting = environment
        .spawn("signals", move || {
            if signals.forever().next().is_some() {
                stopper.stop();
            }
        })
        .map_err(|error| Failure::io("a thread for signals", &error))?;
    let (watched, is_over) = mpsc::channel();
    let errors =
        BackgroundErrorLog { db: db.clone(), known: BTreeSet::new(), is_json: context.shared.json };
    let watching = environment
        .spawn("errors", move || errors.watch(&is_over))
        .map_err(|error| Failure::io("a thread for errors", &error))?;
    let served = server.wait();
    drop(watched);
    let _ = watching.join();
    listening.close();
    // It ends once its handle is closed, and it cannot panic.
    let _ = waiting.join();
    let closed = db.close();
    served.map_err(Failure::server)?;
    closed?;
    if !context.shared.quiet && !context.shared.json {
        eprintln!("stopped; everything acknowledged is on the device");
    }
    Ok(())
}

/// Time between two looks at the engines' errors.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The reported errors of engines' background work.
struct BackgroundErrorLog {
    db: Db,
    known: BTreeSet<(String, String)>,
    is_json: bool,
}

impl BackgroundErrorLog {
    /// Looks again after each [`LOOK_INTERVAL`], until the sender is dropped.
    fn watch(mut self, is_over: &Receiver<()>) {
        while is_over.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let of = |(keyspace, error): (String, BackgroundError)| (keyspace, error.to_string());
            let now: BTreeSet<_> = self.db.background_errors().into_iter().map(of).collect();
            now.difference(&self.known).for_each(|error| self.tell(error, false));
            self.known.difference(&now).for_each(|error| self.tell(error, true));
            self.known = now;
        }
    }

    fn tell(&self, (keyspace, what): &(String, String), is_over: bool) {
        if self.is_json {
            eprintln!(
                "{}",
                json!({ "keyspace": keyspace, "background_error": what, "over": is_over })
            );
        } else if is_over {
            eprintln!("thermocline: keyspace {keyspace}: no longer so: {what}");
        } else {
            eprintln!("thermocline: keyspace {keyspace}: {what}");
        }
    }
}

/// Takes the ports asked for, or the next ones that are free.
fn bind(mut options: server::Options, next_free_port: bool) -> Result<Bound, Failure> {
    let mut tries = if next_free_port { PORTS_TRIED } else { 0 };
    loop {
        let refused = match Bound::new(options.clone()) {
            Ok(bound) => return Ok(bound),
            Err(refused) => refused,
        };
        let taken = match &refused {
            server::Error::Listen { addr, cause } if cause.kind() == io::ErrorKind::AddrInUse => {
                *addr
            }
            _ => return Err(Failure::server(refused)),
        };
        if tries == 0 {
            return Err(Failure::server(refused));
        }
        tries -= 1;
        if taken == options.listen {
            advance(&mut options.listen);
        }
        if let Some(metrics) = options.metrics.as_mut().filter(|metrics| **metrics == taken) {
            advance(metrics);
        }
    }
}

fn advance(addr: &mut SocketAddr) {
    addr.set_port(addr.port().checked_add(1).unwrap_or(1024));
}

/// Prints the address on which it listens; a program that started it waits for this.
fn tell(
    context: &Context,
    arguments: &Serve,
    server: &Server,
    asked: u16,
    has_password: bool,
) -> Outcome {
    let addr = server.addr();
    if context.shared.json {
        return output::json_line(&json!({
            "listening": addr.to_string(),
            "metrics": server.metrics_addr().map(|addr| addr.to_string()),
        }));
    }
    if context.shared.quiet {
        return Ok(());
    }
    if asked != 0 && addr.port() != asked {
        output::line(&format!("port {asked} is taken, so this is {}", addr.port()))?;
    }
    output::line(&format!("serving {} at {addr}", arguments.dir.display()))?;
    if let Some(metrics) = server.metrics_addr() {
        output::line(&format!("metrics at http://{metrics}/metrics"))?;
    }
    if arguments.hints {
        output::line(&hints(addr, has_password))?;
    }
    Ok(())
}

fn hints(addr: SocketAddr, has_password: bool) -> String {
    let port = addr.port();
    // An address for all hosts is one that this machine's own clients reach by their default.
    let host = match addr.ip() {
        ip if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    let mut client = String::new();
    if host != IpAddr::from(Ipv4Addr::LOCALHOST) {
        client = format!(" -h {host}");
    }
    client = format!("{client} -p {port}");
    let (ask, auth) = if has_password { (" --askpass", "AUTH password\\r\\n") } else { ("", "") };
    let lines = if has_password { 4 } else { 3 };
    let benchmark = if has_password { " -a password" } else { "" };
    format!(
        "
Connect with any Redis client, and try:
  redis-cli{client}{ask} set greeting hello
  redis-cli{client}{ask} get greeting
  redis-benchmark{client}{benchmark} -t set,get,incr -P 32 -c 50 -q
Without one installed, in bash:
  exec 3<>/dev/tcp/{host}/{port}; printf '{auth}SET greeting hello\\r\\nGET greeting\\r\\n' >&3; \
head -n {lines} <&3
Ctrl-C stops it; everything acknowledged is made durable first.
"
    )
}

#[cfg(test)]
mod tests;
