//! The changes that commits make to intervals, and their cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::SeqNo;
use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{
    Barrier, BlockingWrites, Demand, Direction, Engine, Error, KeyRange, NoJournal, Op,
    Reservation, Result, Wait,
};
use environment::Random;
use rand::RngExt;
use reads::BlockingReads;
use sync::locks::Mutex;

use super::stores::{Bench, key, scan, small};
use crate::Options;

#[test]
fn a_store_is_a_map_however_its_intervals_change() {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    change_intervals(seed.unwrap_or_else(|| environment::Seed::from_entropy().get()));
}

/// The same steps each time, so that a fault in the change of an interval is always found.
#[test]
fn a_store_is_a_map_in_the_steps_of_fixed_seeds() {
    (0..4).for_each(change_intervals);
}

/// Makes random puts and deletes of keys that crowd, with flushes, little memory and reopening,
/// against a map: in every way that an interval can be changed.
fn change_intervals(seed: u64) {
    /// Of 6,000 steps, some seeds changed one interval in place.
    const STEPS: u64 = 18_000;
    /// Steps in which the number of keys grows, before it begins with few again.
    const GROWTH_STEPS: u64 = 6_000;
    println!(
        "seed {seed}; to replay, THERMOCLINE_SEED={seed} cargo test -p thermocline-flexdb map"
    );
    let mut random: Random = environment::Seed::from(seed).stream("commits");
    let mut bench = Bench::new();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut ways = [0; 4];
    let mut count_ways = |bench: &Bench| {
        let names = [
            "intervals_appended",
            "intervals_in_place",
            "intervals_rewritten",
            "intervals_rewritten_for_scans",
        ];
        ways.iter_mut().zip(names).for_each(|(way, name)| *way += bench.detail(name));
    };
    for step in 0..STEPS {
        let low = random.random_range(0..3) * 400;
        let name = key(low + random.random_range(0..40 + step % GROWTH_STEPS / 20));
        if random.random_range(0..3) == 0 {
            bench.delete(&name);
            model.remove(&name);
        } else {
            let len = if random.random_range(0..50) == 0 { 1500 } else { 20 };
            let value = vec![step as u8; random.random_range(0..len)];
            bench.put(&name, &value);
            model.insert(name.clone(), value);
        }
        let sought = key(random.random_range(0..1300));
        assert_eq!(bench.get(&sought), model.get(&sought).cloned(), "step {step}");
        if random.random_range(0..150) == 0 {
            bench.flush();
            // The scan hands over the intervals that it finds in pieces.
            bench.store.shared.cache.shrink(0);
            bench.store.shared.refill_allowance();
            assert_eq!(bench.pairs(), model.clone().into_iter().collect::<Vec<_>>(), "step {step}");
            bench.store.shared.rewrite_fragmented().expect("there is room");
            bench.check();
            assert_eq!(bench.pairs(), model.clone().into_iter().collect::<Vec<_>>(), "step {step}");
        }
        if random.random_range(0..400) == 0 {
            bench.flush();
            count_ways(&bench);
            // Without memory nothing is cached, and what may be is appended to.
            bench = bench.reopen();
            bench.budget.set_limit(if step % 2 == 0 { 1 << 20 } else { 16 << 10 });
            bench.check();
            assert_eq!(bench.pairs(), model.clone().into_iter().collect::<Vec<_>>(), "step {step}");
        }
    }
    count_ways(&bench);
    println!("appended, in place, rewritten, for scans: {ways:?}");
    assert!(
        ways.iter().all(|count| *count > 0),
        "appended, in place, rewritten, for scans: {ways:?}"
    );
}

