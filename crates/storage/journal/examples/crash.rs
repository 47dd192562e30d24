//! Crashes the journal on simulated disks, a given number of times, and prints the counts.
//!
//! `cargo run --release -p thermocline-journal --features crash --example crash -- \
//!  [--crashes 100000] [--seed 0] [--mode honest|loud|silent|lying] [--only SEED] [--planted]`
//!
//! Runs the seeds from `--seed` on until the given number of images have been opened, half of them
//! honest and half loud unless a mode is given. Ends at the first broken promise with status 1 and
//! the command that replays it. `--planted` plants each bug instead, and prints the time that it
//! took to catch.

use std::process::ExitCode;

use environment::{Environment, Monotonic};
use thermocline_journal::crash::{Bug, Failure, Mode, Tally, run};

/// Each bug with the mode that can show it.
const PLANTED: [(Bug, Mode); 6] = [
    (Bug::Unchained, Mode::Honest),
    (Bug::OffsetLeftOut, Mode::Silent),
    (Bug::FailedSyncIgnored, Mode::Loud),
    (Bug::SyncSkipped, Mode::Honest),
    (Bug::DirectorySyncMissing, Mode::Honest),
    (Bug::RecoveryUnsynced, Mode::Honest),
];

struct Arguments {
    crashes: u64,
    seed: u64,
    modes: Vec<Mode>,
    only: Option<u64>,
    planted: bool,
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let environment = Environment::real();
    let done = if arguments.planted {
        planted(&arguments, &environment)
    } else {
        soak(&arguments, &environment)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            crashes: 100_000,
            seed: 0,
            modes: vec![Mode::Honest, Mode::Loud],
            only: None,
            planted: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
            match word.as_str() {
                "--crashes" => parsed.crashes = number(value()?)?,
                "--seed" => parsed.seed = number(value()?)?,
                "--only" => parsed.only = Some(number(value()?)?),
                "--planted" => parsed.planted = true,
                "--mode" => {
                    let name = value()?;
                    let known = [Mode::Honest, Mode::Loud, Mode::Silent, Mode::Lying];
                    let mode = known.into_iter().find(|m| format!("{m:?}").to_lowercase() == name);
                    parsed.modes = vec![mode.ok_or(format!("{name} is no mode"))?];
                }
                _ => return Err(format!("{word} is no option")),
            }
        }
        Ok(parsed)
    }
}

fn soak(arguments: &Arguments, environment: &Environment) -> Result<(), Box<Failure>> {
    let began = environment.now();
    let mut tally = Tally::default();
    let mut seed = arguments.only.unwrap_or(arguments.seed);
    while tally.crashes < arguments.crashes {
        for mode in &arguments.modes {
            tally.add(&run(seed, *mode, None)?);
        }
        if arguments.only.is_some() {
            break;
        }
        seed += 1;
    }
    println!(
        "{} crashes of {} runs, none lost anything: {} torn tails, {} refused, {} shortened, \
         {} lives stopped by an error; {:.0} crashes/s",
        tally.crashes,
        tally.seeds,
        tally.torn,
        tally.refused,
        tally.shortened,
        tally.stopped,
        tally.crashes as f64 / seconds(environment, began),
    );
    Ok(())
}

/// Catches every planted bug, and the lying disk.
fn planted(arguments: &Arguments, environment: &Environment) -> Result<(), Box<Failure>> {
    for (bug, mode) in PLANTED {
        catch(&format!("{bug:?}"), arguments, environment, mode, Some(bug))?;
    }
    catch("a disk that lies about its flush", arguments, environment, Mode::Lying, None)
}

fn catch(
    name: &str,
    arguments: &Arguments,
    environment: &Environment,
    mode: Mode,
    bug: Option<Bug>,
) -> Result<(), Box<Failure>> {
    let began = environment.now();
    let mut crashes = 0;
    let mut seed = arguments.seed;
    loop {
        match run(seed, mode, bug) {
            Ok(tally) => crashes += tally.crashes,
            Err(failure) => {
                println!(
                    "{name}: caught in {:.3} s, after {crashes} crashes without it, by {}",
                    seconds(environment, began),
                    failure.what
                );
                return Ok(());
            }
        }
        if crashes > arguments.crashes {
            let what = format!("{name} was not caught");
            return Err(Box::new(Failure { seed, mode, round: 0, cut: None, what }));
        }
        seed += 1;
    }
}

fn seconds(environment: &Environment, began: Monotonic) -> f64 {
    (environment.now() - began).as_secs_f64()
}
