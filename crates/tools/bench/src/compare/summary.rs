//! Medians, spread and ratios over the rounds of a comparison.

use serde::{Deserialize, Serialize};

use super::plan::LOAD;
use super::{BuildRatio, CompareConfig, Search, Turn, Verdict, turns};
use crate::memory::Budget;
use crate::report::{Mark, Report, bytes};

/// A store on a workload, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The workload.
    pub workload: String,
    /// The store.
    pub store: String,
    /// Median of the rounds' throughputs.
    pub ops_per_s_median: f64,
    /// The slowest round.
    pub ops_per_s_min: f64,
    /// The fastest round.
    pub ops_per_s_max: f64,
    /// Our median over this one's: above 1, ours is faster. None if either has no run, or if a run
    /// of either wrote under a read-only workload: that ratio says nothing about reads.
    pub ratio_ours_to_this: Option<f64>,
    /// Median over the rounds that have one.
    pub write_amplification: Option<f64>,
    /// Median over the rounds.
    pub space_bytes: u64,

    /// The throughput of each round, in order; none of a round without a report.
    #[serde(default)]
    pub ops_per_s_rounds: Vec<Option<f64>>,
    /// Rounds that ran.
    pub rounds: usize,
    /// Median of the rounds' p99 latencies, in microseconds.
    pub p99_us_median: f64,
    /// Median of the rounds' p99.9 latencies, in microseconds.
    pub p999_us_median: f64,
    /// The longest operation of all rounds, in microseconds.
    pub max_us: f64,
    /// Median of the rounds' processor time an operation.
    pub cpu_us_per_op_median: f64,
    /// Median over the rounds that have one.
    pub read_amplification: Option<f64>,
    /// Median of the rounds' peak resident memory.
    pub rss_peak_bytes: u64,
    /// The largest of them.
    pub rss_peak_max_bytes: u64,
    /// The memory that the store was given.
    pub memory_budget_bytes: u64,
    /// Median of the rounds' keys a second in the load, its flush included; 0 without a load.
    pub load_ops_per_s: f64,
    /// Median of the bytes written at the device in the load for each byte loaded, over the rounds
    /// that have one.
    pub load_write_amplification: Option<f64>,
    /// The same of the bytes read.
    pub load_read_amplification: Option<f64>,
    /// Median of the rounds' seconds of the load, its flush included; 0 without a load.
    pub load_seconds: f64,
    /// Median of the seconds after it until the store was at rest.
    pub load_rest_seconds: f64,
    /// Median of the load's processor time a key, in microseconds, until the store was at rest.
    pub load_cpu_us_per_op: f64,
    /// Median of the bytes that the load wrote at the device, until the store was at rest.
    pub load_device_write_bytes: u64,
    /// The same of the bytes read.
    pub load_device_read_bytes: u64,
    /// Median of the bytes read at the device.
    pub device_read_bytes: u64,
    /// Median of the bytes written at the device.
    pub device_write_bytes: u64,
    /// The most that the files took up in any round.
    pub space_peak_bytes: u64,
    /// The cache that the rounds ran with, if the store has one that can be sized.
    pub cache_bytes: Option<u64>,
    /// Reasons not to quote the row, and limits that its rounds met, in words.
    pub notes: Vec<String>,
    /// Whether the largest resident peak of the rounds was 95 to 100% of the budget, and that of no
    /// round above it; none if everything fits.
    pub fills_budget: Option<bool>,
    /// Whether the row may be quoted: the store fills the budget, no round has another mark or has
    /// failed, and every result was right.
    pub is_quotable: bool,
    /// Wrong results in all rounds.
    pub wrong_reads: u64,
    /// The message of the last failed round, if one failed.
    pub failure: Option<String>,
}

/// A run that gave no report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The workload.
    pub workload: String,
    /// The store.
    pub store: String,
    /// From 0.
    pub round: u32,
    /// In words.
    pub problem: String,
}

/// A whole comparison, as written to `--json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Every run, in the order they ran.
    pub runs: Vec<Report>,
    /// One row for each workload and store.
    pub summary: Vec<SummaryRow>,
    /// Runs that gave no report.
    pub failures: Vec<Failure>,
    /// The caches that were found before the rounds, and how.
    pub searches: Vec<Search>,
    /// This build over the baseline, if there is one.
    pub builds: Vec<BuildRatio>,
}

