//! The thermocline command.
//!
//! It turns arguments, environment and a TOML file into calls of the database, the server and the
//! benchmark.
//!
//! ```text
//! main -> arguments -> config (file < environment < flags) -> commands/NAME.rs -> exit code
//! ```
//!
//! # Invariants
//! 1. An unknown setting is an error in every layer; none is ignored.
//! 2. Results go to standard output and everything else to standard error, so that `--json` output
//!    is JSON and a dump is a dump.
//! 3. The exit code says what kind of failure it was (`failure.rs`). The one line on standard error
//!    says the mistake and the allowed values.

mod arguments;
mod byte_string;
mod commands;
pub mod config;
pub mod dump;
mod failure;
mod output;
mod value_form;

use std::process::ExitCode;

use clap::Parser;

use crate::failure::{Failure, Kind};

/// The README's Rust example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    arena::bound_heaps();
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let json = arguments.wants_json();
    match commands::run(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            output::report_failure(&failure, json);
            ExitCode::from(failure.kind as u8)
        }
    }
}

/// Prints the mistake in the command line, or the requested help.
fn refuse(error: &clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    // The benchmark's --json names a file.
    let json = words.iter().any(|word| word == "--json") && !words.iter().any(|w| w == "bench");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let text = text.trim_end().trim_start_matches("error: ");
        output::report_failure(&Failure::usage(text), true);
    } else {
        // Help and version are no failures; clap knows their stream.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Kind::Usage as u8))
}
