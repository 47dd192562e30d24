//! Suites, good and bad, and the page that is made of them.

use std::path::PathBuf;
use std::time::Duration;

use super::{Found, Origin, Suite, estimate, in_words, page};
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
        ops_per_s_rounds: vec![Some(900.0), Some(1000.0), Some(1100.0)],
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
    let table = comparison_table(&[long, row("f2:single-log:disk-bytes-max=1")]);
    assert!(table.contains("rw50@distribution=uniform  f2  "), "{table}");
    assert!(table.contains("f2:single-log:disk-bytes-max=1  "), "{table}");
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
    let changes = [
        ("ycsb-c", "ycsb-z"),
        ("rounds", "runds"),
        ("\"ycsb-a\"", ""),
        ("rocksdb", "f2:no-log"),
        ("rounds = 1", "first_caches = { f2 = \"much\" }"),
    ];
    for (from, to) in changes {
        assert!(Suite::parse(&SUITE.replace(from, to)).is_err(), "{from} as {to}");
    }
}

#[test]
fn the_suites_of_the_documents_can_be_run() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/benchmarks");
    let files = std::fs::read_dir(dir).expect("the directory").map(|entry| entry.expect("a file"));
    let is_suite = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let suites: Vec<PathBuf> = files.map(|file| file.path()).filter(is_suite).collect();
    assert!(suites.len() >= 8, "{suites:?}");
    for path in suites {
        let text = std::fs::read_to_string(&path).expect("a text");
        let suite = Suite::parse(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert!(!suite.comparison.is_empty(), "{path:?}");
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
        ratio_ours_to_this: Some(0.5),
        ops_per_s_rounds: vec![Some(1000.0), Some(2000.0), None],
        ..row("lmdb")
    };
    let failed = SummaryRow {
        rounds: 0,
        failure: Some("it | fell".to_owned()),
        ratio_ours_to_this: None,
        ..row("rocksdb")
    };
    let fjall = row("fjall");
    let found = Found {
        title: "First".to_owned(),
        rows: vec![row("f2"), failed, fjall, greedy],
        builds: Vec::new(),
        setting: Some("ten keys".to_owned()),
        origin: Some(Origin {
            commit: "0123456789ab".to_owned(),
            machine: "2 x processor, 24 GiB".to_owned(),
            date: "2026-11-28".to_owned(),
        }),
    };
    let text = page(&suite, &[found], "./dev tables", "");
    for part in [
        "# A page",
        "ten keys.\nCommit 0123456789ab, 2026-11-28, 2 x processor, 24 GiB.\n\n",
        "| workload | peer | ratio | ours, ops/s | peer, ops/s |",
        "| ycsb-a | lmdb | **0.50** (0.50 - 0.90) | 1000 | 1000† |",
        "| ycsb-a | fjall | **2.50** (1.00 - 1.00) | 1000 | 1000 |",
        "| ycsb-a | rocksdb | - | 1000 | failed |",
        "| ycsb-a | f2 | 1000 | 900 - 1100 | 250 us | 900 us | 12.00 ms | 1.00 us | 1.25 | 5.0 MiB |",
        "| 6.0 MiB | 1.5 MiB | 3.0 MiB, 75% | 7.0 MiB |",
        "| - | 21.0 MiB, **525%** | 7.0 MiB |",
        "| f2 | 20.0 + 1.5 s | 50.0 k | 3.00 us | 7.50 |",
        "- ycsb-a, lmdb: round 1: too much.",
        "- ycsb-a, rocksdb: a round failed: it   fell.",
        "1 comparisons of this page were not run",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    // Rows in which the peer leads come first.
    let place = |peer: &str| text.find(&format!("| ycsb-a | {peer} |")).expect("a row");
    assert!(place("lmdb") < place("fjall") && place("fjall") < place("rocksdb"), "{text}");
}

#[test]
fn a_comparison_knows_where_it_was_made() {
    let origin = Origin::here();
    assert!(origin.machine.contains("GiB") && !origin.machine.contains("unknown,"), "{origin}");
    assert_eq!(origin.date.len(), "2026-11-28".len(), "{origin}");
    assert!(origin.commit.len() >= 12 || origin.commit == "unknown", "{origin}");
}

#[test]
fn a_comparison_of_another_page_has_ratios_of_its_own() {
    let flexdb = SummaryRow { ops_per_s_median: 500.0, ..row("flexdb") };
    let rows = vec![row("lsm"), flexdb, row("rocksdb"), row("fjall")];
    let (title, builds) = ("First".to_owned(), Vec::new());
    let found = Found { title, rows, builds, setting: None, origin: None };
    let beside = found.beside("flexdb", &["rocksdb".to_owned()]);
    let rows: Vec<(&str, Option<f64>)> =
        beside.rows.iter().map(|row| (row.store.as_str(), row.ratio_ours_to_this)).collect();
    assert_eq!(rows, [("flexdb", Some(1.0)), ("rocksdb", Some(0.5))]);
}

#[test]
fn a_comparison_of_another_page_stays_if_that_page_has_no_figures() {
    let before =
        "# Page\n\n## First\n\n| kept |\n\n## Second\n\n| gone |\n\n## Third\n\n| last |\n";
    let mut suite = Suite::parse(SUITE).expect("a suite");
    let with = |suite: &Suite| page(suite, &[], "./dev tables", before);
    assert!(!with(&suite).contains("| kept |"), "its own comparison is made again");
    suite.comparison[0].from = Some("quoted".to_owned());
    let text = with(&suite);
    assert!(text.contains("## First\n\n| kept |\n\n") && !text.contains("gone"), "{text}");
    suite.comparison[0].title = "Third".to_owned();
    assert!(with(&suite).contains("## Third\n\n| last |\n"));
    suite.comparison[0].title = "Fourth".to_owned();
    assert!(with(&suite).contains("were not run"));
}

#[test]
fn a_suite_says_how_long_it_takes() {
    let suite = Suite::parse(SUITE).expect("a suite");
    let time = estimate(&suite, None, &["--seconds=10".to_owned()]);
    let longer = estimate(&suite, Some(9), &["--seconds=10".to_owned()]);
    assert!(time > Duration::from_secs(600) && longer > time * 2, "{time:?}, {longer:?}");
    let one_opening = SUITE.replace("rounds = 3", "rounds = 3\n one_opening = true");
    let suite = Suite::parse(&one_opening).expect("a suite");
    assert!(suite.config(&suite.comparison[0], None, &[]).has_one_opening);
    assert_eq!(in_words(Duration::from_secs(3601)), "1 h 1 min");
    assert_eq!(in_words(Duration::from_secs(59)), "1 min");
}
