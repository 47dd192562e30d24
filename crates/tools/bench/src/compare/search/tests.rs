//! Searches over stores whose peak is a function of their cache.

use super::*;

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 100 * MIB;

/// Searches from `first`; returns the end and all trials.
fn search(first: u64, peak: impl Fn(u64) -> Option<u64>) -> (u64, Verdict, Vec<Trial>) {
    let trial = |cache_bytes| Trial { cache_bytes, resident_bytes: peak(cache_bytes) };
    let mut trials = vec![trial(first)];
    loop {
        match next(BUDGET, &trials) {
            Step::Try(cache) => {
                assert!(trials.iter().all(|trial| trial.cache_bytes != cache), "{trials:?}");
                trials.push(trial(cache));
            }
            Step::End(cache, verdict) => return (cache, verdict, trials),
        }
        assert!(trials.len() <= TRIALS_MAX, "{trials:?}");
    }
}

#[test]
fn a_store_with_a_fixed_overhead_takes_two_trials() {
    for (first, overhead) in [(50, 16), (100, 8), (100, 60), (30, 1)] {
        let (cache, verdict, trials) = search(first * MIB, |cache| Some(cache + overhead * MIB));
        assert_eq!((verdict, trials.len()), (Verdict::Fills, 2), "{trials:?}");
        assert!(fills_budget(cache + overhead * MIB, BUDGET));
    }
}

#[test]
fn a_peak_inside_the_budget_ends_the_search() {
    let (cache, verdict, trials) = search(97 * MIB, |cache| Some(cache + MIB));
    assert_eq!((cache, verdict, trials.len()), (97 * MIB, Verdict::Fills, 1));
}

#[test]
fn a_peak_at_the_edge_is_moved_inwards() {
    for (first, overhead) in [(50, 45), (50, 50), (70, 29)] {
        let (cache, verdict, trials) = search(first * MIB, |cache| Some(cache + overhead * MIB));
        assert_eq!((verdict, trials.len()), (Verdict::Fills, 2), "{trials:?}");
        let peak = (cache + overhead * MIB) as f64 / BUDGET as f64;
        assert!((peak - TARGET).abs() <= CLOSE, "{peak}");
    }
}

#[test]
fn the_nearest_peak_counts_where_none_is_close() {
    // In steps, of which none is close to the target.
    let stairs = |cache: u64| Some(if cache < 52 * MIB { 95 * MIB } else { 99 * MIB + MIB / 2 });
    let (cache, verdict, trials) = search(50 * MIB, stairs);
    assert_eq!(verdict, Verdict::Fills, "{trials:?}");
    assert!(cache >= 52 * MIB, "{trials:?}");
    assert!(trials.len() <= 1 + REFINEMENTS_MAX, "{trials:?}");
}

#[test]
fn a_store_that_takes_twice_its_cache_gets_half() {
    let (cache, verdict, _) = search(100 * MIB, |cache| Some(2 * cache + 10 * MIB));
    assert_eq!(verdict, Verdict::Fills);
    assert!(fills_budget(2 * cache + 10 * MIB, BUDGET), "{cache}");
}

#[test]
fn a_run_that_was_killed_counts_as_above() {
    let killed = |cache| (cache <= 70 * MIB).then_some(cache + 27 * MIB);
    let (cache, verdict, trials) = search(100 * MIB, killed);
    assert_eq!(verdict, Verdict::Fills, "{trials:?}");
    assert!(fills_budget(cache + 27 * MIB, BUDGET));
}

#[test]
fn a_budget_that_cannot_be_kept_is_reported_at_the_smallest_cache() {
    let (cache, verdict, _) = search(50 * MIB, |cache| Some(cache + 120 * MIB));
    assert_eq!((cache, verdict), (CACHE_BYTES_MIN, Verdict::OverBudget));
    let (cache, verdict, trials) = search(50 * MIB, |_| Some(120 * MIB));
    assert_eq!((cache, verdict), (CACHE_BYTES_MIN, Verdict::OverBudget));
    assert_eq!(trials.len(), 3, "a smaller cache makes no difference: {trials:?}");
    let (cache, verdict, _) = search(50 * MIB, |_| None);
    assert_eq!((cache, verdict), (CACHE_BYTES_MIN, Verdict::OverBudget));
}

#[test]
fn a_store_that_has_all_its_data_in_memory_leaves_the_rest() {
    let (cache, verdict, trials) = search(50 * MIB, |cache| Some(cache.min(60 * MIB) + 10 * MIB));
    assert_eq!(verdict, Verdict::LeavesMemory, "{trials:?}");
    assert!(cache >= 60 * MIB, "{cache}");
    let (cache, verdict, _) = search(50 * MIB, |_| Some(40 * MIB));
    assert_eq!((cache, verdict), (50 * MIB, Verdict::LeavesMemory), "no larger than what is used");
}

#[test]
fn a_peak_that_jumps_ends_below_the_budget() {
    let jump = |cache: u64| Some(if cache < 64 * MIB { 80 * MIB } else { 130 * MIB });
    let (cache, verdict, trials) = search(100 * MIB, jump);
    assert_eq!(verdict, Verdict::LeavesMemory, "{trials:?}");
    assert!(cache < 64 * MIB);
}
