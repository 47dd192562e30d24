//! The configuration of a small run, of which each test changes the fields that it is about.

use thermocline_bench::memory::{Budget, PageCache};
use thermocline_bench::run::{Config, WarmUp};
use thermocline_bench::stores::Durability;
use thermocline_bench::workload::Workload;

/// A run of 20,000 operations over 2,000 keys. All data fits in memory.
pub(crate) fn small_run(engine: &str, workload: &str) -> Config {
    let workload: Workload = workload.parse().expect("a known workload");
    Config {
        engine: engine.to_owned(),
        keys: 2000,
        shape: "12+40".parse().expect("a shape"),
        memory: Budget::All,
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
        ops: Some(20_000),
        rate: None,
        interval_seconds: 1.0,
        scan_length: None,
        seed: 7,
        dir: None,
        loads: None,
        is_in_place: false,
        durability: Durability::None,
        io: None,
        page_cache: Some(PageCache::Free),
        cluster: None,
    }
}
