//! Logs on one StoC and on three, durable and in memory.

use std::fmt::Write as _;

use thermocline_bench::report::Report;

use super::with_one_replica;
use crate::Outcome;
use crate::cluster::{Cluster, Shape};
use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table, one_line};
use crate::plan::Plan;
use crate::work::{Work, run, run_one};

const MEMORY: &str = "2gb";
const DURABLE: &str = "3, durable";
const IN_MEMORY: &str = "3, in memory";
const NONE: &str = "none";
/// Three replicas in memory take this number of times the service time without logs.
const GOAL: Goal = Goal::AtMost(1.1);

/// Logs of ranges, in words and as settings.
struct Variant {
    name: &'static str,
    shape: Shape,
}

fn variants() -> [Variant; 4] {
    let shape = || Shape::new(MEMORY);
    [
        Variant { name: NONE, shape: shape().log("none") },
        Variant { name: "1, durable", shape: with_one_replica(shape()) },
        Variant { name: DURABLE, shape: shape() },
        Variant { name: IN_MEMORY, shape: shape().log("memory") },
    ]
}

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let (mut taken, mut skipped) = (Vec::new(), String::new());
    for variant in variants() {
        match variant.shape.refusal(plan)? {
            None => taken.push(variant),
            Some(reason) => {
                let _ =
                    writeln!(skipped, "- {}: not measured, {}.", variant.name, one_line(&reason));
            }
        }
    }
    let rate = half_load(plan)?;
    // The second phase has the rate, and all rows of a run have one store and one load.
    let reports = plan.take_turns(
        &taken,
        |variant| format!("log: {}", variant.name),
        |variant| {
            let mut cluster = Cluster::start(plan, &variant.shape)?;
            run(plan, &mut cluster, &Work::new(plan, &format!("w100,w100@rate={rate}")))
        },
    )?;
    let full = |rounds: &[Vec<Report>]| of_each(rounds, 0, |report| report.ops_per_s);
    let half = |rounds: &[Vec<Report>]| of_each(rounds, 1, |report| report.latency_us.p50);
    let without = taken.iter().zip(&reports).find(|(variant, _)| variant.name == NONE);
    let without = without.map(|(_, rounds)| half(rounds));
    let mut table = Table::new(&["replicas", "ops/s", "median latency at half load, us", "goal"]);
    for (variant, rounds) in taken.iter().zip(&reports) {
        let goal = match &without {
            Some(without) if variant.name == IN_MEMORY => {
                let ratio = Spread::of_ratios(&half(rounds), without);
                GOAL.judge(ratio.median)
            }
            _ => NOTHING.to_owned(),
        };
        let (full, half) = (Spread::of(full(rounds)).rate(), Spread::of(half(rounds)).digits(0));
        table.row(&[variant.name, &full, &half, &goal]);
    }
    Ok(format!(
        "W100 with 64 threads on 50,000 keys of 24+1000, uniform, in four ranges of one LTC. Three StoCs, a process each. Half load is {rate} operations a
second for all rows: half of what three durable replicas did in a run before. The goal compares latencies with those without a log.

{}\n{skipped}",
        table.text()
    ))
}

/// Returns half of the operations a second with three durable replicas.
fn half_load(plan: &Plan) -> Outcome<u64> {
    let mut cluster = Cluster::start(plan, &Shape::new(MEMORY))?;
    let report = run_one(plan, &mut cluster, &Work::new(plan, "w100"))?;
    Ok((report.ops_per_s / 2.0) as u64)
}

/// Returns a figure of the phase `index` of each round.
fn of_each(rounds: &[Vec<Report>], index: usize, figure: impl Fn(&Report) -> f64) -> Vec<f64> {
    rounds.iter().filter_map(|reports| reports.get(index)).map(figure).collect()
}
