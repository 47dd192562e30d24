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
