//! Records move from the hot to the cold log and on, and are found, changed and deleted there.

use std::ops::ControlFlow;

use engine::{Change, Engine, Error};
use workers::StopToken;

use super::stores::{Add, Bench, count, key, read_beside_writes, tiny, value};
use crate::Options;
use crate::address::LogAddress;
use crate::cold_index::Change as Entry;

pub(super) const KEYS: u64 = 1_000;

/// Returns options of a store with a read cache and a hot log of little disk, so that most writes
/// are soon cold.
pub(super) fn small_hot() -> Options {
    Options {
        log_memory_bytes: Some(10 * 4096),
        read_cache_bytes: Some(4 * 4096),
        disk_bytes_max: Some(48 << 10),
        chunk_bytes: 64,
        ..tiny()
    }
}

/// The same, with a cold log that is compacted too.
pub(super) fn small_cold() -> Options {
    Options { cold_disk_bytes_max: Some(96 << 10), ..small_hot() }
}

/// Writes keys that nothing else uses until everything older has left the hot log, and the cold
/// log's memory after that.
pub(super) fn push_out(bench: &Bench) {
    let cold = bench.store.shared.cold.as_ref().expect("there are two logs");
    let tail = bench.figure("log_tail");
    let mut cold_tail = None;
    for number in 0.. {
        bench.put(format!("filler-{}", number % 3000).as_bytes(), &value(number, 0, 8));
        if cold_tail.is_none() && bench.figure("log_begin") >= tail {
            cold_tail = Some(cold.log.tail());
        }
        if cold_tail.is_some_and(|tail| cold.log.head() >= tail) {
            return;
        }
    }
}

pub(super) fn cold_store(options: Options) -> Bench {
    let bench = Bench::open(options);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
    }
    push_out(&bench);
    bench
}

#[test]
fn what_left_the_hot_log_is_found_in_the_cold_one() {
    let bench = cold_store(small_hot());
    assert!(bench.figure("cold_index_entries") >= KEYS);
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
    assert_eq!(bench.get(b"nobody"), None);
    let bench = bench.reopen(small_hot());
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number} after reopening");
    }
}

/// Records of one page have their numbers among those of the others, whichever thread has it.
#[test]
fn what_several_threads_copy_in_the_cold_log_is_found_behind_it() {
    let bench = cold_store(Options { compaction_threads: 4, ..small_cold() });
    while bench.figure("cold_compactions") < 5 || bench.figure("cold_log_begin") < 200_000 {
        push_out(&bench);
    }
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
}

/// D1: in the reference the tombstone is lost, and the cold version comes back.
#[test]
fn d1_a_delete_does_not_uncover_the_cold_version() {
    let bench = cold_store(small_hot());
    bench.put(&key(1), &value(1, 1, 8));
    for number in 0..KEYS {
        bench.delete(&key(number));
        assert_eq!(bench.get(&key(number)), None, "{number} right after its delete");
    }
    push_out(&bench);
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), None, "{number} when its tombstone is gone");
    }
    let bench = bench.reopen(small_hot());
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), None, "{number} after reopening");
    }
}

/// D2: in the reference the read-modify-write continues from the deleted cold value.
#[test]
fn d2_a_tombstone_is_found_and_absent_for_a_read_modify_write() {
    let bench = Bench::open(small_hot());
    for number in 0..KEYS {
        bench.rmw(&key(number), &mut Add);
        bench.rmw(&key(number), &mut Add);
    }
    push_out(&bench);
    for number in 0..KEYS {
        bench.delete(&key(number));
        // Some tombstones are in memory, and some are already on disk.
        if number % 2 == 0 {
            bench.rmw(&key(number), &mut Add);
        }
    }
    for number in (1..KEYS).step_by(2) {
        bench.rmw(&key(number), &mut Add);
    }
    for number in 0..KEYS {
        assert_eq!(count(bench.get(&key(number))), 1, "{number}");
    }
}

/// D3: the reference stops when compaction meets a key that has lost its entry in the index.
#[test]
fn d3_compaction_meets_keys_that_were_put_and_deleted_at_once() {
    let bench = Bench::open(small_hot());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
        bench.delete(&key(number));
    }
    push_out(&bench);
    assert_eq!(bench.figure("compaction_failures"), 0);
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), None, "{number}");
    }
}