impl Comparison {
    /// Returns whether every run gave a report, and every result was right.
    pub fn is_whole(&self) -> bool {
        self.failures.is_empty() && self.runs.iter().all(Report::is_right)
    }
}

/// One row for each workload and store, ours first.
pub fn summarise(config: &CompareConfig, comparison: &Comparison) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for turns in turns(config) {
        let round: Vec<&Turn> = turns.iter().filter(|turn| turn.round == 0).collect();
        for workload in round.first().map_or_else(Vec::new, |turn| config.rows(turn)) {
            let runs = |turn: &Turn| Runs::of(config, comparison, turn, &workload);
            let ours = round.first().map(|turn| runs(turn));
            rows.extend(round.iter().map(|turn| row(&runs(turn), ours.as_ref())));
        }
    }
    rows
}

/// All results of a store on a workload.
struct Runs<'a> {
    turn: Turn,
    workload: String,
    /// Rounds of the comparison.
    rounds: u32,
    reports: Vec<&'a Report>,
    failure: Option<String>,
    search: Option<&'a Search>,
}

impl<'a> Runs<'a> {
    fn of(config: &CompareConfig, comparison: &'a Comparison, turn: &Turn, workload: &str) -> Self {
        let is_of = |of: &str, store: &str| of == workload && store == turn.store;
        let runs = comparison.runs.iter();
        let failure = comparison.failures.iter().rfind(|it| is_of(&it.workload, &it.store));
        Self {
            reports: runs.filter(|run| is_of(&run.workload, &run.engine)).collect(),
            failure: failure.map(|failure| failure.problem.clone()),
            search: comparison.searches.iter().find(|search| search.is_of(turn)),
            turn: turn.clone(),
            workload: workload.to_owned(),
            rounds: config.rounds,
        }
    }

    /// The throughput of each round.
    fn rates(&self) -> Vec<Option<f64>> {
        let of_round = |round| self.reports.iter().find(|run| run.round == round);
        (0..self.rounds).map(|round| of_round(round).map(|run| run.ops_per_s)).collect()
    }

    /// Whether a round wrote under a read-only workload.
    fn wrote_under_reads(&self) -> bool {
        let is_such = |mark: &Mark| matches!(mark, Mark::WroteUnderReads { .. });
        self.reports.iter().any(|run| run.marks.iter().any(is_such))
    }

    /// Reasons and limits, in words, each once.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match self.search.map(|search| search.verdict) {
            Some(Verdict::OverBudget) => {
                notes.push("does not keep the budget with its smallest cache".to_owned());
            }
            Some(Verdict::LeavesMemory) if self.fills_budget() == Some(false) => {
                notes.push("uses less than the budget, whatever its cache".to_owned());
            }
            Some(Verdict::Failed) => {
                notes.push("no cache was found: a run of the search failed".to_owned());
            }
            Some(Verdict::Fills | Verdict::LeavesMemory) | None => {}
        }
        for cache in self.search.map_or(&[][..], |search| &search.killed_with) {
            let cache = bytes(*cache);
            notes.push(format!("a round was killed with a cache of {cache} and ran again"));
        }
        for run in &self.reports {
            let round = run.round + 1;
            let marks = run.marks.iter().filter(|mark| self.counts(mark));
            notes.extend(marks.map(|mark| format!("round {round}: {mark}")));
            if run.warmup_is_steady == Some(false) {
                let limit = run.warmup_limit_seconds.unwrap_or_default();
                notes.push(format!("round {round}: warm-up not steady at its limit of {limit} s"));
            }
        }
        notes
    }

    /// Whether the store fills the budget. Its largest peak counts, because the peaks of one cache
    /// differ by some percent from round to round.
    fn fills_budget(&self) -> Option<bool> {
        let first = self.reports.first()?;
        let has_budget = first.memory != Budget::All.to_string() && self.workload != LOAD;
        let marks = |run: &&Report| run.marks.clone();
        let is_above = |mark: Mark| match mark {
            Mark::OffBudget { resident_bytes, budget_bytes } => resident_bytes > budget_bytes,
            Mark::WroteUnderReads { .. } => false,
        };
        let is_full =
            |run: &&Report| !run.marks.iter().any(|mark| matches!(mark, Mark::OffBudget { .. }));
        has_budget.then(|| {
            let is_above = self.reports.iter().flat_map(marks).any(is_above);
            !is_above && self.reports.iter().any(is_full)
        })
    }

    /// Whether a mark of a round counts against the row.
    fn counts(&self, mark: &Mark) -> bool {
        match mark {
            Mark::OffBudget { .. } => self.fills_budget() == Some(false),
            Mark::WroteUnderReads { .. } => true,
        }
    }
}

