//! Data in many pieces are written as one while the store is idle, and only then.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, SimulatedDisk};
use engine::{Engine, NoJournal};

use super::fragmented_queue::all;
use super::stores::{Bench, key, small};
use crate::Options;
use conformance::Pairs;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Data that do not fit the cache: segments of 16 KiB, which are the longest pieces.
const MEMORY_BYTES: u64 = 1 << 20;
const KEYS: u64 = 6_000;
const VALUE_BYTES: usize = 100;

fn options() -> Options {
    Options { interval_pairs: 16, tail_pairs_max: 8, segment_bytes_max: 4 << 20, ..small() }
}

fn open(device: Arc<dyn Device>, options: Options) -> Bench {
    Bench::with(device, Arc::new(NoJournal), MEMORY_BYTES, options).expect("it opens")
}

/// A store that was loaded in no order, by many commits.
fn loaded(device: Arc<dyn Device>, options: Options) -> (Bench, Model) {
    let (bench, mut model) = (open(device, options), Model::new());
    put(&bench, &mut model, 0..KEYS, 1);
    (bench, model)
}

/// Puts pairs in no order, and to their places.
fn put(bench: &Bench, model: &mut Model, numbers: std::ops::Range<u64>, byte: u8) {
    for number in numbers {
        let (key, value) = (key(number * 4_799 % KEYS), vec![byte; VALUE_BYTES]);
        bench.put(&key, &value);
        model.insert(key, value);
    }
    bench.flush();
}

fn pairs(model: &Model) -> Pairs {
    model.clone().into_iter().collect()
}

/// Passes a second, and does the work due in it. The store had only the activity since the last
/// call.
fn pass_a_second(bench: &Bench) {
    bench.store.shared.defragment_if_idle();
    bench.crank.run_all();
    bench.check();
}

/// Passes seconds in which the store is not used.
fn be_idle(bench: &Bench) {
    pass_a_second(bench);
    pass_a_second(bench);
}

fn defragmented(bench: &Bench) -> u64 {
    bench.detail("bytes_defragmented")
}

/// Returns the number of pieces of all data: extents that follow one another without a gap are one.
fn pieces(bench: &Bench) -> u64 {
    let state = bench.store.shared.open_state().expect("it is open");
    let space = &state.base.space;
    let (mut end, mut pieces) = (None, 0);
    for extent in space.extents(0..space.len()) {
        let address = extent.extent.address();
        pieces += u64::from(address != end);
        end = address.map(|address| address + u64::from(extent.length));
    }
    pieces
}

#[test]
fn what_lies_in_pieces_is_written_as_one_once_nobody_wants_the_store() {
    let (bench, mut model) = loaded(device::memory(), options());
    let (before, bytes) = (pieces(&bench), bench.store.shared.space.len());
    pass_a_second(&bench);
    assert_eq!(defragmented(&bench), 0, "it was put to until now");
    pass_a_second(&bench);
    let first = defragmented(&bench);
    assert!(first > bytes / 2 && first <= bytes, "{first} bytes of {bytes}");
    assert!(bench.detail("intervals_defragmented") > 100);
    // A segment has 16 KiB.
    let after = pieces(&bench);
    assert!(after < before / 20 && after < bytes / (8 << 10), "{before} pieces, {after}");
    assert_eq!(all(&bench), pairs(&model));
    be_idle(&bench);
    assert_eq!(defragmented(&bench), first, "nothing was put since");
    bench.store.close().expect("closes");
    let bench = open(Arc::clone(&bench.device), options());
    be_idle(&bench);
    assert_eq!(defragmented(&bench), 0, "it lies together when it is opened, too");
    put(&bench, &mut model, 0..KEYS, 2);
    assert_eq!(all(&bench), pairs(&model));
}

#[test]
fn a_store_that_was_not_tidied_is_once_it_was_opened() {
    let (bench, model) = loaded(device::memory(), options());
    bench.store.close().expect("closes");
    let bench = open(Arc::clone(&bench.device), options());
    be_idle(&bench);
    let written = defragmented(&bench);
    assert!(written > bench.store.shared.space.len() / 2, "{written}");
    assert_eq!(all(&bench), pairs(&model));
}

