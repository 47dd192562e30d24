//! The longest time without a reply while a range moves.

use std::time::Duration;

use crate::Outcome;
use crate::cluster::{Cluster, Shape};
use crate::figures::{Goal, Spread};
use crate::page::Table;
use crate::plan::Plan;
use crate::redis::{self, Probe};

/// Time between two moves.
const PAUSE: Duration = Duration::from_millis(500);
const GOAL_MEDIAN: Goal = Goal::AtMost(200.0);
const GOAL_LONGEST: Goal = Goal::AtMost(1_000.0);

/// Returns a cluster of two LTCs with a gateway.
pub(super) fn shape(memory: &str) -> Shape {
    Shape { ltcs: 2, has_gateway: true, ..Shape::new(memory) }
}

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let mut cluster = Cluster::start(plan, &shape("512mb"))?;
    let mut range = cluster.make_redis_range()?;
    redis::fill(cluster.gateway()?)?;
    let probe = Probe::start(&plan.environment, cluster.gateway()?)?;
    let mut pauses = Vec::new();
    for _ in 0..plan.moves {
        plan.sleep(PAUSE)?;
        probe.take_longest()?;
        let target = if range.owner == Some(1) { 2 } else { 1 };
        cluster.begin_move(&range, target)?;
        let is_moved = |now: &crate::cluster::Range| now.epoch > range.epoch && now.is_served;
        range = cluster.await_redis_range(is_moved)?;
        // The reply after the pause comes when the gateway has found the owner.
        plan.sleep(PAUSE)?;
        pauses.push(probe.take_longest()?.as_secs_f64() * 1e3);
    }
    drop(probe);
    cluster.check()?;
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    let pauses = Spread::of(pauses);
    let mut table = Table::new(&["figure", "ms", "goal"]);
    table.row(&["median", &pauses.digits(0), &GOAL_MEDIAN.judge(pauses.median)]);
    table.row(&["longest", &format!("{longest:.0}"), &GOAL_LONGEST.judge(longest)]);
    Ok(format!(
        "A client of a gateway writes one key in a loop while its range moves between two LTCs: {} moves. The figure of a move is the longest time
between two replies. The range has {} keys of {} bytes.

{}",
        plan.moves,
        redis::KEYS,
        redis::VALUE_BYTES,
        table.text()
    ))
}
