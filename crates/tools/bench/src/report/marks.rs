//! Why a run's figures may not be quoted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Report;
use super::table::bytes;
use crate::measure::megabytes_per_s;
use crate::memory::Budget;
use crate::run::Config;

/// Bytes a second that a store may write under a read-only workload.
const READ_ONLY_WRITE_BYTES_PER_S: f64 = 1e6;
/// Share of the budget that has to be resident at the peak, at least; at most it is all of the
/// budget.
pub const RESIDENT_SHARE_MIN: f64 = 0.95;

/// A reason not to quote a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mark {
    /// The store wrote while the workload only read: it was not at rest, and its background work
    /// took a part of the device and the processor.
    WroteUnderReads {
        /// Its rate of writing.
        bytes_per_s: f64,
    },
    /// The peak of the resident set is not 95 to 100% of the budget.
    OffBudget {
        /// The peak.
        resident_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
}

impl Report {
    /// Marks the run as `config` and the figures have it. `resident_bytes` is the largest resident
    /// peak since the store was opened.
    pub(crate) fn mark(&mut self, config: &Config, resident_bytes: u64) {
        self.marks.clear();
        let bytes_per_s = self.device.write_bytes as f64 / self.seconds.max(f64::MIN_POSITIVE);
        if config.workload.is_read_only() && bytes_per_s > READ_ONLY_WRITE_BYTES_PER_S {
            self.marks.push(Mark::WroteUnderReads { bytes_per_s });
        }
        let budget_bytes = self.memory_budget_bytes;
        // A budget in which everything fits is none that a store has to fill.
        if config.memory != Budget::All && !fills_budget(resident_bytes, budget_bytes) {
            self.marks.push(Mark::OffBudget { resident_bytes, budget_bytes });
        }
    }

    /// Returns whether the figures may be quoted: no mark, and every result was right.
    pub fn is_quotable(&self) -> bool {
        self.marks.is_empty() && self.is_right()
    }
}

/// Whether a peak of the resident set is 95 to 100% of the budget.
pub fn fills_budget(resident_bytes: u64, budget_bytes: u64) -> bool {
    let least = budget_bytes as f64 * RESIDENT_SHARE_MIN;
    resident_bytes <= budget_bytes && resident_bytes as f64 >= least
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WroteUnderReads { bytes_per_s } => {
                let rate = megabytes_per_s(bytes_per_s);
                write!(f, "the store wrote {rate} under a read-only workload")
            }
            Self::OffBudget { resident_bytes, budget_bytes } => {
                let share = resident_bytes as f64 * 100.0 / budget_bytes.max(1) as f64;
                let (peak, budget) = (bytes(resident_bytes), bytes(budget_bytes));
                write!(f, "the resident peak of {peak} is {share:.0}% of the budget of {budget}")
            }
        }
    }
}