/// An update of an interval that is not cached reads nothing as long as its tail is short.
#[test]
fn an_interval_that_is_not_cached_is_appended_to_without_a_read() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.put(&key(2 * number), b"before");
    }
    bench.flush();
    bench.budget.set_limit(16 << 10);
    bench.store.shared.cache.shrink(0);
    let before = bench.detail("cache_misses");
    bench.put(&key(51), b"behind");
    bench.put(&key(0), b"over");
    bench.put(b"a", b"in front");
    bench.delete(&key(98));
    bench.flush();
    assert_eq!(bench.detail("cache_misses"), before);
    assert!(bench.detail("intervals_appended") >= 3);
    for _ in 0..2 {
        assert_eq!(bench.get(&key(51)), Some(b"behind".to_vec()));
        assert_eq!(bench.get(&key(0)), Some(b"over".to_vec()));
        assert_eq!(bench.get(b"a"), Some(b"in front".to_vec()));
        assert_eq!(bench.get(&key(98)), None);
        assert_eq!(bench.pairs().len(), 101);
    }
    let bench = bench.reopen();
    assert_eq!((bench.get(b"a"), bench.get(&key(98))), (Some(b"in front".to_vec()), None));
    assert_eq!(bench.pairs().len(), 101);
}

/// Intervals of 16 pairs.
fn wide() -> Options {
    Options { interval_pairs: 16, ..small() }
}

/// A cached interval is appended to, too: what changes nothing is left out, and it stays cached.
#[test]
fn an_interval_that_is_cached_is_appended_to_and_stays_cached() {
    let bench = Bench::of(1 << 20, Options { tail_pairs_max: 8, ..wide() });
    let pair = |value: u64| 2 + 14 + value;
    for number in 0..16 {
        bench.put(&key(number), &[0; 20]);
    }
    bench.flush();
    bench.put(&key(3), &[1; 25]);
    bench.put(&key(5), &[0; 20]);
    bench.put(&key(16), &[1; 20]);
    bench.delete(&key(0));
    bench.delete(&key(99));
    bench.flush();
    let header = crate::pair::StoreHeader::BYTES as u64;
    let bytes = header + 16 * pair(20) + pair(25) + pair(20) + pair(0);
    assert_eq!((bench.detail("intervals_appended"), bench.detail("space_bytes")), (1, bytes));
    let read = |bench: &Bench| {
        let misses = bench.detail("cache_misses");
        let values = [0, 3, 5, 16].map(|number| bench.get(&key(number)));
        assert_eq!(values, [None, Some(vec![1; 25]), Some(vec![0; 20]), Some(vec![1; 20])]);
        assert_eq!(bench.pairs().len(), 16);
        bench.detail("cache_misses") - misses
    };
    assert_eq!(read(&bench), 0);
    // All that is left of it goes.
    (1..17).for_each(|number| _ = bench.delete(&key(number)));
    bench.put(b"z", b"other");
    bench.flush();
    assert_eq!(bench.pairs(), [(b"z".to_vec(), b"other".to_vec())]);
}

/// Deletes in many intervals leave few intervals.
#[test]
fn small_neighbours_become_one() {
    for memory_bytes in [1 << 20, 16 << 10] {
        let bench = Bench::of(1 << 20, wide());
        for number in 0..600 {
            bench.put(&key(number), b"value");
        }
        bench.flush();
        let many = bench.intervals();
        bench.budget.set_limit(memory_bytes);
        bench.store.shared.cache.shrink(bench.store.shared.cache_share());
        let is_left = |number: &u64| number.is_multiple_of(10);
        let gone: Vec<u64> = (0..600).filter(|number| !is_left(number)).collect();
        for chunk in gone.chunks(100) {
            chunk.iter().for_each(|number| _ = bench.delete(&key(*number)));
            bench.flush();
        }
        let few = bench.intervals();
        // With little memory most of them for the index's sake.
        let joined = bench.detail("intervals_joined") + bench.detail("intervals_coarsened");
        // Some are in too many pieces for it.
        assert!(3 * few < 2 * many && joined > 5, "{few} of {many}, {joined} joined");
        let left: Vec<_> = (0..600).filter(is_left).map(|n| (key(n), b"value".to_vec())).collect();
        assert_eq!(bench.pairs(), left);
        left.iter().for_each(|(key, value)| assert_eq!(bench.get(key).as_ref(), Some(value)));
        bench.budget.set_limit(1 << 20);
        bench.store.close().expect("closes");
        let bench = Bench::on(bench.0.device).expect("opens");
        assert_eq!(bench.pairs(), left);
        bench.store.close().expect("closes");
        assert_eq!(crate::check(&bench.device).expect("reads").damage, []);
    }
}

