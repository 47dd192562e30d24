//! `thermocline bench` and `thermocline tune`: the benchmark crate with our engines.

use std::process::ExitCode;

use bench::cli::{BenchCommand, BenchError, TuneArgs};
use environment::Environment;

use crate::failure::{Failure, Kind};

pub(super) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    let stores = bench::stores::Ours;
    bench::cli::execute(command, &stores, &Environment::real()).map_err(failure)
}

pub(super) fn tune(arguments: &TuneArgs) -> Result<ExitCode, Failure> {
    bench::cli::tune(arguments, &Environment::real()).map_err(failure)
}

fn failure(error: BenchError) -> Failure {
    let kind = match error {
        BenchError::Usage(_) => Kind::Usage,
        _ => Kind::Error,
    };
    Failure::new(kind, error)
}
