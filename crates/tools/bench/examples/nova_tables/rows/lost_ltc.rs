//! The time until a range is served again after its LTC was killed.

use std::time::Duration;

use super::moves::shape;
use crate::Outcome;
use crate::cluster::{Cluster, Range};
use crate::figures::{Goal, Spread};
use crate::page::Table;
use crate::plan::Plan;
use crate::redis::{self, Probe};

/// Time between two kills, in which all LTCs report.
const PAUSE: Duration = Duration::from_secs(2);
const GOAL: Goal = Goal::AtMost(8.0);

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let mut cluster = Cluster::start(plan, &shape("512mb"))?;
    let mut range = cluster.make_redis_range()?;
    redis::fill(cluster.gateway()?)?;
    let probe = Probe::start(&plan.environment, cluster.gateway()?)?;
    let mut times = Vec::new();
    for _ in 0..plan.rounds {
        plan.sleep(PAUSE)?;
        probe.take_longest()?;
        let owner = range.owner.ok_or("the range has no owner")?;
        cluster.kill_ltc(owner)?;
        let is_taken = |now: &Range| now.epoch > range.epoch && now.is_served;
        range = cluster.await_redis_range(is_taken)?;
        plan.sleep(PAUSE)?;
        times.push(probe.take_longest()?.as_secs_f64());
        cluster.start_ltc(owner)?;
    }
    drop(probe);
    cluster.check()?;
    let times = Spread::of(times);
    let mut table = Table::new(&["seconds without a reply", "goal"]);
    table.row(&[&times.digits(1), &GOAL.judge(times.median)]);
    Ok(format!(
        "A client of a gateway writes one key in a loop, and the LTC of its range is killed by `kill -9`. Another LTC waits until the lease is over,
and opens the range.

{}",
        table.text()
    ))
}
