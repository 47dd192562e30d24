//! The rows of the page, in their order.

mod choice;
mod copies;
mod gateway;
mod in_process;
mod log_replicas;
mod lost_ltc;
mod moves;
mod recovery;
mod stocs;

use crate::Outcome;
use crate::cluster::Shape;
use crate::plan::Plan;
use crate::work::Work;

/// A row: a section of the page with a table.
pub(crate) struct Row {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Measures it, and returns the text of its section.
    pub(crate) measure: fn(&Plan) -> Outcome<String>,
}

pub(crate) const ROWS: [Row; 9] = [
    Row {
        name: "in-process",
        title: "A cluster in one process, and a database",
        measure: in_process::measure,
    },
    Row { name: "gateway", title: "A gateway, and a server", measure: gateway::measure },
    Row { name: "logs", title: "Replicas of logs", measure: log_replicas::measure },
    Row { name: "stocs", title: "One to ten slow StoCs", measure: stocs::measure },
    Row { name: "choice", title: "The choice of slow StoCs", measure: choice::measure },
    Row { name: "copies", title: "Copies of tables", measure: copies::measure },
    Row { name: "moves", title: "The pause of a move", measure: moves::measure },
    Row { name: "lost-ltc", title: "A killed LTC", measure: lost_ltc::measure },
    Row {
        name: "recovery",
        title: "The recovery of a range with a long log",
        measure: recovery::measure,
    },
];

/// Settings of logs on one StoC.
fn with_one_replica(shape: Shape) -> Shape {
    shape.ltc("log-ensemble", "1")
}

/// The least log that the program allows.
struct LeastLog {
    /// A cluster whose ranges have it.
    shape: Shape,
    /// Whether the ranges have a log.
    is_logged: bool,
}

impl LeastLog {
    /// Returns a cluster whose ranges have no log; if the program refuses that, one whose logs are
    /// on one StoC each.
    fn of(plan: &Plan, shape: Shape) -> Outcome<Self> {
        let without = shape.clone().log("none");
        Ok(match without.refusal(plan)? {
            None => Self { shape: without, is_logged: false },
            Some(_) => Self { shape: with_one_replica(shape), is_logged: true },
        })
    }

    fn words(&self) -> &'static str {
        match self.is_logged {
            true => "Each log is on one StoC, and its bytes count.",
            false => "Nothing is logged.",
        }
    }
}

/// Returns a cluster of StoCs that are as slow as the disks of the design's figures. Its ranges
/// have less memory than data, so that tables are written all the time.
fn throttled(stocs: u32) -> Shape {
    let shape = Shape { stocs, ..Shape::new("80mb") };
    shape
        .ltc("copies", "1")
        .stoc("throttle-mb-per-s", "4")
        .stoc("throttle-ms-per-operation", "2")
        // A log waits for the writes of tables before it.
        .ltc("stoc-timeout", "60s")
}

/// Returns W100 for such a cluster. The warm-up is long, since StoCs have work of the load.
fn throttled_work(plan: &Plan) -> Work {
    Work { warm_up: plan.seconds, ..Work::new(plan, "w100") }
}
