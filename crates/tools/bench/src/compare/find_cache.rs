//! Finds the cache of each store before its measured rounds, by whole runs of the workload, or of
//! all workloads that share an opening.

use serde::{Deserialize, Serialize};

use super::search::{Step, Trial, Verdict, next};
use super::{ChildError, Children, CompareConfig, Outcome, Side, Turn, parted};
use crate::memory::{Budget, parse_bytes, parse_count};
use crate::report::Report;
use crate::workload::Workload;

/// Parts of the budget by one of which the cache of a round that was killed is too large.
const RETRY_PARTS: u64 = 32;
/// Rounds of one search that run again.
const RETRIES_MAX: usize = 3;

/// The search of one store on one workload, as a comparison reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The workload.
    pub workload: String,
    /// The store.
    pub store: String,
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// The cache with which the rounds run.
    pub cache_bytes: u64,
    /// How the search ended.
    pub verdict: Verdict,
    /// Its runs, in order.
    pub trials: Vec<Trial>,
    /// Larger caches with which a round was killed for its memory, in order.
    #[serde(default)]
    pub killed_with: Vec<u64>,
}

impl Search {
    /// Returns whether `turn` runs with the cache that was found here. A baseline runs with the
    /// cache of this build, so that a build that takes more memory than the other shows it.
    pub(super) fn is_of(&self, turn: &Turn) -> bool {
        let is_baseline = turn.side == Side::Baseline && turn.twin.as_ref() == Some(&self.store);
        self.workload == turn.workload() && (self.store == turn.store || is_baseline)
    }

    /// Runs a round with the cache that was found. A round that is killed for its memory runs again
    /// with a smaller cache, and so do the rounds after it. The difference is one part in
    /// [`RETRY_PARTS`] of the budget: a peak may differ from that of its trial by several percent.
    pub(super) fn run(&mut self, mut round: impl FnMut(u64) -> Outcome) -> Outcome {
        loop {
            let outcome = round(self.cache_bytes);
            let smaller = self.cache_bytes.saturating_sub(self.budget_bytes / RETRY_PARTS);
            if !matches!(outcome, Err(ChildError::Killed))
                || self.killed_with.len() >= RETRIES_MAX
                || smaller == 0
            {
                return outcome;
            }
            self.killed_with.push(self.cache_bytes);
            self.cache_bytes = smaller;
        }
    }
}

/// Searches for each store of one workload's turns, in the conditions of its first round.
pub(super) fn search_all(
    config: &CompareConfig,
    turns: &[Turn],
    children: &mut Children<'_>,
) -> Vec<Search> {
    let is_searched = |turn: &&Turn| {
        let given = |name: &str| turn.options.iter().any(|option| option.starts_with(name));
        config.searches_caches
            && turn.round == 0
            && turn.side != Side::Baseline
            && budget(turn) != Budget::All
            && !given("--cache=")
            && children.known.sizes_cache(turn)
    };
    let searched: Vec<&Turn> = turns.iter().filter(is_searched).collect();
    let search = |turn: &Turn| {
        let first_cache = config.first_caches.get(&turn.store).map(String::as_str);
        let found = search(&Turn { is_trial: true, ..turn.clone() }, first_cache, children);
        children.end_search();
        found
    };
    searched.into_iter().filter_map(search).collect()
}

/// Returns the report with the largest resident peak.
fn peak(reports: &[Report]) -> Option<&Report> {
    reports.iter().max_by_key(|report| report.rss_peak_bytes)
}

/// The budget of a turn's run.
fn budget(turn: &Turn) -> Budget {
    let given = turn.options.iter().rev().find_map(|option| option.strip_prefix("--memory="));
    given.and_then(|text| text.parse().ok()).unwrap_or(Budget::All)
}

/// Searches for the cache of one store with runs like `turn`; none if the first trial fails, since
/// the rounds then fail in the same way.
fn search(turn: &Turn, first_cache: Option<&str>, children: &mut Children<'_>) -> Option<Search> {
    let mut trials = Vec::new();
    let mut first = turn.clone();
    first.options.extend(first_cache.map(|cache| format!("--cache={cache}")));
    let (first_cache, budget_bytes, resident_bytes) = match children.run(&first) {
        Ok(reports) => {
            let report = peak(&reports)?;
            (report.cache_bytes?, report.memory_budget_bytes, Some(report.rss_peak_bytes))
        }
        // A run that was killed has no report, which would name the cache: begin from the budget.
        Err(ChildError::Killed) => {
            let bytes = data_budget(turn)?;
            let given = first_cache.and_then(|cache| parse_bytes(cache).ok());
            (given.unwrap_or(bytes), bytes, None)
        }
        Err(_) => return None,
    };
    trials.push(Trial { cache_bytes: first_cache, resident_bytes });
    let (cache_bytes, verdict) = loop {
        let cache_bytes = match next(budget_bytes, &trials) {
            Step::Try(cache_bytes) => cache_bytes,
            Step::End(cache_bytes, verdict) => break (cache_bytes, verdict),
        };
        let mut trial = turn.clone();
        trial.options.push(format!("--cache={cache_bytes}"));
        let resident_bytes = match children.run(&trial) {
            Ok(reports) => peak(&reports).map(|report| report.rss_peak_bytes),
            Err(ChildError::Killed) => None,
            Err(_) => break (first_cache, Verdict::Failed),
        };
        trials.push(Trial { cache_bytes, resident_bytes });
    };
    let (workload, store) = (turn.workload(), turn.store.clone());
    let killed_with = Vec::new();
    Some(Search { workload, store, budget_bytes, cache_bytes, verdict, trials, killed_with })
}

/// The budget in bytes, from the options alone.
fn data_budget(turn: &Turn) -> Option<u64> {
    let value = |name: &str| turn.options.iter().rev().find_map(|it| it.strip_prefix(name));
    let workload: Workload = parted(turn.workloads.first()?).0.parse().ok()?;
    let shape = value("--shape=").map_or(Some(workload.shape()), |text| text.parse().ok())?;
    let keys = parse_count(value("--keys=")?).ok()?;
    Some(budget(turn).bytes(keys as f64 * shape.pair_bytes()))
}