#[test]
fn another_pass_comes_when_an_eighth_was_put_and_writes_no_more_than_that() {
    let (bench, mut model) = loaded(device::memory(), options());
    be_idle(&bench);
    let mut before = defragmented(&bench);
    let put_bytes = |count: u64| count * (key(0).len() + VALUE_BYTES + 2) as u64;
    put(&bench, &mut model, 0..KEYS / 10, 2);
    be_idle(&bench);
    assert_eq!(defragmented(&bench), before, "a tenth was put");
    put(&bench, &mut model, KEYS / 10..KEYS / 5, 3);
    for round in 0..5 {
        be_idle(&bench);
        let written = defragmented(&bench) - before;
        let most = put_bytes(KEYS / 5);
        assert!(written > most / 4 && written <= most, "{round}: {written} bytes of {most}");
        before = defragmented(&bench);
        be_idle(&bench);
        assert_eq!(defragmented(&bench), before, "nothing was put since");
        put(&bench, &mut model, 0..KEYS / 5, round);
    }
    assert_eq!(all(&bench), pairs(&model));
}

#[test]
fn a_store_that_somebody_wants_is_left_alone() {
    let (bench, mut model) = loaded(device::memory(), options());
    for what in ["gets", "puts", "a view"] {
        let _view = (what == "a view").then(|| bench.view());
        for round in 0..3 {
            match what {
                "gets" => (0..100).for_each(|number| _ = bench.get(&key(number * 59))),
                "puts" => put(&bench, &mut model, 20 * round..20 * (round + 1), 2),
                _ => {}
            }
            pass_a_second(&bench);
        }
        assert_eq!(defragmented(&bench), 0, "{what}");
    }
    // A task that waits for its turn does nothing either.
    let get = || (0..100).for_each(|number| _ = bench.get(&key(number * 59)));
    get();
    pass_a_second(&bench);
    bench.store.shared.defragment_if_idle();
    get();
    assert!(bench.crank.run_all() > 0);
    assert_eq!(defragmented(&bench), 0, "gets since");
    // It continues where it was.
    be_idle(&bench);
    let bytes = bench.store.shared.space.len();
    assert!(defragmented(&bench) > bytes / 2, "{} of {bytes}", defragmented(&bench));
    assert_eq!(all(&bench), pairs(&model));
}

#[test]
fn what_fits_the_cache_stays_as_it_is() {
    let (bench, _) = loaded(device::memory(), options());
    bench.budget.set_limit(16 << 20);
    be_idle(&bench);
    assert_eq!(defragmented(&bench), 0);
    bench.budget.set_limit(MEMORY_BYTES);
    be_idle(&bench);
    assert!(defragmented(&bench) > 0);
}

#[test]
fn without_the_option_nothing_is_tidied() {
    let (bench, _) =
        loaded(device::memory(), Options { defragments_when_idle: false, ..options() });
    be_idle(&bench);
    assert_eq!(defragmented(&bench), 0);
}

#[test]
fn room_that_commits_may_want_is_left_to_them() {
    let of = |segments: u64| {
        let options = Options { capacity_bytes: segments * (16 << 10), ..options() };
        let (bench, mut model) = loaded(device::memory(), options);
        be_idle(&bench);
        let written = defragmented(&bench);
        let taken = bench.detail("used_segments") + bench.detail("held_segments");
        // The segments that are kept for the collector, and more.
        assert!(segments - taken > 64, "{taken} segments of {segments}");
        put(&bench, &mut model, 0..KEYS / 4, 2);
        assert_eq!(all(&bench), pairs(&model));
        (written, bench.store.shared.space.len())
    };
    let (few, bytes) = of(130);
    assert!(few < bytes / 2, "{few} of {bytes}");
    let (most, _) = of(400);
    assert!(most > bytes * 3 / 4, "{most} of {bytes}");
}

#[test]
fn a_store_that_is_closed_stops_in_the_middle_of_a_pass() {
    let (bench, model) = loaded(device::memory(), options());
    pass_a_second(&bench);
    bench.store.shared.defragment_if_idle();
    let counts = &bench.store.shared.figures.counts;
    let bytes = || counts.defragmented_bytes.load(std::sync::atomic::Ordering::Relaxed);
    while bytes() == 0 {
        bench.crank.run_one().expect("a slice waits");
    }
    let some = bytes();
    assert!(bench.crank.ready() > 0, "the next slice waits");
    bench.store.close().expect("closes");
    assert_eq!(bytes(), some);
    let bench = open(Arc::clone(&bench.device), options());
    assert_eq!(all(&bench), pairs(&model));
    be_idle(&bench);
    assert!(defragmented(&bench) > some, "the rest is done after opening");
}

