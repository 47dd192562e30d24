//! One to three copies of each table: bytes written at StoCs, and operations a second.

use super::LeastLog;
use crate::Outcome;
use crate::cluster::{Cluster, Shape};
use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table};
use crate::plan::Plan;
use crate::work::{Work, run_one};

const COPIES: [&str; 3] = ["1", "2", "3"];
/// The goal for two copies: a ratio to one copy.
const GOAL: Goal = Goal::AtMost(2.05);
/// Operations for each second of the plan: the bytes of a fixed number of writes are compared.
const OPS_PER_SECOND: u64 = 20_000;

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    // The ranges have less memory than data.
    let log = LeastLog::of(plan, Shape::new("64mb"))?;
    let figures = plan.take_turns(
        &COPIES,
        |copies| format!("{copies} copies"),
        |copies| {
            let mut cluster = Cluster::start(plan, &log.shape.clone().ltc("copies", copies))?;
            let before = cluster.written_bytes()?;
            let ops = (plan.seconds * OPS_PER_SECOND).to_string();
            let options = ["--ops", &ops, "--distribution", "uniform"].map(str::to_owned).into();
            let work = Work { warm_up: 0, options, ..Work::new(plan, "w100") };
            let report = run_one(plan, &mut cluster, &work)?;
            let written = cluster.written_bytes()? - before;
            let by_user = report.user.write_bytes + report.load.user_write_bytes;
            Ok((report.ops_per_s, written as f64 / by_user as f64))
        },
    )?;
    let column = |index: usize, figure: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        figures.get(index).into_iter().flatten().map(figure).collect()
    };
    let one = column(0, |(_, bytes)| *bytes);
    let mut table =
        Table::new(&["copies", "ops/s", "bytes written for each byte", "ratio to one", "goal"]);
    for (index, copies) in COPIES.into_iter().enumerate() {
        let (rates, bytes) = (column(index, |(rate, _)| *rate), column(index, |(_, bytes)| *bytes));
        let ratio = Spread::of_ratios(&bytes, &one);
        let goal = match copies {
            // The goal compares tables alone.
            "2" if !log.is_logged => GOAL.judge(ratio.median),
            _ => NOTHING.to_owned(),
        };
        let (rates, bytes) = (Spread::of(rates).rate(), Spread::of(bytes).digits(2));
        table.row(&[copies, &rates, &bytes, &ratio.digits(2), &goal]);
    }
    let ops = plan.seconds * OPS_PER_SECOND;
    Ok(format!(
        "A load of 50,000 keys of 24+1000, and {ops} operations of W100 with 64 threads, uniform, in four ranges of one LTC, on three StoCs. The bytes
are those that the operating system counts for the processes of StoCs, until the end of the run. Tables that are in memory then are not
among them. {}

{}",
        log.words(),
        table.text()
    ))
}
