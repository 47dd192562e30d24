//! Compaction frees space, loses nothing and brings nothing back.

use std::sync::Arc;

use engine::{Demand, Engine, Error, Op, VALUE_BYTES_GUESSED, Wait};

use super::stores::{Bench, fill, key, read_beside_writes, some_of_a_chain, tiny, value};
use super::two_logs::small_cold;
use crate::Options;
use crate::admission::Level;

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
        let admission = &bench.store.shared.admission;
        for number in (0..KEYS).cycle().take_while(|_| log_bytes(&bench) < DISK_BYTES * 11 / 10) {
            assert!(admission.is_none() || log_bytes(&bench) > DISK_BYTES);
            bench.put(&key(number), &value(number, 0, 8));
        }
        assert!(!admission.is_none());
        (0..20).for_each(|_| bench.advance());
        assert!(admission.is_none(), "the log has {} bytes", log_bytes(&bench));
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
        assert!(bench.store.shared.admission.is_none());
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
            let tail = shared.hot.log.tail();
            fill(&bench, &|| shared.hot.log.head() >= tail);
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
    let admission = &bench.store.shared.admission;
    let rmw = || {
        bench
            .store
            .reserve(&Demand::Update { key: b"there", bytes_max: VALUE_BYTES_GUESSED }, Wait::Yes)
            .map(drop)
    };
    let delete =
        || bench.store.reserve(&Demand::Ops(&[Op::Delete { key: b"there" }]), Wait::Yes).map(drop);
    rmw().expect("nothing is behind");
    admission.set(Level::OutOfMemory, false);
    assert!(matches!(rmw(), Err(Error::OutOfMemory { .. })));
    delete().expect("it takes none of the index");
    let cause = Arc::new(Error::Closed);
    admission.refuse(Error::SpaceUsedUp { what: "the hot log", bytes: 2, limit: 1, cause });
    assert!(matches!(rmw(), Err(Error::SpaceUsedUp { .. })));
    assert!(matches!(delete(), Err(Error::SpaceUsedUp { .. })));
}

/// A write that must not wait gets no room while others are slowed down, or while writes are
/// refused: a writer that may wait pays, or gets the error.
#[test]
fn a_write_that_must_not_wait_gets_no_room_while_compaction_is_behind() {
    let bench = Bench::open_by_hand(device::memory(), both()[0].clone(), 1);
    let admission = &bench.store.shared.admission;
    let has_room = |op| {
        let room = bench.store.reserve(&Demand::Ops(&[op]), Wait::No);
        room.expect("it is no refusal").is_some()
    };
    let put = || has_room(Op::Put { key: b"k", value: b"v" });
    let delete = || has_room(Op::Delete { key: b"k" });
    assert_eq!((put(), delete()), (true, true));
    admission.set(Level::Behind(1), false);
    assert_eq!((put(), delete()), (false, false));
    admission.set(Level::Behind(1), true);
    assert_eq!((put(), delete()), (true, true), "no writer waits for a compaction that fails");
    admission.set(Level::OutOfMemory, false);
    assert_eq!((put(), delete()), (false, true), "a delete takes none of the index");
    let cause = Arc::new(Error::Closed);
    admission.refuse(Error::SpaceUsedUp { what: "the hot log", bytes: 2, limit: 1, cause });
    assert_eq!((put(), delete()), (false, false));
}

/// No thread flushes pages, so memory for the next one runs out. A write that has room
/// finds memory, and flushes no page itself.
#[test]
fn a_write_with_room_waits_for_no_page() {
    for steps in [1, 2, 25] {
        let bench = Bench::open_by_hand(device::memory(), both()[0].clone(), 1);
        let keys: Vec<_> = (0..steps as u64).map(key).collect();
        let writes = || bench.device.accounting().counts().write_ops;
        let (before, mut taken) = (writes(), 0);
        loop {
            // The lengths alternate, so that no record is changed in place.
            let value = vec![7; 80 + 8 * (taken % 2)];
            let ops: Vec<_> = keys.iter().map(|key| Op::Put { key, value: &value }).collect();
            let granted = bench.store.reserve(&Demand::Ops(&ops), Wait::No);
            let Some(mut room) = granted.expect("it is no refusal") else { break };
            let ticket = bench.sequence.begin();
            bench.store.apply(&ops, ticket.seqno(), &mut room).expect("the write is taken");
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
    let put = |value| {
        bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: b"k", value }]), Wait::No)
            .map(|room| room.is_some())
            .unwrap()
    };
    let mut number = 0;
    while put(&long) {
        bench.put(&key(number), &long);
        number += 1;
        assert!(number < 10_000, "there is always room");
    }
    let tail = bench.store.shared.hot.log.tail();
    assert!(!put(&long), "nothing was done for it");
    assert_eq!(bench.store.shared.hot.log.tail(), tail);
    bench
        .store
        .reserve(&Demand::Ops(&[Op::Put { key: b"k", value: &long }]), Wait::Yes)
        .map(drop)
        .expect("pages can be flushed");
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
        let (log, reads) = (&shared.hot.log, || bench.device.accounting().counts().read_ops);
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
