//! `bench run`, and `bench prepare`, which makes the load that runs begin from.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use environment::Environment;

use super::{BenchError, EXIT_WRONG, WorkArgs};
use crate::memory::parse_bytes;
use crate::progress::TerminalProgress;
use crate::report::{run_table, write_json, write_page};
use crate::run::Config;
use crate::stores::Catalog;
use crate::workload::Workload;

/// One run.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The store to run, and what of it is to be otherwise, as f2:single-log:read-cache=0
    #[arg(long)]
    pub engine: String,
    /// ycsb-a to ycsb-f, ycsb-w, mixgraph-all, mixgraph-prefix (both also with -points), hashkv-p0 to -p3, r100, rw50,
    /// sw50, w100, s100, flexdb-put, flexdb-get, flexdb-scan, load, trace:FILE
    #[arg(long)]
    pub workload: Workload,
    /// The seed of the operations: the same seed does the same
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where `prepare` puts loads, and a run begins from a copy of the one that was made for runs like it;
    /// it loads anew if there is none. Below it each has a folder of its own, named by a hash of all that
    /// shapes it (store, keys, shape, memory, durability, I/O, threads, the order of the load): `data` with
    /// the store's files, `versions`, and `about.json`, which tells what it is. Remove a folder to be rid of
    /// it
    #[arg(long)]
    pub loads: Option<PathBuf>,
    /// Bytes of the store's cache, or of the whole that it splits by itself, as 64MiB [default: the part of
    /// --memory that the store's guide gives to it]
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
    let config = config(args)?;
    let report = crate::run::execute(&config, catalog, env, &TerminalProgress::new(env))?;
    print!("{}", run_table(&report));
    if let Some(path) = &args.json {
        write_json(path, &report)
            .map_err(|error| BenchError::Io(path.display().to_string(), error))?;
    }
    if let Some(path) = &args.html {
        let title = format!("{} on {}", report.engine, report.workload);
        write_page(path, &title, std::slice::from_ref(&report))
            .map_err(|error| BenchError::Io(path.display().to_string(), error))?;
    }
    if report.is_right() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} of {} answers were wrong", report.wrong_reads, report.verified_reads);
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
    let is_shared = crate::run::prepare(&config(args)?, catalog, env, &TerminalProgress::new(env))?;
    println!("{}", if is_shared { "prepared" } else { "each run loads for itself" });
    Ok(ExitCode::SUCCESS)
}

fn config(args: &RunArgs) -> Result<Config, BenchError> {
    let config = args.work.config(&args.engine, &args.workload, args.seed);
    let config = config.map_err(|error| BenchError::Usage(error.to_string()))?;
    Ok(Config { loads: args.loads.clone(), cache_bytes: args.cache, ..config })
}
