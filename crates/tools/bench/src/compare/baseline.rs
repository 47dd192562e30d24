//! Two builds of ours, round by round.
//!
//! Both builds do the same operations in a round, sequentially, so each round gives a ratio of its
//! own. Other load on the machine in that round slows both builds down, and cancels out of their
//! ratio. So the median of the ratios says more than the ratio of the medians, and their spread
//! shows the noise.

use serde::{Deserialize, Serialize};

use super::{CompareConfig, Side, Turn, turns};
use crate::report::Report;

/// The median of some ratios, the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median; the mean of the middle two of an even number.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// This build over the baseline, on one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildRatio {
    /// The workload.
    pub workload: String,
    /// The store, as this build's rows have it.
    pub store: String,
    /// Rounds in which both builds gave a report.
    pub rounds: usize,
    /// Operations a second: above 1, this build is faster.
    pub ops_per_s: Option<Spread>,
    /// Processor time of an operation: below 1, this build takes less.
    pub cpu_us_per_op: Option<Spread>,
    /// Device operations of an operation, reads and writes: below 1, this build takes fewer. None
    /// if the baseline made none.
    pub device_ops_per_op: Option<Spread>,
}

impl Spread {
    /// Of `values`; none if there is none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Self { median: median(&values)?, min, max })
    }
}

/// The median of sorted values.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let lower = if sorted.len() % 2 == 1 { upper } else { *sorted.get(middle - 1)? };
    Some((lower + upper) / 2.0)
}

/// The ratios of the two builds on each workload; none without a baseline.
pub fn compare_builds(config: &CompareConfig, runs: &[Report]) -> Vec<BuildRatio> {
    let mut rows = Vec::new();
    for turns in turns(config) {
        let Some(turn) = turns.iter().find(|turn| turn.side == Side::Baseline) else { continue };
        rows.extend(config.rows(turn).iter().map(|workload| ratio(config, turn, workload, runs)));
    }
    rows
}

/// The ratios of the two builds on one workload of `turn`, which is the baseline's.
fn ratio(config: &CompareConfig, turn: &Turn, workload: &str, runs: &[Report]) -> BuildRatio {
    let store = turn.twin.clone().unwrap_or_default();
    let run = |store: &str, round: u32| {
        let is_it =
            |run: &&Report| run.engine == store && run.workload == workload && run.round == round;
        runs.iter().find(is_it)
    };
    let pairs: Vec<(&Report, &Report)> = (0..config.rounds)
        .filter_map(|round| run(&store, round).zip(run(&turn.store, round)))
        .collect();
    let spread = |figure: fn(&Report) -> f64| {
        let ratio = |&(this, base): &(&Report, &Report)| figure(this) / figure(base);
        Spread::of(pairs.iter().map(ratio).filter(|ratio| ratio.is_finite()).collect())
    };
    BuildRatio {
        workload: workload.to_owned(),
        rounds: pairs.len(),
        ops_per_s: spread(|run| run.ops_per_s),
        cpu_us_per_op: spread(|run| run.cpu_us_per_op),
        device_ops_per_op: spread(|run| {
            (run.device.read_ops + run.device.write_ops) as f64 / run.ops.max(1) as f64
        }),
        store,
    }
}
