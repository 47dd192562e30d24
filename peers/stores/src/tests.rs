//! Every peer runs every kind of work, at every durability, without a wrong result.

use bench::memory::{Budget, PageCache};
use bench::progress::NoProgress;
use bench::report::Report;
use bench::run::{Config, WarmUp, execute, prepare};
use bench::stores::Durability;
use bench::workload::Workload;
use environment::Environment;

use crate::catalog::{NAMES, Peers};

fn run(store: &str, workload: &str, change: impl FnOnce(&mut Config)) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { dir: Some(dir.path().to_owned()), ..config(store, workload, change) };
    execute(&config, &Peers, &Environment::real(), &NoProgress).unwrap()
}

fn config(store: &str, workload: &str, change: impl FnOnce(&mut Config)) -> Config {
    let workload: Workload = workload.parse().unwrap();
    let mut config = Config {
        engine: store.to_owned(),
        keys: 3000,
        shape: "12+200".parse().unwrap(),
        memory: Budget::Bytes(16 << 20),
        theta: 0.99,
        distribution: workload.distribution(),
        workload,
        threads: 2,
        depth: 1,
        seconds: None,
        warm_up: WarmUp::Seconds(0.0),
        aged: 0,
        quiet_seconds: 0.0,
        cache_bytes: None,
        ops: Some(3000),
        rate: None,
        interval_seconds: 1.0,
        scan_length: None,
        seed: 3,
        dir: None,
        loads: None,
        is_in_place: false,
        durability: Durability::Buffered,
        io: None,
        page_cache: Some(PageCache::Free),
        cluster: None,
    };
    change(&mut config);
    config
}

#[test]
fn every_peer_answers_rightly() {
    for store in NAMES {
        for workload in ["ycsb-a", "ycsb-d", "ycsb-e", "ycsb-f", "mixgraph-prefix"] {
            let report = run(store, workload, |_| {});
            assert_eq!(report.ops, 3000, "{store} {workload}");
            assert!(report.is_right(), "{store} {workload}: {:?}", report.wrong_read_examples);
            assert_eq!(report.misses, 0, "{store} {workload}");
            assert!(report.space_bytes > 0);
        }
    }
}

/// Loaded, closed, and opened from a copy of its files: as runs do that share a load.
#[test]
fn every_peer_begins_from_a_copy_of_its_load() {
    for store in NAMES {
        for durability in [Durability::None, Durability::Buffered] {
            let loads = tempfile::tempdir().unwrap();
            let shares = |config: &mut Config| {
                config.durability = durability;
                config.loads = Some(loads.path().to_owned());
            };
            let config = config(store, "ycsb-a", shares);
            assert!(prepare(&config, &Peers, &Environment::real(), &NoProgress).unwrap());
            for workload in ["ycsb-a", "s100"] {
                let report = run(store, workload, shares);
                assert!(report.load.is_shared, "{store} {workload}");
                assert!(report.is_right(), "{store} {workload}: {:?}", report.wrong_read_examples);
                assert_eq!(report.misses, 0, "{store} {workload}");
            }
        }
    }
}

#[test]
fn every_peer_keeps_every_durability() {
    for store in NAMES {
        for durability in [Durability::None, Durability::Synced] {
            let report = run(store, "ycsb-a", |config| {
                config.durability = durability;
                config.keys = 500;
                config.ops = Some(200);
            });
            assert!(report.is_right(), "{store} {durability}");
        }
    }
}
