//! `thermocline-peers bench run ...`: the benchmark of `thermocline`, over other people's stores.

mod catalog;
#[cfg(feature = "faster")]
mod faster;
mod fjall;
mod leveldb;
mod lmdb;
mod redb;
mod rocksdb;
mod stripes;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use bench::cli::{BenchCommand, execute};
use clap::Parser;
use environment::Environment;

/// The allocator that RocksDB's guide advises, for all peers alike, also for those in C++: the
/// program's `malloc` is the one that their libraries are linked to.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the benchmark against other people's stores
#[derive(Parser)]
#[command(name = "thermocline-peers", version)]
enum Cli {
    /// Measure a store
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn main() -> ExitCode {
    let Cli::Bench(command) = Cli::parse();
    match execute(&command, &catalog::Peers, &Environment::real()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("thermocline-peers: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
