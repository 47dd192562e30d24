//! Crashes an engine on the simulated disk for the requested time or number, and counts.
//!
//! ```text
//! crash_engine --engine memory --crashes 100000 --seed 1 --seconds 600 --ledger reliability/ledger.jsonl
//! ```
//!
//! It ends at the number of crashes or after the seconds, whichever comes first. Every seed that
//! fails is printed with the one command that shows it again, and makes the exit code 1.
#![expect(clippy::disallowed_methods, reason = "the ledger is a file of the repository")]

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::Duration;

use environment::Environment;
use thermocline::EngineKind;
use thermocline_conformance::crash::{Tally, voyage};
use thermocline_conformance::ledger::Entry;
use thermocline_conformance::{Fixture, TrialFixture, reference};

/// Returns the stores by the names that `--engine` takes: the trials of each engine of the
/// database's list, and those of the reference engine.
fn fixtures() -> impl Iterator<Item = TrialFixture> {
    let listed = EngineKind::ALL.iter().map(|engine| engine.driver());
    listed.chain([&reference::DRIVER]).flat_map(TrialFixture::all)
}

fn fixture(name: &str) -> Result<TrialFixture, String> {
    fixtures().find(|fixture| fixture.name() == name).ok_or_else(|| {
        let names: Vec<&str> = fixtures().map(|fixture| fixture.name()).collect();
        format!("no engine {name:?} here; there are: {}", names.join(", "))
    })
}

/// The options of the command line.
struct Arguments {
    engine: String,
    crashes: u64,
    seed: u64,
    seconds: u64,
    ledger: Option<String>,
}

impl Arguments {
    fn parse() -> Result<Self, String> {
        let mut parsed = Self {
            engine: "memory".to_owned(),
            crashes: u64::MAX,
            seed: 1,
            seconds: u64::MAX,
            ledger: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} wants a value"))?;
            let number = || value.parse().map_err(|_| format!("{flag} wants a number"));
            match flag.as_str() {
                "--engine" => parsed.engine = value,
                "--crashes" => parsed.crashes = number()?,
                "--seed" => parsed.seed = number()?,
                "--seconds" => parsed.seconds = number()?,
                "--ledger" => parsed.ledger = Some(value),
                _ => return Err(format!("{flag} is unknown")),
            }
        }
        if parsed.crashes == u64::MAX && parsed.seconds == u64::MAX {
            return Err("--crashes or --seconds is wanted".to_owned());
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("crash_engine: {why}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<usize, String> {
    let arguments = Arguments::parse()?;
    let fixture = fixture(&arguments.engine)?;
    let environment = Environment::real();
    let began = environment.now();
    let mut shown = began;
    let mut total = Tally::default();
    let mut seed = arguments.seed;
    let mut failures = Vec::new();
    while total.crashes < arguments.crashes {
        let now = environment.now();
        if (now - began).as_secs() >= arguments.seconds {
            break;
        }
        if now - shown >= Duration::from_secs(10) {
            shown = now;
            progress(&total, now - began, failures.len());
        }
        match voyage(&fixture, seed) {
            Ok(tally) => total.add(&tally),
            Err(what) => {
                let engine = &arguments.engine;
                failures.push(seed);
                println!("seed {seed} FAILED: {what}");
                println!(
                    "  replay: cargo run --release -p thermocline-conformance --example crash_engine -- \
                     --engine {engine} --seed {seed} --crashes 1"
                );
            }
        }
        seed += 1;
    }
    let took = environment.now() - began;
    let entry = Entry {
        commit: commit(),
        harness: format!("{} on a simulated disk", arguments.engine),
        first_seed: arguments.seed,
        seeds: seed - arguments.seed,
        crashes: total.crashes,
        simulated_seconds: total.simulated_ms / 1000,
        seconds: took.as_secs(),
        failed_seeds: failures,
    };
    println!(
        "{} crashes of {}, {} writes, {} simulated seconds, {} failures; {:.0} crashes/s",
        total.crashes,
        arguments.engine,
        total.writes,
        entry.simulated_seconds,
        entry.failed_seeds.len(),
        rate(&total, took)
    );
    if let Some(ledger) = &arguments.ledger {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(ledger);
        let written = opened.and_then(|mut file| file.write_all(entry.line().as_bytes()));
        written.map_err(|error| format!("{ledger}: {error}"))?;
    }
    Ok(entry.failed_seeds.len())
}

fn rate(total: &Tally, took: Duration) -> f64 {
    total.crashes as f64 / took.as_secs_f64()
}

fn progress(total: &Tally, took: Duration, failures: usize) {
    let (crashes, rate) = (total.crashes, rate(total, took));
    println!("so far {crashes} crashes ({rate:.0} a second), {failures} failures");
}

/// Returns the commit that is checked out, with a mark where the tree differs from it.
fn commit() -> String {
    let described = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = described.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".to_owned())
}
