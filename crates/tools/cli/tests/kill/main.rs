//! Kills a database with SIGKILL while it is written to, and opens it again.
//!
//! Every acknowledged write must be there, and no older value may have reappeared.
//!
//! 1. A *life* is one process that is written to until it is killed at a random moment. A directory
//!    lives through several, so that recovery starts from the files of the last recovery.
//! 2. After each, `thermocline check` must find the files whole: a torn tail is no damage.
//! 3. A program that finds an error ends with its first panic, and a life must have ended by the
//!    signal and by nothing else.
//! 4. Then the state must be that of the first N operations of every client, with N at least the
//!    number it was acknowledged: nothing lost, nothing out of order, no batch in part.
//!
//! Three ways in: `served` drives `thermocline serve`, or `thermocline cluster dev`, over the Redis
//! protocol with pipelining clients. `embedded` runs a child with the database inside, writing
//! batches over keyspaces of all engines. Every other one of those is over engines of `small`
//! parts, and all rounds are with `--small NAME`, with longer lives. All rounds are of a cluster
//! with `--cluster`.
//!
//! `cargo test -p thermocline-cli --test kill -- --rounds 200 --seed 7`; without `--seed` one is
//! drawn, and printed with the command that replays it. (The moment of a kill depends on the
//! machine too, so a replay is likely rather than certain to fail again.)
#![expect(
    clippy::disallowed_methods,
    reason = "drives other processes from outside: real time, threads and files"
)]
#![expect(clippy::unwrap_used, reason = "a test: a failure is reported with its seed")]

mod embedded;
mod model;
mod resp;
mod round;
mod served;
mod sigkill;
mod small;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use conformance::Arguments;

use embedded::{Beside, no_work};
use round::{Bug, Round, Way};
use small::figures;

/// Rounds of the short form, which is part of `cargo test`.
const ROUNDS: u64 = 10;
/// A run over engines of small parts that lasts this long must have reached every figure.
const LONG: Duration = Duration::from_secs(60);
/// The most rounds that a long run adds while a figure is still 0. How often a cold log is
/// compacted, for example, depends on the seed and on the load of the machine.
const ROUNDS_ADDED: u64 = 100;

fn main() -> ExitCode {
    if embedded::is_child() {
        embedded::run_child();
    }
    let arguments = Arguments::of_program();
    let (word, number) = (|name| arguments.word(name), |name| arguments.number(name));
    let own = ["--rounds", "--seed", "--seconds", "--small", "--cluster"];
    if arguments.are_for_others("kill", &own) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let small = word("--small").map(|name| small::named(&name));
    let is_cluster = arguments.has("--cluster");
    let seconds = number("--seconds");
    let rounds = number("--rounds").unwrap_or(if seconds.is_some() { u64::MAX } else { ROUNDS });
    let length = seconds.map_or(Duration::MAX, Duration::from_secs);
    let seed = number("--seed").unwrap_or_else(|| environment::Seed::from_entropy().get());
    let mut asked = small.map_or(String::new(), |engines| format!("--small {engines} "));
    asked.push_str(if is_cluster { "--cluster " } else { "" });
    println!(
        "seed {seed}; replay: cargo test -p thermocline-cli --test kill -- {asked}--seed {seed}"
    );
    let began = Instant::now();
    let (mut passed, mut failed, mut beside) = (0, 0, no_work());
    let mut added = 0;
    for index in 0..rounds {
        if began.elapsed() >= length {
            let is_complete = small.is_none_or(|name| missing(name, &beside).is_empty());
            if length < LONG || is_complete || added == ROUNDS_ADDED {
                break;
            }
            added += 1;
        }
        let round = match small {
            Some(engines) => Round::draw_small(engines, seed, index),
            None if is_cluster => Round { way: Way::Cluster, ..Round::draw(seed, index) },
            None => Round::draw(seed, index),
        };
        match catch_unwind(AssertUnwindSafe(|| round.run(&mut beside))) {
            Ok(told) => {
                println!("round {index}: {round}: {told}");
                passed += 1;
            }
            Err(_) => {
                println!("round {index} FAILED: {round}; seed {seed}");
                failed += 1;
            }
        }
    }
    if let Some(engines) = small {
        failed += print_figures(engines, &beside, began.elapsed());
    }
    for bug in Bug::PLANTED {
        match notices(bug, seed) {
            true => passed += 1,
            false => failed += 1,
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The figures of these engines that are still 0.
fn missing(name: &str, beside: &Beside) -> Vec<&'static str> {
    let engines = small::engines(name);
    let missing = figures().zip(beside);
    let missing = missing.filter(|((engine, _), count)| engines.contains(engine) && **count == 0);
    missing.map(|((_, figure), _)| figure).collect()
}

/// Prints the figures of these engines. Returns how many of them a long run did not reach.
fn print_figures(name: &str, beside: &Beside, length: Duration) -> u64 {
    let engines = small::engines(name);
    for ((engine, figure), count) in figures().zip(beside) {
        if engines.contains(&engine) {
            println!("{engine}: {count} {figure}");
        }
    }
    if length < LONG {
        return 0;
    }
    let missing = missing(name, beside);
    for figure in &missing {
        println!("FAILED: there were no {figure}");
    }
    missing.len() as u64
}

/// Plants a bug that this harness is for, acknowledging writes that only the process has, or
/// reading something else, and must see it; otherwise the rounds above say nothing.
fn notices(bug: Bug, seed: u64) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    for index in 0..10 {
        let mut round = Round::draw(seed, index);
        if bug == Bug::Reads {
            (round.way, round.clients) = (Way::Embedded, round.clients.max(2));
        }
        round.bug = bug;
        round.acknowledged_first = true;
        if catch_unwind(AssertUnwindSafe(|| round.run(&mut no_work()))).is_err() {
            println!("planted bug {bug:?}: noticed in round {index}");
            return true;
        }
    }
    println!("planted bug FAILED: {bug:?} was never noticed");
    false
}