#[test]
fn single_pairs_of_a_cached_interval_are_replaced_in_place() {
    let options =
        Options { tail_pairs_max: 0, interval_bytes: 16 << 10, fragments_max: 8, ..wide() };
    let bench = Bench::of(1 << 20, options);
    for number in 0..16 {
        bench.put(&key(number), &[0; 100]);
    }
    bench.flush();
    bench.put(&key(3), &[1; 120]);
    bench.delete(&key(0));
    bench.flush();
    assert_eq!(bench.detail("intervals_in_place"), 1);
    assert_eq!(bench.detail("space_bytes"), {
        let pair = |value: u64| 2 + 14 + value;
        crate::pair::StoreHeader::BYTES as u64 + 14 * pair(100) + pair(120)
    });
    assert_eq!((bench.get(&key(0)), bench.get(&key(3))), (None, Some(vec![1; 120])));
    let bench = bench.reopen();
    assert_eq!((bench.get(&key(0)), bench.get(&key(3))), (None, Some(vec![1; 120])));
}

/// The tag of its extent goes with the pair, and has to be set again: otherwise an opening would
/// not find the interval.
#[test]
fn an_interval_whose_first_pair_goes_is_still_one() {
    let options =
        Options { tail_pairs_max: 0, interval_bytes: 16 << 10, fragments_max: 16, ..wide() };
    let bench = Bench::of(1 << 20, options);
    for number in 0..24 {
        bench.put(&key(number), &[0; 100]);
    }
    bench.flush();
    bench.delete(&key(12));
    bench.flush();
    assert_eq!(bench.detail("intervals_in_place"), 1);
    bench.store.close().expect("closes");
    let report = crate::check(&bench.device).expect("reads");
    assert_eq!((report.damage, report.intervals), (vec![], 2));
}

#[test]
fn intervals_are_split_and_those_without_pairs_go() {
    let bench = Bench::new();
    for number in 0..400 {
        bench.put(&key(number), b"value");
    }
    bench.flush();
    assert!((100..200).contains(&bench.intervals()), "{} intervals", bench.intervals());
    for number in 0..400 {
        bench.delete(&key(number));
    }
    bench.flush();
    bench.put(b"z", b"one");
    bench.flush();
    assert_eq!(bench.pairs().len(), 1);
    assert!(bench.intervals() < 100, "{} intervals", bench.intervals());
}

#[test]
fn memory_is_given_back() {
    let bench = Bench::of(256 << 10, small());
    for number in 0..5000_u64 {
        bench.put(&key(number * 7919 % 5003), &[number as u8; 100]);
        assert!(bench.budget.used() < 512 << 10, "{} bytes at {number}", bench.budget.used());
    }
    bench.flush();
    for number in 0..5003 {
        bench.get(&key(number));
    }
    let stats = bench.store.stats();
    assert!(stats.memory_bytes <= 256 << 10, "{} bytes of memory", stats.memory_bytes);
    assert_eq!(stats.memory_bytes, bench.budget.used());
    bench.store.close().expect("closes");
    let budget = Arc::clone(&bench.budget);
    drop(bench);
    assert_eq!(budget.used(), 0);
}

