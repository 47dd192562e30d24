//! Kills, pauses and cuts off processes of a cluster while clients use it, and checks what the
//! clients have seen.
//!
//! 1. All processes run on this machine: three members of an etcd, two coordinators, five StoCs,
//!    three LTCs and two gateways, with certificates.
//! 2. In a round, Redis clients and programs with the Rust client read and write a few keys of
//!    three ranges. Each operation is recorded with its begin, its end and its result. Without a
//!    usable reply it may have happened, or may still happen.
//! 3. Meanwhile one process is killed and is started again later; or it is stopped for longer than
//!    a lease; or its link is cut; or ranges move. The round ends once each client is served
//!    again.
//! 4. Then the keys are read through all gateways and programs. Each process must run, and no
//!    thread may have panicked.
//! 5. Some order must explain the history of each key ([`conformance::linearizable`]): no
//!    acknowledged write is lost, and no read returns an old value. At the end of the run all keys
//!    of all rounds are read once more.
//! 6. A lost write that is planted in a recorded history must be found.
//!
//! With `--histories DIR` the histories are left in a directory as lines of JSON, which the program
//! in `tests/porcupine` checks again. The link of a process can be cut if the harness may make
//! network namespaces; otherwise the report says that it leaves this fault out.
//!
//! `cargo test -p thermocline-cli --features cluster --test cluster_rounds -- --rounds 20 --seed 7`
//! runs it. Without `--seed` one is drawn, and printed with the command that replays it. (The
//! moment of a fault depends on the machine too, so a replay is likely rather than certain to fail
//! again.)
#![expect(clippy::disallowed_methods, reason = "keeps output of processes in files")]
#![expect(clippy::unwrap_used, reason = "a test: a failure is reported with its seed")]

mod clients;
mod cluster;
#[path = "../commands/etcd.rs"]
mod etcd;
mod etcd_leader;
mod export;
mod fault;
mod gateway;
mod history;
mod network;
mod planted;
mod process;
#[expect(dead_code, reason = "the tests of commands use the rest")]
#[path = "../commands/program.rs"]
mod program;
mod report;
#[path = "../kill/resp.rs"]
mod resp;
mod round;
mod rust_client;
#[path = "../kill/sigkill.rs"]
mod sigkill;
mod time;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use conformance::Arguments;
use conformance::linearizable::Call;
use environment::Seed;

use cluster::Cluster;
use export::Export;
use fault::Fault;
use history::Event;
use report::Report;
use round::{Passed, Round};
use rust_client::Program;

/// Rounds of the short form, which is part of `cargo test`.
const ROUNDS: u64 = 3;
/// Numbers of the programs among the clients. The gateways have smaller ones.
const PROGRAMS: [u32; 2] = [11, 12];

/// The settings of a run.
struct Settings {
    rounds: u64,
    seed: u64,
    /// The directory in which the histories are left.
    histories: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::of_program();
    let (word, number) = (|name| arguments.word(name), |name| arguments.number(name));
    if arguments.are_for_others("cluster_rounds", &["--rounds", "--seed", "--histories"]) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let settings = Settings {
        rounds: number("--rounds").unwrap_or(ROUNDS),
        seed: number("--seed").unwrap_or_else(|| Seed::from_entropy().get()),
        histories: word("--histories").map(PathBuf::from),
    };
    let Settings { rounds, seed, .. } = settings;
    println!(
        "seed {seed}; replay: cargo test -p thermocline-cli --features cluster --test \
         cluster_rounds -- --rounds {rounds} --seed {seed}"
    );
    let dir = tempfile::Builder::new().prefix("thermocline-cluster-").tempdir().unwrap();
    let mut passed = 0;
    let ended = catch_unwind(AssertUnwindSafe(|| run(&settings, dir.path(), &mut passed)));
    let fault = match ended {
        Ok(Ok(())) => {
            println!("{passed} passed, 0 failed");
            return ExitCode::SUCCESS;
        }
        Ok(Err(fault)) => fault,
        Err(_) => "a panic".to_owned(),
    };
    println!("{fault}");
    let kept = dir.keep();
    println!("FAILED: seed {seed}; output and data of all processes: {}", kept.display());
    println!("{passed} passed, 1 failed");
    ExitCode::FAILURE
}

/// Runs all rounds on one cluster, and prints the report. Counts in `passed` what has passed.
///
/// # Errors
/// The law that the cluster has broken.
fn run(settings: &Settings, dir: &Path, passed: &mut u64) -> Result<(), String> {
    let mut export = settings.histories.as_deref().map(Export::new);
    let mut cluster = Cluster::start(dir)?;
    if let Some(why) = cluster.without_links() {
        println!("no link is cut, since there are no network namespaces: {why}");
    }
    let programs = PROGRAMS.into_iter().map(|number| connect(&cluster, number));
    let programs: Vec<Program> = programs.collect::<Result<_, String>>()?;
    let (mut report, mut settled, mut last) = (Report::default(), Vec::new(), None);
    let mut kills = 0;
    for index in 0..settings.rounds {
        let can_cut = cluster.without_links().is_none();
        let round = Round::draw(Seed::from(settings.seed), index, can_cut);
        let done = round.run(&mut cluster, &programs);
        let done = done.map_err(|fault| format!("round {index}: {round}: {fault}"))?;
        println!("round {index}: {round}: {}: {} events", done.text, done.events.len());
        report.add(round.fault, done.gaps, (&done.events, &done.errors));
        if let Some(export) = &mut export {
            export.add(&done.keys, &done.events);
        }
        kills += u64::from(matches!(round.fault, Fault::Kill(_)));
        settled.push(done.settle());
        last = Some(done);
        *passed += 1;
    }
    for settled in &settled {
        let (keys, events) = settled.check(&programs[0])?;
        if let Some(export) = &mut export {
            export.add(keys, &events);
        }
    }
    print!("{report}");
    println!("{kills} killed processes in {} rounds", settings.rounds);
    if let Some(done) = &last {
        find_planted(done, export.as_mut())?;
        *passed += 1;
    }
    Ok(())
}

/// Connects a program. It tries again while no coordinator leads.
fn connect(cluster: &Cluster, number: u32) -> Result<Program, String> {
    let mut program = Err(String::new());
    time::await_that("a program connects", || {
        program = Program::connect(cluster.certificates(), cluster.coordinators(), number);
        Ok(program.is_ok())
    })?;
    program
}

/// Plants lost writes in the histories of a round, and must find each of them. Otherwise the rounds
/// say nothing.
fn find_planted(done: &Passed, mut export: Option<&mut Export>) -> Result<(), String> {
    let mut planted = 0;
    for key in 0..clients::KEYS {
        let events = history::of_key(&done.events, key);
        let Some(changed) = planted::with_lost_write(&events) else { continue };
        let calls: Vec<Call> = changed.iter().map(Event::call).collect();
        if history::check(&calls, None).is_ok() {
            return Err(format!("a lost write of {} is not found", done.keys.name(key)));
        }
        if let Some(export) = &mut export {
            export.add_planted(&done.keys, &changed);
        }
        planted += 1;
    }
    println!("lost writes that were planted, all found: {planted}");
    if planted > 0 { Ok(()) } else { Err("no lost write could be planted".to_owned()) }
}
