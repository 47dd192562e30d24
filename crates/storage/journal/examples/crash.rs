//! Crashes the journal on simulated disks, a given number of times, and prints the counts.
//!
//! `cargo run --release -p thermocline-journal --features crash --example crash -- \
//!  [--crashes 100000] [--seed 0] [--mode honest|loud|silent|lying] [--only SEED]`
//!
//! Runs the seeds from `--seed` on until the given number of images have been opened, half of them
//! honest and half loud unless a mode is given. Ends at the first broken promise with status 1 and
//! the command that replays it.

use std::process::ExitCode;

use environment::{Environment, Monotonic};
use thermocline_journal::crash::{Failure, Mode, Tally, run};

struct Arguments {
    crashes: u64,
    seed: u64,
    modes: Vec<Mode>,
    only: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match soak(&arguments, &Environment::real()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed =
            Self { crashes: 100_000, seed: 0, modes: vec![Mode::Honest, Mode::Loud], only: None };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
            match word.as_str() {
                "--crashes" => parsed.crashes = number(value()?)?,
                "--seed" => parsed.seed = number(value()?)?,
                "--only" => parsed.only = Some(number(value()?)?),
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
            tally.add(&run(seed, *mode)?);
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

fn seconds(environment: &Environment, began: Monotonic) -> f64 {
    (environment.now() - began).as_secs_f64()
}
