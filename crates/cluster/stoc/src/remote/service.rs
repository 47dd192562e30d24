//! Serves the requests of other processes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use codec::Reader;
use environment::{Environment, Monotonic};
use sync::Mutex;
use wire::{Class, Handler, Kind, Lanes, Refusal, Responder, Role};

use super::messages::{decode_request, encode_response};
use crate::error::Error;
use crate::request::Request;
use crate::store::Stoc;

/// Bytes of requests that may wait. A StoC that is behind by more refuses further ones.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Bytes of a read, at most.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Requests of one peer, class and range are served in order.
type Lane = (Role, u32, Class, u32);

/// A StoC that serves the requests of other processes.
#[derive(Debug)]
pub struct StocService {
    stoc: Arc<Stoc>,
    /// The threads of requests that change something.
    changes: Lanes<Lane>,
    /// The threads of the others: syncs do not delay them.
    reads: Lanes<Lane>,
    /// Bytes of the requests that wait, or are under way.
    waiting: Arc<AtomicUsize>,
    running: Arc<Running>,
    environment: Environment,
}

/// The requests that are under way.
#[derive(Debug, Default)]
struct Running {
    /// The times at which they began, by numbers.
    began: Mutex<BTreeMap<u64, Monotonic>>,
    next: AtomicU64,
}

/// A request that is under way.
struct Run {
    number: u64,
    all: Arc<Running>,
}

impl Running {
    fn begin(self: &Arc<Self>, now: Monotonic) -> Run {
        let number = self.next.fetch_add(1, SeqCst);
        self.began.lock().insert(number, now);
        Run { number, all: Arc::clone(self) }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.all.began.lock().remove(&self.number);
    }
}

/// Bytes of a request, counted as long as it lives.
struct Waiting {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, SeqCst);
    }
}

impl StocService {
    /// Starts `threads` threads for changes, and the same number for reads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(stoc: Arc<Stoc>, threads: usize, environment: &Environment) -> io::Result<Self> {
        let changes = Lanes::new("stoc change", threads, environment)?;
        let reads = Lanes::new("stoc read", threads, environment)?;
        let (waiting, running) = Default::default();
        Ok(Self { stoc, changes, reads, waiting, running, environment: environment.clone() })
    }

    /// Returns how long the longest request has been under way. Verifications of whole files do
    /// not count. A device that completes nothing for long is worse than one that fails: the
    /// process has to end. (S6)
    pub fn longest_run(&self) -> Duration {
        let first = self.running.began.lock().values().min().copied();
        first.map_or(Duration::ZERO, |first| self.environment.now() - first)
    }

    /// Drops the requests that have not begun, and waits for the end of the others. Nothing is
    /// written to the StoC from then on.
    pub fn stop(&self) {
        self.changes.stop();
        self.reads.stop();
    }
}

impl Handler for StocService {
    fn handle(&self, request: wire::Request, responder: Responder) {
        let (stoc, environment) = (Arc::clone(&self.stoc), self.environment.clone());
        let (from, class, kind) = (request.from, request.class, request.kind);
        let (bytes, all) = (request.body.len(), Arc::clone(&self.waiting));
        let before = all.fetch_add(bytes, SeqCst);
        let waiting = Waiting { bytes, all };
        if before > 0 && before + bytes > WAITING_BYTES_MAX {
            return responder.refuse(Refusal::Full);
        }
        // Each body but that of Stats begins with a range.
        let range = Reader::new(&request.body).take_u32().unwrap_or_default();
        let running = Arc::clone(&self.running);
        let serve = move || {
            let _counted = waiting;
            let _run = (kind != Kind::Verify).then(|| running.begin(environment.now()));
            if request.is_dropped() {
                return;
            }
            if request.is_late(environment.now()) {
                return responder.refuse(Refusal::Late);
            }
            let response = match decode_request(request.kind, &request.body) {
                Ok(Request::Read { bytes, .. }) if bytes > READ_BYTES_MAX => {
                    return responder.refuse(Refusal::TooLong);
                }
                Ok(request) => stoc.serve(&request),
                Err(damage) => Err(Error::Failed { what: damage.to_string(), is_fatal: false }),
            };
            responder.reply(encode_response(&response).into());
        };
        match kind {
            Kind::Read | Kind::List | Kind::Verify | Kind::Stats => self.reads.add(None, serve),
            _ => self.changes.add(Some((from.role, from.node, class, range)), serve),
        }
    }
}
