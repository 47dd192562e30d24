//! `bench run | prepare | compare | tables | record` on the command line.
//!
//! Any program that has a catalog of stores can mount it: `thermocline` with ours,
//! `thermocline-peers` with theirs.

mod compare;
mod options;
mod record;
mod run;
mod tables;
#[cfg(test)]
mod tests;
mod tune;

pub use compare::CompareArgs;
pub use options::WorkArgs;
pub use record::RecordArgs;
pub use run::RunArgs;
pub use tables::TablesArgs;
pub use tune::{TuneArgs, tune};

use std::process::ExitCode;

use clap::Subcommand;
use environment::Environment;

use crate::compare::ChildError;
use crate::run::RunError;
use crate::stores::Catalog;

/// The commands of a benchmark program.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Run one workload against one store
    Run(Box<RunArgs>),
    /// Load a store once into the directory --loads, for runs with the same options
    Prepare(Box<RunArgs>),
    /// Run workloads against our engine and its peers, taking turns
    Compare(Box<CompareArgs>),
    /// Run a suite of comparisons and write its page of tables and plots
    Tables(TablesArgs),
    /// Listen in front of a Redis-protocol server, pass requests on, and write them down
    Record(RecordArgs),
    /// Print the stores of this program and the protocol by which a comparison runs them
    #[command(hide = true)]
    Protocol,
}

/// A benchmark that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The run itself.
    #[error(transparent)]
    Run(RunError),
    /// A report cannot be written, or a socket cannot be opened.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// Options that do not fit together.
    #[error("{0}")]
    Usage(String),
}

impl BenchError {
    /// Returns the exit code of a program: 2 for a wrong command line, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }
}

impl From<ChildError> for BenchError {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Scratch(path, error) => Self::Io(path.display().to_string(), error),
            other => Self::Usage(other.to_string()),
        }
    }
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Config(impossible) => Self::Usage(impossible.to_string()),
            other => Self::Run(other),
        }
    }
}

/// Exit code of a benchmark that ran to its end and got wrong answers, or in which a run failed.
pub const EXIT_WRONG: u8 = 3;

/// Does `command` with the stores of `catalog`; prints tables on standard output.
///
/// # Errors
/// It could not be run to its end. Wrong answers are not an error but the exit code
/// [`EXIT_WRONG`].
pub fn execute(
    command: &BenchCommand,
    catalog: &dyn Catalog,
    env: &Environment,
) -> Result<ExitCode, BenchError> {
    // For every store alike: what is left behind in heaps counts against its budget.
    arena::bound_heaps();
    match command {
        BenchCommand::Run(args) => run::execute(args, catalog, env),
        BenchCommand::Prepare(args) => run::prepare(args, catalog, env),
        BenchCommand::Compare(args) => compare::execute(args, catalog),
        BenchCommand::Tables(args) => tables::execute(args),
        BenchCommand::Record(args) => record::execute(args, env),
        BenchCommand::Protocol => compare::protocol(catalog),
    }
}
