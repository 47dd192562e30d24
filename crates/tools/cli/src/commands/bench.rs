//! `thermocline bench`: the benchmark crate with our engines.

use std::process::ExitCode;

use bench::cli::{BenchCommand, BenchError};
use environment::Environment;

use crate::failure::{Failure, Kind};

pub(super) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    let stores = bench::stores::Ours;
    bench::cli::execute(command, &stores, &Environment::real()).map_err(|error| {
        let kind = match error {
            BenchError::Usage(_) => Kind::Usage,
            _ => Kind::Error,
        };
        Failure::new(kind, error)
    })
}
