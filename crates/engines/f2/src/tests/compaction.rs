//! Compaction frees space, loses nothing and brings nothing back.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Error, Op};

use super::stores::{Bench, fill, key, read_beside_writes, some_of_a_chain, tiny, value};
use super::two_logs::small_cold;
use crate::Options;
use crate::pressure::Level;

const KEYS: u64 = 400;
/// About six times the live bytes.
const DISK_BYTES: u64 = 256 << 10;

/// A single log, little disk, and compaction by lookups, and by scans.
fn both() -> [Options; 2] {
    let disk_bytes_max = Some(DISK_BYTES);
    let single_log = Options { single_log: true, disk_bytes_max, ..tiny() };
    [false, true].map(|scan_compaction| Options { scan_compaction, ..single_log.clone() })
}

#[test]
fn writers_wait_for_a_compaction_that_is_behind() {
    for options in both() {
        let bench = Bench::open_by_hand(device::memory(), options, 1);
        let pressure = &bench.store.shared.pressure;
        for number in (0..KEYS).cycle().take_while(|_| log_bytes(&bench) < DISK_BYTES * 11 / 10) {
            assert!(pressure.is_none() || log_bytes(&bench) > DISK_BYTES);
            bench.put(&key(number), &value(number, 0, 8));
        }
        assert!(!pressure.is_none());
        (0..20).for_each(|_| bench.advance());
        assert!(pressure.is_none(), "the log has {} bytes", log_bytes(&bench));
    }
}

#[test]
fn nobody_waits_for_a_compaction_that_finds_everything_alive() {
    for options in both() {
        let bench = Bench::open_by_hand(device::memory(), options, 1);
        for number in 0..4 * DISK_BYTES / 64 {
            bench.put(&key(number), &value(number, 0, 8));
            if number % KEYS == 0 {
                bench.advance();
            }
        }
        assert!(bench.figure("compactions") > 0);
        assert!(log_bytes(&bench) > 2 * DISK_BYTES, "{}", log_bytes(&bench));
        assert!(bench.store.shared.pressure.is_none());
    }
}

#[test]
fn what_lives_behind_others_of_its_chain_is_copied() {
    for options in both() {
        let bench = Bench::open_by_hand(device::memory(), options, 1);
        let keys: [u64; 3] = some_of_a_chain(&bench);
        let shared = &bench.store.shared;
        for number in keys {
            bench.put(&key(number), &value(number, 1, 8));
            let tail = shared.log.tail();
            fill(&bench, &|| shared.log.head() >= tail);
        }
        let tail = bench.figure("log_tail");
        for round in 0.. {
            if bench.figure("log_begin") >= tail {
                break;
            }
            (0..KEYS).for_each(|other| {
                bench.put(b"other", &value(other, round, 8 + other as usize % 8))
            });
            bench.advance();
        }
        for number in keys {
            assert_eq!(bench.get(&key(number)), Some(value(number, 1, 8)), "{number}");
        }
    }
}

fn log_bytes(bench: &Bench) -> u64 {
    bench.figure("log_tail") - bench.figure("log_begin")
}

