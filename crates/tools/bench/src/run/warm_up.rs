//! The operations before the measured phase, until the caches are as full as they get.
//!
//! 1. The workload runs in intervals of [`INTERVAL`].
//! 2. The warm-up ends when two successive intervals differ by less than [`CHANGE`] in the resident
//!    set and in device reads per operation. Fewer than [`READS_CHANGE_MIN`] reads per operation
//!    are no difference: caches that miss one operation in a thousand are warm.
//! 3. Without such intervals it ends at a limit, which the report names.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::config::{Config, RunError};
use super::phase::{Limit, Phase, Progress, Team};
use super::{Measured, phase_measured};
use crate::measure::resident_bytes;
use crate::report::Report;
use crate::stores::Store;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(10);
/// Share by which two successive intervals of a warm store may differ.
const CHANGE: f64 = 0.02;
/// Reads per operation by which they may always differ.
const READS_CHANGE_MIN: f64 = 0.001;
/// Bytes that count as one read if the operating system counts the reads: it has no number of
/// faults.
const PAGE_BYTES: f64 = 4096.0;
/// Seconds after which a warm-up ends that finds no end, unless the command line says otherwise.
pub const WARM_UP_MAX_SECONDS: f64 = 180.0;

/// How long the phase before the measured one takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    /// Exactly this many seconds; 0 for none.
    Seconds(f64),
    /// Until the caches are full, or these seconds have passed.
    UntilSteady {
        /// The limit.
        seconds_max: f64,
    },
}

/// Warms `store` up as `config` says, and notes in `report` how long it took.
pub(super) fn warm_up(
    config: &Config,
    store: &dyn Store,
    team: &mut Team,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), RunError> {
    match config.warm_up {
        WarmUp::Seconds(seconds) if seconds > 0.0 => {
            let phase = Phase::warm_up("warm-up", Limit::seconds(seconds));
            report.count_check(&team.run(&phase, progress)?);
            report.warmup_seconds = seconds;
        }
        WarmUp::Seconds(_) => {}
        WarmUp::UntilSteady { seconds_max } => {
            report.warmup_limit_seconds = Some(seconds_max);
            let mut last: Option<Sample> = None;
            let is_steady = loop {
                let left = seconds_max - report.warmup_seconds;
                let limit = Limit::seconds(INTERVAL.as_secs_f64().min(left));
                let phase = Phase::warm_up("warm-up", limit);
                let interval = phase_measured(store, || team.run(&phase, progress))?;
                report.count_check(&interval.outcome);
                report.warmup_seconds += interval.outcome.seconds;
                let resident_bytes = resident_bytes().saturating_sub(team.harness_bytes());
                let sample = Sample::of(&interval, resident_bytes);
                let change = last.as_ref().map(|last| sample.change_since(last));
                // A rest of an interval says too little.
                if left >= INTERVAL.as_secs_f64() && change.as_ref().is_some_and(Change::is_small) {
                    break true;
                }
                // A stream may end, and its intervals then take no time.
                let has_ended = interval.outcome.seconds * 2.0 < INTERVAL.as_secs_f64();
                if report.warmup_seconds >= seconds_max || has_ended {
                    break false;
                }
                progress.waits(&change.map_or("a second interval".to_owned(), |c| c.to_string()));
                last = Some(sample);
            };
            report.warmup_is_steady = Some(is_steady);
        }
    }
    Ok(())
}

/// The figures of one interval.
#[derive(Clone, Copy, Debug)]
struct Sample {
    resident_bytes: f64,
    reads_per_op: f64,
}

/// How far two successive intervals differ.
#[derive(Debug)]
struct Change {
    /// As a share of the resident set.
    resident: f64,
    /// As a share of the reads per operation, 0 if there are too few to matter.
    reads: f64,
}

impl Sample {
    fn of(interval: &Measured, resident_bytes: u64) -> Self {
        let device = interval.device;
        let reads = match interval.device_by_store {
            true => device.read_ops as f64,
            false => device.read_bytes as f64 / PAGE_BYTES,
        };
        let operations = interval.outcome.tally.operations.max(1) as f64;
        Self { resident_bytes: resident_bytes as f64, reads_per_op: reads / operations }
    }

    fn change_since(&self, before: &Self) -> Change {
        let change = |now: f64, before: f64| match now - before {
            0.0 => 0.0,
            difference => difference.abs() / before.max(f64::MIN_POSITIVE),
        };
        let reads_differ = (self.reads_per_op - before.reads_per_op).abs() > READS_CHANGE_MIN;
        Change {
            resident: change(self.resident_bytes, before.resident_bytes),
            reads: match reads_differ {
                true => change(self.reads_per_op, before.reads_per_op),
                false => 0.0,
            },
        }
    }
}

impl Change {
    fn is_small(&self) -> bool {
        self.resident < CHANGE && self.reads < CHANGE
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| (share * 100.0).min(999.0);
        let (resident, reads) = (percent(self.resident), percent(self.reads));
        write!(f, "steady caches: resident set changed by {resident:.1}%, ")?;
        write!(f, "device reads per operation by {reads:.1}%")
    }
}
