//! Serves the requests of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

/// The pause of a client whose request finds too many others waiting.
const FULL_MS: u32 = 5;
/// Bytes of requests that wait for a thread, at most.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Bytes that a request takes in addition to its body, about.
const REQUEST_BYTES: usize = 512;

/// Requests that wait for a thread, as bytes.
#[derive(Debug, Default)]
struct Queue(AtomicUsize);

/// The place of a request in the queue, until this is dropped.
struct Place(Arc<Queue>, usize);

impl Queue {
    /// Returns the place of a request, if there is room for it. A request that is alone has room.
    fn enter(self: &Arc<Self>, body: usize) -> Option<Place> {
        let bytes = body + REQUEST_BYTES;
        let more = |queued: usize| {
            let after = queued + bytes;
            (queued == 0 || after <= QUEUED_BYTES_MAX).then_some(after)
        };
        let entered = self.0.fetch_update(Relaxed, Relaxed, more).is_ok();
        entered.then(|| Place(Arc::clone(self), bytes))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Relaxed);
    }
}

/// The ranges that serve clients.
#[derive(Debug)]
pub struct RangeService {
    ranges: Arc<RwLock<Ranges>>,
    threads: Arc<Lanes<()>>,
    refused: Arc<RefusedCounts>,
    queue: Arc<Queue>,
    environment: Environment,
}

#[derive(Debug, Default)]
struct Ranges {
    served: BTreeMap<RangeId, (Arc<Served>, Arc<RangeCounts>)>,
    opening: BTreeSet<RangeId>,
}

/// Requests that were not served here.
#[derive(Debug)]
struct RefusedCounts {
    /// The range is not open yet.
    opening: Counter,
    /// The range is not here.
    moved: Counter,
    /// Too many requests wait.
    full: Counter,
}

impl RangeService {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(threads: usize, environment: &Environment) -> io::Result<Self> {
        let threads = Arc::new(Lanes::new("ltc", threads, environment)?);
        let refused = RefusedCounts {
            opening: Counter::detached(),
            moved: Counter::detached(),
            full: Counter::detached(),
        };
        let (refused, environment) = (Arc::new(refused), environment.clone());
        let (ranges, queue) = (Arc::default(), Arc::default());
        Ok(Self { ranges, threads, refused, queue, environment })
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

    /// Brings the counts of requests that were not served here into `registry`.
    pub(crate) fn show(&self, registry: &Registry) {
        let RefusedCounts { opening, moved, full } = &*self.refused;
        for (reason, count) in [("opening", opening), ("moved", moved), ("full", full)] {
            let registry = registry.with_labels(&[("reason", reason)]);
            let help =
                "Requests for ranges that are not here or not open yet, and of a full queue.";
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
        let Some(place) = self.queue.enter(request.body.len()) else {
            refused.full.increment();
            let reply = Err(Refused::Busy { pause_ms: FULL_MS });
            return responder.reply(encode_range_reply(&reply).into());
        };
        // Each write has an identity, and reads wait for the writes that they show: requests need
        // no order.
        self.threads.add(None, move || {
            drop(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_has_a_bound() {
        let queue: Arc<Queue> = Arc::default();
        let large = queue.enter(QUEUED_BYTES_MAX * 2);
        assert!(large.is_some() && queue.enter(0).is_none());
        drop(large);
        let body = (1 << 20) - REQUEST_BYTES;
        let all: Vec<Place> = std::iter::from_fn(|| queue.enter(body)).collect();
        assert_eq!(all.len(), QUEUED_BYTES_MAX >> 20);
        assert!(queue.enter(0).is_none());
        drop(all);
        assert_eq!(queue.0.load(Relaxed), 0);
        assert!(queue.enter(0).is_some());
    }
}
