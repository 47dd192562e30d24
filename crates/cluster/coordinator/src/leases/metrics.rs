//! The metrics of the leader.

use std::collections::BTreeMap;
use std::time::Duration;

use thermocline::Registry;

use super::{LeaseReport, Leases, LtcLease};
use crate::error::Result;

impl Leases {
    /// Brings the present figures of the cluster into `registry`.
    ///
    /// # Errors
    /// Those of the coordinator.
    pub(crate) fn show(&self, registry: &Registry) -> Result<()> {
        let (stocs, ltcs) = (self.coordinator.stocs()?, self.coordinator.ltcs()?);
        let started = stocs.iter().filter(|(_, record)| record.completed.is_some()).count();
        let draining = ltcs.iter().filter(|(_, record)| record.is_draining).count();
        let records = self.coordinator.ranges()?;
        let LeaseReport { term, moves, ltcs: leases, ranges } = self.report_of(&records);
        let covered = ranges.iter().filter(|range| range.is_covered).count();
        registry.set_gauges(&[
            ("coordinator_term", "The number of the leadership.", term),
            ("coordinator_stocs", "StoCs that have started once.", started as u64),
            ("coordinator_ltcs", "LTCs that have started once.", ltcs.len() as u64),
            ("coordinator_draining_ltcs", "LTCs that leave their ranges.", draining as u64),
            ("coordinator_covered_ranges", "Ranges whose owner has a lease.", covered as u64),
        ]);
        let help = "Moves of ranges that have ended at their targets, since it leads.";
        registry.counter("coordinator_moves_total", help).add(moves);
        for LtcLease { owner, silent, left, ranges, .. } in leases {
            let registry = registry.with_labels(&[("ltc", &owner.ltc.to_string())]);
            let milliseconds = |time: Duration| time.as_millis() as u64;
            let (silent, left) = (milliseconds(silent), milliseconds(left));
            registry.set_gauges(&[
                ("coordinator_ltc_silent_milliseconds", "Time since the last report.", silent),
                ("coordinator_ltc_lease_milliseconds", "Time that is left of the lease.", left),
                ("coordinator_ltc_ranges", "Ranges that the LTC has reported.", ranges.into()),
            ]);
        }
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        for range in &records {
            *states.entry(range.state.name()).or_default() += 1;
        }
        for (state, count) in states {
            let registry = registry.with_labels(&[("state", state)]);
            registry.set_gauges(&[("coordinator_ranges", "Ranges by their state.", count)]);
        }
        Ok(())
    }
}
