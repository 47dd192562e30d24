//! Order of turns.

use super::*;
use crate::report::{Mark, Report, builds_table};

#[test]
fn stores_take_turns_within_a_workload() {
    let config = CompareConfig {
        engine: "memory".to_owned(),
        with: vec!["rocksdb".to_owned()],
        workloads: vec!["ycsb-a".to_owned(), "load".to_owned()],
        rounds: 2,
        seed: 5,
        options: vec!["--keys=10".to_owned()],
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: false,
    };
    let turns = turns(&config).concat();
    let order: Vec<(&str, &str, u32)> =
        turns.iter().map(|turn| (&*turn.workloads[0], &*turn.store, turn.round)).collect();
    assert_eq!(
        order,
        [
            ("ycsb-a", "memory", 0),
            ("ycsb-a", "rocksdb", 0),
            ("ycsb-a", "memory", 1),
            ("ycsb-a", "rocksdb", 1),
            ("load", "memory", 0),
            ("load", "rocksdb", 0),
            ("load", "memory", 1),
            ("load", "rocksdb", 1),
        ]
    );
    let options = ["--engine=rocksdb", "--workload=ycsb-a", "--seed=6", "--keys=10"];
    assert_eq!(turns[3].options, options);
    assert_eq!((turns[0].side, turns[1].side), (Side::Ours, Side::Peers));
}

#[test]
fn a_store_may_have_options_of_its_own() {
    let config = CompareConfig {
        engine: "memory@depth=64".to_owned(),
        with: vec!["rocksdb@threads=64@io=direct".to_owned(), "memory".to_owned()],
        workloads: vec!["ycsb-c".to_owned()],
        rounds: 1,
        seed: 1,
        options: vec!["--threads=2".to_owned(), "--depth=1".to_owned()],
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: false,
    };
    let turns = turns(&config).concat();
    let common = |engine: &str| -> Vec<String> {
        [engine, "--workload=ycsb-c", "--seed=1"].map(str::to_owned).to_vec()
    };
    let with = |engine: &str, own: &[&str]| -> Vec<String> {
        common(engine).into_iter().chain(own.iter().map(ToString::to_string)).collect()
    };
    assert_eq!(turns[0].options, with("--engine=memory", &["--threads=2", "--depth=64"]));
    let theirs = with("--engine=rocksdb", &["--depth=1", "--threads=64", "--io=direct"]);
    assert_eq!(turns[1].options, theirs);
    assert_eq!(turns[2].options, with("--engine=memory", &["--threads=2", "--depth=1"]));
    let sides: Vec<Side> = turns.iter().map(|turn| turn.side).collect();
    assert_eq!(sides, [Side::Ours, Side::Peers, Side::Ours]);
}

#[test]
fn a_workload_may_have_options_of_its_own_but_a_trace_has_a_file() {
    let config = CompareConfig {
        engine: "memory".to_owned(),
        with: vec!["rocksdb@distribution=latest".to_owned()],
        workloads: vec!["rw50@distribution=uniform@theta=0".to_owned(), "trace:a@b=c".to_owned()],
        rounds: 1,
        seed: 1,
        options: vec!["--theta=0.9".to_owned()],
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: false,
    };
    let turns = turns(&config).concat();
    assert_eq!(turns[0].workload(), "rw50@distribution=uniform@theta=0");
    let common = ["--engine=memory", "--workload=rw50", "--seed=1"];
    assert_eq!(turns[0].options[..3], common);
    assert_eq!(turns[0].options[3..], ["--distribution=uniform", "--theta=0"]);
    assert_eq!(
        turns[1].options[3..],
        ["--theta=0", "--distribution=latest"],
        "the store's is nearer"
    );
    assert_eq!(turns[2].options[1], "--workload=trace:a@b=c");
}

#[test]
fn two_builds_take_turns_with_the_same_operations() {
    let config = CompareConfig {
        engine: "memory@threads=1".to_owned(),
        with: vec!["rocksdb".to_owned()],
        workloads: vec!["ycsb-a".to_owned()],
        rounds: 2,
        seed: 5,
        options: Vec::new(),
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: true,
    };
    let turns = turns(&config).concat();
    let order: Vec<(&str, Side)> =
        turns.iter().map(|turn| (turn.store.as_str(), turn.side)).collect();
    let round = [
        ("memory@threads=1", Side::Ours),
        ("memory@threads=1 (baseline)", Side::Baseline),
        ("rocksdb", Side::Peers),
    ];
    assert_eq!(order, [round, round].concat());
    assert_eq!(turns[0].options, turns[1].options);
    assert_eq!(turns[3].options[2], "--seed=6");
    assert_eq!(turns[3].options, turns[4].options);
}

/// A report with some throughput, processor time and device operations per operation.
fn report(engine: &str, round: u32, rate: f64, cpu: f64, device_ops: u64) -> Report {
    let mut report = Report::default();
    engine.clone_into(&mut report.engine);
    "ycsb-a".clone_into(&mut report.workload);
    report.round = round;
    report.ops = 10;
    report.ops_per_s = rate;
    report.cpu_us_per_op = cpu;
    report.device.read_ops = device_ops / 2;
    report.device.write_ops = device_ops - device_ops / 2;
    report
}

