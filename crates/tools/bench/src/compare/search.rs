//! The search for the largest cache with which a store's resident peak stays within its budget.
//!
//! Stores differ in the memory that they use next to their caches: indexes, memtables, buffers of
//! compactions, memory that an allocator does not return. A fixed share of the budget as the cache
//! gives one store more memory than another. So each store runs its workload with caches of several
//! sizes before the measured rounds:
//!
//! 1. The first trial has the cache that the store's own guide gives.
//! 2. The next size follows the line through the nearest peaks below and above the target, 97.5% of
//!    the budget. As long as one is missing, the size changes by the bytes that the peak is off.
//! 3. It ends with a peak within [`CLOSE`] of the target, with [`REFINEMENTS_MAX`] trials after the
//!    first peak of 95 to 100%, or at the smallest cache with a peak above. It also ends with a
//!    larger cache that the store does not use, or after [`TRIALS_MAX`] trials. The peak of 95 to
//!    100% that is nearest to the target counts: a measured run differs from its trial by a percent
//!    or two, and must still be inside.
//!
//! # Invariants
//! - S1. A size is tried once. It is strictly between the largest with a peak below the target and
//!   the smallest with a peak above it.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::report::{RESIDENT_SHARE_MIN, fills_budget};

/// Trials of one store on one workload.
const TRIALS_MAX: usize = 8;
/// The smallest cache that is tried, in bytes.
const CACHE_BYTES_MIN: u64 = 1 << 20;
/// The largest one, in budgets.
const CACHE_BUDGETS_MAX: u64 = 4;
/// Share of the budget that the search aims at, in the middle of the allowed ones.
const TARGET: f64 = (RESIDENT_SHARE_MIN + 1.0) / 2.0;
/// Share of the budget by which a peak may differ from the target without another trial.
const CLOSE: f64 = 0.0125;
/// Trials after the first whose peak is 95 to 100% of the budget.
const REFINEMENTS_MAX: usize = 2;
/// Share of a cache's growth by which the peak has to grow, or else the store does not use it.
const USED_SHARE: f64 = 0.1;
/// Parts of the budget between sizes that are not worth a trial.
const STEP_PARTS: u64 = 256;

/// One run of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The cache, in bytes.
    pub cache_bytes: u64,
    /// The resident peak; none of a run that was killed for its memory.
    pub resident_bytes: Option<u64>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The peak is 95 to 100% of the budget.
    Fills,
    /// The store needs more than the budget with the smallest cache.
    OverBudget,
    /// The store leaves a part of the budget unused, with any cache.
    LeavesMemory,
    /// A trial failed for another reason than its memory.
    Failed,
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Try this cache.
    Try(u64),
    /// End with this cache.
    End(u64, Verdict),
}

/// Returns the step after `trials`, of which there is at least one.
pub(super) fn next(budget_bytes: u64, trials: &[Trial]) -> Step {
    let step = narrow(budget_bytes, trials);
    let is_inside = |trial: &Trial| {
        trial.resident_bytes.is_some_and(|resident| fills_budget(resident, budget_bytes))
    };
    let Some(first) = trials.iter().position(is_inside) else { return step };
    let nearest = trials
        .iter()
        .filter(|trial| is_inside(trial))
        .min_by(|one, other| distance(budget_bytes, one).total_cmp(&distance(budget_bytes, other)));
    let is_last = matches!(step, Step::End(..))
        || trials.len() > first + REFINEMENTS_MAX
        || trials.len() >= TRIALS_MAX;
    match nearest {
        Some(nearest) if is_last || distance(budget_bytes, nearest) <= CLOSE => {
            Step::End(nearest.cache_bytes, Verdict::Fills)
        }
        _ => step,
    }
}

/// How far the peak is from the target, as a share of the budget.
fn distance(budget_bytes: u64, trial: &Trial) -> f64 {
    trial.resident_bytes.map_or(f64::MAX, |peak| (peak as f64 / budget_bytes as f64 - TARGET).abs())
}

