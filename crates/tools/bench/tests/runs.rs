//! Whole runs against right maps and maps that return wrong results, and the report's contract.

use crate::small_run::small_run;
use crate::stores::{Maps, UNOPENED};
use environment::Environment;
use thermocline_bench::distribution::Distribution;
use thermocline_bench::progress::NoProgress;
use thermocline_bench::report::{Report, page, run_table};
use thermocline_bench::run::{Config, RunError, execute, prepare};

fn config(engine: &str, workload: &str) -> Config {
    Config { interval_seconds: 0.05, ..small_run(engine, workload) }
}

fn run(config: &Config) -> Report {
    // Runs of one process would share the name of their data's directory.
    let dir = tempfile::tempdir().expect("a scratch directory");
    let config = Config { dir: Some(dir.path().to_owned()), ..config.clone() };
    let report = execute(&config, &Maps, &Environment::real(), &NoProgress).expect("a run");
    assert_eq!(
        dir.path().read_dir().expect("the directory").count(),
        0,
        "the run left its data behind"
    );
    report
}

#[test]
fn every_workload_runs_and_a_right_store_has_no_wrong_answer() {
    for workload in [
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "ycsb-w",
        "mixgraph-all",
        "mixgraph-prefix",
        "r100",
        "rw50",
        "sw50",
        "w100",
        "s100",
        "flexdb-get",
        "flexdb-scan",
    ] {
        let report = run(&Config { ops: Some(5000), ..config("map", workload) });
        assert_eq!(report.ops, 5000, "{workload}");
        assert_eq!(report.wrong_read_examples, Vec::<String>::new(), "{workload}");
        assert_eq!(report.misses, 0, "{workload}");
        assert_eq!(report.versions, "exact");
        let reads = workload != "w100";
        assert_eq!(report.verified_reads > 0, reads, "{workload}");
        let writes = !matches!(workload, "ycsb-c" | "r100" | "s100" | "flexdb-get" | "flexdb-scan");
        assert_eq!(report.user.write_bytes > 0, writes, "{workload}");
    }
}

#[test]
fn every_distribution_runs() {
    for name in [
        "zipfian",
        "zipfian-ordered",
        "uniform",
        "latest",
        "hotspot:10:90",
        "composite",
        "sequential",
    ] {
        for workload in ["ycsb-a", "ycsb-e"] {
            let distribution: Distribution = name.parse().unwrap();
            let report = run(&Config { distribution, ops: Some(4000), ..config("map", workload) });
            assert!(report.is_right(), "{name}: {:?}", report.wrong_read_examples);
        }
    }
}

#[test]
fn every_lie_is_caught() {
    for (store, workload, says) in [
        ("stale", "ycsb-a", "stale"),
        ("wrong-key", "ycsb-c", "another key"),
        ("torn", "ycsb-a", "torn"),
        ("lost-write", "ycsb-a", "stale"),
        ("lost-key", "ycsb-b", "absent"),
        ("scan-order", "ycsb-e", "out of order"),
        ("scan-hole", "mixgraph-all", "skipped"),
        ("stale", "ycsb-f", "stale"),
    ] {
        for threads in [1, 2] {
            let config = Config { threads, ..config(store, workload) };
            let report = run(&config);
            assert!(!report.is_right(), "{store} on {workload} with {threads}: not caught");
            assert!(!report.is_quotable());
            let said = report.wrong_read_examples.join("\n");
            assert!(said.contains(says), "{store} on {workload}: {said}");
        }
    }
}

#[test]
fn loads_and_phases_are_measured_as_they_are() {
    let load = run(&Config { ops: None, ..config("map", "load") });
    assert_eq!((load.ops, load.verified_reads), (2000, 0));
    assert!(load.latency_us.p50 > 0.0);
    let p0 = run(&Config { ops: None, ..config("map", "hashkv-p0") });
    assert_eq!(p0.ops, 2000);
    let p3 = run(&Config { ops: None, ..config("map", "hashkv-p3") });
    assert_eq!((p3.ops, p3.user.write_bytes), (2000, 2000 * 52));
    assert_eq!(p3.write_amplification, Some(2.0));
    assert_eq!(p3.load.write_amplification, Some(2.0));
    assert_eq!(p3.live_bytes, 2000 * 52);
    assert_eq!(p3.device_source, "store");
}