#[test]
fn builds_are_compared_round_by_round() {
    let config = CompareConfig {
        engine: "memory".to_owned(),
        with: Vec::new(),
        workloads: vec!["ycsb-a".to_owned()],
        rounds: 4,
        seed: 1,
        options: Vec::new(),
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: true,
    };
    // The machine is ten times slower in the second round, and this build failed in the last one.
    let (this, base) = ("memory", "memory (baseline)");
    let runs = [
        report(this, 0, 120.0, 4.0, 20),
        report(base, 0, 100.0, 5.0, 10),
        report(this, 1, 11.0, 4.5, 30),
        report(base, 1, 10.0, 5.0, 10),
        report(this, 2, 90.0, 6.0, 10),
        report(base, 2, 100.0, 5.0, 10),
        report(base, 3, 1000.0, 5.0, 10),
    ];
    let rows = compare_builds(&config, &runs);
    assert_eq!((rows.len(), rows[0].rounds), (1, 3));
    let near = |spread: Option<Spread>, (median, min, max): (f64, f64, f64)| {
        let spread = spread.expect("some rounds");
        let figures = [(spread.median, median), (spread.min, min), (spread.max, max)];
        assert!(figures.iter().all(|(is, want)| (is - want).abs() < 1e-9), "{spread:?}");
    };
    near(rows[0].ops_per_s, (1.1, 0.9, 1.2));
    near(rows[0].cpu_us_per_op, (0.9, 0.8, 1.2));
    near(rows[0].device_ops_per_op, (2.0, 1.0, 3.0));
    let table = builds_table(&rows);
    assert!(table.contains("1.100 (0.900 - 1.200)"), "{table}");
    let idle = [report(this, 0, 1.0, 1.0, 0), report(base, 0, 1.0, 1.0, 0)];
    assert_eq!(compare_builds(&config, &idle)[0].device_ops_per_op, None);
    let alone = CompareConfig { has_baseline: false, ..config };
    assert!(compare_builds(&alone, &runs).is_empty());
}

#[test]
fn a_round_that_is_killed_runs_again_with_a_smaller_cache() {
    const MIB: u64 = 1 << 20;
    let search = |kept_bytes: u64| {
        let mut search = Search {
            workload: "ycsb-a".to_owned(),
            store: "rocksdb".to_owned(),
            budget_bytes: 320 * MIB,
            cache_bytes: 200 * MIB,
            verdict: Verdict::Fills,
            trials: Vec::new(),
            killed_with: Vec::new(),
        };
        let mut caches = Vec::new();
        let rounds = [0, 1].map(|_| {
            let outcome = search.run(|cache| {
                caches.push(cache / MIB);
                if cache <= kept_bytes { Ok(Vec::new()) } else { Err(ChildError::Killed) }
            });
            outcome.is_ok()
        });
        (rounds, caches, search.killed_with)
    };
    assert_eq!(search(200 * MIB), ([true; 2], vec![200, 200], Vec::new()));
    let killed = vec![200 * MIB, 190 * MIB];
    assert_eq!(search(185 * MIB), ([true; 2], vec![200, 190, 180, 180], killed));
    let (rounds, caches, _) = search(0);
    assert_eq!((rounds, caches), ([false; 2], vec![200, 190, 180, 170, 170]));
}

/// Two builds begin from copies of one load, which the baseline makes. A measured load is each
/// build's own.
#[test]
fn one_program_makes_the_load_of_two_builds() {
    let programs = |baseline: Option<&str>| Programs {
        ours: "ours".into(),
        peers: "peers".into(),
        baseline: baseline.map(Into::into),
    };
    let with = programs(Some("other"));
    let sides = [Side::Ours, Side::Baseline, Side::Peers];
    let of_copies = sides.map(|side| with.loader(side, false));
    assert_eq!(of_copies, [Side::Baseline, Side::Baseline, Side::Peers]);
    assert_eq!(sides.map(|side| with.loader(side, true)), sides);
    assert_eq!(programs(None).loader(Side::Ours, false), Side::Ours);
}

/// The largest peak of the rounds counts, no peak may be above the budget, and writes under reads
/// count in each round.
#[test]
fn a_row_fills_the_budget_by_its_largest_peak() {
    let config = CompareConfig {
        engine: "memory".to_owned(),
        with: Vec::new(),
        workloads: vec!["ycsb-c".to_owned()],
        rounds: 2,
        seed: 1,
        options: Vec::new(),
        shares_loads: false,
        has_one_opening: false,
        searches_caches: false,
        first_caches: Default::default(),
        has_baseline: false,
    };
    let off = |resident_bytes| Mark::OffBudget { resident_bytes, budget_bytes: 100 };
    let busy = || Mark::WroteUnderReads { bytes_per_s: 2e6 };
    let cases = [
        ([vec![], vec![]], Some(true), true, 0),
        ([vec![], vec![off(93)]], Some(true), true, 0),
        ([vec![off(94)], vec![off(93)]], Some(false), false, 2),
        ([vec![], vec![off(101)]], Some(false), false, 1),
        ([vec![], vec![off(93), busy()]], Some(true), false, 1),
    ];
    for (marks, fills, is_quotable, notes) in cases {
        let mut comparison = Comparison::default();
        for (round, marks) in (0..).zip(marks) {
            let run = Report {
                workload: "ycsb-c".to_owned(),
                memory: "100".to_owned(),
                marks,
                ..report("memory", round, 1.0, 1.0, 1)
            };
            comparison.runs.push(run);
        }
        let rows = summary::summarise(&config, &comparison);
        let row = rows.first().expect("one store has run");
        assert_eq!((row.fills_budget, row.is_quotable), (fills, is_quotable), "{row:?}");
        assert_eq!(row.notes.len(), notes, "{row:?}");
    }
}
