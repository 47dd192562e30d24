//! A whole cluster in a simulation: coordinators over an etcd, StoCs on disks, LTCs and clients,
//! with kills, power cuts, pauses, cut networks and wrong clocks at any moment.
//!
//! One seed draws the schedule of all threads, the latencies, the calls of the clients and the
//! faults. After the faults every range is served. The history of each key can be explained by some
//! order of its calls, each between its begin and its end. A write of several keys is whole.
//!
//! `cargo test -p thermocline-ltc --test simulated -- --seeds 300 --first 1` runs 300 seeds.
//! `--seeds 1 --first SEED` replays one. Each seed of the list of old failures runs first.
//!
//! A quarter of the seeds keeps the write logs in the memories of StoCs. There one StoC at a time
//! is ended, and the ranges get time to write its logs to tables.
//!
//! Killed processes leave their threads and memory behind, so a few seeds share a process of the
//! operating system, and the first one of them runs twice: both runs must be the same.
#![expect(clippy::unwrap_used, reason = "a test: a failure is reported with its seed")]

mod clients;
mod etcd;
mod faults;
mod processes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use conformance::Arguments;
use simulation::{Outcome, Simulation};

use clients::{CLIENTS, Histories};
use world::World;

/// Seeds of the short form, which is part of `cargo test`.
const SEEDS: u64 = 16;
/// Seeds of one process.
const BATCH: u64 = 4;
/// Processes at a time.
const BESIDE: usize = 2;
/// Seeds that have failed once.
const FAILED_ONCE: [u64; 1] = [14];
/// Time of a simulation after which it fails.
const LIMIT: Duration = Duration::from_secs(900);

/// The figures of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    /// Calls that have succeeded, and calls of unknown outcome.
    done: u64,
    unknown: u64,
    /// Processes that were ended.
    ended: u64,
}

/// The figures of many seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    passed: u64,
    failed: u64,
    ended: u64,
    seconds: u64,
}

/// Runs the cluster of a seed.
fn simulate(seed: u64) -> Outcome<Figures> {
    Simulation::new(seed).limit(LIMIT).run(move |simulation| {
        let world = World::new(simulation, seed);
        faults::all().into_iter().for_each(|name| world.start(name));
        let (histories, ends) = (Arc::new(Histories::default()), Arc::new(AtomicBool::new(false)));
        let start = |number| {
            let (histories, ends) = (Arc::clone(&histories), Arc::clone(&ends));
            world.client(number, move |own| clients::run(own, number, &histories, &ends))
        };
        let clients: Vec<_> = (1..=CLIENTS).map(start).collect();
        faults::torment(&world, world.environment().random("faults"));
        ends.store(true, SeqCst);
        for client in clients {
            client.join().unwrap();
        }
        let last = Arc::clone(&histories);
        let reads = move |own: &world::Own| clients::read_all(own, CLIENTS + 1, &last);
        world.client(CLIENTS + 1, reads).join().unwrap();
        let ended = world.ended();
        world.end_all();
        histories.check();
        let (done, unknown) = (histories.done.load(SeqCst), histories.unknown.load(SeqCst));
        Figures { done, unknown, ended }
    })
}

/// Runs seeds in this process. Returns how many have failed.
fn run_batch(first: u64, count: u64) -> u64 {
    let mut failed = 0;
    for seed in first..first + count {
        let run = || {
            let outcome = simulate(seed);
            if seed == first {
                assert_eq!(simulate(seed), outcome, "one seed has one schedule");
            }
            outcome
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Outcome { value: Figures { done, unknown, ended }, turns, time, .. }) => {
                let seconds = time.as_secs();
                println!(
                    "seed {seed}: {done} calls, {unknown} unknown, {turns} turns, {ended} ended, \
                     {seconds} s"
                );
            }
            Err(_) => {
                println!(
                    "seed {seed} FAILED; replay: cargo test -p thermocline-ltc --test simulated -- \
                     --seeds 1 --first {seed}"
                );
                failed += 1;
            }
        }
    }
    failed
}

/// Returns the ended processes and the seconds in the line of a seed that has passed.
fn figures_in(line: &str) -> Option<(u64, u64)> {
    let (rest, seconds) = line.strip_suffix(" s")?.rsplit_once(" ended, ")?;
    let (_, ended) = rest.rsplit_once(' ')?;
    Some((ended.parse().ok()?, seconds.parse().ok()?))
}

/// Runs batches of seeds in processes of their own.
fn run_all(batches: Vec<(u64, u64)>) -> Totals {
    let batches = Mutex::new(batches.into_iter());
    let totals = Mutex::new(Totals::default());
    let program = std::env::current_exe().unwrap();
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                loop {
                    let Some((first, count)) = batches.lock().unwrap().next() else { return };
                    let child = Command::new(&program)
                        .args(["--child", &first.to_string(), &count.to_string()])
                        .output()
                        .unwrap();
                    let text = String::from_utf8_lossy(&child.stdout);
                    print!("{text}");
                    let mut totals = totals.lock().unwrap();
                    let passed_before = totals.passed;
                    for (ended, seconds) in text.lines().filter_map(figures_in) {
                        totals.passed += 1;
                        totals.ended += ended;
                        totals.seconds += seconds;
                    }
                    let failed = count - (totals.passed - passed_before);
                    totals.failed += failed;
                    if failed > 0 {
                        eprint!("{}", String::from_utf8_lossy(&child.stderr));
                    }
                }
            });
        }
    });
    totals.into_inner().unwrap()
}

fn main() -> ExitCode {
    let arguments = Arguments::of_program();
    if let Some(numbers) = arguments.words("--child") {
        let number = |at: usize| numbers[at].parse().unwrap();
        let failed = run_batch(number(0), number(1));
        return if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let number = |name| arguments.number(name);
    let asked = number("--seeds");
    if arguments.are_for_others("simulated", &["--seeds"]) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let (first, count) = (number("--first").unwrap_or(1), asked.unwrap_or(SEEDS));
    let mut batches: Vec<(u64, u64)> = match asked {
        Some(1) => Vec::new(),
        _ => FAILED_ONCE.iter().map(|seed| (*seed, 1)).collect(),
    };
    let mut next = first;
    while next < first + count {
        let size = BATCH.min(first + count - next);
        batches.push((next, size));
        next += size;
    }
    let Totals { passed, failed, ended, seconds } = run_all(batches);
    println!("{} seeds, {ended} ended processes, {seconds} simulated seconds", passed + failed);
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