/// A pass ends at any failure, which is reported unless it is a lack of room; the next one begins
/// there.
#[test]
fn a_pass_that_fails_loses_nothing_and_is_told_until_another_one_succeeds() {
    for (kind, failure, is_reported) in
        [(OperationKind::Read, Failure::Io, true), (OperationKind::Resize, Failure::NoSpace, false)]
    {
        let device = FaultDevice::new(device::memory());
        let (bench, mut model) = loaded(device.clone(), options());
        bench.store.shared.cache.shrink(0);
        let kind = Some(kind);
        let nth = device.count(kind) + 1;
        device.fail(Fault { kind, nth, failure, lasting: Lasting::ForGood });
        be_idle(&bench);
        device.heal();
        let tells =
            || bench.store.background_errors().iter().any(|error| error.work.contains("idle"));
        assert!(device.count(kind) >= nth, "{kind:?}: nothing failed");
        assert_eq!(tells(), is_reported, "{kind:?}");
        let some = defragmented(&bench);
        assert!(some < bench.store.shared.space.len() / 2, "{kind:?}: {some}");
        be_idle(&bench);
        assert_eq!(defragmented(&bench), some, "{kind:?}: the pass has ended");
        assert_eq!(all(&bench), pairs(&model), "{kind:?}");
        put(&bench, &mut model, 0..KEYS / 5, 2);
        be_idle(&bench);
        assert!(defragmented(&bench) > some && !tells(), "{kind:?}");
        assert_eq!(all(&bench), pairs(&model), "{kind:?}");
    }
}

/// Defragments on a disk that keeps its history, then commits and collects, and opens the image
/// that a crash leaves at every operation.
#[test]
fn a_crash_leaves_all_pairs_whatever_was_being_tidied() {
    let disk = SimulatedDisk::new(11, Faults::none());
    let (bench, mut model) = loaded(disk.clone(), options());
    pass_a_second(&bench);
    let (before, from) = (pairs(&model), disk.operations());
    disk.keep_history();
    let shared = &bench.store.shared;
    shared.defragment_if_idle();
    // With syncs and collections between slices.
    while bench.crank.run_one().is_some() {
        shared.sync_rewritten().expect("the device takes it");
        shared.collect(false).expect("the device takes it");
    }
    let defragmented_until = disk.operations();
    assert!(
        defragmented(&bench) > 0 && defragmented_until > from + 50,
        "{}",
        defragmented_until - from
    );
    put(&bench, &mut model, 0..100, 2);
    let after = pairs(&model);
    let (history, mut last) = (disk.history(), 0);
    let mut replay = history.replay();
    for operation in from..=history.last_operation() {
        replay.advance_to(operation);
        let bench = open(replay.crash(operation), options());
        let found = all(&bench);
        let news = found.iter().filter(|(_, value)| value[0] == 2).count();
        // Without a journal some commits of these puts are there, in their order.
        assert!(news == 0 || operation > defragmented_until, "operation {operation}: {news}");
        assert!(news >= last, "operation {operation}: {news} puts, {last} before");
        last = news;
        let mut expected: Model = before.iter().cloned().collect();
        (0..100).for_each(|number| {
            let key = key(number * 4_799 % KEYS);
            let at = found.binary_search_by(|(there, _)| there.cmp(&key));
            let (key, value) = at.map(|at| found[at].clone()).expect("it is there");
            assert!(value == vec![1; VALUE_BYTES] || value == vec![2; VALUE_BYTES]);
            expected.insert(key, value);
        });
        assert!(found == pairs(&expected), "operation {operation}");
        bench.store.close().expect("closes");
        let damage = crate::check(&bench.device).expect("it can be read").damage;
        assert!(damage.is_empty(), "operation {operation}: {damage:?}");
    }
    assert_eq!(all(&bench), after);
    bench.store.close().expect("closes");
}
