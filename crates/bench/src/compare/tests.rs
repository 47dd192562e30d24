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
