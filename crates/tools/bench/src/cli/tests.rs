//! The command line is well formed, means what the contract says, and survives being handed on.

use clap::{CommandFactory, Parser};

use super::*;
use crate::memory::{Budget, PageCache};
use crate::run::{Config, WARM_UP_MAX_SECONDS, WarmUp};
use crate::stores::{ClusterPlace, Durability, Io};

#[derive(Debug, Parser)]
struct Program {
    #[command(subcommand)]
    command: BenchCommand,
}

fn parse(line: &str) -> BenchCommand {
    let words = std::iter::once("bench").chain(line.split(' '));
    Program::try_parse_from(words).expect("a command line that is understood").command
}

fn run_args(line: &str) -> RunArgs {
    match parse(line) {
        BenchCommand::Run(args) => *args,
        other => panic!("not a run: {other:?}"),
    }
}

fn config(args: &RunArgs) -> Config {
    run::configs(args).expect("configurations").0
}

#[test]
fn several_workloads_have_options_of_their_own() {
    let args = run_args(
        "run --engine lsm --workload r100,rw50@distribution=uniform@seconds=2,w100 --seconds 9",
    );
    let (first, then) = run::configs(&args).expect("configurations");
    let seconds: Vec<Option<f64>> = then.iter().map(|row| row.seconds).collect();
    assert_eq!((first.seconds, seconds), (Some(9.0), vec![Some(2.0), Some(9.0)]));
    let distributions: Vec<String> = then.iter().map(|row| row.distribution.to_string()).collect();
    assert_eq!(distributions, ["uniform", "zipfian"]);
    let unknown = run_args("run --engine lsm --workload r100,rw50@colour=red");
    assert!(
        matches!(run::configs(&unknown), Err(BenchError::Usage(said)) if said.contains("colour"))
    );
}

#[test]
fn the_definitions_are_well_formed() {
    Program::command().debug_assert();
}

#[test]
fn the_contracts_example_is_understood() {
    let args = run_args(
        "run --engine f2 --workload ycsb-a --keys 10m --shape 8+100 --memory 10% --theta 0.99 \
         --threads 2 --seconds 30 --seed 1 --json out.json --html out.html --dir D \
         --durability synced --page-cache counted --io direct --rate 1000 --interval 0.5",
    );
    let config = config(&args);
    assert_eq!((config.engine.as_str(), config.keys, config.threads), ("f2", 10_000_000, 2));
    assert_eq!(config.memory, Budget::Percent(10.0));
    assert_eq!(config.durability, Durability::Synced);
    assert_eq!((config.io, config.page_cache), (Some(Io::Direct), Some(PageCache::Counted)));
    assert_eq!((config.seconds, config.rate), (Some(30.0), Some(1000.0)));
    assert_eq!(config.warm_up, WarmUp::UntilSteady { seconds_max: WARM_UP_MAX_SECONDS });
}

#[test]
fn what_is_left_out_is_the_workloads_own() {
    let args = run_args("run --engine memory --workload hashkv-p2 --alpha 100");
    let config = config(&args);
    assert_eq!(config.shape.to_string(), "24+1000");
    assert!((config.theta - 0.99).abs() < 1e-12);
    let none = WarmUp::Seconds(0.0);
    assert_eq!(config.warm_up, none, "a phase that ends by count has no warm-up");
    let flushed = run_args("run --engine memory --workload load --durability flushed");
    assert_eq!(flushed.work.durability, Durability::Buffered);
}

#[test]
fn options_survive_being_handed_to_a_child() {
    let line = "run --engine a --workload ycsb-a --keys 5 --shape 9+9 --memory 2.5% --theta 1.2 \
         --distribution hotspot:10:90 --threads 3 --seconds 1.5 --warmup 0.25 --ops 7 --rate 8.5 \
         --interval 0.5 --aged 2 --scan-length 9 --dir /d --durability none --io buffered --page-cache free";
    let args = run_args(line);
    let again =
        run_args(&format!("run --engine=a --workload=ycsb-a {}", args.work.words().join(" ")));
    assert_eq!(format!("{:?}", args.work), format!("{:?}", again.work));
}

#[test]
fn a_cluster_is_understood_and_handed_to_a_child() {
    let work = "--cluster h1:7400,h2:7400 --certificates c --node 2";
    let args = run_args(&format!("run --engine nova --workload rw50 {work}"));
    let cluster = config(&args).cluster.expect("it is given");
    assert_eq!(cluster.place, ClusterPlace::Running("h1:7400,h2:7400".to_owned()));
    assert_eq!((cluster.certificates.to_str(), cluster.node), (Some("c"), 2));
    assert!(cluster.is_elsewhere());
    let words = args.work.words().join(" ");
    let again = run_args(&format!("run --engine nova --workload rw50 {words}"));
    assert_eq!(format!("{:?}", args.work), format!("{:?}", again.work));
    let dev = run_args("run --engine nova --workload rw50 --cluster dev");
    let cluster = config(&dev).cluster.expect("it is given");
    assert!(cluster.place == ClusterPlace::Dev && !cluster.is_elsewhere());
    // Programs that know no cluster understand the words of other runs.
    let without = run_args("run --engine lsm --workload rw50 --certificates c");
    assert!(!without.work.words().iter().any(|word| word.contains("certificates")));
    assert_eq!(config(&without).cluster, None);
}

#[test]
fn a_comparison_takes_lists() {
    let line = "compare --with rocksdb,fjall --workload ycsb-a@threads=1,load --workload trace:x \
         --rounds 2 --share-loads --baseline ../other --default-caches";
    let BenchCommand::Compare(args) = parse(line) else {
        panic!("not a comparison");
    };
    assert_eq!(args.with, ["rocksdb", "fjall"]);
    assert_eq!(args.workload, ["ycsb-a@threads=1", "load", "trace:x"]);
    assert!(args.share_loads && args.default_caches);
    assert_eq!(args.baseline.as_deref(), Some(std::path::Path::new("../other")));
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "run --engine a",
        "run --engine a --workload none",
        "run --engine a --workload ycsb-a --keys 0",
        "run --engine a --workload ycsb-a --memory lots",
        "run --engine a --workload ycsb-a --theta 1 --alpha 2",
        "run --engine a --workload ycsb-a --durability maybe",
        "run --engine nova --workload ycsb-a --node one",
        "compare --workload ycsb-a --rounds 0",
        "compare --workload ycsb-z@threads=1",
        "compare",
    ] {
        let words = std::iter::once("bench").chain(line.split(' '));
        assert!(Program::try_parse_from(words).is_err(), "{line}");
    }
}