/// A snapshot that is being taken may be between the writes of a commit, which waits for it.
#[test]
fn a_commit_waits_for_a_snapshot_that_is_being_taken() {
    let bench = Bench::of(256 << 10, small());
    let slow = bench.sequence.begin();
    bench.put(b"k", b"value");
    let sequence = Arc::clone(&bench.sequence);
    let pinning = environment::Environment::real().spawn("pin", move || sequence.pin());
    while bench.sequence.pins_below(codec::SeqNo::MAX).is_some() {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let flushing = scope.spawn(|| bench.store.flush());
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        assert_eq!(bench.detail("commits"), 0);
        drop(slow);
        flushing.join().expect("it does not panic").expect("memory takes it");
    });
    assert_eq!(bench.detail("commits"), 1);
    drop(pinning.expect("there is a thread").join().expect("it does not panic"));
    assert_eq!(bench.get(b"k"), Some(b"value".to_vec()));
}

/// A file that may be no larger than a few times its live data: commits wait for the collector in
/// the middle of their work, and no reader notices it, nor do views from before.
#[test]
fn a_commit_that_finds_no_room_has_some_made() {
    let small = Options { capacity_bytes: 140 * (16 << 10), tail_pairs_max: 0, ..small() };
    // Large intervals of which several pairs change, so that room may end in between.
    let large = Options {
        memtable_bytes_max: 32 << 10,
        interval_pairs: 16,
        interval_bytes: 16 << 10,
        fragments_max: 16,
        ..small.clone()
    };
    write_over(256 << 10, &small);
    write_over(1 << 20, &large);
}

fn write_over(memory_bytes: u64, options: &Options) {
    let bench = Bench::of(memory_bytes, options.clone());
    let mut model = BTreeMap::new();
    let mut view = None;
    let value = |round: u64, number: u64| vec![(round * 31 + number) as u8; 300];
    for round in 0..30 {
        for number in 0..1500 {
            // First all keys, then some again and again, and between them others that stay.
            let place = if round == 0 { number } else { number * number };
            let (name, value) = (key(place % 1501), value(round, number));
            bench.put(&name, &value);
            model.insert(name, value);
            match number % 500 {
                // It holds all segments that are freed meanwhile, so not for long.
                100 if round % 5 == 3 => view = Some((bench.view(), model.clone())),
                140 => {
                    if let Some((view, model)) = view.take() {
                        let pairs = scan(&view, KeyRange::all(), Direction::Forward);
                        let expected: Vec<_> = model.into_iter().collect();
                        assert!(pairs == expected, "a view of round {round}");
                    }
                }
                _ => {}
            }
        }
        bench.check();
    }
    bench.flush();
    assert!(bench.detail("room_made") > 3, "{} times", bench.detail("room_made"));
    let expected: Vec<_> = model.into_iter().collect();
    assert!(bench.pairs() == expected);
    bench.store.close().expect("closes");
    let device = Arc::clone(&bench.device);
    let again =
        Bench::with(device, Arc::new(NoJournal), memory_bytes, options.clone()).expect("opens");
    assert!(again.pairs() == expected);
    again.check();
}

/// Room may end between two pairs of an interval that are replaced in place. The interval then has
/// the one and lacks the other, until the commit continues after the collector.
#[test]
fn a_change_that_finds_no_room_in_its_middle_is_continued() {
    let options = Options {
        capacity_bytes: 140 * (16 << 10),
        memtable_bytes_max: 32 << 10,
        tail_pairs_max: 0,
        interval_pairs: 16,
        interval_bytes: 16 << 10,
        fragments_max: 40,
        ..small()
    };
    let bench = Bench::of(1 << 20, options);
    let mut model = BTreeMap::new();
    for round in 0..200 {
        if bench.detail("changes_broken_off") >= 3 {
            break;
        }
        let step = if round == 0 { 1 } else { 5 };
        for number in (round % step..2500).step_by(step as usize) {
            // The lengths differ from before, so that the interval's length changes, too.
            let (name, value) = (key(number), vec![round as u8; 280 + round as usize * 7 % 40]);
            bench.put(&name, &value);
            model.insert(name, value);
        }
        bench.flush();
    }
    assert!(bench.detail("changes_broken_off") >= 3, "{}", bench.detail("room_made"));
    let expected: Vec<_> = model.into_iter().collect();
    assert!(bench.pairs() == expected);
    let bench = bench.reopen();
    assert!(bench.pairs() == expected);
    bench.store.close().expect("closes");
    assert_eq!(crate::check(&bench.device).expect("reads").damage, []);
}

