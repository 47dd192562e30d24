//! The results of an opening: a coarser index, and the data that are readable in spite of damage.

use std::sync::Arc;

use device::{Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use engine::{BlockingWrites, Engine, Error, Host};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::pair::StoreHeader;
use crate::{Options, check};

/// Intervals that were taken as one hide tags. An update that is appended to the one must not be
/// put behind the last tag, and be lost for an opening that separates them again.
#[test]
fn an_update_of_intervals_that_were_taken_as_one_is_found_whatever_is_taken_as_one_next() {
    let fine = small();
    let coarse = Options { interval_bytes: 4 << 10, fragments_max: 1000, ..small() };
    let bench = Bench::of(1 << 20, fine.clone());
    for number in 0..64 {
        bench.put(&key(10 * number), b"before");
    }
    bench.flush();
    let many = bench.intervals();
    bench.store.close().expect("closes");
    let open = |options: &Options| {
        let opened = Bench::with(
            Arc::clone(&bench.device),
            Arc::new(engine::NoJournal),
            1 << 20,
            options.clone(),
        );
        opened.expect("opens")
    };
    let taken = open(&coarse);
    assert!(taken.intervals() < many, "{} of {many}", taken.intervals());
    taken.put(&key(15), b"after");
    taken.flush();
    assert_eq!(taken.detail("intervals_appended"), 1);
    taken.store.close().expect("closes");
    assert_eq!(check(&bench.device).expect("reads").damage, []);
    let apart = Options { interval_bytes: 1, ..fine };
    let again = open(&apart);
    assert_eq!(again.get(&key(15)), Some(b"after".to_vec()));
    assert_eq!(again.pairs().len(), 65);
    again.check();
    again.store.close().expect("closes");
}

#[test]
fn many_intervals_are_found_by_many_threads() {
    let device = device::memory();
    let open = || {
        let environment = environment::Environment::real();
        let telemetry = telemetry::Registry::default();
        let workers = workers::Pool::start(&environment, 3, &telemetry).expect("threads");
        let host = Host {
            device: Arc::clone(&device),
            environment,
            workers,
            telemetry,
            sequence: Arc::new(engine::Sequence::new()),
            barrier: Arc::new(engine::NoJournal),
            memory: Arc::new(memory_budget::MemoryBudget::new(64 << 20)),
        };
        crate::Store::open(host, Options { interval_bytes: 256, ..small() }).expect("opens")
    };
    let store = open();
    let value = [7; 60];
    for number in 1..5000_u64 {
        let put = engine::Op::Put { key: &key(number), value: &value };
        store.write(&[put], codec::SeqNo::new(number)).expect("taken");
    }
    store.flush().expect("flushes");
    store.close().expect("closes");
    let store = open();
    let mut found = Vec::new();
    for number in 1..5000 {
        assert_eq!(store.get(&key(number), &mut found), Ok(true), "{number}");
        assert_eq!(found, value);
    }
    store.close().expect("closes");
}

/// One damaged block: reads of its pairs report the damage, with its place. Everything else can be
/// read, and written, and so can data that are put over it.
#[test]
fn damage_in_one_place_holds_nothing_else_up() {
    let bench = Bench::new();
    for number in 0..2000 {
        bench.put(&key(number), &[number as u8; 30]);
    }
    bench.flush();
    bench.store.close().expect("closes");
    let file = bench.device.open("data", Mode::Write).expect("it is there");
    let mut byte = [0];
    let at = 3 * 4096 + 500;
    file.read_at(at, &mut byte).expect("it is that long");
    file.write_at(at, &[byte[0] ^ 1]).expect("writes");
    drop(file);
    let report = check(&bench.device).expect("reads");
    // Several intervals have a part of the block.
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    let bench = Bench::on(bench.0.device).expect("opens all the same");
    let read = |number: u64| {
        let mut value = Vec::new();
        bench.store.get(&key(number), &mut value).map(|found| found.then_some(value))
    };
    let mut lost = 0;
    for number in 0..2000 {
        match read(number) {
            Ok(value) => assert_eq!(value, Some(vec![number as u8; 30]), "{number}"),
            Err(Error::Corruption(damage)) => {
                assert_eq!(damage.file, "data");
                lost += 1;
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    assert!((1..400).contains(&lost), "{lost} of 2000 lost");
    for number in 0..2000 {
        bench.put(&key(number), b"anew");
    }
    bench.flush();
    assert!(bench.detail("damaged_updates") > 0);
    let readable = (0..2000).filter(|number| read(*number).is_ok()).count();
    assert!(readable >= 2000 - lost, "{readable} after {lost} were lost");
}

/// The collector leaves data that it cannot read where they are, and the store reports a background
/// error.
#[test]
fn damage_that_the_collector_finds_is_reported() {
    let bench = Bench::new();
    let write = |byte: u8, step: usize| {
        (0..2000).step_by(step).for_each(|number| _ = bench.put(&key(number), &[byte; 30]));
        bench.flush();
    };
    write(1, 1);
    assert_eq!((bench.store.background_errors(), bench.detail("unreadable_segments")), (vec![], 0));
    let file = bench.device.open("data", Mode::Write).expect("it is there");
    let len = file.len().expect("it has one");
    let mut block = [0; 1];
    for at in (500..len).step_by(4096) {
        file.read_at(at, &mut block).expect("it is that long");
        file.write_at(at, &[block[0] ^ 1]).expect("writes");
    }
    bench.store.shared.cache.shrink(0);
    // So that segments are worth being emptied.
    let space = &bench.store.shared.space;
    (0..60).for_each(|part| space.collapse(100 + 400 * part, 1000).expect("a range"));
    space.sync().expect("a device");
    bench.store.shared.collect(false).expect("damage is no failure");
    let told = bench.store.background_errors();
    let [engine::BackgroundError { cause: Error::Corruption(damage), refuses_writes: false, .. }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(damage.file, "data");
    assert!(bench.detail("unreadable_segments") > 0);
    // Nothing that is damaged lives any more.
    let header = StoreHeader::BYTES as u64;
    space.collapse(header, space.len() - header).expect("all of them");
    space.sync().expect("a device");
    let shared = &bench.store.shared;
    shared.renew_base(&mut shared.committer.lock()).expect("open");
    shared.collect(false).expect("a device");
    shared.collect(false).expect("a device");
    assert_eq!(bench.store.background_errors(), []);
}

/// A store of 200 pairs, opened again on a device that can fail.
fn opened_again(options: Options) -> (Arc<FaultDevice>, Bench) {
    let device = FaultDevice::new(device::memory());
    let open = || {
        Bench::with(device.clone(), Arc::new(engine::NoJournal), 1 << 20, options.clone())
            .expect("opens")
    };
    let bench = open();
    for number in 0..200 {
        bench.put(&key(number), &[7; 30]);
    }
    bench.flush();
    bench.store.close().expect("closes");
    let bench = open();
    (device, bench)
}

/// A read that fails, but not for damage, is tried again by the next commit: meanwhile nothing is
/// appended.
#[test]
fn what_cannot_be_read_for_now_puts_a_commit_off() {
    let (device, bench) = opened_again(Options { tail_pairs_max: 0, ..small() });
    let kind = Some(OperationKind::Read);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::ForGood });
    bench.put(&key(100), b"new");
    for _ in 0..2 {
        let refused = bench.store.flush();
        assert!(matches!(refused, Err(Error::Device(device::Error::Io { .. }))), "{refused:?}");
    }
    assert_eq!((bench.detail("intervals_appended"), bench.detail("damaged_updates")), (0, 0));
    device.heal();
    bench.flush();
    assert_eq!(bench.get(&key(100)), Some(b"new".to_vec()));
}

/// The bytes appended to a damaged interval have a limit, above which the damage is reported.
#[test]
fn a_damaged_interval_does_not_grow_for_ever() {
    let options = Options { damaged_bytes_max: 64 << 10, ..small() };
    let (_, bench) = opened_again(options.clone());
    bench.store.close().expect("closes");
    let file = bench.device.open("data", Mode::Write).expect("it is there");
    let (mut byte, at) = ([0], 4096);
    file.read_at(at, &mut byte).expect("it is that long");
    file.write_at(at, &[byte[0] ^ 1]).expect("writes");
    drop(file);
    let opened = Bench::with(bench.0.device, Arc::new(engine::NoJournal), 1 << 20, options);
    let bench = opened.expect("opens all the same");
    let mut value = Vec::new();
    let damaged = (0..200).find(|number| bench.store.get(&key(*number), &mut value).is_err());
    let damaged = key(damaged.expect("some lie in the damaged block"));
    let refused = (0..100).find_map(|_| {
        bench.put(&damaged, &[8; 4096]);
        bench.store.flush().err()
    });
    assert!(matches!(refused, Some(Error::Corruption(_))), "{refused:?}");
    let appended = bench.detail("intervals_appended");
    assert!((10..16).contains(&appended), "appended to {appended} times");
    assert_eq!(bench.get(&damaged), Some(vec![8; 4096]));
}

/// An interval that begins below others before it: a get of a key that may be there reports the
/// damage. All others succeed, also once they were written and the store was opened again.
#[test]
fn an_interval_out_of_order_is_damage_of_those_that_it_may_concern() {
    let device = device::memory();
    let options = flexspace::space::Options::default();
    let space = flexspace::space::FlexSpace::create(Arc::clone(&device), options).expect("makes");
    let header = crate::pair::StoreHeader { persisted: codec::SeqNo::ZERO };
    space.append(&header.encode()).expect("writes");
    for tens in [1, 2, 3, 4, 2, 5] {
        let mut bytes = Vec::new();
        for number in 0..10 {
            let pair = crate::pair::Pair { key: &key(10 * tens + number), value: Some(&[1; 200]) };
            pair.encode(&mut bytes);
        }
        space.splice(space.len(), 0, &bytes, crate::index::START).expect("writes");
    }
    space.close().expect("closes");
    let mut bench = Bench::on(device).expect("opens all the same");
    for round in 0..2 {
        let mut value = Vec::new();
        for number in 0..60 {
            let found = bench.store.get(&key(number), &mut value);
            match number {
                0..10 => assert_eq!(found, Ok(round > 0 && number == 5), "{number}"),
                10..20 | 50..60 => assert_eq!(found, Ok(true), "{number}"),
                _ => assert!(matches!(found, Err(Error::Corruption(_))), "{number}: {found:?}"),
            }
        }
        assert!(bench.store.walk(None, &mut |_, _| std::ops::ControlFlow::Continue(())).is_err());
        bench.put(&key(5), b"new");
        bench.put(&key(25), b"new");
        bench.put(&key(55), b"new");
        bench.flush();
        bench = bench.reopen();
    }
}

/// A damaged range may be longer than an interval can be: the store still opens.
#[test]
fn damage_of_more_than_four_gibibytes_holds_nothing_else_up() {
    let device = device::memory();
    let options = flexspace::space::Options::default();
    let space = flexspace::space::FlexSpace::create(Arc::clone(&device), options).expect("makes");
    let header = crate::pair::StoreHeader { persisted: codec::SeqNo::ZERO };
    space.append(&header.encode()).expect("writes");
    for number in [1, 2, 3, 4, 5, 6, 2, 8] {
        let mut bytes = Vec::new();
        crate::pair::Pair { key: &key(number), value: Some(&[1; 20_000]) }.encode(&mut bytes);
        space.splice(space.len(), 0, &bytes, crate::index::START).expect("writes");
        if number < 8 && number > 1 {
            // As if that number of bytes had been overwritten.
            space.splice_hole(space.len(), 0, 1 << 30).expect("no room is wanted");
        }
    }
    space.close().expect("closes");
    let mut bench = Bench::on(device).expect("opens all the same");
    for round in 0..2 {
        bench.check();
        let mut value = Vec::new();
        let zero = [&key(2)[..], &[0]].concat();
        assert!(bench.store.get(&zero, &mut value).is_err());
        for number in 0..10 {
            let found = bench.store.get(&key(number), &mut value);
            match number {
                0 | 9 => assert_eq!(found, Ok(round > 0), "{number}"),
                1 | 8 => assert_eq!(found, Ok(true), "{number}"),
                _ => assert!(matches!(found, Err(Error::Corruption(_))), "{number}: {found:?}"),
            }
        }
        assert!(bench.store.walk(None, &mut |_, _| std::ops::ControlFlow::Continue(())).is_err());
        bench.put(&key(0), b"new");
        bench.put(&key(9), b"new");
        bench.flush();
        bench = bench.reopen();
    }
    // It is larger than what may be appended to.
    bench.put(&key(4), b"new");
    assert!(matches!(bench.store.flush(), Err(Error::Corruption(_))));
}

/// There may be only one key between two others.
#[test]
fn damage_of_more_than_four_gibibytes_takes_the_next_interval_in_where_no_key_lies_between() {
    let device = device::memory();
    let options = flexspace::space::Options::default();
    let space = flexspace::space::FlexSpace::create(Arc::clone(&device), options).expect("makes");
    let header = crate::pair::StoreHeader { persisted: codec::SeqNo::ZERO };
    space.append(&header.encode()).expect("writes");
    let keys: [&[u8]; 5] = [b"a", b"b", b"a", b"a\0", b"c"];
    for (number, key) in keys.into_iter().enumerate() {
        let mut bytes = Vec::new();
        crate::pair::Pair { key, value: Some(&[1; 20_000]) }.encode(&mut bytes);
        space.splice(space.len(), 0, &bytes, crate::index::START).expect("writes");
        if number == 1 {
            (0..4).for_each(|_| space.splice_hole(space.len(), 0, 1 << 30).expect("a range"));
        }
    }
    space.close().expect("closes");
    let bench = Bench::on(device).expect("opens all the same");
    bench.check();
    let found = |key: &[u8]| bench.store.get(key, &mut Vec::new());
    assert!([&b"a"[..], b"a\0", b"b"].into_iter().all(|key| found(key).is_err()));
    assert_eq!(found(b"c"), Ok(true));
}

#[test]
fn a_space_that_is_no_store_is_refused() {
    let device = device::memory();
    let options = flexspace::space::Options::default();
    let space = flexspace::space::FlexSpace::create(Arc::clone(&device), options).expect("makes");
    space.append(&[7; 500]).expect("writes");
    space.close().expect("closes");
    match Bench::on(Arc::clone(&device)).map(drop) {
        Err(Error::Corruption(damage)) => assert_eq!(damage.file, "data"),
        other => panic!("opened with {other:?}"),
    }
    assert!(!check(&device).expect("reads").is_sound());
}

/// If the pairs of an interval were not counted, as after an opening, its bytes decide whether it
/// is small.
#[test]
fn a_small_neighbour_whose_pairs_nobody_has_counted_becomes_one_with_what_deletes_leave() {
    let open = |device: &Arc<dyn device::Device>| {
        let options = Options {
            interval_pairs: 16,
            interval_bytes: 4 << 10,
            tail_pairs_max: 0,
            fragments_max: 64,
            ..small()
        };
        let barrier = Arc::new(engine::NoJournal);
        Bench::with(Arc::clone(device), barrier, 8 << 20, options).expect("opens")
    };
    let bench = open(&device::memory());
    (0..200).for_each(|number| _ = bench.put(&key(number), &[7; 50]));
    bench.flush();
    bench.store.close().expect("closes");
    let bench = open(&bench.device);
    let intervals = bench.intervals();
    let (first, next) = {
        let committer = bench.store.shared.committer.lock();
        let all: Vec<_> = committer.index().now().range(0..u64::MAX).collect();
        // With a pair behind it the left one of them is no longer than what an opening takes
        // together.
        let at = all.windows(3).position(|some| some[0].length <= 900).expect("one is short");
        let bound = |at: usize| all[at].entry.head().expect("an interval").bound().to_vec();
        (bound(at + 1), bound(at + 2))
    };
    let mut pairs = bench.pairs();
    let is_gone = |key: &[u8]| *first < *key && *key < *next;
    for number in (0..200).filter(|number| is_gone(&key(*number))) {
        bench.delete(&key(number));
    }
    bench.flush();
    assert_eq!((bench.detail("intervals_joined"), bench.intervals()), (1, intervals - 1));
    pairs.retain(|(key, _)| !is_gone(key));
    assert_eq!(bench.pairs(), pairs);
    bench.store.close().expect("closes");
    assert_eq!(check(&bench.device).expect("reads").damage, []);
    assert_eq!(open(&bench.device).pairs(), pairs);
}
