//! Pages of results.
//!
//! A suite is a file with comparisons that run in order.
//!
//! 1. A [`Suite`] is read from TOML (`docs/benchmarks/*.toml`), and checked as a whole: a workload
//!    or a store of ours that is wrong in the last comparison is an error before the first runs.
//! 2. [`estimate`] says how long the suite takes.
//! 3. Each comparison runs as `bench compare` would run it. Its results are kept until the page is
//!    whole, so that a suite that is interrupted continues at the same place.
//! 4. After each comparison, the page `NAME.md` and the figures `NAME.json` are written. Another
//!    page can take a comparison from the figures.

mod estimate;
mod markdown;
mod origin;
mod suite;
#[cfg(test)]
mod tests;

pub use estimate::{estimate, in_words};
pub use markdown::{page, write};
pub use origin::Origin;
pub use suite::{Suite, SuiteError, Wanted};

use serde::{Deserialize, Serialize};

use crate::compare::{BuildRatio, Comparison, SummaryRow};

/// A comparison that was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Its title.
    pub title: String,
    /// Its rows.
    pub rows: Vec<SummaryRow>,
    /// This build over the baseline, if there is one.
    #[serde(default)]
    pub builds: Vec<BuildRatio>,
    /// The common options of all runs; none if every run failed.
    pub setting: Option<String>,
    /// The build, the machine and the date.
    pub origin: Option<Origin>,
}

impl Found {
    /// The figures of `comparison`.
    pub fn of(title: &str, comparison: &Comparison, origin: Origin) -> Self {
        let setting = comparison.runs.first().map(crate::report::setting);
        let (rows, builds) = (comparison.summary.clone(), comparison.builds.clone());
        Self { title: title.to_owned(), rows, builds, setting, origin: Some(origin) }
    }

    /// The rows of `engine` and of the stores of `with`, with ratios to `engine`.
    #[must_use]
    pub fn beside(&self, engine: &str, with: &[String]) -> Self {
        let is_wanted = |row: &&SummaryRow| row.store == engine || with.contains(&row.store);
        let ours = |workload: &str| {
            self.rows.iter().find(|row| row.store == engine && row.workload == workload)
        };
        let beside = |row: &SummaryRow| {
            // A row without a ratio has figures that cannot be compared.
            let ours = ours(&row.workload).filter(|ours| ours.ratio_ours_to_this.is_some());
            let ratio = ours.zip(row.ratio_ours_to_this).map(|(ours, _)| {
                ours.ops_per_s_median / row.ops_per_s_median.max(f64::MIN_POSITIVE)
            });
            SummaryRow { ratio_ours_to_this: ratio, ..row.clone() }
        };
        let rows = self.rows.iter().filter(is_wanted).map(beside).collect();
        Self {
            title: self.title.clone(),
            rows,
            builds: Vec::new(),
            setting: self.setting.clone(),
            origin: self.origin.clone(),
        }
    }
}
