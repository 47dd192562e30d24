//! One damaged record, in each of the logs: nothing is lost, reads go on, writes are refused with its place
//! once space is used up, and taken again when it can be read.

use engine::{Engine, Error, Op};

use super::stores::{Bench, key, value};
use super::two_logs::small_cold;
use crate::Options;
use crate::address::LogAddress;
use crate::cold_index::Lookup;
use crate::hybrid_log::HybridLog;

const KEYS: u64 = 1_000;

/// Where the first record of a log lies.
const FIRST: LogAddress = LogAddress::new(64);

/// A byte of a file that is not what it was.
struct Damage {
    file: String,
    offset: u64,
}

impl Damage {
    /// Of the record at `at`, beside its lengths.
    fn of(log: &HybridLog, at: LogAddress) -> Self {
        let number = log.geometry.segment(at);
        let offset = log.segments.get(number).expect("it is there").offset(at) + 20;
        Self { file: log.segments.file_name(number), offset }
    }

    /// Turns it over, and the second time back.
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
    assert!(bench.figure("compactions") > 0 && bench.store.troubles().is_empty());
    bench
}

fn write(bench: &Bench, version: u64) -> Result<(), (u64, Error)> {
    for number in 0..KEYS {
        let (key, value) = (key(number), value(number, version, 8));
        let ops = [Op::Put { key: &key, value: &value }];
        bench.store.admit(&ops).map_err(|error| (number, error))?;
        let ticket = bench.sequence.begin();
        bench.store.apply(&ops, ticket.seqno()).expect("what is admitted is taken");
        drop(ticket);
        if number % 10 == 0 {
            bench.advance();
        }
    }
    Ok(())
}

/// Writes versions until they are refused. Answers the last version that each key has.
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

/// The damage is turned over in a store in which `work` fails for it, and `what` takes too much by and by.
fn suffer(bench: &Bench, damage: &Damage, work: &str, what: &str) {
    damage.turn(bench);
    let (versions, error) = write_until_refused(bench);
    let Error::SpaceUsedUp { what: told, bytes, limit, cause } = &error else { panic!("{error}") };
    assert_eq!(*told, what);
    assert!(*bytes > *limit && *bytes <= limit + 2 * (64 << 10), "{error}");
    let Error::Corruption(place) = &**cause else { panic!("{error}") };
    assert_eq!(place.file, damage.file, "{error}");
    assert!((0..4096).contains(&(damage.offset - place.offset)), "{error}");
    let troubles = bench.store.troubles();
    let trouble = troubles.iter().find(|trouble| trouble.work == work).expect("it is told");
    assert!(trouble.refuses_writes && trouble.failures > 1 && trouble.cause == **cause);
    // A delete takes space too.
    let delete = bench.store.admit(&[Op::Delete { key: b"k" }]);
    assert!(matches!(delete, Err(Error::SpaceUsedUp { .. })), "{delete:?}");
    let failures = bench.figure("compaction_failures") + bench.figure("cold_compaction_failures");
    assert!(failures < 40, "{failures} times it was tried");
    // What is sound is read.
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
    assert_eq!(bench.store.troubles(), []);
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
    let log = &bench.store.shared.log;
    let damage = Damage::of(log, log.begin());
    suffer(&bench, &damage, "compaction of the hot log", "the hot log");
}

#[test]
fn damage_in_the_cold_log() {
    let bench = filled();
    let log = &bench.store.shared.cold.as_ref().expect("two logs").log;
    assert!(log.head() > log.begin(), "some of it is on disk");
    let damage = Damage::of(log, log.begin().max(FIRST));
    let compactions = bench.figure("compactions");
    suffer(&bench, &damage, "compaction of the cold log", "the cold log");
    assert!(bench.figure("compactions") > compactions + 3, "the hot log is another");
}

#[test]
fn damage_in_a_chunk() {
    let bench = filled();
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    let on_disk = (0..KEYS).find_map(|number| {
        let position = shared.index.position(shared.hash(&key(number)));
        match cold.index.look(position, &mut Vec::new()).expect("looks") {
            Lookup::OnDisk(read) => Some(read.address()),
            Lookup::Known => None,
        }
    });
    let damage = Damage::of(&cold.chunk_log, on_disk.expect("a chunk is on disk"));
    suffer(&bench, &damage, "compaction of the hot log", "the hot log");
}
