//! Serves the requests of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use client::{Refused, decode_range_request, encode_range_reply};
use environment::Environment;
use stoc::RangeId;
use sync::RwLock;
use wire::{Handler, Lanes, Refusal, Request, Responder};

use crate::served::Served;

/// The pause of a client while the range is being opened.
const OPENING_MS: u32 = 20;

/// The ranges that serve clients.
#[derive(Debug)]
pub struct RangeService {
    ranges: Arc<RwLock<Ranges>>,
    threads: Arc<Lanes<()>>,
    environment: Environment,
}

#[derive(Debug, Default)]
struct Ranges {
    served: BTreeMap<RangeId, Arc<Served>>,
    opening: BTreeSet<RangeId>,
}

impl RangeService {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(threads: usize, environment: &Environment) -> io::Result<Self> {
        let threads = Arc::new(Lanes::new("ltc", threads, environment)?);
        Ok(Self { ranges: Arc::default(), threads, environment: environment.clone() })
    }

    /// Drops the requests that have not begun, and waits for the end of the others.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// Notes that a range is being opened: clients try again.
    pub(crate) fn begin(&self, range: RangeId) {
        self.ranges.write().opening.insert(range);
    }

    /// Serves a range from now on.
    pub(crate) fn add(&self, served: Arc<Served>) {
        let mut ranges = self.ranges.write();
        ranges.opening.remove(&served.id());
        ranges.served.insert(served.id(), served);
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
                    true => Refused::Busy { pause_ms: OPENING_MS },
                    false => Refused::Moved,
                })
            };
            let give = move |reply: crate::served::Reply| {
                responder.reply(encode_range_reply(&reply).into());
            };
            match found {
                Ok(served) => served.serve(&asked, &threads, Box::new(give)),
                Err(refused) => give(Err(refused)),
            }
        });
    }
}
