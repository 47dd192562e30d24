//! Medians, spread and ratios over the rounds of a comparison.

use serde::{Deserialize, Serialize};

use super::CompareConfig;
use crate::memory::HARNESS_BYTES;
use crate::report::Report;

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
    /// Our median over this one's: above 1, ours is faster. None if either has no run.
    pub ratio_ours_to_this: Option<f64>,
    /// Median over the rounds that have one.
    pub write_amplification: Option<f64>,
    /// Median over the rounds.
    pub space_bytes: u64,

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
    /// What the store was given.
    pub memory_budget_bytes: u64,
    /// Median of the rounds' keys a second in the load, its flush included; 0 without a load.
    pub load_ops_per_s: f64,
    /// Median of the bytes written at the device in the load for each byte loaded, over the rounds that
    /// have one.
    pub load_write_amplification: Option<f64>,
    /// The same of the bytes read.
    pub load_read_amplification: Option<f64>,
    /// Wrong answers in all rounds.
    pub wrong_reads: u64,
    /// What the last failed round said, if one failed.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Every run, in the order they ran.
    pub runs: Vec<Report>,
    /// One row for each workload and store.
    pub summary: Vec<SummaryRow>,
    /// Runs that gave no report.
    pub failures: Vec<Failure>,
}

impl SummaryRow {
    /// Whether no round had more resident than the budget and what the harness may use besides.
    pub fn keeps_budget(&self) -> bool {
        self.rss_peak_max_bytes <= self.memory_budget_bytes + HARNESS_BYTES
    }
}

impl Comparison {
    /// Whether every run gave a report, and every answer was right.
    pub fn is_whole(&self) -> bool {
        self.failures.is_empty() && self.runs.iter().all(Report::is_right)
    }
}

/// One row for each workload and store, ours first.
pub fn summarise(config: &CompareConfig, runs: &[Report], failures: &[Failure]) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for workload in &config.workloads {
        let of = |store: &str| -> Vec<&Report> {
            runs.iter().filter(|run| run.engine == store && run.workload == *workload).collect()
        };
        let ours = median(&of(&config.engine), |run| Some(run.ops_per_s));
        for store in std::iter::once(&config.engine).chain(&config.with) {
            let failure = failures
                .iter()
                .rfind(|failure| failure.store == *store && failure.workload == *workload)
                .map(|failure| failure.problem.clone());
            rows.push(row(workload, store, &of(store), ours, failure));
        }
    }
    rows
}

fn row(
    workload: &str,
    store: &str,
    runs: &[&Report],
    ours: Option<f64>,
    failure: Option<String>,
) -> SummaryRow {
    let rates = || runs.iter().map(|run| run.ops_per_s);
    let this = median(runs, |run| Some(run.ops_per_s));
    let of = |field: fn(&Report) -> f64| median(runs, |run| Some(field(run))).unwrap_or(0.0);
    let ratio = ours.zip(this).filter(|&(_, this)| this > 0.0).map(|(ours, this)| ours / this);
    SummaryRow {
        workload: workload.to_owned(),
        store: store.to_owned(),
        ops_per_s_median: this.unwrap_or(0.0),
        ops_per_s_min: rates().reduce(f64::min).unwrap_or(0.0),
        ops_per_s_max: rates().reduce(f64::max).unwrap_or(0.0),
        ratio_ours_to_this: ratio,
        write_amplification: median(runs, |run| run.write_amplification),
        space_bytes: of(|run| run.space_bytes as f64) as u64,
        rounds: runs.len(),
        p99_us_median: of(|run| run.latency_us.p99),
        p999_us_median: of(|run| run.latency_us.p999),
        max_us: runs.iter().map(|run| run.latency_us.max).fold(0.0, f64::max),
        cpu_us_per_op_median: of(|run| run.cpu_us_per_op),
        read_amplification: median(runs, |run| run.read_amplification),
        rss_peak_bytes: of(|run| run.rss_peak_bytes as f64) as u64,
        rss_peak_max_bytes: runs.iter().map(|run| run.rss_peak_bytes).max().unwrap_or(0),
        memory_budget_bytes: of(|run| run.memory_budget_bytes as f64) as u64,
        load_ops_per_s: of(|run| run.load.ops_per_s),
        load_write_amplification: median(runs, |run| run.load.write_amplification),
        load_read_amplification: median(runs, |run| run.load.read_amplification),
        wrong_reads: runs.iter().map(|run| run.wrong_reads).sum(),
        failure,
    }
}

/// The median of what the runs have of something; the mean of the middle two of an even number.
fn median(runs: &[&Report], field: impl Fn(&Report) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(|run| field(run)).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}
