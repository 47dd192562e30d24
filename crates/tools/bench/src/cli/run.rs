//! `bench run`, and `bench prepare`, which makes the load that runs begin from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use environment::Environment;

use super::options::named_workload;
use super::{BenchError, EXIT_WRONG, WorkArgs};
use crate::compare::parted;
use crate::memory::parse_bytes;
use crate::progress::TerminalProgress;
use crate::report::{run_table, write_json, write_page};
use crate::run::Config;
use crate::stores::Catalog;
use crate::workload::{Workload, WorkloadError};

/// One run.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The store to run, and what of it is to be otherwise, as f2:single-log:read-cache-bytes=0
    #[arg(long)]
    pub engine: String,
    /// ycsb-a to ycsb-f, ycsb-w, mixgraph-all, mixgraph-prefix (both also with -points), hashkv-p0
    /// to -p3, r100, rw50, sw50, w100, s100, flexdb-put, flexdb-get, flexdb-scan, load, trace:FILE.
    /// Several, parted by commas, run one after another on one store, which is opened and warmed up
    /// once; of each but the first, options of its own, as rw50@distribution=uniform. The JSON then
    /// is a list of reports
    #[arg(long, required = true, value_delimiter = ',', value_parser = named_workload)]
    pub workload: Vec<String>,
    /// The seed of the operations: the same seed does the same
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory in which `prepare` puts loads. A run begins from a copy of the load that was made
    /// for runs like it; if there is none, the run loads again. Each load has a folder of its own,
    /// named by a hash of all that shapes it (store, keys, shape, memory, durability, I/O, threads,
    /// the order of the load). The folder has `data` with the store's files, `versions`, and
    /// `about.json`, which describes the load. Remove a folder to remove its load
    #[arg(long)]
    pub loads: Option<PathBuf>,
    /// Open the load in --loads in place, with no copy, and leave the changes of the run there
    #[arg(long, requires = "loads")]
    pub in_place: bool,
    /// Bytes of the store's cache, or of the whole that it splits by itself, as 64MiB [default: the
    /// part of --memory that the store's guide gives to it]
    #[arg(long, value_parser = parse_bytes)]
    pub cache: Option<u64>,
    /// Write the report here as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write the report here as a page with plots
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// The work
    #[command(flatten)]
    pub work: WorkArgs,
}

pub(super) fn execute(
    args: &RunArgs,
    catalog: &dyn Catalog,
    env: &Environment,
) -> Result<ExitCode, BenchError> {
    let (first, then) = configs(args)?;
    let progress = TerminalProgress::new(env);
    let reports = crate::run::execute_rows(&first, &then, catalog, env, &progress)?;
    for report in &reports {
        print!("{}", run_table(report));
    }
    let written = |path: &Path, result: std::io::Result<()>| {
        result.map_err(|error| BenchError::Io(path.display().to_string(), error))
    };
    if let Some(path) = &args.json {
        written(
            path,
            match &reports[..] {
                [report] => write_json(path, report),
                reports => write_json(path, &reports),
            },
        )?;
    }
    if let Some(path) = &args.html {
        let title = format!("{} on {}", first.engine, args.workload.join(", "));
        written(path, write_page(path, &title, &reports))?;
    }
    let (wrong, verified) = reports.iter().fold((0, 0), |(wrong, verified), report| {
        (wrong + report.wrong_reads, verified + report.verified_reads)
    });
    if wrong == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{wrong} of {verified} answers were wrong");
    Ok(ExitCode::from(EXIT_WRONG))
}

pub(super) fn prepare(
    args: &RunArgs,
    catalog: &dyn Catalog,
    env: &Environment,
) -> Result<ExitCode, BenchError> {
    if args.loads.is_none() {
        return Err(BenchError::Usage("--loads: where is the load to be kept?".to_owned()));
    }
    let (first, _) = configs(args)?;
    let is_shared = crate::run::prepare(&first, catalog, env, &TerminalProgress::new(env))?;
    println!("{}", if is_shared { "prepared" } else { "each run loads for itself" });
    Ok(ExitCode::SUCCESS)
}

/// The run of the first workload, and those of the others on the same store.
pub(super) fn configs(args: &RunArgs) -> Result<(Config, Vec<Config>), BenchError> {
    let config = |named: &String| -> Result<Config, BenchError> {
        let usage = |error: &dyn std::error::Error| BenchError::Usage(error.to_string());
        let (name, own) = parted(named);
        let workload: Workload = name.parse().map_err(|error: WorkloadError| usage(&error))?;
        let work = args.work.with(own).map_err(|error| usage(&error))?;
        let config = work.config(&args.engine, &workload, args.seed);
        let config = config.map_err(|error| usage(&error))?;
        let (loads, is_in_place) = (args.loads.clone(), args.in_place);
        Ok(Config { loads, is_in_place, cache_bytes: args.cache, ..config })
    };
    let mut configs = args.workload.iter().map(config).collect::<Result<Vec<_>, _>>()?;
    let first = configs.remove(0);
    // Each row has the shape of the first, whatever the shape of its own workload.
    let then = configs.into_iter().map(|row| Config { shape: first.shape, ..row }).collect();
    Ok((first, then))
}
