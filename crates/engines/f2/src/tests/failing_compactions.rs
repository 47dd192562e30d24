//! One damaged record, in each of the logs.
//!
//! Nothing is lost and reads continue. Writes are refused with the record's place once space is
//! used up, and accepted again when the record can be read. The file also has the cases that are no
//! background error: a log that is not to be compacted, and a tombstone that waits for a record to
//! be readable.

use std::sync::Arc;

use conformance::Journaled;
use device::{Device, FaultDevice, OperationKind};
use engine::{
    BlockingWrites, Change, Corruption, Demand, Engine, Error, Op, VALUE_BYTES_GUESSED, Wait,
};
use reads::BlockingReads;

use super::stores::{Bench, key, tiny, value};
use super::two_logs::small_cold;
use crate::Options;
use crate::address::LogAddress;
use crate::cold_index::Lookup;
use crate::hybrid_log::HybridLog;

const KEYS: u64 = 1_000;

/// Address of the first record of a log.
const FIRST: LogAddress = LogAddress::new(64);

/// A byte of a file that differs from the byte that was written.
struct Damage {
    file: String,
    offset: u64,
}

impl Damage {
    /// Returns damage of the record at `at`, in a byte that is not part of its lengths.
    fn of(log: &HybridLog, at: LogAddress) -> Self {
        let number = log.geometry.segment(at);
        let offset = log.segments.get(number).expect("it is there").offset(at) + 20;
        Self { file: log.segments.file_name(number), offset }
    }

    /// Inverts the byte; a second call restores it.
    fn turn(&self, bench: &Bench) {
        let file = bench.device.open(&self.file, device::Mode::Write).expect("opens");
        let mut byte = [0];
        file.read_at(self.offset, &mut byte).expect("reads");
        file.write_at(self.offset, &[!byte[0]]).expect("writes");
    }
}

fn options() -> Options {
    Options { read_cache_bytes: Some(0), compaction_threads: 1, ..small_cold() }
}

/// A store without background work of its own, with versions of all keys in both logs.
fn filled() -> Bench {
    let bench = Bench::open_by_hand(device::memory(), options(), 7);
    for version in 0..4 {
        write(&bench, version).expect("nothing is wrong");
    }
    bench.store.flush().expect("flushes");
    assert!(bench.figure("compactions") > 0 && bench.store.background_errors().is_empty());
    bench
}

fn write(bench: &Bench, version: u64) -> Result<(), (u64, Error)> {
    for number in 0..KEYS {
        let (key, value) = (key(number), value(number, version, 8));
        let ops = [Op::Put { key: &key, value: &value }];
        let written = bench.store.write_next(&ops, &bench.sequence);
        written.map_err(|error| (number, error))?;
        if number % 10 == 0 {
            bench.advance();
        }
    }
    Ok(())
}

/// Writes versions until a write is refused. Returns the last version of each key, and the error.
fn write_until_refused(bench: &Bench) -> (Vec<u64>, Error) {
    let mut versions = vec![3; KEYS as usize];
    for version in 4..500 {
        let written = match write(bench, version) {
            Ok(()) => KEYS,
            Err((number, _)) => number,
        };
        versions[..written as usize].fill(version);
        if written < KEYS {
            let (_, error) = write(bench, version).expect_err("it stays refused");
            return (versions, error);
        }
    }
    panic!("writes are never refused");
}

/// Damages a record in a store in which the compaction of one of these logs fails because of it. In
/// time that log takes too much space.
fn suffer(bench: &Bench, damage: &Damage, logs: &[&str]) {
    damage.turn(bench);
    let (versions, error) = write_until_refused(bench);
    let Error::SpaceUsedUp { what: told, bytes, limit, cause } = &error else { panic!("{error}") };
    assert!(logs.contains(told), "{error}");
    assert!(*bytes > *limit && *bytes <= limit + 2 * (64 << 10), "{error}");
    let Error::Corruption(place) = &**cause else { panic!("{error}") };
    assert_eq!(place.file, damage.file, "{error}");
    assert!((0..4096).contains(&(damage.offset - place.offset)), "{error}");
    let errors = bench.store.background_errors();
    let work = format!("compaction of {told}");
    let error = errors.iter().find(|error| error.work == work).expect("it is told");
    assert!(error.refuses_writes && error.failures > 1 && error.cause == **cause);
    // A delete takes space too.
    let delete =
        bench.store.reserve(&Demand::Ops(&[Op::Delete { key: b"k" }]), Wait::Yes).map(drop);
    assert!(matches!(delete, Err(Error::SpaceUsedUp { .. })), "{delete:?}");
    let failures = bench.figure("compaction_failures") + bench.figure("cold_compaction_failures");
    assert!(failures < 40, "{failures} times it was tried");
    // Sound keys can be read.
    let (mut sound, mut damaged) = (0, 0);
    for (number, version) in (0..).zip(&versions) {
        let mut found = Vec::new();
        match bench.store.get(&key(number), &mut found) {
            Ok(is_there) => {
                assert!(is_there && found == value(number, *version, 8), "key {number}");
                sound += 1;
            }
            Err(Error::Corruption(_)) => damaged += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(damaged < 64 && sound + damaged == KEYS, "{damaged} keys are damaged");
    // It can be read again.
    damage.turn(bench);
    for _ in 0..3_000 {
        bench.advance();
    }
    assert_eq!(bench.store.background_errors(), []);
    for (number, version) in (0..).zip(&versions) {
        assert_eq!(bench.get(&key(number)), Some(value(number, *version, 8)), "{number}");
    }
    write(bench, 500).expect("writes are taken again");
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 500, 8)), "{number}");
    }
}

