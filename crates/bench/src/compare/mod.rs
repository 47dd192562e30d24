//! Ours and theirs, interleaved: A B A B ..., each run in a process of its own.
//!
//! 1. For each workload, for each round, for each store in turn: run a child process, ours by this
//!    program, theirs by the peers' program, with the same options and the round's own seed.
//!    Where loads are shared, a child before it makes the load that it begins from, unless an earlier one
//!    has left one that is right.
//! 2. Read the report that each writes. A child that fails, or is killed for its memory, is a
//!    failure beside the store's name, and the comparison goes on.
//! 3. Summarise: medians, spread, and ours over theirs.
//!
//! Interleaving spreads the machine's moods over all stores; processes of their own keep resident
//! memory, I/O counts and cgroups apart.

mod child;
mod plan;
mod summary;
#[cfg(test)]
mod tests;

pub use child::{ChildError, Programs};
pub use plan::{CompareConfig, Turn, merged, turns};
pub(crate) use plan::{check_ours, parted};
pub use summary::{Comparison, Failure, SummaryRow, summarise};

use std::path::{Path, PathBuf};

use crate::report::Report;

/// Runs a comparison. `tell` hears how each turn went.
///
/// # Errors
/// The scratch directory for reports cannot be made.
pub fn execute(
    config: &CompareConfig,
    programs: &Programs,
    scratch: &Path,
    mut tell: impl FnMut(&Turn, &Result<Report, ChildError>),
) -> std::io::Result<Comparison> {
    std::fs::create_dir_all(scratch)?;
    let loads = config.shares_loads.then(|| Loads::create(config, scratch)).transpose()?;
    let mut runs = Vec::new();
    let mut failures = Vec::new();
    for (number, turn) in turns(config).into_iter().enumerate() {
        let report = scratch.join(format!("{number}.json"));
        let result = programs.run(&turn, &report, loads.as_ref().map(Loads::path));
        tell(&turn, &result);
        match result {
            // Two of one name may differ in their options alone.
            Ok(report) => {
                runs.push(Report { engine: turn.store, workload: turn.workload, ..report });
            }
            Err(error) => failures.push(Failure {
                workload: turn.workload.clone(),
                store: turn.store.clone(),
                round: turn.round,
                problem: error.to_string(),
            }),
        }
    }
    let summary = summarise(config, &runs, &failures);
    Ok(Comparison { runs, summary, failures })
}

/// The loads of one comparison, beside the data of its runs; removed on drop.
struct Loads(PathBuf);

impl Loads {
    fn create(config: &CompareConfig, scratch: &Path) -> std::io::Result<Self> {
        let dir = config.options.iter().rev().find_map(|option| option.strip_prefix("--dir="));
        let path = match dir {
            Some(dir) => Path::new(dir).join(format!("thermocline-loads-{}", std::process::id())),
            None => scratch.join("loads"),
        };
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        // In scratch space; if it stays, nobody begins from it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
