//! One step of a compaction, a checkpoint or a session in the middle of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use conformance::session::Until;
use device::{Device, FaultDevice, Faults, OperationKind, SimulatedDisk};
use engine::{At, BlockingWrites, Engine, Lookup, Op};
use reads::InFlightReads;
use sync::locks::Mutex;
use workers::StopToken;

use super::stores::{Add, Bench, count, key, value};
use super::two_logs::small_cold;
use crate::address::LogAddress;
use crate::checkpoint::meanwhile_between_cuts;
use crate::{Options, check};

/// Keys of a store. Their records take more than the hot log's disk space, and the records that one
/// round moves take several times the cold log's memory.
const KEYS: u64 = 2_500;
/// Rounds of hot-to-cold compaction, not all of which have work.
const ROUNDS: u64 = 4;

/// Returns options without a cache, so that every key is searched in the logs. The cold log has
/// small segments, and is compacted as soon as there is anything in it.
fn options() -> Options {
    Options {
        read_cache_bytes: Some(0),
        log_memory_bytes: Some(24 * 4096),
        segment_bytes: 4096,
        cold_disk_bytes_max: Some(8192),
        ..small_cold()
    }
}

/// Puts all keys, without waiting for a compaction that no thread does.
fn put_all(bench: &Bench) {
    for number in 0..KEYS {
        let put = Op::Put { key: &key(number), value: &value(number, 0, 8) };
        bench.store.write_next(&[put], &bench.sequence).expect("the write is taken");
    }
}

fn must_have_all(bench: &Bench, when: &str) {
    must_have(bench, 1, when);
}

fn must_have(bench: &Bench, step: usize, when: &str) {
    for number in (0..KEYS).step_by(step) {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number} {when}");
    }
}

/// Does `action` before each later operation of these kinds that this thread does.
pub(super) fn at_each(
    device: &Arc<FaultDevice>,
    kinds: &'static [OperationKind],
    action: &Arc<dyn Fn() + Send + Sync>,
) {
    for kind in kinds {
        // The device keeps the closure.
        let (again, action) = (Arc::downgrade(device), Arc::clone(action));
        device.interpose(*kind, move || {
            action();
            if let Some(device) = again.upgrade() {
                at_each(&device, std::slice::from_ref(kind), &action);
            }
        });
    }
}

/// Does rounds of hot-to-cold compaction, with `action` before each operation of the device.
/// Returns how often `action` was done.
fn compact_with(
    kinds: &'static [OperationKind],
    action: impl Fn(&Bench) + Send + Sync + 'static,
) -> u64 {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, options(), 1);
    let bench = Arc::new(bench);
    put_all(&bench);
    let count = Arc::new(AtomicU64::new(0));
    let (beside, counted) = (Arc::downgrade(&bench), Arc::clone(&count));
    let is_within = Arc::new(AtomicBool::new(false));
    let within = Arc::clone(&is_within);
    let action: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        let Some(beside) = beside.upgrade() else { return };
        // An action does not run in the middle of itself.
        if !within.swap(true, SeqCst) {
            counted.fetch_add(1, SeqCst);
            action(&beside);
            within.store(false, SeqCst);
        }
    });
    at_each(&device, kinds, &action);
    let shared = &bench.store.shared;
    for round in 0..ROUNDS {
        let is_due = shared.compact_if_due(&StopToken::default()).expect("it is compacted");
        assert!(is_due || round > 0, "there was something to be done");
        is_within.store(true, SeqCst);
        must_have_all(&bench, "after a round");
        is_within.store(false, SeqCst);
    }
    assert!(bench.figure("compactions") > 0);
    count.load(SeqCst)
}

/// Every key that moves from the hot to the cold log is found before each operation of the device.
#[test]
fn every_key_is_found_at_each_operation_of_a_compaction() {
    let looks = compact_with(&[OperationKind::Read, OperationKind::Write], |bench| {
        must_have(bench, 7, "in the middle of a round");
    });
    println!("{looks} looks");
    assert!(looks > 10, "{looks} looks");
}

/// A whole round of cold-to-cold compaction comes before each read of a hot-to-cold one.
#[test]
fn nothing_is_lost_to_a_cold_compaction_at_each_read_of_a_hot_one() {
    let rounds = compact_with(&[OperationKind::Read], |bench| {
        let shared = &bench.store.shared;
        let cold = shared.cold.as_ref().expect("two logs");
        // A round is due because all of the log is taken for dead.
        for at in (cold.log.begin().get()..cold.log.tail().get()).step_by(4096) {
            cold.live.take(LogAddress::new(at), u64::MAX);
        }
        shared.compact_cold_if_due(&StopToken::default()).expect("it is compacted");
    });
    println!("{rounds} rounds");
    assert!(rounds > 5, "{rounds} rounds");
}

