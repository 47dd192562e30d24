//! `bench compare` from the command line: this test program is also the program it runs, which is
//! why it has no test harness. Started as `... bench run ...` it is a benchmark over maps.

#![expect(clippy::disallowed_methods, reason = "reads the reports that the comparison wrote")]
#![expect(clippy::unwrap_used, reason = "a test, although it is no #[test]")]

mod stores;

use std::process::{Command, ExitCode};

use clap::Parser;
use environment::Environment;
use thermocline_bench::cli::{BenchCommand, execute};
use thermocline_bench::compare::Comparison;

#[derive(Parser)]
enum Cli {
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        let Cli::Bench(command) = Cli::parse();
        return match execute(&command, &stores::Maps, &Environment::real()) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(error.exit_code())
            }
        };
    }
    for (name, test) in [
        ("stores_take_turns_and_are_summarised", stores_take_turns_and_are_summarised as fn()),
        ("failures_and_wrong_answers_fail_the_comparison", failures_fail_the_comparison),
        ("shared_loads_are_made_once_and_removed", shared_loads_are_made_once_and_removed),
        ("without_the_peers_program_it_says_how_to_build_it", missing_peers_are_explained),
    ] {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// Runs this program as a benchmark; its exit code, what it printed, and the comparison.
fn compare(arguments: &[&str]) -> (Option<i32>, String, Option<Comparison>) {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("out.json"), dir.path().join("out.html"));
    let this = std::env::current_exe().unwrap();
    let output = Command::new(&this)
        .env("THERMOCLINE_PEERS", &this)
        .args(["bench", "compare", "--keys=500", "--ops=2000", "--shape=8+20"])
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let comparison = std::fs::read(&json).ok().map(|text| serde_json::from_slice(&text).unwrap());
    if comparison.is_some() {
        assert!(std::fs::read_to_string(&html).unwrap().contains("<svg"));
    }
    (output.status.code(), String::from_utf8(said).unwrap(), comparison)
}

fn stores_take_turns_and_are_summarised() {
    let arguments = ["--engine=map", "--with=map", "--workload=ycsb-a,ycsb-e", "--rounds=3"];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    assert_eq!(comparison.runs.len(), 12);
    let seeds: Vec<u64> = comparison.runs.iter().take(6).map(|run| run.seed).collect();
    assert_eq!(seeds, [1, 1, 2, 2, 3, 3], "rounds are interleaved");
    assert_eq!(comparison.summary.len(), 4);
    let first = &comparison.summary[0];
    assert_eq!(first.ratio_ours_to_this, Some(1.0));
    assert!(first.ops_per_s_min <= first.ops_per_s_median);
    assert!(first.ops_per_s_median <= first.ops_per_s_max);
    assert!(said.contains("ycsb-e") && said.contains("ours/it"), "{said}");
}

fn shared_loads_are_made_once_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let below = format!("--dir={}", dir.path().display());
    let workloads = "--workload=ycsb-a,ycsb-b@distribution=uniform,load";
    let arguments =
        ["--engine=map", "--with=map@threads=1", workloads, "--rounds=2", "--share-loads", &below];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    for run in &comparison.runs {
        assert_eq!(run.load.is_shared, run.workload != "load", "{} {}", run.workload, run.engine);
    }
    let uniform = |run: &&thermocline_bench::report::Report| run.workload.contains('@');
    assert_eq!(comparison.runs.iter().filter(uniform).count(), 4);
    assert!(comparison.runs.iter().filter(uniform).all(|run| run.distribution == "uniform"));
    // To the nanosecond: a load of its own takes a time of its own.
    let loads = |engine: &str| -> std::collections::HashSet<u64> {
        let shared =
            comparison.runs.iter().filter(|run| run.engine == engine && run.load.is_shared);
        shared.map(|run| run.load.seconds.to_bits()).collect()
    };
    assert_eq!((loads("map").len(), loads("map@threads=1").len()), (1, 1));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left behind");
}

fn failures_fail_the_comparison() {
    let arguments = ["--engine=map", "--with=torn,nosuch", "--workload=ycsb-a", "--rounds=1"];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(3), "{said}");
    let comparison = comparison.unwrap();
    assert_eq!(comparison.runs.len(), 2);
    assert!(comparison.summary[1].wrong_reads > 0);
    let failure = comparison.summary[2].failure.as_ref().unwrap();
    assert!(failure.contains("there is no store \"nosuch\""), "{failure}");
    assert!(said.contains("WRONG"), "{said}");
}

fn missing_peers_are_explained() {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(&this)
        .env("THERMOCLINE_PEERS", "/no/such/program")
        .args(["bench", "compare", "--engine=map", "--with=map", "--workload=load"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/no/such/program") && said.contains("peers/install.sh"), "{said}");
}
