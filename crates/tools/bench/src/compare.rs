//! Ours and theirs, interleaved: A B A B ..., each run in a process of its own.
//!
//! 1. Ask each program whether it speaks the same protocol, before anything is loaded.
//! 2. For each workload, find for each store the largest cache with which its resident peak stays
//!    within the budget (`search`), unless the budget is one in which everything fits.
//! 3. For each round, for each store in turn: run a child process, with one workload, or with all
//!    of them if they share an opening, with the same options and the round's own seed. Ours are
//!    run by this program, theirs by the peers' program, and a baseline runs ours again. If loads
//!    are shared, a child before it makes the load that it begins from, unless that load is already
//!    there.
//! 4. Read the reports that each writes, or take those of an earlier run that was interrupted
//!    (`kept`). A round that is killed for its memory runs again with a smaller cache. A child that
//!    fails otherwise is a failure next to the store's name, and the comparison continues.
//! 5. Summarise: medians, spread, ours over theirs, and the ratios of the two builds round by
//!    round.
//!
//! Interleaving spreads the machine's moods over all stores; processes of their own keep resident
//! memory, I/O counts and cgroups apart.

mod baseline;
mod child;
mod find_cache;
mod kept;
mod plan;
mod protocol;
mod search;
mod summary;
#[cfg(test)]
mod tests;

pub use baseline::{BuildRatio, Spread, compare_builds};
pub use child::{ChildError, Programs};
pub use find_cache::Search;
pub use kept::{Kept, KeptError, Section};
pub use plan::{CompareConfig, Side, Turn, merged, turns};
pub(crate) use plan::{check_ours, parted};
pub use protocol::{Abilities, PROTOCOL, StoreAbilities};
pub use search::{Trial, Verdict};
pub use summary::{Comparison, Failure, SummaryRow, summarise};

use std::io;
use std::path::{Path, PathBuf};

use environment::Environment;

use crate::report::Report;
use child::{Known, Loads};

/// A report for each workload of a turn, or the reason why there is none.
pub type Outcome = Result<Vec<Report>, ChildError>;

/// The directories of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A directory for reports, which the comparison removes first.
    pub scratch: &'a Path,
    /// Results of an earlier run of the same comparison, which was interrupted.
    pub kept: Option<Section<'a>>,
}

impl<'a> Place<'a> {
    /// A comparison that keeps nothing.
    pub fn scratch(scratch: &'a Path) -> Self {
        Self { scratch, kept: None }
    }
}

/// Runs a comparison. `tell` is called with the outcome of each run.
///
/// # Errors
/// A program is missing or speaks another protocol; or the scratch directory for reports cannot be
/// made.
pub fn execute(
    config: &CompareConfig,
    programs: &Programs,
    place: Place<'_>,
    mut tell: impl FnMut(&Turn, &Outcome),
) -> Result<Comparison, ChildError> {
    let known = programs.ask(config)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| ChildError::Scratch(path, error)
    };
    // A report of a process that was killed is none of this comparison's.
    let _ = std::fs::remove_dir_all(place.scratch);
    std::fs::create_dir_all(place.scratch).map_err(failed(place.scratch))?;
    let loads = LoadsDir::create(config, place).map_err(failed(place.scratch))?;
    let mut children = Children {
        programs,
        known: &known,
        place,
        shares_loads: config.shares_loads,
        measures_loads: config.measures_loads(),
        loads: &loads,
        number: 0,
        tell: &mut tell,
    };
    let mut comparison = Comparison::default();
    for turns in turns(config) {
        let mut searches = find_cache::search_all(config, &turns, &mut children);
        for turn in turns {
            let search = searches.iter_mut().find(|search| search.is_of(&turn));
            let mut run = |cache_bytes| {
                let mut turn = turn.clone();
                turn.options.push(format!("--cache={cache_bytes}"));
                children.run(&turn)
            };
            let outcome = match search {
                Some(search) => search.run(&mut run),
                None => children.run(&turn),
            };
            match outcome {
                Ok(reports) => {
                    let first = reports.first().filter(|_| config.measures_loads());
                    comparison.runs.extend(first.map(Report::of_load));
                    comparison.runs.extend(reports);
                }
                Err(error) => {
                    let problem = error.to_string();
                    comparison.failures.extend(config.rows(&turn).into_iter().map(|workload| {
                        Failure {
                            workload,
                            store: turn.store.clone(),
                            round: turn.round,
                            problem: problem.clone(),
                        }
                    }));
                }
            }
        }
        comparison.searches.extend(searches);
    }
    loads.remove();
    comparison.summary = summarise(config, &comparison);
    comparison.builds = compare_builds(config, &comparison.runs);
    Ok(comparison)
}

/// Runs the children of one comparison.
struct Children<'a> {
    programs: &'a Programs,
    known: &'a Known,
    place: Place<'a>,
    shares_loads: bool,
    measures_loads: bool,
    loads: &'a LoadsDir,
    /// Children that were run.
    number: usize,
    tell: &'a mut dyn FnMut(&Turn, &Outcome),
}

impl Children<'_> {
    fn run(&mut self, turn: &Turn) -> Outcome {
        let program = self.programs.program(turn.side);
        let kept = self.place.kept.as_ref();
        if let Some(result) = kept.and_then(|kept| kept.find(program, turn)) {
            return result;
        }
        let report = self.place.scratch.join(format!("{}.json", self.number));
        self.number += 1;
        let has_load = self.shares_loads || self.measures_loads;
        let is_in_place = !self.shares_loads;
        let loads = has_load.then(|| Loads { path: self.loads.path(), is_in_place });
        let is_round = is_in_place && !turn.is_trial;
        if is_round {
            self.loads.clear();
        }
        let environment = Environment::real();
        let began = environment.now();
        let result = self.programs.run(turn, &report, loads).map(|reports| named(reports, turn));
        if is_round {
            self.loads.clear();
        }
        if let Some(kept) = kept {
            kept.note(program, turn, &result, environment.now() - began);
        }
        (self.tell)(turn, &result);
        result
    }

    /// Removes the loads of a search, which no round begins from.
    fn end_search(&self) {
        if !self.shares_loads {
            self.loads.clear();
        }
    }
}

/// The reports under the names of `turn`: two of one name may differ in their options alone.
fn named(reports: Vec<Report>, turn: &Turn) -> Vec<Report> {
    let named = reports.into_iter().zip(&turn.workloads).map(|(report, workload)| Report {
        engine: turn.store.clone(),
        workload: workload.clone(),
        round: turn.round,
        ..report
    });
    named.collect()
}

/// The loads of one comparison, next to the data of its runs. Removed on drop, unless an
/// interrupted run is to continue with them.
struct LoadsDir {
    path: PathBuf,
    is_kept: bool,
}

impl LoadsDir {
    fn create(config: &CompareConfig, place: Place<'_>) -> io::Result<Self> {
        let dir = config.options.iter().rev().find_map(|option| option.strip_prefix("--dir="));
        let path = match (&place.kept, dir) {
            (Some(kept), _) => kept.loads(),
            (None, Some(dir)) => {
                Path::new(dir).join(format!("thermocline-loads-{}", std::process::id()))
            }
            (None, None) => place.scratch.join("loads"),
        };
        std::fs::create_dir_all(&path)?;
        Ok(Self { path, is_kept: place.kept.is_some() })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn clear(&self) {
        // In scratch space; if it stays, no run begins from it.
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// Removes the loads of a comparison that has all its results.
    fn remove(self) {
        self.clear();
    }
}

impl Drop for LoadsDir {
    fn drop(&mut self) {
        if !self.is_kept {
            self.clear();
        }
    }
}
