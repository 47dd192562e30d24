//! The metrics of an LTC: its ranges with their states, its lease and its memory.

use std::sync::Arc;

use thermocline::telemetry::Snapshot;
use thermocline::{Registry, SharedMemory};

use super::{Beats, Held};

impl Held {
    /// Returns the name of the state.
    fn name(&self) -> &'static str {
        match self {
            Self::Opening => "Opening",
            Self::Serving(_) => "Serving",
            Self::Moving(_) => "Moving",
            Self::Closing => "Closing",
        }
    }
}

impl Beats {
    /// Returns the present metrics of the LTC and of its ranges.
    pub fn metrics(&self) -> Snapshot {
        let shared = &self.shared;
        let present = Registry::default();
        let memory = shared.options.shared.memory.as_ref();
        let (memory_bytes, memory_limit) = memory.map(SharedMemory::bytes).unwrap_or_default();
        let mut served = Vec::new();
        for (range, holding) in &*shared.ranges.lock() {
            let of_range = present.with_labels(&[("range", &range.to_string())]);
            let of_state = of_range.with_labels(&[("state", holding.held.name())]);
            of_state.set_gauges(&[("range_state", "1 for the present state of the range.", 1)]);
            served.extend(holding.served().map(|served| (of_range, Arc::clone(served))));
        }
        // The figures of a database may take long, and the reports need the ranges.
        served.iter().for_each(|(of_range, served)| served.show(of_range));
        shared.parts.service.show(&present);
        let lease_ms = u64::try_from(shared.lease.left().as_millis()).unwrap_or(u64::MAX);
        let damaged = shared.parts.ltc.damaged_copies() as u64;
        present.set_gauges(&[
            ("ltc_lease_milliseconds", "Time that is left of the lease.", lease_ms),
            ("ltc_memory_bytes", "Memory that ranges have.", memory_bytes),
            ("ltc_memory_limit_bytes", "Memory for all ranges.", memory_limit),
            ("ltc_damaged_copies", "Copies of tables that reads found damaged.", damaged),
        ]);
        present.snapshot().join(shared.options.shared.telemetry.snapshot())
    }
}
