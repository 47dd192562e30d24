//! Counts of the requests to a StoC, by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use telemetry::{Counter, Histogram, Registry, Unit};
use wire::{Kind, Role};

/// The counts of all kinds of requests.
#[derive(Debug)]
pub(crate) struct RequestCounts {
    registry: Registry,
    kinds: BTreeMap<Kind, KindCounts>,
    received_bytes: Counter,
    sent_bytes: Counter,
}

/// The counts of one kind.
#[derive(Debug)]
struct KindCounts {
    requests: Counter,
    failures: Counter,
    time: Histogram,
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRequest {
    pub(crate) kind: Kind,
    pub(crate) time: Duration,
    pub(crate) received_bytes: usize,
    pub(crate) sent_bytes: usize,
    pub(crate) is_failure: bool,
}

impl RequestCounts {
    pub(crate) fn new() -> Self {
        let registry = Registry::default();
        let kinds = Kind::all().filter(|kind| kind.may_send(Role::Ltc, Role::Stoc));
        let counts = |kind: Kind| {
            let of_kind = registry.with_labels(&[("kind", &format!("{kind:?}"))]);
            let failed = "Requests that ended with an error.";
            let time = "Time of a request, from its begin to the reply.";
            KindCounts {
                requests: of_kind.counter("stoc_requests_total", "Requests that were served."),
                failures: of_kind.counter("stoc_request_failures_total", failed),
                time: of_kind.histogram("stoc_request_seconds", time, Unit::Seconds),
            }
        };
        let kinds = kinds.map(|kind| (kind, counts(kind))).collect();
        let received_bytes = registry
            .counter("stoc_received_bytes_total", "Bytes of the requests that were served.");
        let sent_bytes = registry.counter("stoc_sent_bytes_total", "Bytes of the replies to them.");
        Self { registry, kinds, received_bytes, sent_bytes }
    }

    /// Returns the registry of the counts.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts a request.
    pub(crate) fn add(&self, served: ServedRequest) {
        let Some(of_kind) = self.kinds.get(&served.kind) else { return };
        of_kind.requests.increment();
        of_kind.time.record_duration(served.time);
        of_kind.failures.add(u64::from(served.is_failure));
        self.received_bytes.add(served.received_bytes as u64);
        self.sent_bytes.add(served.sent_bytes as u64);
    }
}
