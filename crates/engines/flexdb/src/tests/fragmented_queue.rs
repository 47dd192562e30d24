//! Intervals that scans find in pieces are written as one, within what may be written for that.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use engine::{Direction, Engine, KeyRange, NoJournal};

use super::stores::{Bench, key, scan, small};
use crate::Options;
use crate::read::UncachedInterval;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 400;
const VALUE_BYTES: usize = 20;

/// A store whose intervals have all been appended to by several commits, and nothing of which is
/// cached.
pub(crate) fn in_pieces() -> (Bench, Model) {
    in_pieces_on(device::memory())
}

fn options() -> Options {
    Options { interval_pairs: 32, tail_pairs_max: 15, segment_bytes_max: 4 << 20, ..small() }
}

fn open(device: Arc<dyn Device>) -> Bench {
    Bench::with(device, Arc::new(NoJournal), 16 << 20, options()).expect("it opens")
}

fn in_pieces_on(device: Arc<dyn Device>) -> (Bench, Model) {
    let (bench, mut model) = (open(device), Model::new());
    for round in 0..5 {
        for number in (0..KEYS).filter(|number| round == 0 || number % 16 == round) {
            let value = vec![round as u8; VALUE_BYTES];
            bench.put(&key(number), &value);
            model.insert(key(number), value);
        }
        bench.flush();
        bench.store.shared.cache.shrink(0);
    }
    (bench, model)
}

/// Returns the number of pieces of each interval.
fn pieces(bench: &Bench) -> Vec<usize> {
    let state = bench.store.shared.open_state().expect("it is open");
    let intervals = state.base.index.range(0..u64::MAX);
    let pieces = intervals.filter_map(|found| {
        Some(UncachedInterval::new(&state.base, &found, found.entry.head()?).pieces())
    });
    pieces.collect()
}

pub(crate) fn all(bench: &Bench) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan(&bench.view(), KeyRange::all(), Direction::Forward)
}

fn pairs(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.clone().into_iter().collect()
}

fn rewrite(bench: &Bench) {
    bench.store.shared.rewrite_fragmented().expect("there is room");
    bench.check();
}

/// Passes a second in which nothing was put.
pub(crate) fn pass_a_second(bench: &Bench) {
    let shared = &bench.store.shared;
    shared.refill_allowance();
    shared.refill_allowance();
    assert!(shared.background.fragmented_queue.allowance() > 0, "idle time is for scans");
}

#[test]
fn what_a_scan_reads_in_pieces_is_written_as_one() {
    let (bench, model) = in_pieces();
    assert!(pieces(&bench).iter().all(|pieces| *pieces > 3), "{:?}", pieces(&bench));
    let before = bench.view();
    pass_a_second(&bench);
    for direction in [Direction::Forward, Direction::Backward] {
        scan(&before, KeyRange::of(key(100).as_slice()..key(300).as_slice()), direction);
    }
    rewrite(&bench);
    let (whole, cut): (Vec<usize>, Vec<usize>) = pieces(&bench).iter().partition(|it| **it == 1);
    assert!(whole.len() >= 5 && cut.len() >= 5, "{whole:?} {cut:?}");
    assert_eq!(bench.detail("intervals_rewritten_for_scans"), whole.len() as u64);
    for view in [before, bench.view()] {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found = scan(&view, KeyRange::all(), direction);
            found.sort();
            assert_eq!(found, pairs(&model));
        }
    }
    rewrite(&bench);
    assert!(pieces(&bench).iter().all(|pieces| *pieces == 1), "{:?}", pieces(&bench));
    let written = bench.detail("bytes_written_for_scans");
    assert_eq!(all(&bench), pairs(&model));
    rewrite(&bench);
    assert_eq!(bench.detail("bytes_written_for_scans"), written, "nothing is in pieces any more");
    bench.flush();
    let bench = bench.reopen();
    assert_eq!(all(&bench), pairs(&model));
    assert!(pieces(&bench).iter().all(|pieces| *pieces == 1), "{:?}", pieces(&bench));
}

#[test]
fn neighbours_that_a_scan_has_read_lie_beside_each_other_afterwards() {
    let (bench, _) = in_pieces();
    pass_a_second(&bench);
    all(&bench);
    rewrite(&bench);
    let state = bench.store.shared.open_state().expect("it is open");
    let reading = state.base.space.begin_read(0, state.base.space.len()).expect("it is open");
    // The segment that is filled is read from memory; one read has the bytes before it.
    assert!(reading.missing() <= 2, "{} reads for all of it", reading.missing());
}

#[test]
fn a_scan_writes_nothing_without_an_allowance() {
    let (bench, model) = in_pieces();
    bench.store.shared.background.fragmented_queue.note_written(u64::MAX);
    let before = pieces(&bench);
    assert_eq!(all(&bench), pairs(&model));
    rewrite(&bench);
    // Intervals that wait when the allowance is used up are left unchanged, too.
    pass_a_second(&bench);
    bench.store.shared.cache.shrink(0);
    assert_eq!(all(&bench), pairs(&model));
    bench.store.shared.background.fragmented_queue.note_written(u64::MAX);
    rewrite(&bench);
    assert_eq!(pieces(&bench), before);
    assert_eq!(bench.detail("bytes_written_for_scans"), 0);
}