/// Records move to the cold log between the cut of its chunks and the cut of the log itself.
#[test]
fn every_record_that_a_chunk_names_is_in_the_checkpoint() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let bench = Arc::new(Bench::open_by_hand(Arc::clone(&disk) as _, options(), 1));
    put_all(&bench);
    let beside = Arc::clone(&bench);
    meanwhile_between_cuts(move || {
        let shared = &beside.store.shared;
        assert_eq!(shared.compact_if_due(&StopToken::default()), Ok(true), "some records move");
    });
    bench.store.flush().expect("flushes");
    assert_eq!(bench.figure("compactions"), 1);
    for seed in 0..10 {
        let image: Arc<dyn Device> = disk.crash(seed);
        assert_eq!(check(&image).expect("is checked").damage, [], "a checkpoint is damaged");
        must_have_all(&Bench::open_by_hand(image, options(), seed), "after a crash");
    }
}

/// Looks keys up, in memory and on disk. Returns a table with one more lookup, which is pending if
/// its key is on disk.
fn lookup_some(bench: &Bench) -> InFlightReads<u64> {
    let mut reads = InFlightReads::new(8, &bench.memory);
    let begin = |reads: &mut InFlightReads<u64>, number: u64| {
        let found = bench.store.lookup(&key(number), At::Newest, &mut Vec::new());
        match found.expect("the lookup begins") {
            Lookup::Pending(lookup) => {
                assert!(reads.start(lookup, number).is_ok(), "there is room");
            }
            ended => assert!(matches!(ended, Lookup::Found), "key {number} was put"),
        }
    };
    (0..KEYS).step_by(500).for_each(|number| begin(&mut reads, number));
    while !reads.is_empty() {
        reads.complete(true, &mut |number, done| {
            let found = done.value.expect("nothing is damaged");
            assert!(found.is_some(), "key {number} was put");
        });
    }
    begin(&mut reads, 1);
    reads
}

/// Does the calls of a session, which may have to wait until a page is flushed.
fn write_in_a_session(bench: &Bench, times: &AtomicU64) {
    let mut session = bench.session(8);
    session.get(&key(1), &mut Vec::new()).expect("the get begins");
    session.put(b"of sessions", &value(0, times.load(SeqCst), 8)).expect("is put");
    session.rmw(b"count", Box::new(Add)).expect("it begins");
    session.complete_pending(Until::All, &mut |_, ended| {
        assert!(ended.is_ok(), "{ended:?}");
    });
    times.fetch_add(1, SeqCst);
}

fn must_have_counted(bench: &Bench, times: &AtomicU64) {
    assert_eq!(count(bench.get(b"count")), times.load(SeqCst));
}

/// D8: in the reference a session begins only if no operation is under way. Here sessions begin,
/// and end, before each operation of the device that a compaction does.
fn d8_sessions_begin_and_end_at_each_operation_of_a_compaction() {
    let idle: Arc<Mutex<Vec<InFlightReads<u64>>>> = Arc::default();
    let kept = Arc::clone(&idle);
    let begun = compact_with(&[OperationKind::Write], move |bench| {
        // Some sessions stay, and do nothing.
        let mut kept = kept.lock();
        kept.push(lookup_some(bench));
        kept.truncate(3);
    });
    assert!(begun > 5 && !idle.lock().is_empty(), "{begun} sessions");
    idle.lock().clear();
    let times: Arc<AtomicU64> = Arc::default();
    let counted = Arc::clone(&times);
    let begun = compact_with(&[OperationKind::Read], move |bench| {
        write_in_a_session(bench, &counted);
        must_have_counted(bench, &counted);
    });
    assert!(begun > 5 && times.load(SeqCst) == begun, "{begun} sessions");
}

/// The same in the middle of a checkpoint.
fn d8_a_session_begins_and_ends_in_the_middle_of_a_checkpoint() {
    let bench = Arc::new(Bench::open_by_hand(device::memory(), options(), 1));
    put_all(&bench);
    let idle = lookup_some(&bench);
    let times: Arc<AtomicU64> = Arc::default();
    let (beside, counted) = (Arc::clone(&bench), Arc::clone(&times));
    meanwhile_between_cuts(move || write_in_a_session(&beside, &counted));
    bench.store.flush().expect("flushes");
    assert_eq!(times.load(SeqCst), 1, "a session was there meanwhile");
    must_have_counted(&bench, &times);
    drop(idle);
    must_have_all(&bench, "after the checkpoint");
}

#[test]
fn d8_sessions_begin_and_end_in_the_middle_of_everything() {
    d8_sessions_begin_and_end_at_each_operation_of_a_compaction();
    d8_a_session_begins_and_ends_in_the_middle_of_a_checkpoint();
}
