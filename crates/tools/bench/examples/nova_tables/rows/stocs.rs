//! Throttled StoCs: the operations a second of one to ten of them.

use super::{LeastLog, throttled, throttled_work};
use crate::Outcome;
use crate::cluster::Cluster;
use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table};
use crate::plan::Plan;
use crate::work::run_one;

const COUNTS: [u32; 5] = [1, 2, 3, 5, 10];

/// Returns the goal for a number of StoCs: a ratio to one StoC.
fn goal(stocs: u32) -> Option<Goal> {
    match stocs {
        3 => Some(Goal::AtLeast(2.5)),
        10 => Some(Goal::AtLeast(5.0)),
        _ => None,
    }
}

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let mut words = "";
    let rates = plan.take_turns(
        &COUNTS,
        |stocs| format!("{stocs} StoCs"),
        |stocs| {
            let log = LeastLog::of(plan, throttled(*stocs))?;
            words = log.words();
            let mut cluster = Cluster::start(plan, &log.shape)?;
            Ok(run_one(plan, &mut cluster, &throttled_work(plan))?.ops_per_s)
        },
    )?;
    let one = rates.first().cloned().unwrap_or_default();
    let mut table = Table::new(&["StoCs", "ops/s", "ratio to one", "goal"]);
    for (stocs, rates) in COUNTS.into_iter().zip(rates) {
        let ratio = Spread::of_ratios(&rates, &one);
        let goal = goal(stocs).map_or(NOTHING.to_owned(), |goal| goal.judge(ratio.median));
        table.row(&[&stocs.to_string(), &Spread::of(rates).rate(), &ratio.digits(2), &goal]);
    }
    Ok(format!(
        "W100 with 64 threads on 50,000 keys of 24+1000, uniform, in four ranges of one LTC. Each StoC is a process, and is throttled to 4 MB/s
and 2 ms an operation. Each table is on one StoC. {words}

{}",
        table.text()
    ))
}