/// The same with entries that were removed: the reference removes them when it deletes, here the
/// test does.
#[test]
fn d3_compaction_meets_keys_whose_entries_are_gone() {
    // These keys take half of the hot log's limit, so that no compaction is due meanwhile.
    const DELETED: u64 = 250;
    let bench = Bench::open_by_hand(device::memory(), small_hot(), 3);
    let shared = &bench.store.shared;
    for number in 0..DELETED {
        bench.put(&key(number), &value(number, 0, 8));
        bench.delete(&key(number));
    }
    let tail = shared.hot.log.tail();
    let guard = shared.epochs.protect();
    assert_eq!(shared.hot.index.scrub(tail, 0, usize::MAX), None);
    drop(guard);
    assert_eq!(bench.figure("index_chains"), 0);
    let mut fillers = 0;
    while shared.hot.log.begin() < tail {
        bench.put(format!("filler-{fillers}").as_bytes(), &value(fillers, 0, 8));
        fillers += 1;
        if fillers % 20 == 0 {
            bench.store.flush().expect("flushes");
            shared.compact_if_due(&StopToken::default()).expect("it is compacted");
        }
    }
    assert_eq!(bench.figure("compaction_failures"), 0);
    assert!(bench.figure("compacted_records") >= DELETED);
    for number in 0..DELETED {
        assert_eq!(bench.get(&key(number)), None, "{number}");
    }
    for number in 0..fillers {
        let filler = bench.get(format!("filler-{number}").as_bytes());
        assert_eq!(filler, Some(value(number, 0, 8)), "{number}");
    }
}

#[test]
fn a_read_modify_write_of_a_cold_key_begins_with_its_cold_value() {
    let bench = Bench::open(small_hot());
    for round in 1..5 {
        for number in 0..KEYS {
            bench.rmw(&key(number), &mut Add);
        }
        push_out(&bench);
        for number in 0..KEYS {
            assert_eq!(count(bench.get(&key(number))), round, "{number}");
        }
    }
}

#[test]
fn a_read_modify_write_that_changes_nothing_leaves_nothing_behind() {
    let bench = Bench::open(small_hot());
    for number in 0..KEYS {
        bench.rmw(&key(number), &mut |_: Option<&[u8]>| Change::Keep);
    }
    assert_eq!(bench.figure("index_chains"), 0);
}

#[test]
fn tombstones_leave_nothing_behind() {
    let bench = cold_store(small_cold());
    for number in 0..KEYS {
        bench.delete(&key(number));
    }
    for number in 0..3000 {
        bench.delete(format!("filler-{number}").as_bytes());
    }
    // A handful of keys, written again and again, pushes these tombstones out.
    let tail = bench.figure("log_tail");
    for number in 0_u64.. {
        bench.put(&number.to_le_bytes()[..1], &value(number, 0, 8 + (number % 2) as usize));
        if bench.figure("log_begin") >= tail {
            break;
        }
    }
    let entries = bench.figure("cold_index_entries");
    assert!(entries <= 2 * 256, "{entries} entries are left for 256 keys");
}

#[test]
fn the_cold_log_is_compacted_and_keeps_within_its_budget() {
    let bench = Bench::open(small_cold());
    for version in 0..40 {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
        }
        for number in (0..KEYS).step_by(7) {
            assert_eq!(bench.get(&key(number)), Some(value(number, version, 8)), "{number}");
        }
    }
    for _ in 0..3 {
        push_out(&bench);
    }
    assert!(bench.figure("cold_compactions") > 3);
    assert_eq!(bench.figure("cold_compaction_failures"), 0);
    let bytes = bench.figure("cold_log_tail") - bench.figure("cold_log_begin");
    // 4,000 keys of 96 bytes live.
    assert!(bytes < 1 << 20, "the cold log has {bytes} bytes");
    let bench = bench.reopen(small_cold());
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 39, 8)), "{number}");
    }
}

