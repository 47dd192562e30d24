//! The thermocline command: arguments, environment and a TOML file turned into calls of the
//! database, the server and the benchmark.
//!
//! ```text
//! main -> arguments -> config (file < environment < flags) -> commands/NAME.rs -> exit code
//! ```
//!
//! # Invariants
//! - An unknown setting is an error, in whichever layer it stands; none is ignored.
//! - Results go to standard output and everything else to standard error, so that `--json` output
//!   is JSON and a dump is a dump.
//! - The exit code says what kind of failure it was (`failure.rs`), the one line on standard error
//!   what was wrong and what is allowed.

mod arguments;
mod byte_string;
mod commands;
pub mod config;
pub mod dump;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser;

/// The README's Rust example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failures; clap knows their code and their stream.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let json = arguments.command.shared().is_some_and(|shared| shared.json);
    match commands::run(&arguments.command) {
        Ok(code) => code,
        Err(failure) => {
            output::report_failure(&failure, json);
            ExitCode::from(failure.kind as u8)
        }
    }
}