#[test]
fn damage_in_the_hot_log() {
    let bench = filled();
    let log = &bench.store.shared.hot.log;
    let damage = Damage::of(log, log.begin());
    suffer(&bench, &damage, &["the hot log"]);
}

#[test]
fn damage_in_the_cold_log() {
    let bench = filled();
    let log = &bench.store.shared.cold.as_ref().expect("two logs").log;
    assert!(log.head() > log.begin(), "some of it is on disk");
    let damage = Damage::of(log, log.begin().max(FIRST));
    let compactions = bench.figure("compactions");
    suffer(&bench, &damage, &["the cold log"]);
    assert!(bench.figure("compactions") > compactions + 3, "the hot log is another");
}

#[test]
fn damage_in_a_chunk() {
    let bench = filled();
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    let on_disk = (0..KEYS).find_map(|number| {
        let position = shared.hot.index.position(shared.hash(&key(number)));
        match cold.index.look(position, &mut Vec::new()).expect("looks") {
            Lookup::OnDisk(read) => Some(read.address()),
            Lookup::Known | Lookup::ByDigest => None,
        }
    });
    let damage = Damage::of(&cold.chunk_log, on_disk.expect("a chunk is on disk"));
    // Both read it.
    suffer(&bench, &damage, &["the hot log", "the cold log"]);
}

#[test]
fn a_single_log_that_cannot_be_compacted_refuses_read_modify_writes_too() {
    let disk_bytes_max = Some(256 << 10);
    let single = Options { single_log: true, disk_bytes_max, compaction_threads: 1, ..tiny() };
    let bench = Bench::open_by_hand(device::memory(), single, 7);
    for version in 0..4 {
        write(&bench, version).expect("nothing is wrong");
    }
    assert!(bench.figure("compactions") > 0);
    let log = &bench.store.shared.hot.log;
    Damage::of(log, log.begin().max(FIRST)).turn(&bench);
    let refused = (0..100 * KEYS).find_map(|number| {
        if number % 10 == 0 {
            bench.advance();
        }
        let key = key(number % KEYS);
        if let Err(error) = bench
            .store
            .reserve(&Demand::Update { key: &key, bytes_max: VALUE_BYTES_GUESSED }, Wait::Yes)
            .map(drop)
        {
            return Some(error);
        }
        let mut operator = |_: Option<&[u8]>| Change::Put(value(number, 9, 8));
        let ticket = bench.sequence.begin();
        match bench.store.rmw(&key, &mut operator, ticket.seqno()) {
            Ok(()) | Err(Error::Corruption(_)) => None,
            Err(other) => panic!("{other}"),
        }
    });
    let refused = refused.expect("the log has a bound");
    assert!(matches!(refused, Error::SpaceUsedUp { what: "the hot log", .. }), "{refused}");
    let delete =
        bench.store.reserve(&Demand::Ops(&[Op::Delete { key: b"k" }]), Wait::Yes).map(drop);
    assert!(matches!(delete, Err(Error::SpaceUsedUp { .. })), "{delete:?}");
}

/// A cold log without a bound.
fn unbounded() -> Options {
    Options { cold_disk_bytes_max: None, ..options() }
}

fn cold_log(bench: &Bench) -> &HybridLog {
    &bench.store.shared.cold.as_ref().expect("two logs").log
}

/// Puts new keys until the cold log has `bytes` bytes; returns the number of the next key.
fn grow_cold_log(bench: &Bench, from: u64, bytes: u64) -> u64 {
    let log = cold_log(bench);
    let grown = (from..).find(|number| {
        bench.put(&key(*number), &value(*number, 0, 8));
        if number % 10 == 0 {
            bench.advance();
        }
        log.tail().get() - log.begin().get() >= bytes
    });
    grown.expect("it grows") + 1
}