#[test]
fn what_is_read_beside_compaction_is_right() {
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

#[test]
fn a_read_modify_write_waits_and_is_refused_as_a_put_is() {
    let bench = Bench::open_by_hand(device::memory(), both()[0].clone(), 1);
    let pressure = &bench.store.shared.pressure;
    let rmw = || bench.store.admit_rmw(b"there");
    let delete = || bench.store.admit(&[Op::Delete { key: b"there" }]);
    rmw().expect("nothing is behind");
    pressure.set(Level::OutOfMemory, false);
    assert!(matches!(rmw(), Err(Error::OutOfMemory { .. })));
    delete().expect("it takes none of the index");
    let cause = Arc::new(Error::Closed);
    pressure.refuse(Error::SpaceUsedUp { what: "the hot log", bytes: 2, limit: 1, cause });
    assert!(matches!(rmw(), Err(Error::SpaceUsedUp { .. })));
    assert!(matches!(delete(), Err(Error::SpaceUsedUp { .. })));
}

/// A write that must not wait is admitted without a delay; its debt is kept. If writes are refused,
/// the call reports that there is no room, and a writer that may wait gets the error.
#[test]
fn a_write_that_must_not_wait_owes_and_is_told_that_there_is_no_room() {
    let bench = Bench::open_by_hand(device::memory(), both()[0].clone(), 1);
    let pressure = &bench.store.shared.pressure;
    let put = || bench.store.admit_at_once(&[Op::Put { key: b"k", value: b"v" }]);
    let delete = || bench.store.admit_at_once(&[Op::Delete { key: b"k" }]);
    assert_eq!((put(), delete()), (Ok(true), Ok(true)));
    let most = Duration::from_secs(1).as_nanos() as u64;
    pressure.set(Level::Behind(most), false);
    assert_eq!((put(), pressure.owed()), (Ok(true), Duration::from_secs(1)));
    pressure.set(Level::OutOfMemory, false);
    assert_eq!((put(), delete()), (Ok(false), Ok(true)), "a delete takes none of the index");
    let cause = Arc::new(Error::Closed);
    pressure.refuse(Error::SpaceUsedUp { what: "the hot log", bytes: 2, limit: 1, cause });
    assert_eq!((put(), delete()), (Ok(false), Ok(false)));
}

/// No thread flushes pages, so memory for the next one runs out. A write that can be taken without
/// waiting finds memory, and flushes no page itself.
#[test]
fn what_is_taken_at_once_waits_for_no_page() {
    for steps in [1, 2, 25] {
        let bench = Bench::open_by_hand(device::memory(), both()[0].clone(), 1);
        let keys: Vec<_> = (0..steps as u64).map(key).collect();
        let writes = || bench.device.accounting().counts().write_ops;
        let (before, mut taken) = (writes(), 0);
        loop {
            // The lengths alternate, so that no record is changed in place.
            let value = vec![7; 80 + 8 * (taken % 2)];
            let ops: Vec<_> = keys.iter().map(|key| Op::Put { key, value: &value }).collect();
            let bytes = ops.iter().map(|op| op.bytes() as u64).sum();
            if !bench.store.takes_at_once(steps, bytes) {
                break;
            }
            let ticket = bench.sequence.begin();
            bench.store.apply(&ops, ticket.seqno()).expect("the write is taken");
            assert_eq!(writes(), before, "{steps} steps have waited, after {taken}");
            taken += 1;
            assert!(taken < 10_000, "there is always room");
        }
        assert!(taken > 1, "{steps} steps: {taken} times");
    }
}

/// No thread flushes pages, so memory for the next one runs out.
#[test]
fn a_log_without_a_page_has_no_room_at_once_and_some_once_others_have_waited() {
    let options = both()[0].clone();
    let bench = Bench::open_by_hand(device::memory(), options, 1);
    let long = vec![7; 1500];
    let put = |value| bench.store.admit_at_once(&[Op::Put { key: b"k", value }]).unwrap();
    let mut number = 0;
    while put(&long) {
        bench.put(&key(number), &long);
        number += 1;
        assert!(number < 10_000, "there is always room");
    }
    let tail = bench.store.shared.log.tail();
    assert!(!put(&long), "nothing was done for it");
    assert_eq!(bench.store.shared.log.tail(), tail);
    bench.store.admit(&[Op::Put { key: b"k", value: &long }]).expect("pages can be flushed");
    assert!(put(&long));
}

/// A round takes up to 256 MiB: a thread that closes the store does not wait until all of it is
/// read.
#[test]
fn a_round_that_is_stopped_reads_no_further() {
    let [single, _] = both();
    for options in [single, small_cold()] {
        let bench = Bench::open_by_hand(device::memory(), options, 1);
        for number in 0..2 * KEYS {
            bench.put(&key(number), &value(number, 0, 8));
        }
        bench.store.flush().expect("flushes");
        let stop = bench.stop();
        let shared = &bench.store.shared;
        let (log, reads) = (&shared.log, || bench.device.accounting().counts().read_ops);
        let until = log.geometry.page_begin(log.geometry.page(log.flushed()));
        let (from, before) = (log.begin(), reads());
        assert!(until > from.plus(3 * log.geometry.page_bytes()), "there is something to read");
        match &shared.cold {
            None => {
                let copied = shared.copy_live(from, until, &stop);
                assert!(copied.expect("it stops").is_none());
            }
            Some(cold) => {
                let read = shared.try_reading(cold, from, until, &stop);
                assert_eq!(read, Ok(false));
                let moved = shared.move_to_cold(cold, from, until, &stop);
                assert!(moved.expect("it stops").is_none());
            }
        }
        assert_eq!((reads(), log.begin()), (before, from));
    }
}
