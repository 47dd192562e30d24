//! An estimate of the time that a suite takes, from its options.

use std::time::Duration;

use super::Suite;
use crate::compare::{CompareConfig, parted, turns};
use crate::memory::{Budget, parse_count};
use crate::workload::Workload;

/// Bytes a second of a load with its compactions, as measured for the stores of a machine with two
/// cores.
const LOAD_BYTES_PER_S: f64 = 40e6;
/// Bytes a second of the copy of a load.
const COPY_BYTES_PER_S: f64 = 400e6;
/// Seconds of a warm-up that ends when the caches are steady.
const WARM_UP_SECONDS: f64 = 60.0;
/// Seconds to open and close a store, and to wait until it is at rest.
const AROUND_SECONDS: f64 = 10.0;
/// Trials of a search for a cache.
const TRIALS: f64 = 3.0;
/// Seconds of a measured phase without a length.
const SECONDS: f64 = 30.0;

/// The time that all comparisons of `suite` take with these options, to within a factor of two.
pub fn estimate(suite: &Suite, rounds: Option<u32>, more: &[String]) -> Duration {
    let run = suite.comparison.iter().filter(|wanted| wanted.from.is_none());
    let seconds: f64 = run.map(|wanted| seconds(&suite.config(wanted, rounds, more))).sum();
    Duration::from_secs_f64(seconds)
}

fn seconds(config: &CompareConfig) -> f64 {
    let value = |name: &str| config.options.iter().rev().find_map(|it| it.strip_prefix(name));
    let number = |name: &str| value(name).and_then(|text| text.parse::<f64>().ok());
    let keys = value("--keys=").and_then(|text| parse_count(text).ok()).unwrap_or(1_000_000);
    let budget = value("--memory=").and_then(|text| text.parse().ok()).unwrap_or(Budget::All);
    let warm_up = number("--warmup=").unwrap_or(WARM_UP_SECONDS);
    let measured = number("--seconds=").unwrap_or(SECONDS);
    let mut total = 0.0;
    for group in turns(config) {
        let Some(first) = group.first().and_then(|turn| turn.workloads.first()) else { continue };
        let Ok(workload) = parted(first).0.parse::<Workload>() else { continue };
        let shape = value("--shape=").and_then(|text| text.parse().ok());
        let bytes = keys as f64 * shape.unwrap_or_else(|| workload.shape()).pair_bytes();
        let (load, copy) = (bytes / LOAD_BYTES_PER_S, bytes / COPY_BYTES_PER_S);
        let stores = (group.len() / config.rounds.max(1) as usize) as f64;
        let workloads = group.first().map_or(0, |turn| turn.workloads.len()) as f64;
        let run = AROUND_SECONDS + warm_up + measured * workloads;
        let has_trials = config.searches_caches && budget != Budget::All;
        let trials = if has_trials { TRIALS * stores } else { 0.0 };
        let rounds = f64::from(config.rounds) * stores;
        total += match (config.shares_loads, config.has_one_opening) {
            (true, _) => stores * load + (trials + rounds) * (copy + run),
            // One load for the trials of each store.
            (false, true) if has_trials => stores * load + trials * run + rounds * (load + run),
            (false, _) => (trials + rounds) * (load + run),
        };
    }
    total
}

/// A time in hours and minutes.
pub fn in_words(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match minutes / 60 {
        0 => format!("{minutes} min"),
        hours => format!("{hours} h {} min", minutes % 60),
    }
}