#[test]
fn puts_begin_with_an_empty_store() {
    let config = |distribution| Config { distribution, ops: None, ..config("map", "flexdb-put") };
    let sequential = run(&config(Distribution::Sequential));
    assert_eq!((sequential.ops, sequential.user.write_bytes), (2000, 2000 * 52));
    assert_eq!((sequential.load.seconds, sequential.load.write_amplification), (0.0, None));
    assert_eq!(sequential.live_bytes, 2000 * 52, "each key once");
    let zipfian = run(&config(Distribution::Zipfian));
    assert_eq!(zipfian.ops, 2000);
    assert!(
        zipfian.live_bytes < 1500 * 52,
        "popular keys are written often: {}",
        zipfian.live_bytes
    );
}

/// A run that begins from a load, in a process of its own in effect: the map is opened from its
/// file.
#[test]
fn runs_begin_from_copies_of_one_load() {
    let loads = tempfile::tempdir().unwrap();
    let folders = || loads.path().read_dir().unwrap().count();
    let with_loads = |engine: &str, workload: &str| Config {
        loads: Some(loads.path().to_owned()),
        ..config(engine, workload)
    };
    let prepared = |config: &Config| prepare(config, &Maps, &Environment::real(), &NoProgress);
    assert!(!run(&with_loads("map", "ycsb-a")).load.is_shared, "none was made yet");
    for workload in ["ycsb-a", "ycsb-f", "rw50", "ycsb-e", "ycsb-a"] {
        let config = with_loads("map", workload);
        assert!(prepared(&config).unwrap(), "{workload}");
        let report = run(&config);
        assert!(report.load.is_shared && report.load.ops_per_s > 0.0, "{workload}");
        assert_eq!(report.load.write_amplification, Some(2.0));
        assert_eq!(report.wrong_read_examples, Vec::<String>::new(), "{workload}");
        assert_eq!((report.misses, report.versions.as_str()), (0, "exact"), "{workload}");
    }
    assert_eq!(folders(), 1, "all of them begin alike");
    // Runs whose load differs, or whose keys have another order, or of another store.
    let ordered = Config { distribution: Distribution::Composite, ..with_loads("map", "ycsb-a") };
    let larger = Config { keys: 3000, ..with_loads("map", "ycsb-a") };
    for (count, config) in [
        (2, ordered),
        (3, larger),
        (4, with_loads("map", "flexdb-get")),
        (4, with_loads("map", "flexdb-scan")),
        (5, with_loads("stale", "ycsb-a")),
    ] {
        assert!(prepared(&config).unwrap());
        assert_eq!(folders(), count);
        let report = run(&config);
        assert!(report.load.is_shared);
        assert_eq!(report.is_right(), config.engine == "map", "versions are known: a lie is seen");
    }
    for (engine, workload) in
        [("map", "load"), ("map", "hashkv-p0"), ("map", "flexdb-put"), ("lost-key", "r100")]
    {
        let config = with_loads(engine, workload);
        assert!(!prepared(&config).unwrap(), "{engine} {workload}");
        assert!(!run(&config).load.is_shared, "{engine} {workload}");
    }
    assert_eq!(folders(), 5);
}

