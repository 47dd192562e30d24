//! The parts that commands share which serve clients: the ports, the signals, and the report of
//! background errors.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use environment::Environment;
use serde_json::json;
use server::{Bound, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thermocline::Db;

use crate::failure::{Failure, Outcome};

/// The number of ports that are tried after the requested one.
const PORTS_TRIED: u16 = 100;
/// Time between two looks at the engines' errors.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Takes the signals that end a server. Call it before the server starts.
pub(super) fn take_signals() -> Result<Signals, Failure> {
    Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::io("signals", &error))
}

/// Time after a signal after which a server that waits for something is ended without it.
const END_MAX: Duration = Duration::from_secs(60);

/// Returns the errors of background work at this moment: what has it, and the error.
pub(super) type BackgroundErrors = Box<dyn Fn() -> Vec<(String, String)> + Send>;

/// Ends what a server waits for, if it has not ended by itself after [`END_MAX`].
pub(super) type EndWaits = Box<dyn FnOnce() + Send>;

/// Waits until a server ends: by a signal or by a client. Reports the errors of background work
/// meanwhile.
pub(super) fn attend(
    server: Server,
    mut signals: Signals,
    environment: &Environment,
    errors: BackgroundErrors,
    end_waits: EndWaits,
    is_json: bool,
) -> Outcome {
    let stopper = server.stopper();
    let listening = signals.handle();
    let (ended, has_ended) = mpsc::channel::<()>();
    let waiting = environment
        .spawn("signals", move || {
            if signals.forever().next().is_some() {
                stopper.stop();
                if has_ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
                    end_waits();
                }
            }
        })
        .map_err(|error| Failure::io("a thread for signals", &error))?;
    let (watched, is_over) = mpsc::channel();
    let errors = BackgroundErrorLog { errors, known: BTreeSet::new(), is_json };
    let watching = environment
        .spawn("errors", move || errors.watch(&is_over))
        .map_err(|error| Failure::io("a thread for errors", &error))?;
    let served = server.wait();
    drop((watched, ended));
    let _ = watching.join();
    listening.close();
    // It ends once its handle is closed, and it cannot panic.
    let _ = waiting.join();
    served.map_err(Failure::server)
}

/// The reported errors of engines' background work.
struct BackgroundErrorLog {
    errors: BackgroundErrors,
    known: BTreeSet<(String, String)>,
    is_json: bool,
}

impl BackgroundErrorLog {
    /// Looks again after each [`LOOK_INTERVAL`], until the sender is dropped.
    fn watch(mut self, is_over: &Receiver<()>) {
        while is_over.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let now: BTreeSet<_> = (self.errors)().into_iter().collect();
            now.difference(&self.known).for_each(|error| self.tell(error, false));
            self.known.difference(&now).for_each(|error| self.tell(error, true));
            self.known = now;
        }
    }

    fn tell(&self, (whose, what): &(String, String), is_over: bool) {
        if self.is_json {
            eprintln!(
                "{}",
                json!({ "keyspace": whose, "background_error": what, "over": is_over })
            );
        } else if is_over {
            eprintln!("thermocline: keyspace {whose}: no longer so: {what}");
        } else {
            eprintln!("thermocline: keyspace {whose}: {what}");
        }
    }
}

/// Takes the ports asked for, or the next ones that are free.
pub(super) fn bind(mut options: server::Options, next_free_port: bool) -> Result<Bound, Failure> {
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

/// Returns the errors of a database's background work.
pub(super) fn errors_of(db: &Db) -> Vec<(String, String)> {
    let errors = db.background_errors().into_iter();
    errors.map(|(keyspace, error)| (keyspace, error.to_string())).collect()
}
