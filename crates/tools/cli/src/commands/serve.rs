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

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use environment::Environment;
use serde_json::json;
use server::Server;
use thermocline::{Db, Error};

use super::{Context, component, serving};
use crate::arguments::Serve;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Serve) -> Outcome {
    if let Some(coordinators) = &arguments.cluster {
        return component::gateway(context, arguments, coordinators);
    }
    let environment = Environment::real();
    let (database, options) = context.settings.serving().map_err(Failure::usage)?;
    let signals = serving::take_signals()?;
    let asked = options.listen.port();
    let has_password = options.password.is_some();
    let bound = serving::bind(options, arguments.next_free_port)?;
    let db = Db::open(&arguments.dir, database).map_err(|error| match error {
        Error::MemoryTooSmall { needed, .. } => {
            let whole = context.settings.memory_to_serve(needed).unwrap_or(needed);
            Failure::memory(&error, whole)
        }
        other => Failure::opening(&arguments.dir, other),
    })?;
    let server = bound.serve(&db, environment.clone()).map_err(Failure::server)?;
    tell(context, arguments, &server, asked, has_password)?;

    let watched = db.clone();
    let errors = Box::new(move || serving::errors_of(&watched));
    // A database waits for its device alone.
    let end_waits = Box::new(|| ());
    let served =
        serving::attend(server, signals, &environment, errors, end_waits, context.shared.json);
    let closed = db.close();
    served?;
    closed?;
    if !context.shared.quiet && !context.shared.json {
        eprintln!("stopped; everything acknowledged is on the device");
    }
    Ok(())
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
