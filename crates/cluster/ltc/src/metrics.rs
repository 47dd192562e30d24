//! Counts of the requests to a range.

use client::{RangeReply, RangeRequest, Refused};
use thermocline::telemetry::{Counter, Registry};

/// The counts of a range, from its opening on.
#[derive(Debug)]
pub(crate) struct RangeCounts {
    gets: Counter,
    scans: Counter,
    writes: Counter,
    clears: Counter,
    request_bytes: Counter,
    reply_bytes: Counter,
    moved: Counter,
    busy: Counter,
    lost: Counter,
    forgotten: Counter,
    failed: Counter,
}

impl RangeCounts {
    /// Returns counts in `registry`.
    pub(crate) fn new(registry: &Registry) -> Self {
        let requests = |kind: &str| {
            let registry = registry.with_labels(&[("kind", kind)]);
            registry.counter("range_requests_total", "Requests of clients.")
        };
        let refusals = |reason: &str| {
            let registry = registry.with_labels(&[("reason", reason)]);
            registry.counter("range_refusals_total", "Requests that were refused.")
        };
        Self {
            gets: requests("get"),
            scans: requests("scan"),
            writes: requests("write"),
            clears: requests("clear"),
            request_bytes: registry
                .counter("range_request_bytes_total", "Bytes of the requests of clients."),
            reply_bytes: registry
                .counter("range_reply_bytes_total", "Bytes of the replies to them."),
            moved: refusals("moved"),
            busy: refusals("busy"),
            lost: refusals("lost"),
            forgotten: refusals("forgotten"),
            failed: refusals("failed"),
        }
    }

    /// Counts a request of `bytes` bytes.
    pub(crate) fn add_request(&self, request: &RangeRequest, bytes: usize) {
        self.request_bytes.add(bytes as u64);
        match request {
            RangeRequest::Get { .. } => self.gets.increment(),
            RangeRequest::Scan { .. } => self.scans.increment(),
            RangeRequest::Write { .. } => self.writes.increment(),
            RangeRequest::Clear { .. } => self.clears.increment(),
        }
    }

    /// Counts a reply of `bytes` bytes.
    pub(crate) fn add_reply(&self, reply: &Result<RangeReply, Refused>, bytes: usize) {
        self.reply_bytes.add(bytes as u64);
        match reply {
            Ok(_) => {}
            Err(Refused::Moved) => self.moved.increment(),
            Err(Refused::Busy { .. }) => self.busy.increment(),
            Err(Refused::Lost) => self.lost.increment(),
            Err(Refused::Forgotten) => self.forgotten.increment(),
            Err(Refused::Failed { .. }) => self.failed.increment(),
        }
    }
}