/// A round fails. Then the log grows by live records until no round is wanted any more.
#[test]
fn a_log_that_grows_by_what_lives_is_without_error() {
    let bench = Bench::open_by_hand(device::memory(), unbounded(), 7);
    let next = grow_cold_log(&bench, 0, 8 * (16 << 10));
    let log = cold_log(&bench);
    let damage = Damage::of(log, log.begin().max(FIRST));
    damage.turn(&bench);
    let failures = || bench.figure("cold_compaction_failures");
    // A quarter of it is written again, so that hardly more is dead than a round is for.
    let mut newest = next;
    let failed = (0_u64..).find(|step| {
        let again = step / 4 % next;
        if step % 4 == 0 {
            bench.put(&key(again), &value(again, 1, 8));
        } else {
            newest += 1;
            bench.put(&key(newest), &value(newest, 0, 8));
        }
        if step % 10 == 0 {
            bench.advance();
        }
        failures() > 0
    });
    assert!(failed.is_some());
    assert_eq!(bench.store.background_errors().len(), 1);
    let bytes = log.tail().get() - log.begin().get();
    grow_cold_log(&bench, newest + 1, 3 * bytes);
    assert_eq!(bench.store.background_errors(), []);
    assert_eq!(bench.figure("cold_compactions"), 0, "it still is damaged");
}

#[test]
fn a_log_that_is_not_to_be_compacted_is_without_error() {
    let bench = Bench::open_by_hand(device::memory(), options(), 7);
    bench.put(&key(1), &value(1, 0, 8));
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    let error = Error::from(Corruption::new("what once was", 0));
    shared.note_failed_round(&shared.compactions.hot.figures, &shared.hot.log, &error);
    shared.note_failed_round(&shared.compactions.cold.figures, &cold.log, &error);
    shared.note_failed_round(&shared.compactions.chunks.figures, &cold.chunk_log, &error);
    assert_eq!(bench.store.background_errors().len(), 3);
    (0..3).for_each(|_| bench.advance());
    assert_eq!(bench.store.background_errors(), []);
}

/// Damages the record of a cold key that is on disk; returns the key and the damage.
fn damage_cold_key(bench: &Bench) -> (Vec<u8>, Damage) {
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    let on_disk = (0..KEYS).filter_map(|number| {
        let position = shared.hot.index.position(shared.hash(&key(number)));
        let mut named = Vec::new();
        cold.index.find(position, &mut named).expect("finds");
        named.first().filter(|at| **at < cold.log.head()).map(|at| (*at, number))
    });
    let (at, number) = on_disk.max().expect("some are on disk");
    let damage = Damage::of(&cold.log, at);
    damage.turn(bench);
    let read = bench.store.get(&key(number), &mut Vec::new());
    assert!(matches!(read, Err(Error::Corruption(_))), "{read:?}");
    (key(number), damage)
}

/// Writes until compactions have passed over all of the hot log `times` times.
fn pass_over(bench: &Bench, times: u64) {
    let log = &bench.store.shared.hot.log;
    for _ in 0..times {
        let tail = log.tail();
        for number in 0.. {
            bench.put(&key(KEYS + number % 3_000), &value(number, 2, 8));
            if number % 10 == 0 {
                bench.advance();
            }
            assert_eq!(bench.figure("compaction_failures"), 0);
            if log.begin() >= tail {
                break;
            }
        }
    }
}

/// A store whose cold log is never compacted.
fn never_compacted() -> Options {
    Options { cold_disk_bytes_max: Some(1 << 30), ..options() }
}

#[test]
fn a_key_whose_cold_record_is_damaged_can_be_deleted() {
    let bench = Bench::open_by_hand(device::memory(), never_compacted(), 7);
    write(&bench, 0).expect("nothing is wrong");
    bench.store.flush().expect("flushes");
    let (deleted, damage) = damage_cold_key(&bench);
    bench.delete(&deleted);
    pass_over(&bench, 4);
    assert_eq!(bench.store.background_errors(), []);
    assert_eq!(bench.get(&deleted), None, "its tombstone stays");
    let entries = |bench: &Bench| {
        let shared = &bench.store.shared;
        let position = shared.hot.index.position(shared.hash(&deleted));
        let mut named = Vec::new();
        let cold = shared.cold.as_ref().expect("two logs");
        cold.index.find(position, &mut named).expect("finds");
        named.len()
    };
    assert_eq!(entries(&bench), 1, "nobody knows whose it is");
    damage.turn(&bench);
    assert_eq!(bench.get(&deleted), None);
    pass_over(&bench, 2);
    assert_eq!((bench.get(&deleted), entries(&bench)), (None, 0));
    // A key is written again while the record below its tombstone cannot be read: the new write is
    // the newest.
    let (again, _damage) = damage_cold_key(&bench);
    bench.delete(&again);
    pass_over(&bench, 1);
    bench.put(&again, b"anew");
    pass_over(&bench, 2);
    assert_eq!(bench.get(&again), Some(b"anew".to_vec()));
}

