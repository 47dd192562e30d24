//! Serves the requests of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use client::{Refused, decode_range_request, encode_range_reply};
use environment::Environment;
use stoc::RangeId;
use sync::RwLock;
use thermocline::Registry;
use thermocline::telemetry::Counter;
use wire::{Handler, Lanes, Refusal, Request, Responder};

use crate::metrics::RangeCounts;
use crate::served::{Reply, Served};

/// The pause of a client while the range is being opened.
const OPENING_MS: u32 = 20;

/// The ranges that serve clients.
#[derive(Debug)]
pub struct RangeService {
    ranges: Arc<RwLock<Ranges>>,
    threads: Arc<Lanes<()>>,
    refused: Arc<RefusedCounts>,
    environment: Environment,
}

#[derive(Debug, Default)]
struct Ranges {
    served: BTreeMap<RangeId, (Arc<Served>, Arc<RangeCounts>)>,
    opening: BTreeSet<RangeId>,
}

/// Requests for ranges that serve no clients here.
#[derive(Debug)]
struct RefusedCounts {
    opening: Counter,
    moved: Counter,
}

impl RangeService {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(threads: usize, environment: &Environment) -> io::Result<Self> {
        let threads = Arc::new(Lanes::new("ltc", threads, environment)?);
        let refused = RefusedCounts { opening: Counter::detached(), moved: Counter::detached() };
        let (ranges, refused, environment) =
            (Arc::default(), Arc::new(refused), environment.clone());
        Ok(Self { ranges, threads, refused, environment })
    }

    /// Drops the requests that have not begun, and waits for the end of the others.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// Notes that a range is being opened: clients try again.
    pub(crate) fn begin(&self, range: RangeId) {
        self.ranges.write().opening.insert(range);
    }

    /// Serves a range from now on, and counts its requests.
    pub(crate) fn add(&self, served: Arc<Served>, counts: RangeCounts) {
        let mut ranges = self.ranges.write();
        ranges.opening.remove(&served.id());
        ranges.served.insert(served.id(), (served, Arc::new(counts)));
    }

    /// Brings the counts of requests for ranges that serve no clients here into `registry`.
    pub(crate) fn show(&self, registry: &Registry) {
        for (reason, count) in [("opening", &self.refused.opening), ("moved", &self.refused.moved)]
        {
            let registry = registry.with_labels(&[("reason", reason)]);
            let help = "Requests for ranges that are not here, or not open yet.";
            registry.counter("ltc_refusals_total", help).add(count.get());
        }
    }

    /// Serves a range no more.
    pub(crate) fn remove(&self, range: RangeId) {
        let mut ranges = self.ranges.write();
        ranges.opening.remove(&range);
        ranges.served.remove(&range);
    }
}

/// A get that waits for StoCs may have the threads for a moment: they are stopped before.
impl Drop for RangeService {
    fn drop(&mut self) {
        self.threads.stop();
    }
}

impl Handler for RangeService {
    fn handle(&self, request: Request, responder: Responder) {
        let (ranges, environment) = (Arc::clone(&self.ranges), self.environment.clone());
        let threads = Arc::downgrade(&self.threads);
        let refused = Arc::clone(&self.refused);
        // Each write has an identity, and reads wait for the writes that they show: requests need
        // no order.
        self.threads.add(None, move || {
            if request.is_dropped() {
                return;
            }
            if request.is_late(environment.now()) {
                return responder.refuse(Refusal::Late);
            }
            let Ok((range, asked)) = decode_range_request(request.kind, &request.body) else {
                return responder.refuse(Refusal::NoReply);
            };
            let found = {
                let ranges = ranges.read();
                let found = ranges.served.get(&range).cloned();
                found.ok_or_else(|| match ranges.opening.contains(&range) {
                    true => (Refused::Busy { pause_ms: OPENING_MS }, &refused.opening),
                    false => (Refused::Moved, &refused.moved),
                })
            };
            match found {
                Ok((served, counts)) => {
                    counts.add_request(&asked, request.body.len());
                    let give = move |reply: Reply| {
                        let bytes = encode_range_reply(&reply);
                        counts.add_reply(&reply, bytes.len());
                        responder.reply(bytes.into());
                    };
                    served.serve(&asked, &threads, Box::new(give));
                }
                Err((reply, count)) => {
                    count.increment();
                    responder.reply(encode_range_reply(&Err(reply)).into());
                }
            }
        });
    }
}