/// Writes pairs until one is refused for lack of room, and returns how many were taken. A refusal
/// is no failure: the store continues to take writes for which there is room.
pub(crate) fn fill(bench: &Bench, pairs: impl Iterator<Item = (u64, u8)>) -> Option<usize> {
    for (taken, (number, byte)) in pairs.enumerate() {
        let key = key(number);
        let put = [Op::Put { key: &key, value: &[byte; 300] }];
        if let Err(error) = bench.store.reserve(&Demand::Ops(&put), Wait::Yes).map(drop) {
            assert!(matches!(error, Error::SpaceUsedUp { .. }), "{error}");
            return Some(taken);
        }
        let ticket = bench.sequence.begin();
        assert_eq!(bench.store.write(&put, ticket.seqno()), Ok(()));
    }
    None
}

/// More than the file may hold: the error says so, and all pairs that were taken can be read. The
/// pairs that a commit has put in until then are also there after opening.
#[test]
fn what_does_not_fit_is_refused_and_nothing_else_happens() {
    let options = Options { capacity_bytes: 140 * (16 << 10), ..small() };
    let bench = Bench::of(256 << 10, options);
    let taken = fill(&bench, (0..10_000).map(|number| (number, 7))).expect("some time it is full");
    let taken = taken as u64;
    assert!((2000..8000).contains(&taken), "after {taken} pairs");
    for _ in 0..3 {
        let refused = bench.store.flush();
        assert!(matches!(refused, Err(Error::Device(device::Error::NoSpace { .. }))));
    }
    let mut value = Vec::new();
    for number in 0..taken {
        assert_eq!(bench.store.get(&key(number), &mut value), Ok(true), "{number}");
    }
    bench.check();
    assert_eq!(bench.store.close(), Ok(()));
    let persisted = bench.store.persisted().get();
    let opened = Bench::on(Arc::clone(&bench.device)).expect("opens with more capacity");
    assert_eq!(opened.store.persisted().get(), persisted);
    for number in 0..persisted {
        assert_eq!(opened.store.get(&key(number), &mut value), Ok(true), "{number}");
    }
    opened.put(b"more", b"fits now");
    opened.flush();
}

/// A view holds all room that is freed while it lives. Then writes are refused, and taken again
/// once the view is dropped.
#[test]
fn a_view_that_holds_all_room_stops_writes_only_while_it_is_held() {
    let options = Options { capacity_bytes: 140 * (16 << 10), ..small() };
    let bench = Bench::of(256 << 10, options);
    let keys = 1800;
    assert_eq!(fill(&bench, (0..keys).map(|number| (number, 1))), None);
    bench.flush();
    let view = bench.view();
    // Others are in the middle of a memtable's writes.
    assert_eq!(fill(&bench, (0..10).map(|number| (number, 2))), None);
    let later = bench.view();
    let over = |byte| (0..20 * keys).map(move |number| (number % keys, byte));
    assert!(fill(&bench, over(3)).is_some());
    assert!(matches!(bench.store.flush(), Err(Error::Device(device::Error::NoSpace { .. }))));
    bench.check();
    let seen = |byte| move |number| (key(number), vec![byte; 300]);
    let first: Vec<_> = (0..keys).map(seen(1)).collect();
    let second: Vec<_> = (0..10).map(seen(2)).chain((10..keys).map(seen(1))).collect();
    // Also while the store's background work continues.
    bench.store.shared.collect(false).expect("the collector can go on");
    assert!(scan(&view, KeyRange::all(), Direction::Forward) == first);
    assert!(scan(&later, KeyRange::all(), Direction::Forward) == second);
    drop((view, later));
    assert_eq!(fill(&bench, over(4)), None);
    bench.flush();
    assert!(bench.pairs() == (0..keys).map(seen(4)).collect::<Vec<_>>());
    let bench = bench.reopen();
    assert!(bench.pairs() == (0..keys).map(seen(4)).collect::<Vec<_>>());
}

