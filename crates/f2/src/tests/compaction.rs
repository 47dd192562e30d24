//! Compaction gives space back, loses nothing and brings nothing back.

use engine::Engine;

use super::stores::{Bench, key, read_beside_writes, tiny, value};
use crate::Options;

const KEYS: u64 = 400;

/// Little disk, and compaction by look-ups, and by scans.
fn both() -> [Options; 2] {
    let disk_bytes_max = Some(256 << 10);
    [false, true].map(|scan_compaction| Options { scan_compaction, disk_bytes_max, ..tiny() })
}

#[test]
fn the_log_keeps_within_its_budget_and_what_is_read_is_right() {
    both().into_iter().for_each(write_and_read_again);
}

fn write_and_read_again(options: Options) {
    let bench = Bench::open(options.clone());
    for version in 0..60 {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
        }
        for number in 0..KEYS {
            assert_eq!(bench.get(&key(number)), Some(value(number, version, 8)), "{number}");
        }
    }
    let rounds = bench.figure("compactions");
    assert!(rounds > 0, "60 versions of {KEYS} keys want compaction");
    bench.store.flush().expect("flushes");
    let log = bench.figure("log_tail") - bench.figure("log_begin");
    println!("{rounds} compactions, the log has {log} bytes");
    let bench = bench.reopen(options);
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 59, 8)), "{number}");
    }
}

#[test]
fn deleted_keys_stay_deleted() {
    both().into_iter().for_each(delete_and_read_again);
}

fn delete_and_read_again(options: Options) {
    let bench = Bench::open(options.clone());
    for version in 0..40 {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
        }
        for number in (version % 3..KEYS).step_by(3) {
            bench.delete(&key(number));
        }
        for number in 0..KEYS {
            let there = number % 3 != version % 3;
            let wanted = there.then(|| value(number, version, 8));
            assert_eq!(bench.get(&key(number)), wanted, "key {number} in round {version}");
        }
    }
    assert!(bench.figure("compactions") > 0);
    let bench = bench.reopen(options);
    for number in 0..KEYS {
        let wanted = (number % 3 != 39 % 3).then(|| value(number, 39, 8));
        assert_eq!(bench.get(&key(number)), wanted, "key {number} after opening again");
    }
}

/// Keys that are never written again are copied forward again and again; readers must find them
/// at every moment.
#[test]
fn a_key_that_is_there_is_never_absent() {
    for options in both() {
        read_beside_writes(&Bench::open(options), KEYS, 1, ("compactions", 5));
    }
}
