//! Throttled StoCs with whole tables: random StoCs against the less loaded of two.

use super::{LeastLog, throttled, throttled_work};
use crate::Outcome;
use crate::cluster::Cluster;
use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table, one_line};
use crate::plan::Plan;
use crate::work::run_one;

const STOCS: u32 = 10;
const CHOICES: [&str; 2] = ["random", "power-of-two"];
const GOAL: Goal = Goal::AtLeast(1.3);

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    let log = LeastLog::of(plan, throttled(STOCS))?;
    let shape = |choice: &str| log.shape.clone().ltc("rho", "1").ltc("stoc-choice", choice);
    for choice in CHOICES {
        if let Some(reason) = shape(choice).refusal(plan)? {
            return Ok(format!("Not measured: {}.\n", one_line(&reason)));
        }
    }
    let rates = plan.take_turns(
        &CHOICES,
        |choice| (*choice).to_owned(),
        |choice| {
            let mut cluster = Cluster::start(plan, &shape(choice))?;
            Ok(run_one(plan, &mut cluster, &throttled_work(plan))?.ops_per_s)
        },
    )?;
    let [random, power] = rates.as_slice() else { return Err("two choices".into()) };
    let ratio = Spread::of_ratios(power, random);
    let mut table = Table::new(&["choice", "ops/s", "ratio to random", "goal"]);
    table.row(&["random", &Spread::of(random.clone()).rate(), NOTHING, NOTHING]);
    let power = Spread::of(power.clone()).rate();
    table.row(&["power of two", &power, &ratio.digits(2), &GOAL.judge(ratio.median)]);
    Ok(format!(
        "W100 as above on {STOCS} StoCs that are throttled in the same way. Each table is a whole on one StoC. {}

{}",
        log.words(),
        table.text()
    ))
}