/// Deletes are taken if there is no room for anything else, and free some, before the writes that
/// need it. An earlier view sees the pairs that they delete.
#[test]
fn deletes_give_room_where_a_commit_was_refused() {
    for holds_a_view in [false, true] {
        let options = Options { capacity_bytes: 140 * (16 << 10), ..small() };
        let bench = Bench::of(256 << 10, options);
        let taken = fill(&bench, (0..10_000).map(|number| (number, 7))).expect("some time");
        let taken = taken as u64;
        assert!(bench.store.flush().is_err());
        let view = holds_a_view.then(|| bench.view());
        for number in (0..taken).filter(|number| number % 50 != 0) {
            let key = key(number);
            let delete = [Op::Delete { key: &key }];
            if let Err(error) = bench.store.reserve(&Demand::Ops(&delete), Wait::Yes).map(drop) {
                // All of the room is the view's.
                assert!(holds_a_view, "{number} of {taken}: {error}");
                break;
            }
            let ticket = bench.sequence.begin();
            assert_eq!(bench.store.write(&delete, ticket.seqno()), Ok(()));
        }
        if let Some(view) = view {
            let seen = scan(&view, KeyRange::all(), Direction::Forward);
            assert!(seen == (0..taken).map(|n| (key(n), vec![7; 300])).collect::<Vec<_>>());
            continue;
        }
        assert!(bench.detail("relieved_pairs") > 0);
        bench.flush();
        assert_eq!(fill(&bench, (0..1000).map(|number| (number, 8))), None);
        bench.flush();
        let left = (1000..taken).filter(|number| number % 50 == 0).map(|n| (key(n), vec![7; 300]));
        let new = (0..1000).map(|number| (key(number), vec![8; 300]));
        let expected: Vec<_> = new.chain(left).collect();
        assert!(bench.pairs() == expected);
        let bench = bench.reopen();
        assert!(bench.pairs() == expected);
        bench.store.close().expect("closes");
        assert_eq!(crate::check(&bench.device).expect("reads").damage, []);
    }
}

/// A flush that writes nothing but the number of persisted writes finds no segment for it. It has
/// the collector make room, as a commit does.
#[test]
fn a_flush_that_finds_no_room_for_its_header_has_some_made() {
    let options = Options { capacity_bytes: 140 * (16 << 10), ..small() };
    let bench = Bench::of(1 << 20, options);
    assert_eq!(fill(&bench, (0..100).map(|number| (number, 1))), None);
    bench.flush();
    let space = &bench.store.shared.space;
    let header = crate::pair::StoreHeader { persisted: bench.store.persisted() }.encode();
    let refused = loop {
        if let Err(refused) = space.splice(0, header.len() as u64, &header, 0) {
            break refused;
        }
    };
    assert_eq!(refused, flexspace::space::Error::Uncollected);
    // Numbers of other stores of the same host.
    let other = bench.sequence.begin().seqno();
    bench.flush();
    assert_eq!(bench.store.persisted(), other);
    assert!(bench.detail("room_made") > 0);
}

/// A device that others have filled for a while: writes are refused, none is lost, and once there
/// is room they are taken again.
#[test]
fn a_full_device_stops_writes_only_while_it_is_full() {
    let device = FaultDevice::new(device::memory());
    let opened = Bench::with(device.clone(), Arc::new(NoJournal), 256 << 10, small());
    let bench = opened.expect("an empty device opens");
    assert_eq!(fill(&bench, (0..500).map(|number| (number, 1))), None);
    let kind = Some(OperationKind::Resize);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
    let taken = fill(&bench, (500..10_000).map(|number| (number, 1)));
    let taken = taken.expect("there is no room for all") as u64;
    assert!(matches!(bench.store.flush(), Err(Error::Device(device::Error::NoSpace { .. }))));
    bench.check();
    device.heal();
    assert_eq!(fill(&bench, (500 + taken..5000).map(|number| (number, 1))), None);
    bench.flush();
    let expected: Vec<_> = (0..5000).map(|number| (key(number), vec![1; 300])).collect();
    assert!(bench.pairs() == expected);
    bench.store.close().expect("closes");
    let again = Bench::on(device).expect("opens");
    assert!(again.pairs() == expected);
}