/// Returns the next size between the sizes that were tried, or the end of a search without a peak
/// of 95 to 100% of the budget.
fn narrow(budget_bytes: u64, trials: &[Trial]) -> Step {
    let target = budget_bytes as f64 * TARGET;
    let is_below = |trial: &&Trial| trial.resident_bytes.is_some_and(|peak| peak as f64 <= target);
    let below = trials.iter().filter(is_below).max_by_key(|trial| trial.cache_bytes);
    let above = trials.iter().filter(|trial| !is_below(trial)).min_by_key(|it| it.cache_bytes);
    let aimed = aim(budget_bytes, below, above);
    match (below, above) {
        (None, None) => Step::Try(CACHE_BYTES_MIN),
        (None, Some(above)) if above.cache_bytes <= CACHE_BYTES_MIN => {
            Step::End(above.cache_bytes, Verdict::OverBudget)
        }
        // The last trial is the smallest cache: nothing else shows that the budget cannot be kept.
        (None, Some(above)) if trials.len() + 1 >= TRIALS_MAX || !shrank(trials, above) => {
            Step::Try(CACHE_BYTES_MIN)
        }
        (None, Some(above)) => {
            Step::Try(aimed.clamp(CACHE_BYTES_MIN, (above.cache_bytes - 1).max(CACHE_BYTES_MIN)))
        }
        (Some(below), _) if trials.len() >= TRIALS_MAX => {
            Step::End(below.cache_bytes, Verdict::LeavesMemory)
        }
        (Some(below), None) => {
            let most = budget_bytes.saturating_mul(CACHE_BUDGETS_MAX);
            if below.cache_bytes >= most || !uses_more(trials, below) {
                return Step::End(smallest_like(trials, below), Verdict::LeavesMemory);
            }
            Step::Try(aimed.clamp(below.cache_bytes + 1, most))
        }
        (Some(below), Some(above)) => {
            let step = budget_bytes / STEP_PARTS;
            if above.cache_bytes.saturating_sub(below.cache_bytes) <= step.max(1) * 2 {
                return Step::End(below.cache_bytes, Verdict::LeavesMemory);
            }
            Step::Try(aimed.clamp(below.cache_bytes + step.max(1), above.cache_bytes - step.max(1)))
        }
    }
}

/// Returns the cache with which the peak should be the target.
fn aim(budget_bytes: u64, below: Option<&Trial>, above: Option<&Trial>) -> u64 {
    let target = budget_bytes as f64 * TARGET;
    let peak = |trial: &Trial| trial.resident_bytes.map(|bytes| bytes as f64);
    let aimed = match (below, above) {
        (Some(below), Some(above)) => {
            let span = above.cache_bytes as f64 - below.cache_bytes as f64;
            match (peak(below), peak(above)) {
                (Some(low), Some(high)) if high > low => {
                    below.cache_bytes as f64 + span * ((target - low) / (high - low))
                }
                _ => below.cache_bytes as f64 + span / 2.0,
            }
        }
        (Some(one), None) | (None, Some(one)) => match peak(one) {
            Some(peak) => one.cache_bytes as f64 + target - peak,
            None => one.cache_bytes as f64 / 2.0,
        },
        (None, None) => 0.0,
    };
    aimed.max(0.0) as u64
}

/// Returns whether `trial` used more memory than the trial with the next smaller cache.
fn uses_more(trials: &[Trial], trial: &Trial) -> bool {
    let smaller = trials.iter().filter(|other| other.cache_bytes < trial.cache_bytes);
    smaller.max_by_key(|other| other.cache_bytes).is_none_or(|smaller| differ(smaller, trial))
}

/// Returns whether `trial` used less memory than the trial with the next larger cache.
fn shrank(trials: &[Trial], trial: &Trial) -> bool {
    let larger = trials.iter().filter(|other| other.cache_bytes > trial.cache_bytes);
    larger.min_by_key(|other| other.cache_bytes).is_none_or(|larger| differ(trial, larger))
}

/// Returns whether the larger cache shows in the peak. A run that was killed may have had any peak.
fn differ(smaller: &Trial, larger: &Trial) -> bool {
    let (Some(less), Some(more)) = (smaller.resident_bytes, larger.resident_bytes) else {
        return true;
    };
    let given = (larger.cache_bytes - smaller.cache_bytes) as f64;
    more as f64 - less as f64 >= given * USED_SHARE
}

/// The smallest cache from which on a larger one made no difference.
fn smallest_like(trials: &[Trial], largest: &Trial) -> u64 {
    let mut sizes: Vec<&Trial> = trials.iter().collect();
    sizes.sort_by_key(|trial| std::cmp::Reverse(trial.cache_bytes));
    let mut last = largest.cache_bytes;
    for trial in sizes.into_iter().skip_while(|trial| trial.cache_bytes > largest.cache_bytes) {
        last = trial.cache_bytes;
        if uses_more(trials, trial) {
            break;
        }
    }
    last
}
