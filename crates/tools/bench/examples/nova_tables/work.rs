//! Runs of `thermocline bench` on clusters.

use std::process::Command;
use std::time::Duration;

use thermocline_bench::report::{Report, read_reports};

use crate::Outcome;
use crate::cluster::Cluster;
use crate::plan::Plan;
use crate::process;

/// Time that a run has.
pub(crate) const LIMIT: Duration = Duration::from_secs(1_200);

/// The work of a benchmark.
pub(crate) struct Work {
    pub(crate) keys: &'static str,
    pub(crate) threads: u32,
    /// The workloads, with commas between them.
    pub(crate) workload: String,
    /// Seconds of the warm-up.
    pub(crate) warm_up: u64,
    /// Further options.
    pub(crate) options: Vec<String>,
}

impl Work {
    /// Returns `workload` for the measured time of the plan, with 64 threads.
    pub(crate) fn new(plan: &Plan, workload: &str) -> Self {
        let seconds = plan.seconds.to_string();
        let options = ["--seconds", &seconds, "--distribution", "uniform"];
        Self {
            keys: "50k",
            threads: 64,
            workload: workload.to_owned(),
            warm_up: plan.seconds / 3,
            options: options.map(str::to_owned).into(),
        }
    }
}

/// Runs the workloads on a cluster that was started for them. Returns the report of each.
pub(crate) fn run(plan: &Plan, cluster: &mut Cluster<'_>, work: &Work) -> Outcome<Vec<Report>> {
    cluster.make_bench_ranges()?;
    let json = plan.dir.join("report.json");
    let mut command = Command::new(&plan.program);
    command
        .args(["bench", "run", "--engine", "nova", "--workload", &work.workload])
        .args(["--keys", work.keys])
        .args(["--threads", &work.threads.to_string(), "--warmup", &work.warm_up.to_string()])
        .args(&work.options)
        .args(cluster.client_options())
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", &plan.dir);
    process::run(plan, "bench", command, LIMIT)?;
    cluster.check()?;
    let reports = read_reports(&json)?;
    match reports.iter().find(|report| !report.is_right()) {
        Some(wrong) => Err(format!("{} wrong answers", wrong.wrong_reads).into()),
        None => Ok(reports),
    }
}

/// Runs one workload on a cluster.
pub(crate) fn run_one(plan: &Plan, cluster: &mut Cluster<'_>, work: &Work) -> Outcome<Report> {
    run(plan, cluster, work)?.pop().ok_or_else(|| "the benchmark reports nothing".into())
}
