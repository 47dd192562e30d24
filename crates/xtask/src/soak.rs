//! Runs the crash harnesses in turn until the time is up, and writes down what they saw.
//!
//! 1. Every harness is built first; the clock starts after that.
//! 2. Turns of about half a minute each go round. The seeds of a turn follow from the commit and
//!    the turn's number, so another commit sees other crashes and the same one can be replayed.
//! 3. What a harness saw in all goes to `reliability/ledger.jsonl`, one line a harness.
//! 4. A failure is printed with the command that replays it, counted, and ends the soak with 1.

use std::process::{Command, ExitCode};
use std::time::Duration;

use environment::Environment;
use serde_json::json;

const LEDGER: &str = "reliability/ledger.jsonl";

/// A program that crashes something, over and over, from a seed.
struct Harness {
    name: &'static str,
    build: &'static str,
    /// `{seed}` is replaced; a turn.
    run: &'static str,
    /// The words after the number of crashes in what it prints.
    crashes_before: &'static str,
}

const HARNESSES: [Harness; 3] = [
    Harness {
        name: "journal on a simulated disk",
        build: "cargo build -q --release --locked -p thermocline-journal --features crash \
                --example crash",
        run: "cargo run -q --release --locked -p thermocline-journal --features crash \
              --example crash -- --crashes 40000 --seed {seed}",
        crashes_before: " crashes of ",
    },
    Harness {
        name: "memory on a simulated disk",
        build: "cargo build -q --release --locked -p thermocline-conformance \
                --example crash_engine",
        run: "cargo run -q --release --locked -p thermocline-conformance \
              --example crash_engine -- --engine memory --crashes 40000 --seed {seed}",
        crashes_before: " crashes of ",
    },
    Harness {
        name: "kill -9 of server and embedded database",
        build: "cargo test -q --release --locked -p thermocline-cli --test kill --no-run",
        run: "cargo test -q --release --locked -p thermocline-cli --test kill -- \
              --rounds 20 --seed {seed}",
        crashes_before: " passed, ",
    },
];

/// What one harness saw.
#[derive(Default)]
struct Seen {
    turns: u64,
    crashes: u64,
    failures: u64,
    time: Duration,
}

/// Soaks for `minutes`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(minutes) = arguments.first().and_then(|text| text.parse::<u64>().ok()) else {
        eprintln!("xtask soak: for how many MINUTES?");
        return ExitCode::from(2);
    };
    match soak(Duration::from_secs(minutes * 60)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask soak: {why}");
            ExitCode::from(2)
        }
    }
}

fn soak(length: Duration) -> Result<u64, String> {
    let environment = Environment::real();
    let commit = git(&["rev-parse", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    // The first twelve digits: 48 bits, and room for the turns above them.
    let first_seed = commit.get(..12).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let first_seed = first_seed.ok_or("the commit has no digits")?;
    for harness in &HARNESSES {
        let (built, output) = shell(harness.build)?;
        if !built {
            return Err(format!("cannot build {}:\n{output}", harness.name));
        }
    }
    let mut seen: [Seen; HARNESSES.len()] = Default::default();
    let began = environment.now();
    let mut turn = 0;
    while environment.now() - began < length {
        for (harness, seen) in HARNESSES.iter().zip(&mut seen) {
            take_turn(&environment, harness, seen, first_seed + (turn << 20))?;
        }
        turn += 1;
    }
    let mut failures = 0;
    for (harness, seen) in HARNESSES.iter().zip(&seen) {
        failures += seen.failures;
        let line = json!({
            "commit": commit,
            "clean": clean,
            "wall_ms": environment.wall_ms(),
            "harness": harness.name,
            "first_seed": first_seed,
            "turns": seen.turns,
            "crashes": seen.crashes,
            "seconds": seen.time.as_secs(),
            "failures": seen.failures,
        });
        append(&line.to_string())?;
        let Seen { crashes, failures, .. } = seen;
        println!("{}: {crashes} crashes, {failures} failures", harness.name);
    }
    Ok(failures)
}

fn take_turn(
    environment: &Environment,
    harness: &Harness,
    seen: &mut Seen,
    seed: u64,
) -> Result<(), String> {
    let command = harness.run.replace("{seed}", &seed.to_string());
    let began = environment.now();
    let (passed, output) = shell(&command)?;
    seen.time += environment.now() - began;
    seen.turns += 1;
    let counted = output.lines().find_map(|line| {
        let (before, _) = line.split_once(harness.crashes_before)?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    seen.crashes += counted.unwrap_or_default();
    if !passed || counted.is_none() {
        seen.failures += 1;
        println!("FAILED: {command}\n{output}");
    }
    Ok(())
}

fn shell(command: &str) -> Result<(bool, String), String> {
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "appends to a file of the repository")]
fn append(line: &str) -> Result<(), String> {
    use std::io::Write;
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(LEDGER);
    let written = opened.and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|error| format!("{LEDGER}: {error}"))
}
