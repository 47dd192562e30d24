//! Pages of results: a suite of comparisons in a file, run one after the other, and written as tables
//! and plots.
//!
//! 1. A [`Suite`] is read from TOML (`docs/benchmarks/*.toml`), and checked as a whole: a
//!    workload or a store of ours that is wrong in the last comparison is told before the first runs.
//! 2. Each comparison runs as `bench compare` would run it.
//! 3. After each, the page is written anew with what is known by then, so that a suite that is ended
//!    half way leaves what it has found.

mod markdown;
mod suite;
#[cfg(test)]
mod tests;

pub use markdown::{page, write};
pub use suite::{Suite, SuiteError, Wanted};

use crate::compare::{Comparison, SummaryRow};

/// A comparison that was run.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its rows.
    pub rows: Vec<SummaryRow>,
    /// The first run, for what all have in common; none if every run failed.
    pub setting: Option<String>,
    /// Where its plots are, beside the page.
    pub plots: String,
}

impl Found {
    /// What is told of `comparison`, whose plots are in the file `plots`.
    pub fn of(comparison: &Comparison, plots: String) -> Self {
        let setting = comparison.runs.first().map(crate::report::setting);
        Self { rows: comparison.summary.clone(), setting, plots }
    }
}
