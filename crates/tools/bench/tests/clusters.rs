//! Runs of the engine `nova`, and the runs that it refuses.

use std::path::PathBuf;

use environment::Environment;
use thermocline_bench::progress::NoProgress;
use thermocline_bench::report::Report;
use thermocline_bench::run::{Config, RunError, execute};
use thermocline_bench::stores::{ClusterPlace, ClusterSettings, Ours};

use crate::small_run::small_run;

/// A run of few operations on the cluster at `place`.
fn on_cluster(engine: &str, workload: &str, place: ClusterPlace) -> Config {
    let certificates = PathBuf::from("/nonexistent");
    Config {
        keys: 300,
        ops: Some(600),
        cluster: Some(ClusterSettings { place, certificates, node: 1 }),
        ..small_run(engine, workload)
    }
}

fn run(config: &Config) -> Result<Report, RunError> {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let config = Config { dir: Some(dir.path().to_owned()), ..config.clone() };
    execute(&config, &Ours, &Environment::real(), &NoProgress)
}

/// Returns the refusal of a run, before anything is made for it.
fn refusal(config: &Config) -> String {
    match run(config) {
        Err(error @ RunError::Config(_)) => error.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

#[test]
fn other_engines_have_no_cluster() {
    let refused = refusal(&on_cluster("lsm", "ycsb-a", ClusterPlace::Dev));
    assert!(refused.contains("only the engine nova"), "{refused}");
}

#[cfg(not(feature = "cluster"))]
#[test]
fn a_program_without_the_feature_names_it() {
    let refused = refusal(&on_cluster("nova", "ycsb-a", ClusterPlace::Dev));
    assert!(refused.contains("without the feature cluster"), "{refused}");
}

#[cfg(feature = "cluster")]
mod with_feature {
    use thermocline_bench::memory::{Budget, PageCache};
    use thermocline_bench::report::run_table;
    use thermocline_bench::run::prepare;
    use thermocline_bench::stores::{Durability, Io};

    use super::*;

    fn dev(engine: &str, workload: &str) -> Config {
        on_cluster(engine, workload, ClusterPlace::Dev)
    }

    fn running(engine: &str) -> Config {
        let place = ClusterPlace::Running("127.0.0.1:1,127.0.0.1:2".to_owned());
        let durability = Durability::Buffered;
        Config { durability, ..on_cluster(engine, "rw50", place) }
    }

    /// Puts, gets, scans, inserts and read-modify-writes, of which each result is checked.
    #[test]
    fn a_cluster_in_this_process_is_a_store() {
        for (workload, durability) in [
            ("ycsb-a", Durability::Buffered),
            ("ycsb-e", Durability::None),
            ("ycsb-f", Durability::Synced),
        ] {
            let memory = Budget::Bytes(64 << 20);
            let report = run(&Config { durability, memory, ..dev("nova", workload) });
            let report = report.expect("a run");
            assert!(report.is_right(), "{workload}: {:?}", report.wrong_read_examples);
            assert_eq!((report.ops, report.misses), (600, 0), "{workload}");
            assert_eq!(report.device_source, "store");
            assert!(!report.is_elsewhere && report.rss_peak_bytes > 0, "{workload}");
            let memory = (report.memory_budget_bytes, report.cache_bytes);
            assert_eq!(memory, (64 << 20, Some(64 << 20)));
            // Two StoCs at least have each byte of a log.
            let written = report.load.write_amplification.expect("keys were loaded");
            assert!(written > 1.9 || durability == Durability::None, "{workload}: {written}");
        }
    }

    /// Operations overlap as they do over any other database.
    #[test]
    fn operations_on_a_cluster_in_this_process_overlap() {
        let config = Config { depth: 8, durability: Durability::Buffered, ..dev("nova", "ycsb-f") };
        let report = run(&config).expect("a run");
        assert!(report.is_right(), "{:?}", report.wrong_read_examples);
        assert_eq!((report.ops, report.misses, report.depth), (600, 0, 8));
    }

    /// A cluster is loaded, closed, and opened from a copy of its directory.
    #[test]
    fn a_cluster_in_this_process_begins_from_a_copy_of_its_load() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let config = Config {
            durability: Durability::Buffered,
            loads: Some(dir.path().join("loads")),
            ..dev("nova", "ycsb-a")
        };
        assert!(prepare(&config, &Ours, &Environment::real(), &NoProgress).expect("a load"));
        let report = run(&config).expect("a run");
        assert!(report.load.is_shared && report.is_right(), "{:?}", report.wrong_read_examples);
        assert_eq!((report.ops, report.misses), (600, 0));
    }

    #[test]
    fn a_run_without_its_cluster_is_refused() {
        let refused = refusal(&Config { cluster: None, ..dev("nova", "ycsb-a") });
        assert!(refused.contains("needs --cluster"), "{refused}");
        let refused = refusal(&dev("nova:colour=red", "ycsb-a"));
        assert!(refused.contains("colour"), "{refused}");
    }

    #[test]
    fn what_a_cluster_has_no_means_for_is_refused() {
        let mib = 64 << 20;
        for (config, part) in [
            (Config { io: Some(Io::Direct), ..dev("nova", "ycsb-a") }, "--io"),
            (dev("nova:ranges=2", "ycsb-a"), "has one range"),
            (Config { io: Some(Io::Buffered), ..running("nova") }, "--io"),
            (Config { durability: Durability::None, ..running("nova") }, "--durability none"),
            (Config { memory: Budget::Bytes(mib), ..running("nova") }, "--memory"),
            (Config { page_cache: Some(PageCache::Counted), ..running("nova") }, "--page-cache"),
            (Config { cache_bytes: Some(mib), ..running("nova") }, "--cache"),
            (Config { loads: Some("loads".into()), ..running("nova") }, "--loads"),
            (Config { depth: 2, ..running("nova") }, "--depth"),
            (running("nova:merging=off"), "belong to its LTCs"),
        ] {
            let refused = refusal(&config);
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let place = ClusterPlace::Running("127.0.0.1".to_owned());
        let refused = refusal(&on_cluster("nova", "rw50", place));
        assert!(refused.contains("is no host with a port"), "{refused}");
    }

    #[test]
    fn a_running_cluster_needs_certificates() {
        let error = run(&running("nova:ranges=2")).expect_err("there are none").to_string();
        assert!(error.contains("/nonexistent/ca.pem"), "{error}");
    }

    #[test]
    fn a_report_says_that_the_store_is_elsewhere() {
        let report = Report { is_elsewhere: true, ..Report::default() };
        let table = run_table(&report);
        assert!(table.contains("no limit: the store is in other processes"), "{table}");
        assert!(table.contains("not measured"), "{table}");
        assert!(!table.contains("resident peak") && !table.contains("at the device"), "{table}");
    }
}
