//! Order of turns.

use super::*;

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
    };
    let turns = turns(&config);
    let order: Vec<(&str, &str, u32)> =
        turns.iter().map(|turn| (&*turn.workload, &*turn.store, turn.round)).collect();
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
    assert!(turns[0].ours && !turns[1].ours);
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
    };
    let turns = turns(&config);
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
    let ours: Vec<bool> = turns.iter().map(|turn| turn.ours).collect();
    assert_eq!(ours, [true, false, true]);
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
    };
    let turns = turns(&config);
    assert_eq!(turns[0].workload, "rw50@distribution=uniform@theta=0");
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