fn row(runs: &Runs<'_>, ours: Option<&Runs<'_>>) -> SummaryRow {
    let reports = runs.reports.as_slice();
    let rates = || reports.iter().map(|run| run.ops_per_s);
    let rate = |runs: &Runs<'_>| median(&runs.reports, |run| Some(run.ops_per_s));
    let this = rate(runs);
    let of = |field: fn(&Report) -> f64| median(reports, |run| Some(field(run))).unwrap_or(0.0);
    let comparable = ours.filter(|ours| !ours.wrote_under_reads() && !runs.wrote_under_reads());
    let ratio = comparable.and_then(rate).zip(this).filter(|&(_, this)| this > 0.0);
    SummaryRow {
        workload: runs.workload.clone(),
        store: runs.turn.store.clone(),
        ops_per_s_median: this.unwrap_or(0.0),
        ops_per_s_min: rates().reduce(f64::min).unwrap_or(0.0),
        ops_per_s_max: rates().reduce(f64::max).unwrap_or(0.0),
        ratio_ours_to_this: ratio.map(|(ours, this)| ours / this),
        write_amplification: median(reports, |run| run.write_amplification),
        space_bytes: of(|run| run.space_bytes as f64) as u64,
        ops_per_s_rounds: runs.rates(),
        rounds: reports.len(),
        p99_us_median: of(|run| run.latency_us.p99),
        p999_us_median: of(|run| run.latency_us.p999),
        max_us: reports.iter().map(|run| run.latency_us.max).fold(0.0, f64::max),
        cpu_us_per_op_median: of(|run| run.cpu_us_per_op),
        read_amplification: median(reports, |run| run.read_amplification),
        rss_peak_bytes: of(|run| run.rss_peak_bytes as f64) as u64,
        rss_peak_max_bytes: reports.iter().map(|run| run.rss_peak_bytes).max().unwrap_or(0),
        memory_budget_bytes: of(|run| run.memory_budget_bytes as f64) as u64,
        load_ops_per_s: of(|run| run.load.ops_per_s),
        load_write_amplification: median(reports, |run| run.load.write_amplification),
        load_read_amplification: median(reports, |run| run.load.read_amplification),
        load_seconds: of(|run| run.load.seconds),
        load_rest_seconds: of(|run| run.load.rest_seconds),
        load_cpu_us_per_op: of(|run| run.load.cpu_us_per_op),
        load_device_write_bytes: of(|run| run.load.device_write_bytes as f64) as u64,
        load_device_read_bytes: of(|run| run.load.device_read_bytes as f64) as u64,
        device_read_bytes: of(|run| run.device.read_bytes as f64) as u64,
        device_write_bytes: of(|run| run.device.write_bytes as f64) as u64,
        space_peak_bytes: reports.iter().map(|run| run.space_peak_bytes).max().unwrap_or(0),
        cache_bytes: reports.last().and_then(|run| run.cache_bytes),
        notes: runs.notes(),
        fills_budget: runs.fills_budget(),
        is_quotable: !reports.is_empty()
            && runs.failure.is_none()
            && reports
                .iter()
                .all(|run| run.is_right() && !run.marks.iter().any(|mark| runs.counts(mark))),
        wrong_reads: reports.iter().map(|run| run.wrong_reads).sum(),
        failure: runs.failure.clone(),
    }
}

/// Returns the median of a field over the runs that have it; the mean of the middle two of an even
/// number.
fn median(runs: &[&Report], field: impl Fn(&Report) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(|run| field(run)).collect();
    values.sort_by(f64::total_cmp);
    super::baseline::median(&values)
}