#[test]
fn a_walk_meets_hot_and_cold_pairs_once_and_in_one_order() {
    let bench = cold_store(small_hot());
    for number in (0..KEYS).step_by(5) {
        bench.put(&key(number), &value(number, 1, 8));
    }
    for number in (1..KEYS).step_by(5) {
        bench.delete(&key(number));
    }
    let walk = |from: Option<&[u8]>| {
        let mut met = Vec::new();
        let walked = bench.store.walk(from, &mut |key, value| {
            met.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        met
    };
    let all = walk(None);
    let ours = || all.iter().filter(|(key, _)| key.starts_with(b"key-"));
    assert_eq!(ours().count() as u64, KEYS / 5 * 4);
    for number in (0..KEYS).filter(|number| number % 5 != 1) {
        let version = u64::from(number % 5 == 0);
        let pair = (key(number), value(number, version, 8));
        assert_eq!(ours().filter(|met| **met == pair).count(), 1, "{number}");
    }
    let place = |key: &[u8]| (bench.store.position(key), key.to_vec());
    assert!(all.is_sorted_by_key(|(key, _)| place(key)));
    let middle = all.len() / 2;
    assert_eq!(walk(Some(&all[middle].0)), all[middle..]);
}

#[test]
fn many_reads_at_once_are_the_same_as_one_by_one() {
    let bench = cold_store(small_cold());
    for number in (0..KEYS).step_by(3) {
        bench.put(&key(number), &value(number, 1, 8));
    }
    for number in (1..KEYS).step_by(3) {
        bench.delete(&key(number));
    }
    let keys: Vec<Vec<u8>> = (0..KEYS + 50).chain(0..20).map(key).collect();
    bench.must_get_many(&keys);
}

/// Records that hot-to-cold compaction has appended have no name in the index for a while.
/// Cold-to-cold compaction, which here takes every page once it is on disk, must not take them for
/// dead.
#[test]
fn what_is_not_named_yet_is_not_taken_for_dead() {
    let eager = Options { segment_bytes: 4096, cold_disk_bytes_max: Some(1), ..small_hot() };
    let bench = Bench::open(eager);
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("a store of two logs");
    let go_on = StopToken::default();
    cold.unnamed_from.begin(cold.log.tail());
    let mut changes = Vec::new();
    for (number, version) in (0..KEYS).flat_map(|number| [(number, 0), (number, 1)]) {
        let at = cold.append(&key(number), &value(number, version, 8)).expect("it is appended");
        let position = shared.hot.index.position(shared.hash(&key(number)));
        changes.push(Entry { position, old: LogAddress::NONE, new: at });
    }
    bench.store.flush().expect("flushes");
    for _ in 0..10 {
        shared.compact_cold_if_due(&go_on).expect("compacts");
    }
    assert_eq!(
        cold.log.begin(),
        LogAddress::NONE,
        "the index does not know yet which records live"
    );
    cold.index.apply(&mut changes, &go_on).expect("they are named");
    cold.unnamed_from.end();
    for _ in 0..10 {
        shared.compact_cold_if_due(&go_on).expect("compacts");
    }
    assert!(cold.log.begin() > LogAddress::NONE, "the index knows it now");
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 1, 8)), "{number}");
    }
}

/// Records that were moved before a page that cannot be read stay moved. The rounds that meet the
/// page again do not append them again.
#[test]
fn a_round_that_fails_has_moved_what_came_before() {
    let options = Options { disk_bytes_max: Some(1 << 30), compaction_threads: 1, ..small_hot() };
    let bench = Bench::open(options);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
    }
    bench.store.flush().expect("flushes");
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("a store of two logs");
    let (geometry, from) = (&shared.hot.log.geometry, shared.hot.log.begin());
    let page = |number| geometry.page_begin(geometry.page(from) + number);
    let (failing, until) = (page(5), page(9));
    let segment = shared.hot.log.segments.get(geometry.segment(failing)).expect("a segment");
    let name = shared.hot.log.segments.file_name(geometry.segment(failing));
    let file = bench.device.open(&name, device::Mode::Write).expect("opens");
    // A byte outside the header, which says how far the record reaches.
    let damaged = segment.offset(failing) + 60;
    let mut byte = [0];
    file.read_at(damaged, &mut byte).expect("reads");
    let write = |byte: u8| file.write_at(damaged, &[byte]).expect("writes");
    write(!byte[0]);
    let move_on = || {
        let begin = shared.hot.log.begin();
        let moved = shared.move_to_cold(cold, begin, until, &StopToken::default());
        cold.unnamed_from.end();
        moved
    };
    assert!(matches!(move_on(), Err(Error::Corruption(_))));
    assert_eq!(shared.hot.log.begin(), failing, "up to what cannot be read");
    let moved = cold.log.tail();
    assert!(moved > LogAddress::NONE);
    for _ in 0..3 {
        assert!(matches!(move_on(), Err(Error::Corruption(_))));
    }
    assert_eq!(
        (shared.hot.log.begin(), cold.log.tail()),
        (failing, moved),
        "nothing was done again"
    );
    write(byte[0]);
    assert!(matches!(move_on(), Ok(Some(_))));
    assert_eq!(shared.hot.log.begin(), until);
    assert_eq!(bench.figure("cold_index_covered_entries"), 0, "each has one entry");
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
}

/// D5: in the reference a key that is there can be absent while the cold log is compacted.
#[test]
fn d5_a_cold_key_that_is_there_is_never_absent() {
    let bench = Bench::open(small_cold());
    read_beside_writes(&bench, KEYS, 4, ("cold_compactions", 10));
}

/// Counters become hot and cold alternately, next to all compactions.
#[test]
fn no_count_is_lost_between_the_logs() {
    const COUNTERS: u64 = 300;
    const ROUNDS: u64 = 60;
    let bench = Bench::open(small_cold());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    for number in 0..COUNTERS {
                        bench.rmw(&key((number * 7 + thread * 100) % COUNTERS), &mut Add);
                    }
                    for number in 0..100 {
                        let filler = format!("filler-{}", (round * 100 + number) % 3000);
                        bench.put(filler.as_bytes(), &value(number, round, 8));
                    }
                }
            });
        }
    });
    assert!(bench.figure("compactions") > 5);
    for number in 0..COUNTERS {
        assert_eq!(count(bench.get(&key(number))), 3 * ROUNDS, "{number}");
    }
}
