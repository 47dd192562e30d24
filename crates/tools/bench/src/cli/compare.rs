//! `bench compare`, and `bench protocol`, by which programs agree on what it asks of them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::options::named_workload;
use super::{BenchError, EXIT_WRONG, WorkArgs};
use crate::compare::{
    Abilities, ChildError, CompareConfig, Place, Programs, Turn, check_ours, parted,
};
use crate::report::{Report, builds_table, bytes, comparison_table, write_json, write_page};
use crate::stores::{Catalog, StoreError, is_ours};
use crate::workload::WorkloadError;

/// Arguments of a comparison of our stores with others.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Our engine, and what of it is to be otherwise, as f2:read-cache-bytes=0
    #[arg(long, default_value = "memory")]
    pub engine: String,
    /// Their stores, as rocksdb,fjall,lmdb,redb; or ours, as f2:single-log; of each, options of its
    /// runs alone, as rocksdb@threads=64
    #[arg(long, value_delimiter = ',')]
    pub with: Vec<String>,
    /// A workload; give several, or part them by commas; of each, options of its runs alone, as
    /// rw50@distribution=uniform
    #[arg(long, required = true, value_delimiter = ',', value_parser = named_workload)]
    pub workload: Vec<String>,
    /// How often each store runs each workload
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Another build of ours, which takes turns with this one on the same operations; the summary
    /// has the ratios of the two, round by round
    #[arg(long, value_name = "PROGRAM")]
    pub baseline: Option<PathBuf>,
    /// Give each store the cache of its own guide. Without this, runs before the measured rounds
    /// find the largest cache with which its resident peak stays within the budget, unless that is
    /// `all`
    #[arg(long)]
    pub default_caches: bool,
    /// Load each store once for all its runs that begin alike, and begin each from a copy
    #[arg(long)]
    pub share_loads: bool,
    /// Run all workloads of a round one after another on one store, which is opened and warmed up
    /// once. Without --share-loads each round also loads the store, and the load is a row of the
    /// summary
    #[arg(long)]
    pub one_opening: bool,
    /// The seed of the first round; each round has the next
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write all runs and the summary here as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write all runs here as a page with plots
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// The work
    #[command(flatten)]
    pub work: WorkArgs,
}

pub(super) fn execute(args: &CompareArgs, catalog: &dyn Catalog) -> Result<ExitCode, BenchError> {
    check(args, catalog)?;
    let config = CompareConfig {
        engine: args.engine.clone(),
        with: args.with.clone(),
        workloads: args.workload.clone(),
        rounds: args.rounds,
        seed: args.seed,
        options: args.work.words(),
        shares_loads: args.share_loads,
        has_one_opening: args.one_opening,
        searches_caches: !args.default_caches,
        first_caches: Default::default(),
        has_baseline: args.baseline.is_some(),
    };
    let programs =
        Programs::find().map_err(|error| BenchError::Io("this program".to_owned(), error))?;
    let programs = Programs { baseline: args.baseline.clone(), ..programs };
    let peer = args.with.iter().find(|store| !is_ours(store));
    if let (Some(store), Some(missing)) = (peer, programs.missing_peers()) {
        return Err(BenchError::Usage(format!("{store:?} is none of our engines, and {missing}")));
    }
    let scratch = std::env::temp_dir().join(format!("thermocline-compare-{}", std::process::id()));
    let result = crate::compare::execute(&config, &programs, Place::scratch(&scratch), tell);
    // Only reports that have been read are in it.
    let _ = std::fs::remove_dir_all(&scratch);
    let comparison = result?;
    print!("{}{}", comparison_table(&comparison.summary), builds_table(&comparison.builds));
    let write = |path: &Path, written: std::io::Result<()>| {
        written.map_err(|error| BenchError::Io(path.display().to_string(), error))
    };
    if let Some(path) = &args.json {
        write(path, write_json(path, &comparison))?;
    }
    if let Some(path) = &args.html {
        let title = format!("{} compared with {}", config.engine, config.with.join(", "));
        write(path, write_page(path, &title, &comparison.runs))?;
    }
    Ok(if comparison.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) })
}

/// Refuses what would fail in every run, before the first one.
fn check(args: &CompareArgs, catalog: &dyn Catalog) -> Result<(), BenchError> {
    let usage = |error: StoreError| BenchError::Usage(format!("{}: {error}", args.engine));
    for named in &args.workload {
        let workload =
            parted(named).0.parse().map_err(|error: WorkloadError| usage(error.into()))?;
        catalog.check(parted(&args.engine).0, &workload).map_err(usage)?;
    }
    check_ours(args.with.iter(), &args.workload).map_err(BenchError::Usage)
}

/// A line for each report of a turn, on standard error.
pub(super) fn tell(turn: &Turn, result: &Result<Vec<Report>, ChildError>) {
    let name = |workload: &str| match turn.is_trial {
        true => format!("{workload} search {}", turn.store),
        false => format!("{workload} round {} {}", turn.round + 1, turn.store),
    };
    let reports = match result {
        Ok(reports) => reports,
        Err(error) => return eprintln!("{}: {error}", name(&turn.workload())),
    };
    if turn.is_trial {
        let Some(report) = reports.iter().max_by_key(|report| report.rss_peak_bytes) else {
            return;
        };
        let cache = report.cache_bytes.map_or("no cache".to_owned(), bytes);
        let (peak, budget) = (bytes(report.rss_peak_bytes), bytes(report.memory_budget_bytes));
        return eprintln!(
            "{}: cache {cache}, resident peak {peak} of {budget}",
            name(&turn.workload())
        );
    }
    for report in reports {
        let name = name(&report.workload);
        match report.is_right() {
            true => eprintln!("{name}: {:.0} ops/s", report.ops_per_s),
            false => eprintln!("{name}: {} WRONG answers", report.wrong_reads),
        }
    }
}

/// Prints what this program can do, for the program that runs a comparison.
pub(super) fn protocol(catalog: &dyn Catalog) -> Result<ExitCode, BenchError> {
    let failed = |error: serde_json::Error| BenchError::Io("this program".to_owned(), error.into());
    println!("{}", serde_json::to_string(&Abilities::of(catalog)).map_err(failed)?);
    Ok(ExitCode::SUCCESS)
}
