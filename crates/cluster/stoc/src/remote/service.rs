//! Serves the requests of other processes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use codec::Reader;
use environment::{Environment, Monotonic};
use sync::Mutex;
use telemetry::{Registry, Snapshot};
use wire::{Class, Handler, Kind, Lanes, Refusal, Responder, Role};

use super::messages::{decode_request, encode_response};
use crate::error::Error;
use crate::metrics::{RequestCounts, ServedRequest};
use crate::request::Request;
use crate::store::{Stats, Stoc};
use crate::throttle::Throttle;

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
    /// For measurements.
    throttle: Option<Arc<Throttle>>,
    counts: Arc<RequestCounts>,
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
        let (waiting, running, throttle) = Default::default();
        let (counts, environment) = (Arc::new(RequestCounts::new()), environment.clone());
        Ok(Self { stoc, changes, reads, waiting, running, throttle, counts, environment })
    }

    /// Returns the present metrics of the StoC.
    pub fn metrics(&self) -> Snapshot {
        let present = Registry::default();
        let longest_ms = u64::try_from(self.longest_run().as_millis()).unwrap_or(u64::MAX);
        let waiting = self.waiting.load(SeqCst) as u64;
        let is_stopped = u64::from(self.stoc.stopped().is_some());
        present.set_gauges(&[
            ("stoc_waiting_bytes", "Bytes of requests that wait or are under way.", waiting),
            ("stoc_longest_request_milliseconds", "Age of the oldest one under way.", longest_ms),
            ("stoc_stopped", "1 after a failed write or sync: a new start is needed.", is_stopped),
        ]);
        if let Ok(Stats { files, bytes, damaged_files, free_bytes }) = self.stoc.stats() {
            present.set_gauges(&[
                ("stoc_files", "Files of logs and tables.", files),
                ("stoc_bytes", "Bytes of these files.", bytes),
                ("stoc_damaged_files", "Files among them that are damaged.", damaged_files),
                ("stoc_free_bytes", "Bytes that the device has free.", free_bytes),
            ]);
        }
        present.snapshot().join(self.counts.registry().snapshot())
    }

    /// Has requests wait for `throttle` before they are served. This is for measurements only.
    #[must_use]
    pub fn with_throttle(self, throttle: Throttle) -> Self {
        Self { throttle: Some(Arc::new(throttle)), ..self }
    }

    /// Returns how long the longest request has been under way. Verifications of whole files do
    /// not count, and neither does the wait for a throttle. A device that completes nothing for
    /// long is worse than one that fails: the process has to end. (S6)
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
        let (running, counts) = (Arc::clone(&self.running), Arc::clone(&self.counts));
        let throttle = self.throttle.clone();
        let serve = move || {
            let _counted = waiting;
            let began = environment.now();
            if request.is_dropped() {
                return;
            }
            if request.is_late(environment.now()) {
                return responder.refuse(Refusal::Late);
            }
            let decoded = decode_request(request.kind, &request.body);
            if let (Some(throttle), Ok(request)) = (throttle, &decoded) {
                throttle.wait(request);
            }
            let _run = (kind != Kind::Verify).then(|| running.begin(environment.now()));
            let response = match decoded {
                Ok(Request::Read { bytes, .. }) if bytes > READ_BYTES_MAX => {
                    return responder.refuse(Refusal::TooLong);
                }
                Ok(request) => stoc.serve(&request),
                Err(damage) => Err(Error::Failed { what: damage.to_string(), is_fatal: false }),
            };
            let reply = encode_response(&response);
            counts.add(ServedRequest {
                kind,
                time: environment.now() - began,
                received_bytes: bytes,
                sent_bytes: reply.len(),
                is_failure: response.is_err(),
            });
            responder.reply(reply.into());
        };
        match kind {
            Kind::Read | Kind::List | Kind::Verify | Kind::Stats => self.reads.add(None, serve),
            _ => self.changes.add(Some((from.role, from.node, class, range)), serve),
        }
    }
}
