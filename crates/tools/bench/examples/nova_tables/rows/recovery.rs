//! The time in which a range with a long log is opened.

use std::time::Duration;

use super::moves::shape;
use crate::Outcome;
use crate::cluster::Cluster;
use crate::figures::{Goal, Spread};
use crate::page::Table;
use crate::plan::Plan;
use crate::redis;

/// Time that an opening has.
const LIMIT: Duration = Duration::from_secs(300);
/// Commands that a connection sends together.
const PIPELINE: u32 = 16;
/// The goal for a log of 1 GB.
const GOAL: Goal = Goal::AtMost(10.0);
/// Bytes of a mebibyte.
const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let (mut openings, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let (opening, log) = measure_opening(plan)?;
        crate::say(&format!("  log of {log:.0} MiB, opened in {opening:.2} s"));
        openings.push(opening);
        logs.push(log);
    }
    let (opening, log) = (Spread::of(openings), Spread::of(logs));
    let mut table = Table::new(&["log, MiB", "seconds of the opening", "goal for 1 GB"]);
    table.row(&[&log.digits(0), &opening.digits(2), &GOAL.judge(opening.median)]);
    Ok(format!(
        "The log of a range has values of {} bytes of {} keys at random, and no table has them. The LTC of the range is killed by `kill -9`. The
time is that of the opening at another LTC, from its order on: it fences and copies both logs, reads the log, and replays it.

{}",
        redis::VALUE_BYTES,
        plan.log_mib * 1_000,
        table.text()
    ))
}

/// Returns the seconds of an opening, and the MiB of its log.
fn measure_opening(plan: &Plan) -> Outcome<(f64, f64)> {
    // Nothing is flushed: the memory and the journal have room for all of it.
    let room = format!("{}mb", plan.log_mib * 4);
    let memory = format!("{}mb", (plan.log_mib * 4 * 8).max(1024));
    let mut cluster = Cluster::start(plan, &shape(&memory).ltc("journal-max", &room))?;
    let range = cluster.make_redis_range()?;
    let address = cluster.gateway()?;
    let target = plan.log_mib as f64 * MIB;
    let keys = plan.log_mib * 1_000;
    let mut log = cluster.log_bytes()? as f64;
    while log < target {
        let missing = ((target - log) / redis::VALUE_BYTES as f64) as u64;
        // About two thirds of the keys are written, most of them one time.
        redis::benchmark(plan, address, ("set", PIPELINE), missing.max(1_000), keys)?;
        let now = cluster.log_bytes()? as f64;
        if now <= log {
            return Err("the log does not grow: its records are in tables".into());
        }
        log = now;
    }
    cluster.kill_ltc(range.owner.ok_or("the range has no owner")?)?;
    // Each opening has an epoch of its own.
    cluster.await_redis_range(|now| now.epoch > range.epoch)?;
    let began = plan.environment.now();
    plan.wait_for(("the range is opened", LIMIT), || {
        Ok(cluster.redis_range().ok().filter(|now| now.is_served))
    })?;
    let opening = (plan.environment.now() - began).as_secs_f64();
    Ok((opening, log / MIB))
}
