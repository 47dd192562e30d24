//! Runs of our own engines through the facade.

use crate::small_run::small_run;
use environment::Environment;
use thermocline::EngineKind;
use thermocline_bench::memory::Budget;
use thermocline_bench::progress::NoProgress;
use thermocline_bench::report::Report;
use thermocline_bench::run::{Config, RunError, execute, prepare};
use thermocline_bench::shape::Shape;
use thermocline_bench::stores::{Catalog, Durability, Ours};

/// The engines that need no cluster.
fn engines() -> impl Iterator<Item = &'static str> {
    EngineKind::ALL.iter().map(|engine| engine.name())
}

fn run(engine: &str, workload: &str, durability: Durability) -> Result<Report, RunError> {
    run_at_depth(1, engine, workload, durability)
}

fn run_at_depth(
    depth: usize,
    engine: &str,
    workload: &str,
    durability: Durability,
) -> Result<Report, RunError> {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let config = config(depth, engine, workload, durability);
    let config = Config { dir: Some(dir.path().to_owned()), ..config };
    execute(&config, &Ours, &Environment::real(), &NoProgress)
}

fn config(depth: usize, engine: &str, workload: &str, durability: Durability) -> Config {
    // More than fits in memory, so that gets are pending.
    let is_large = depth > 1 && engine == "f2";
    Config {
        keys: if is_large { 200_000 } else { 2000 },
        shape: Shape::F2,
        memory: Budget::Bytes(if is_large { 10 << 20 } else { 64 << 20 }),
        depth,
        ops: Some(4000),
        seed: 5,
        durability,
        ..small_run(engine, workload)
    }
}

#[test]
fn the_memory_engine_answers_rightly() {
    for workload in ["ycsb-a", "ycsb-d", "ycsb-e", "ycsb-f", "mixgraph-prefix"] {
        let report = run("memory", workload, Durability::Buffered).unwrap();
        assert!(report.is_right(), "{workload}: {:?}", report.wrong_read_examples);
        assert_eq!((report.ops, report.misses), (4000, 0), "{workload}");
        assert_eq!(report.device_source, "store");
    }
}

#[test]
fn what_overlaps_is_answered_rightly() {
    use Durability::{Buffered, None};
    for (engine, workload, durability) in [
        ("f2", "ycsb-c", Buffered),
        ("f2", "ycsb-a", Buffered),
        ("f2", "ycsb-f", None),
        ("f2", "ycsb-f", Buffered),
        ("lsm", "ycsb-a", Buffered),
        ("lsm", "ycsb-e", None),
        ("flexdb", "ycsb-a", Buffered),
        ("flexdb", "ycsb-e", None),
        ("memory", "ycsb-b", Buffered),
        ("memory", "ycsb-f", Buffered),
    ] {
        let report = run_at_depth(16, engine, workload, durability).unwrap();
        assert!(report.is_right(), "{workload}: {:?}", report.wrong_read_examples);
        assert_eq!((report.ops, report.misses), (4000, 0), "{workload}");
        assert!(report.verified_reads > 1500);
        // Each update of it returns the old value.
        assert!(report.verified_reads == 4000 || workload != "ycsb-f");
    }
}

/// Each engine is loaded, closed, and opened from a copy, and every read is of the version loaded.
#[test]
fn every_engine_begins_from_a_copy_of_its_load() {
    for engine in engines() {
        for durability in [Durability::None, Durability::Buffered] {
            let dir = tempfile::tempdir().expect("a scratch directory");
            let loads = dir.path().join("loads");
            for workload in ["ycsb-a", "ycsb-b"] {
                let config = Config {
                    dir: Some(dir.path().join("data")),
                    loads: Some(loads.clone()),
                    ..config(1, engine, workload, durability)
                };
                let env = Environment::real();
                assert!(prepare(&config, &Ours, &env, &NoProgress).expect("a load"));
                let report = execute(&config, &Ours, &env, &NoProgress).expect("a run");
                assert!(report.load.is_shared, "{engine}");
                assert!(report.is_right(), "{engine}: {:?}", report.wrong_read_examples);
                assert_eq!((report.ops, report.misses), (4000, 0), "{engine}");
            }
            assert_eq!(loads.read_dir().expect("loads").count(), 1, "{engine}");
        }
    }
}

#[test]
fn a_journal_writes_at_least_what_the_user_wrote_and_none_writes_nothing() {
    let journaled = run("memory", "ycsb-w", Durability::Buffered).unwrap();
    assert!(journaled.write_amplification.unwrap() >= 1.0);
    let unjournaled = run("memory", "ycsb-w", Durability::None).unwrap();
    assert_eq!(unjournaled.device.write_bytes, 0);
    assert!(unjournaled.space_bytes > 0, "flushed at the end");
}

#[test]
fn an_engine_that_does_not_exist_is_refused_by_name() {
    let error = run("sqlite", "ycsb-a", Durability::Buffered).unwrap_err().to_string();
    assert!(error.contains("sqlite"), "{error}");
}

#[test]
fn every_engine_but_memory_obeys_the_size_of_its_cache() {
    for engine in engines() {
        assert_eq!(Ours.sizes_cache(engine), engine != "memory", "{engine}");
        let dir = tempfile::tempdir().expect("a scratch directory");
        let config = config(1, engine, "ycsb-c", Durability::None);
        let cache_bytes = Some(48 << 20);
        let config = Config { dir: Some(dir.path().to_owned()), cache_bytes, ..config };
        let report = execute(&config, &Ours, &Environment::real(), &NoProgress).expect("a run");
        assert_eq!((report.cache_bytes, report.memory_budget_bytes), (cache_bytes, 64 << 20));
    }
}
