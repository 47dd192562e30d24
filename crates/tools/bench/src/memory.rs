//! The memory a run may use: how a budget is written, and the cgroup that holds a run to it.

mod budget;
mod cgroup;
#[cfg(test)]
mod tests;

pub use budget::{Budget, BudgetError, parse_bytes, parse_count};
pub use cgroup::{HARNESS_BYTES, MemoryGroup};

use std::fmt;
use std::str::FromStr;

use crate::stores::WordError;
use serde::{Deserialize, Serialize};

/// Whether the page cache counts against the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageCache {
    /// A cgroup limits the process and the page cache it fills.
    Counted,
    /// The page cache may use all memory of the machine.
    Free,
}

impl FromStr for PageCache {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "counted" => Ok(Self::Counted),
            "free" => Ok(Self::Free),
            _ => Err(WordError::new(text, "counted or free")),
        }
    }
}

impl fmt::Display for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counted => "counted",
            Self::Free => "free",
        })
    }
}
