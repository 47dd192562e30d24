//! A cluster in one process against a database of engine `lsm`.

use std::process::Command;

use serde_json::Value;

use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table};
use crate::plan::Plan;
use crate::work::LIMIT;
use crate::{Outcome, process};

const NOVA: &str = "nova@cluster=dev";
const LSM: &str = "lsm";
const GOAL: Goal = Goal::AtLeast(0.8);

const ABOUT: &str = "\
`thermocline bench compare --engine lsm --with nova@cluster=dev`: 100,000 keys of 24+1000, uniform, all in memory, 64 threads. Without a log,
both stores acknowledge a write in memory. With one, the database has synced it, and the cluster has it synced on two of three StoCs.
";

/// Durabilities, as the benchmark names them and in words, with their workloads.
const DURABILITIES: [(&str, &str, &str); 2] =
    [("none", "no log", "w100,rw50,r100"), ("synced", "synced", "w100,rw50")];

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let columns = ["workload", "log", "cluster, ops/s", "database, ops/s", "ratio", "goal"];
    let mut table = Table::new(&columns);
    for (durability, words, workloads) in DURABILITIES {
        let summary = compare(plan, durability, workloads)?;
        for workload in workloads.split(',') {
            let (nova, lsm) = (rounds(&summary, workload, NOVA)?, rounds(&summary, workload, LSM)?);
            let ratio = Spread::of_ratios(&nova, &lsm);
            let has_goal = durability == "none" && workload != "r100";
            let goal = if has_goal { GOAL.judge(ratio.median) } else { NOTHING.to_owned() };
            let (nova, lsm) = (Spread::of(nova).rate(), Spread::of(lsm).rate());
            table.row(&[workload, words, &nova, &lsm, &ratio.digits(2), &goal]);
        }
    }
    Ok(format!("{ABOUT}\n{}", table.text()))
}

/// Runs both stores in turns. Returns the rows of the summary.
fn compare(plan: &Plan, durability: &str, workloads: &str) -> Outcome<Vec<Value>> {
    let json = plan.dir.join("comparison.json");
    let (seconds, warm_up) = (plan.seconds.to_string(), (plan.seconds / 3).to_string());
    let mut command = Command::new(&plan.program);
    command
        .args(["bench", "compare", "--engine", LSM, "--with", NOVA, "--workload", workloads])
        .args(["--keys", "100k", "--distribution", "uniform", "--threads", "64", "--one-opening"])
        .args(["--durability", durability, "--rounds", &plan.rounds.to_string()])
        .args(["--seconds", &seconds, "--warmup", &warm_up])
        .arg("--dir")
        .arg(plan.dir.join("in-process"))
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", &plan.dir);
    process::run(plan, "compare", command, LIMIT)?;
    let comparison: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let summary = comparison.get("summary").and_then(Value::as_array);
    Ok(summary.ok_or("the comparison has no summary")?.clone())
}

/// Returns the operations a second of the rounds of a store.
fn rounds(summary: &[Value], workload: &str, store: &str) -> Outcome<Vec<f64>> {
    let is_wanted = |row: &&Value| {
        row.get("workload").is_some_and(|name| name == workload)
            && row.get("store").is_some_and(|name| name == store)
    };
    let row = summary.iter().find(is_wanted);
    let rounds = row.and_then(|row| row.get("ops_per_s_rounds")).and_then(Value::as_array);
    let rounds = rounds.ok_or_else(|| format!("no rounds of {workload} on {store}"))?;
    let rounds = rounds.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>();
    Ok(rounds.ok_or_else(|| format!("a round of {workload} on {store} failed"))?)
}