#[test]
fn no_more_is_written_than_is_allowed_and_those_in_most_pieces_come_first() {
    let (bench, _) = in_pieces();
    bench.put(&key(200), &[7; 3]);
    bench.flush();
    bench.store.shared.cache.shrink(0);
    let worst = pieces(&bench).into_iter().max().expect("there are intervals");
    let fragmented = &bench.store.shared.background.fragmented_queue;
    pass_a_second(&bench);
    all(&bench);
    // The bytes of one interval and a half.
    let interval = 24 * (key(0).len() + VALUE_BYTES) as u64;
    fragmented.note_written(fragmented.allowance() - interval * 3 / 2);
    let allowed = fragmented.allowance();
    rewrite(&bench);
    let written = bench.detail("bytes_written_for_scans");
    assert!(written > 0 && written <= allowed, "{written} bytes of {allowed}");
    assert_eq!(fragmented.allowance(), allowed - written);
    assert!(pieces(&bench).iter().all(|pieces| *pieces < worst), "{worst}: {:?}", pieces(&bench));
}

#[test]
fn an_interval_that_was_changed_since_it_was_read_keeps_its_changes() {
    let (bench, mut model) = in_pieces();
    pass_a_second(&bench);
    all(&bench);
    for number in (0..KEYS).step_by(8) {
        bench.put(&key(number), b"since");
        model.insert(key(number), b"since".to_vec());
    }
    bench.delete(&key(7));
    model.remove(&key(7));
    // The commit leaves it to a task of its own.
    bench.flush();
    rewrite(&bench);
    assert_eq!(bench.detail("bytes_written_for_scans"), 0, "each has another head");
    assert_eq!(all(&bench), pairs(&model));
}

#[test]
fn the_allowance_is_a_part_of_what_is_written_and_of_time() {
    let (bench, _) = in_pieces();
    let (shared, limit) = (&bench.store.shared, bench.budget.limit());
    let fragmented = &shared.background.fragmented_queue;
    // The commits so far have written more than the pairs that were put.
    let put = shared.figures.counts.committed_pairs.load(std::sync::atomic::Ordering::Relaxed) * 36;
    assert!(fragmented.allowance() >= put / 2, "{} of {put}", fragmented.allowance());
    assert!(fragmented.allowance() <= 2 * put, "{} of {put}", fragmented.allowance());
    shared.refill_allowance();
    fragmented.note_written(u64::MAX);
    shared.refill_allowance();
    assert_eq!(fragmented.allowance(), limit / 8, "a second without puts");
    bench.put(&key(0), &[1; 5000]);
    shared.refill_allowance();
    let second = fragmented.allowance() - limit / 8;
    assert!(second < limit / 8 - 5000 && second > limit / 16, "{second} a second with a put");
    for _ in 0..100 {
        shared.refill_allowance();
    }
    assert_eq!(fragmented.allowance(), limit / 2, "no more than that is kept");
}

#[test]
fn what_waits_is_bounded_and_goes_when_the_store_is_closed() {
    let (bench, _) = in_pieces();
    pass_a_second(&bench);
    let state = bench.store.shared.open_state().expect("it is open");
    let found = state.base.index.get(0).expect("there are intervals");
    let head = Arc::clone(found.entry.head().expect("it has one"));
    drop(state);
    let holders = || Arc::strong_count(&head);
    all(&bench);
    let waiting = holders();
    bench.store.shared.background.fragmented_queue.clear();
    assert_eq!(holders(), waiting - 1);
    bench.budget.set_limit(16 << 10);
    bench.store.shared.cache.shrink(0);
    all(&bench);
    assert_eq!(holders(), waiting - 1, "there is no room for it");
    bench.store.close().expect("closes");
}

#[test]
fn a_crash_leaves_all_pairs_whatever_was_being_written_as_one() {
    let disk = SimulatedDisk::new(7, Faults::none());
    let (bench, mut model) = in_pieces_on(disk.clone());
    pass_a_second(&bench);
    all(&bench);
    let (before, from) = (pairs(&model), disk.operations());
    disk.keep_history();
    rewrite(&bench);
    let shared = &bench.store.shared;
    shared.sync_rewritten().expect("the device takes it");
    let written = disk.operations();
    assert!(written > from, "it was made durable");
    shared.sync_rewritten().expect("there is nothing to be made durable");
    assert_eq!(disk.operations(), written);
    bench.put(&key(8), b"after");
    bench.flush();
    model.insert(key(8), b"after".to_vec());
    let after = pairs(&model);
    let history = disk.history();
    let mut replay = history.replay();
    for operation in from..=history.last_operation() {
        replay.advance_to(operation);
        for seed in 0..3 {
            let bench = open(replay.crash(seed));
            let found = all(&bench);
            let may_be_new = operation > written;
            assert!(found == before || may_be_new && found == after, "operation {operation}");
            bench.store.close().expect("closes");
        }
    }
    bench.store.close().expect("closes");
}

#[test]
fn what_lies_side_by_side_is_not_written_again() {
    let device = device::memory();
    // One commit has all.
    let options = Options { memtable_bytes_max: 1 << 20, ..options() };
    let open = |options| Bench::with(device.clone(), Arc::new(NoJournal), 16 << 20, options);
    let bench = open(options.clone()).expect("it opens");
    for number in 0..KEYS {
        bench.put(&key(number), &[1; VALUE_BYTES]);
    }
    bench.flush();
    bench.store.close().expect("closes");
    // Opening takes several of the small intervals as one, each of which is an extent.
    let options = Options { interval_bytes: 16 << 10, ..options };
    let bench = open(options).expect("it opens");
    let intervals = bench.intervals();
    assert!(intervals < 8, "{intervals} intervals");
    pass_a_second(&bench);
    assert_eq!(all(&bench).len() as u64, KEYS);
    rewrite(&bench);
    assert_eq!(bench.detail("bytes_written_for_scans"), 0);
}