#[test]
fn a_load_that_fails_leaves_nothing() {
    let loads = tempfile::tempdir().unwrap();
    let config = Config { loads: Some(loads.path().to_owned()), ..config(UNOPENED, "ycsb-a") };
    let error = prepare(&config, &Maps, &Environment::real(), &NoProgress).unwrap_err();
    assert!(error.to_string().contains("unopened does not open"), "{error}");
    assert_eq!(loads.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_trace_is_replayed_with_its_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace");
    let text = "put a 100\nget a 100\nget b 50\nrmw b 60\ndel b\nget b 0\nscan a 2\nget none 0\n";
    std::io::Write::write_all(
        &mut tempfile::NamedTempFile::new_in(dir.path())
            .and_then(|named| named.persist(&file).map_err(|error| error.error))
            .unwrap(),
        text.as_bytes(),
    )
    .unwrap();
    let workload = format!("trace:{}", file.display());
    let report = run(&Config { ops: None, ..config("map", &workload) });
    assert_eq!((report.ops, report.keys), (8, 1));
    assert_eq!(report.wrong_read_examples, Vec::<String>::new());
    assert_eq!(report.user.write_bytes, 1 + 100 + 1 + 60 + 1);
    assert_eq!(report.misses, 2);
}

#[test]
fn a_timed_run_ends_in_time_and_has_intervals() {
    let config = Config { ops: None, seconds: Some(0.4), ..config("map", "ycsb-b") };
    let report = run(&config);
    assert!((0.39..2.0).contains(&report.seconds), "{}", report.seconds);
    assert!(report.intervals.len() >= 3);
    let sum: f64 = report.latency_curve_us.iter().map(|&(_, us)| us).sum();
    assert!(sum > 0.0);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let config = Config { ops: Some(500), rate: Some(2000.0), ..config("map", "ycsb-a") };
    let report = run(&config);
    assert!(report.seconds > 0.24, "500 operations at 2000 a second took {}", report.seconds);
    assert_eq!(report.rate, Some(2000.0));
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    for (config, says) in [
        (Config { threads: 0, ..config("map", "ycsb-a") }, "threads: 0"),
        (Config { depth: 0, ..config("map", "ycsb-a") }, "depth: 0"),
        (Config { theta: -1.0, ..config("map", "ycsb-a") }, "theta"),
        (Config { seconds: Some(f64::NAN), ..config("map", "ycsb-a") }, "--seconds"),
        (config("none", "ycsb-a"), "there is no store \"none\""),
        (config(UNOPENED, "ycsb-a"), "unopened does not open"),
        (config("map", "trace:/no/such/file"), "/no/such/file"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { dir: Some(dir.path().to_owned()), ..config };
        let error: RunError =
            execute(&config, &Maps, &Environment::real(), &NoProgress).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Scripts build on these names.
#[test]
fn the_report_has_the_fields_of_the_contract() {
    let report = run(&config("map", "ycsb-a"));
    let json = serde_json::to_value(&report).unwrap();
    for field in [
        "engine",
        "workload",
        "keys",
        "shape",
        "threads",
        "ops",
        "seconds",
        "ops_per_s",
        "cpu_us_per_op",
        "rss_peak_bytes",
        "memory_budget_bytes",
        "write_amplification",
        "read_amplification",
        "space_bytes",
        "space_peak_bytes",
        "live_bytes",
        "verified_reads",
        "wrong_reads",
        "page_cache",
        "distribution",
        "theta",
        "versions",
        "intervals",
    ] {
        assert!(!json[field].is_null(), "{field} is missing");
    }
    for (object, fields) in [
        ("latency_us", &["p50", "p95", "p99", "p999", "max"][..]),
        ("device", &["read_bytes", "write_bytes", "read_ops", "write_ops"]),
        ("user", &["read_bytes", "write_bytes"]),
        (
            "load",
            &[
                "seconds",
                "rest_seconds",
                "ops_per_s",
                "write_amplification",
                "device_read_bytes",
                "device_write_bytes",
                "cpu_seconds",
                "cpu_us_per_op",
                "space_peak_bytes",
            ],
        ),
    ] {
        for field in fields {
            assert!(json[object][field].is_number(), "{object}.{field} is missing");
        }
    }
    let back: Report = serde_json::from_value(json).unwrap();
    assert_eq!(back.engine, report.engine);
}

#[test]
fn the_table_and_the_page_say_what_was_wrong() {
    let report = run(&config("torn", "ycsb-a"));
    assert!(run_table(&report).contains("torn"));
    let page = page("<title & all>", &[report]);
    assert!(page.contains("&lt;title &amp; all&gt;") && page.contains("torn"));
    assert!(!page.contains("<script") && !page.contains("http"), "the page loads something");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(!page.contains("NaN") && !page.contains("inf"));
}
