//! Ours and theirs, interleaved: A B A B ..., each run in a process of its own.
//!
//! 1. Ask each program whether it speaks the same protocol, before anything is loaded.
//! 2. For each workload, find for each store the largest cache with which its resident peak stays within
//!    the budget (`search`), unless the budget is one in which everything fits.
//! 3. For each round, for each store in turn: run a child process, with the same options and the round's
//!    own seed. Ours are run by this program, theirs by the peers' program, and a baseline runs ours
//!    again. If loads are shared, a child before it makes the load that it begins from, unless that load
//!    is already there.
//! 4. Read the report that each writes. A child that fails, or is killed for its memory, is a failure
//!    next to the store's name, and the comparison continues.
//! 5. Summarise: medians, spread, ours over theirs, and the ratios of the two builds round by round.
//!
//! Interleaving spreads the machine's moods over all stores; processes of their own keep resident
//! memory, I/O counts and cgroups apart.

mod baseline;
mod child;
mod find_cache;
mod plan;
mod protocol;
mod search;
mod summary;
#[cfg(test)]
mod tests;

pub use baseline::{BuildRatio, Spread, compare_builds};
pub use child::{ChildError, Programs};
pub use find_cache::Search;
pub use plan::{CompareConfig, Side, Turn, merged, turns};
pub(crate) use plan::{check_ours, parted};
pub use protocol::{Abilities, PROTOCOL, StoreAbilities};
pub use search::{Trial, Verdict};
pub use summary::{Comparison, Failure, SummaryRow, summarise};

use std::path::{Path, PathBuf};

use crate::report::Report;
use child::Known;

/// Runs a comparison. `tell` is called with the outcome of each run.
///
/// # Errors
/// A program is missing or speaks another protocol; or the scratch directory for reports cannot be made.
pub fn execute(
    config: &CompareConfig,
    programs: &Programs,
    scratch: &Path,
    mut tell: impl FnMut(&Turn, &Result<Report, ChildError>),
) -> Result<Comparison, ChildError> {
    let known = programs.ask(config)?;
    let failed = |error| ChildError::Scratch(scratch.to_owned(), error);
    // A report of a process that was killed is none of this comparison's.
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(scratch).map_err(failed)?;
    let loads = config.shares_loads.then(|| Loads::create(config, scratch)).transpose();
    let loads = loads.map_err(failed)?;
    let mut children = Children {
        programs,
        known: &known,
        scratch,
        loads: loads.as_ref().map(Loads::path),
        number: 0,
        tell: &mut tell,
    };
    let mut comparison = Comparison::default();
    for workload in turns(config) {
        let searches = find_cache::search_all(config, &workload, &mut children);
        for mut turn in workload {
            let found = searches.iter().find(|search| search.is_of(&turn));
            turn.options.extend(found.map(|search| format!("--cache={}", search.cache_bytes)));
            match children.run(&turn) {
                // Two of one name may differ in their options alone.
                Ok(report) => comparison.runs.push(Report {
                    engine: turn.store,
                    workload: turn.workload,
                    round: turn.round,
                    ..report
                }),
                Err(error) => comparison.failures.push(Failure {
                    workload: turn.workload,
                    store: turn.store,
                    round: turn.round,
                    problem: error.to_string(),
                }),
            }
        }
        comparison.searches.extend(searches);
    }
    comparison.summary = summarise(config, &comparison);
    comparison.builds = compare_builds(config, &comparison.runs);
    Ok(comparison)
}

/// Runs the children of one comparison.
struct Children<'a> {
    programs: &'a Programs,
    known: &'a Known,
    scratch: &'a Path,
    loads: Option<&'a Path>,
    /// Children that were run.
    number: usize,
    tell: &'a mut dyn FnMut(&Turn, &Result<Report, ChildError>),
}

impl Children<'_> {
    fn run(&mut self, turn: &Turn) -> Result<Report, ChildError> {
        let report = self.scratch.join(format!("{}.json", self.number));
        self.number += 1;
        let result = self.programs.run(turn, &report, self.loads);
        (self.tell)(turn, &result);
        result
    }
}

/// The loads of one comparison, next to the data of its runs; removed on drop.
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
        // In scratch space; if it stays, no run begins from it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
