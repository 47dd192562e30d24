//! Suites, good and bad, and the page that is made of them.

use super::{Found, Suite, page};
use crate::compare::SummaryRow;
use crate::report::comparison_table;

const SUITE: &str = r#"
    title = "A page"
    about = "What it shows."
    rounds = 3
    options = ["--threads=2", "--keys=1m"]

    [[comparison]]
    title = "First"
    engine = "f2"
    with = ["rocksdb"]
    workloads = ["ycsb-a"]
    options = ["--keys=10m", "--memory=10%"]

    [[comparison]]
    title = "Second"
    engine = "f2"
    with = []
    workloads = ["ycsb-c"]
    rounds = 1
"#;

fn row(store: &str) -> SummaryRow {
    SummaryRow {
        workload: "ycsb-a".to_owned(),
        store: store.to_owned(),
        ops_per_s_median: 1000.0,
        ops_per_s_min: 900.0,
        ops_per_s_max: 1100.0,
        ratio_ours_to_this: Some(2.5),
        write_amplification: Some(1.25),
        space_bytes: 1 << 20,
        rounds: 3,
        p99_us_median: 250.0,
        p999_us_median: 900.0,
        max_us: 12_000.0,
        cpu_us_per_op_median: 1.0,
        read_amplification: None,
        rss_peak_bytes: 2 << 20,
        rss_peak_max_bytes: 3 << 20,
        memory_budget_bytes: 4 << 20,
        load_ops_per_s: 50_000.0,
        load_write_amplification: Some(7.5),
        load_read_amplification: Some(0.25),
        load_seconds: 20.0,
        load_rest_seconds: 1.5,
        load_cpu_us_per_op: 3.0,
        load_device_write_bytes: 8 << 20,
        load_device_read_bytes: 1 << 20,
        device_read_bytes: 5 << 20,
        device_write_bytes: 6 << 20,
        space_peak_bytes: 7 << 20,
        cache_bytes: Some(3 << 19),
        notes: Vec::new(),
        fills_budget: Some(true),
        is_quotable: true,
        wrong_reads: 0,
        failure: None,
    }
}

#[test]
fn long_names_do_not_run_together() {
    let long = SummaryRow { workload: "rw50@distribution=uniform".to_owned(), ..row("f2") };
    let table = comparison_table(&[long, row("f2:single-log:disk-bytes=1")]);
    assert!(table.contains("rw50@distribution=uniform  f2  "), "{table}");
    assert!(table.contains("f2:single-log:disk-bytes=1  "), "{table}");
}

#[test]
fn the_nearest_option_of_a_name_counts() {
    let suite = Suite::parse(SUITE).expect("a suite");
    let config = suite.config(&suite.comparison[0], Some(2), &["--memory=5%".to_owned()]);
    assert_eq!(config.options, ["--threads=2", "--keys=10m", "--memory=5%"]);
    assert_eq!((config.rounds, config.with), (2, vec!["rocksdb".to_owned()]));
    let rounds = |number: usize| suite.config(&suite.comparison[number], None, &[]).rounds;
    assert_eq!((rounds(0), rounds(1)), (3, 1));
}

#[test]
fn what_is_wrong_is_told_before_anything_runs() {
    let changes =
        [("ycsb-c", "ycsb-z"), ("rounds", "runds"), ("\"ycsb-a\"", ""), ("rocksdb", "f2:no-log")];
    for (from, to) in changes {
        assert!(Suite::parse(&SUITE.replace(from, to)).is_err(), "{from} as {to}");
    }
}

#[test]
fn the_suites_of_the_documents_can_be_run() {
    for text in [
        include_str!("../../../../docs/benchmarks/f2.toml"),
        include_str!("../../../../docs/benchmarks/f2-budgets.toml"),
        include_str!("../../../../docs/benchmarks/f2-budgets-most.toml"),
        include_str!("../../../../docs/benchmarks/f2-faster.toml"),
        include_str!("../../../../docs/benchmarks/f2-itself.toml"),
        include_str!("../../../../docs/benchmarks/f2-mixgraph.toml"),
        include_str!("../../../../docs/benchmarks/f2-single-log.toml"),
        include_str!("../../../../docs/benchmarks/flexdb.toml"),
        include_str!("../../../../docs/benchmarks/flexdb-micro.toml"),
        include_str!("../../../../docs/benchmarks/lsm.toml"),
        include_str!("../../../../docs/benchmarks/lsm-itself.toml"),
    ] {
        let suite = Suite::parse(text).expect("a suite");
        assert!(!suite.comparison.is_empty(), "{}", suite.title);
    }
}

#[test]
fn a_page_shows_what_was_found_and_says_what_was_not() {
    let suite = Suite::parse(SUITE).expect("a suite");
    let greedy = SummaryRow {
        rss_peak_max_bytes: 21 << 20,
        cache_bytes: None,
        notes: vec!["round 1: too much".to_owned()],
        fills_budget: Some(false),
        is_quotable: false,
        ..row("lmdb")
    };
    let failed = SummaryRow { rounds: 0, failure: Some("it | fell".to_owned()), ..row("rocksdb") };
    let found = Found {
        rows: vec![row("f2"), failed, greedy],
        setting: Some("ten keys".to_owned()),
        plots: "page-1.html".to_owned(),
    };
    let text = page(&suite, &[found], "./dev tables");
    for part in [
        "# A page",
        "| workload | f2 | rocksdb | lmdb |",
        "**1000** (900 - 1100), 2.50x, p99 250 us, p99.9 900 us, longest 12.00 ms, w-amp 1.25",
        "failed: it   fell",
        "| ycsb-a | f2 | 7.0 MiB | 1.5 MiB | 3.0 MiB | 75% | 1.00 us | 5.0 MiB | 6.0 MiB |",
        "| 6.0 MiB | 20.0 + 1.5 s | 50.0 k | 3.00 us | 7.50 | 0.25 |",
        "| ycsb-a | lmdb† | 7.0 MiB | - | 21.0 MiB | **525%** |",
        "**1000**† (900 - 1100)",
        "- ycsb-a, lmdb: round 1: too much.",
        "[Plots](page-1.html)",
        "1 comparisons of this page were not run",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}