/// Returns the addresses that the cold index names for a key, the newest first.
fn named(bench: &Bench, key: &[u8]) -> Vec<LogAddress> {
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    let position = shared.hot.index.position(shared.hash(key));
    let mut named = Vec::new();
    cold.index.find(position, &mut named).expect("finds");
    named
}

/// The store cannot find out whether the older record is dead. So its copy keeps its place in the
/// chunk, behind the damaged record.
#[test]
fn a_cold_record_behind_one_that_is_damaged_is_copied_and_never_read() {
    let device = device::memory();
    let bench = Bench::open_by_hand(Arc::clone(&device), never_compacted(), 7);
    write(&bench, 0).expect("nothing is wrong");
    pass_over(&bench, 1);
    let shared = &bench.store.shared;
    let oldest = (0..KEYS).min_by_key(|number| named(&bench, &key(*number)).last().copied());
    let key = key(oldest.expect("there are some"));
    bench.put(&key, b"newer");
    pass_over(&bench, 3);
    bench.store.flush().expect("flushes");
    let [newer, older] = named(&bench, &key)[..] else { panic!("it became cold twice") };
    let log = &shared.cold.as_ref().expect("two logs").log;
    assert!(log.segments.get(log.geometry.segment(newer)).is_some(), "it is on disk");
    let damage = Damage::of(log, newer);
    bench.store.close().expect("closes");
    drop(bench);
    let bench = Bench::open_by_hand(device, options(), 7);
    damage.turn(&bench);
    for step in 0_u64.. {
        bench.put(&super::stores::key(KEYS + step % 500), &value(step, 3, 8));
        if step % 10 == 0 {
            bench.advance();
        }
        assert_eq!(
            bench.figure("cold_compaction_failures"),
            0,
            "{:?}",
            bench.store.background_errors()
        );
        if cold_log(&bench).begin() > older {
            break;
        }
    }
    assert!(cold_log(&bench).begin() <= newer, "that one cannot be passed");
    let moved = named(&bench, &key);
    assert!(moved.len() == 2 && moved[0] == newer && moved[1] > newer, "{moved:?}");
    let read = bench.store.get(&key, &mut Vec::new());
    assert!(matches!(read, Err(Error::Corruption(_))), "{read:?}");
    damage.turn(&bench);
    assert_eq!(bench.get(&key), Some(b"newer".to_vec()));
}

/// The delete is in a checkpoint, so the journal has it no more.
#[test]
fn a_tombstone_that_stays_is_durable_before_the_log_begins_behind_it() {
    let device = device::memory();
    let barrier = Arc::new(Journaled);
    let bench = Bench::open_by_hand_behind(barrier, Arc::clone(&device), never_compacted(), 7);
    write(&bench, 0).expect("nothing is wrong");
    let (deleted, damage) = damage_cold_key(&bench);
    bench.delete(&deleted);
    bench.store.flush().expect("flushes");
    pass_over(&bench, 3);
    damage.turn(&bench);
    // A crash.
    drop(bench);
    let bench = Bench::open_by_hand(device, never_compacted(), 7);
    assert_eq!(bench.get(&deleted), None);
}

/// A bug of the store itself is reported and ends the writes: the compaction whose task has
/// panicked never runs again.
#[test]
fn a_task_that_panics_ends_the_writes() {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, options(), 7);
    write(&bench, 0).expect("nothing is wrong");
    device.interpose(OperationKind::Read, || panic!("planted"));
    let (_, refused) = (1..100).find_map(|version| write(&bench, version).err()).expect("refused");
    let Error::ReadOnly { cause } = refused else { panic!("{refused}") };
    let Error::Panicked(panic) = &*cause else { panic!("{cause}") };
    assert_eq!(panic.message, "planted");
    assert!(bench.get(&key(7)).is_some(), "what is stored is read");
    assert!(matches!(bench.store.close(), Err(Error::Panicked(told)) if told == *panic));
    assert_eq!(bench.store.close(), Ok(()), "it is told once");
}