/// A commit that failed while there was no room refuses no write that comes when there is some.
#[test]
fn a_failure_of_before_refuses_no_write() {
    let device = FaultDevice::new(device::memory());
    let opened = Bench::with(device.clone(), Arc::new(NoJournal), 256 << 10, small());
    let bench = opened.expect("an empty device opens");
    let kind = Some(OperationKind::Resize);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
    let waits = || !bench.store.shared.open_state().expect("open").sealed.is_empty();
    let mut taken = 0;
    while !waits() {
        assert_eq!(fill(&bench, (taken..taken + 30).map(|number| (number, 1))), None);
        taken += 30;
        bench.crank.run_all();
    }
    let is_reported =
        || bench.store.background_errors().iter().any(|told| told.work.contains("commit"));
    assert!(is_reported());
    device.heal();
    assert_eq!(fill(&bench, (taken..3000).map(|number| (number, 1))), None);
    bench.flush();
    assert!(!is_reported());
    let expected: Vec<_> = (0..3000).map(|number| (key(number), vec![1; 300])).collect();
    assert!(bench.pairs() == expected);
}

/// A journal that remembers how far it had to be durable.
#[derive(Default)]
struct Reached(std::sync::atomic::AtomicU64);

impl engine::Barrier for Reached {
    fn reach(&self, seqno: codec::SeqNo) -> engine::Result<codec::SeqNo> {
        self.0.fetch_max(seqno.get(), std::sync::atomic::Ordering::Relaxed);
        Ok(seqno)
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

/// Versions that a younger memtable replaces are not put into the space, once the journal has the
/// newer ones. Versions that no younger memtable replaces are put.
#[test]
fn replaced_versions_are_not_committed_once_the_journal_has_the_newer_ones() {
    let barrier = Arc::new(Reached::default());
    let opened = Bench::with(device::memory(), barrier.clone(), 1 << 20, small());
    let bench = opened.expect("an empty device opens");
    let shared = &bench.store.shared;
    let seal = || shared.seal(&Arc::clone(&shared.open_state().expect("it is open").active));
    bench.put(b"often", b"first");
    bench.put(b"once", b"stays");
    seal();
    bench.put(b"other", b"stays");
    seal();
    bench.put(b"more", b"stays");
    bench.crank.run_all();
    assert_eq!(bench.detail("commits"), 0, "two wait");
    seal();
    let last = bench.put(b"often", b"second");
    bench.crank.run_all();
    assert_eq!((bench.detail("commits"), bench.detail("committed_pairs")), (1, 3));
    assert_eq!(bench.detail("replaced_versions"), 1);
    let reached = barrier.0.load(std::sync::atomic::Ordering::Relaxed);
    assert!(reached >= last.get(), "{reached}, not {}", last.get());
    assert!(bench.store.persisted() < last);
    assert_eq!(bench.get(b"often"), Some(b"second".to_vec()));
    assert_eq!(bench.get(b"once"), Some(b"stays".to_vec()));
    bench.flush();
    assert_eq!(bench.detail("committed_pairs"), 4);
    assert_eq!(bench.pairs().len(), 4);
}

/// All memtables that wait are committed together, and an interval is changed once for the updates
/// of all of them. Views between their writes still see the same data.
#[test]
fn memtables_that_wait_are_committed_as_one() {
    let barrier = Arc::new(Reached::default());
    let opened = Bench::with(device::memory(), barrier.clone(), 1 << 20, small());
    let bench = opened.expect("an empty device opens");
    let shared = &bench.store.shared;
    let seal = || shared.seal(&Arc::clone(&shared.open_state().expect("it is open").active));
    let view = (0..3).map(|memtable| {
        (0..30).for_each(|number| _ = bench.put(&key(3 * number + memtable), &[memtable as u8; 9]));
        let view = bench.view();
        seal();
        view
    });
    let views: Vec<_> = view.collect();
    bench.crank.run_all();
    assert_eq!((bench.detail("commits"), bench.detail("committed_memtables")), (1, 3));
    assert_eq!(bench.detail("committed_pairs"), 90);
    assert!(bench.store.persisted().get() >= 90, "{}", bench.store.persisted().get());
    let all: Vec<_> = (0..90).map(|number| (key(number), vec![(number % 3) as u8; 9])).collect();
    for (memtables, view) in (1..).zip(views) {
        let seen = all.iter().filter(|(_, value)| value[0] < memtables).cloned();
        let pairs = scan(&view, KeyRange::all(), Direction::Forward);
        assert!(pairs == seen.collect::<Vec<_>>(), "a view of {memtables} memtables");
    }
    assert!(bench.pairs() == all);
    bench.check();
}

/// If scans read the data that commits write, less may be appended, until scans no longer read
/// them.
#[test]
fn scanned_intervals_are_rewritten_sooner() {
    let options = Options { tail_percent_max: 20, unscanned_tail_percent_max: 60, ..small() };
    let barrier = Arc::new(Reached::default());
    let opened = Bench::with(device::memory(), barrier, 1 << 20, options);
    let bench = opened.expect("an empty device opens");
    let shared = &bench.store.shared;
    let write = || {
        (0..400).for_each(|number| _ = bench.put(&key(number), &[7; 50]));
        bench.flush();
    };
    write();
    assert_eq!(shared.tail_percent(), 60);
    shared.cache.shrink(0);
    assert_eq!(bench.pairs().len(), 400);
    assert_eq!(shared.tail_percent(), 20);
    (0..8).for_each(|_| write());
    assert_eq!(shared.tail_percent(), 60);
}

/// A journal that does something else once, when it is first asked how far it goes.
struct Interrupting(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Interrupting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupting")
    }
}

impl Barrier for Interrupting {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        let interrupt = self.0.lock().take();
        interrupt.into_iter().for_each(|interrupt| interrupt());
        Ok(seqno)
    }
    fn is_journaled(&self) -> bool {
        false
    }
}

