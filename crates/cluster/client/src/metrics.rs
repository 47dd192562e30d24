//! Counts of requests and of their attempts, by outcome.

use codec::Corruption;
use thermocline::telemetry::{Counter, Registry};

use crate::error::{Error, Result};
use crate::protocol::{RangeReply, Refused};

/// The reply to an attempt.
pub(crate) type Reply =
    wire::Result<std::result::Result<std::result::Result<RangeReply, Refused>, Corruption>>;

/// The counts of a client.
#[derive(Debug)]
pub(crate) struct OutcomeCounts {
    // Requests, with all their attempts.
    done: Counter,
    refused: Counter,
    unavailable: Counter,
    unknown: Counter,
    // Attempts. Most requests have one.
    served: Counter,
    moved: Counter,
    busy: Counter,
    lost: Counter,
    forgotten: Counter,
    failed: Counter,
    no_reply: Counter,
}

impl OutcomeCounts {
    /// Returns counts in `registry`.
    pub(crate) fn new(registry: &Registry) -> Self {
        let requests = |outcome: &str| {
            let registry = registry.with_labels(&[("outcome", outcome)]);
            let help = "Requests that have ended. A request is repeated until it has an outcome.";
            registry.counter("client_requests_total", help)
        };
        let attempts = |outcome: &str| {
            let registry = registry.with_labels(&[("outcome", outcome)]);
            registry.counter("client_attempts_total", "Attempts of requests at owners of ranges.")
        };
        Self {
            done: requests("done"),
            refused: requests("refused"),
            unavailable: requests("unavailable"),
            unknown: requests("unknown"),
            served: attempts("done"),
            moved: attempts("moved"),
            busy: attempts("busy"),
            lost: attempts("lost"),
            forgotten: attempts("forgotten"),
            failed: attempts("failed"),
            no_reply: attempts("no_reply"),
        }
    }

    /// Counts the end of a request.
    pub(crate) fn add_request(&self, result: &Result<RangeReply>) {
        let counter = match result {
            Ok(_) => &self.done,
            Err(Error::Unknown(_)) => &self.unknown,
            Err(Error::Unavailable(_) | Error::Coordinator(_) | Error::Stopped) => {
                &self.unavailable
            }
            Err(_) => &self.refused,
        };
        counter.increment();
    }

    /// Counts an attempt.
    pub(crate) fn add_attempt(&self, reply: &Reply) {
        let counter = match reply {
            Ok(Ok(Ok(_))) => &self.served,
            Ok(Ok(Err(Refused::Moved))) => &self.moved,
            Ok(Ok(Err(Refused::Busy { .. }))) => &self.busy,
            Ok(Ok(Err(Refused::Lost))) => &self.lost,
            Ok(Ok(Err(Refused::Forgotten))) => &self.forgotten,
            Ok(Ok(Err(Refused::Failed { .. }))) => &self.failed,
            Ok(Err(_)) | Err(_) => &self.no_reply,
        };
        counter.increment();
    }
}