/// Or threads of the pool would wait for a commit to end, and plan nothing for it.
#[test]
fn no_commit_is_queued_beside_one_and_what_is_sealed_meanwhile_is_committed() {
    let journal = Arc::new(Interrupting(Mutex::new(None)));
    let opened = Bench::with(device::memory(), journal.clone(), 1 << 20, small());
    let bench = opened.expect("an empty device opens");
    let (shared, sequence) = (bench.store.shared.clone(), Arc::clone(&bench.sequence));
    let crank = bench.crank.clone();
    bench.put(b"first", b"1");
    let active = || Arc::clone(&shared.open_state().expect("it is open").active);
    shared.seal(&active());
    let sealing = shared.clone();
    let interrupt = move || {
        let ticket = sequence.begin();
        let op = Op::Put { key: b"second", value: b"2" };
        sealing
            .apply(&[op], ticket.seqno(), &mut Reservation::uncounted())
            .expect("the store is open");
        let active = Arc::clone(&sealing.open_state().expect("it is open").active);
        sealing.seal(&active);
        assert_eq!(crank.ready(), 0, "the commit that is under way sees to it");
    };
    *journal.0.lock() = Some(Box::new(interrupt));
    bench.crank.run_all();
    assert!(journal.0.lock().is_none(), "a commit has asked");
    assert_eq!((bench.detail("commits"), bench.detail("committed_pairs")), (2, 2));
    assert_eq!(bench.pairs().len(), 2);
}
