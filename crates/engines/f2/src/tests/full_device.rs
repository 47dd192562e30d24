//! A device without room for the pages that have to leave memory.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind, RoomDevice};
use engine::{BlockingWrites, Change, Demand, Engine, Error, FoundState, Op, Operator, Wait};
use environment::Environment;
use reads::BlockingReads;

use super::stores::{Bench, key, value};
use crate::Options;

const PAGE: u64 = 4096;
const PAGES: u64 = 32;

/// Opens a store with `PAGES` pages of log in memory, and nothing else that takes any of them.
fn store() -> (Bench, Arc<RoomDevice>) {
    store_of(PAGES)
}

/// The same with another number of pages.
fn store_of(pages: u64) -> (Bench, Arc<RoomDevice>) {
    let options = Options {
        log_memory_bytes: Some(pages * PAGE),
        page_bytes: Some(PAGE),
        segment_bytes: 4 * PAGE,
        read_cache_bytes: Some(0),
        ..Options::default()
    };
    let device = RoomDevice::new(device::memory(), 1 << 30).expect("it is empty");
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, options, 7);
    (bench, device)
}

/// Has another program take the room that the store holds.
fn take_ballast(device: &RoomDevice) {
    device.remove("ballast").expect("the store holds room");
    device.fill();
}

/// Fills memory and flushes it, so that the store has held room for all of it.
fn hold_room(bench: &Bench) {
    for number in 0..PAGES {
        bench.put(&key(1_000_000 + number), &[3; PAGE as usize / 2]);
    }
    bench.store.flush().expect("there is room");
}

/// Returns three steps that take a third of a page in total.
fn batch(number: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    (3 * number..3 * number + 3).map(|one| (key(one), vec![5; PAGE as usize / 9])).collect()
}

/// The store takes every step of a batch that was admitted, though the device has no room. It
/// continues once there is some.
#[test]
fn a_batch_is_refused_before_it_begins() {
    let (bench, device) = store();
    hold_room(&bench);
    device.fill();
    let write = |number: u64| -> Result<(), Error> {
        let pairs = batch(number);
        let puts: Vec<Op<'_>> = pairs.iter().map(|(key, value)| Op::Put { key, value }).collect();
        bench.store.reserve(&Demand::Ops(&puts), Wait::Yes).map(drop)?;
        bench.store.write_next(&puts, &bench.sequence).expect("it was admitted");
        Ok(())
    };
    let (taken, refusal) = (0..10_000)
        .find_map(|number| write(number).err().map(|refusal| (number, refusal)))
        .expect("the device is full");
    assert!(matches!(refusal, Error::SpaceUsedUp { .. }), "{refusal:?}");
    assert!(taken > 10, "{taken}");
    bench.store.flush().expect("there is room for all that was admitted");
    device.grow(1 << 20);
    (0..10).for_each(|_| bench.advance());
    write(taken).expect("there is room");
    for (key, value) in (0..=taken).flat_map(batch) {
        assert_eq!(bench.get(&key), Some(value));
    }
}

/// Many writers want the last room of a full device. Each write is taken as a whole, or refused
/// before it changes anything, and the store stays writable.
#[test]
fn racing_writers_of_a_full_device_leave_the_store_writable() {
    const WRITERS: u64 = 64;
    const VALUE: [u8; 200] = [8; 200];
    let (bench, device) = store();
    hold_room(&bench);
    take_ballast(&device);
    // A write of one to three steps.
    let keys = |writer: u64, count: u64| {
        (0..=writer % 3).map(move |step| key(writer << 32 | count << 2 | step)).collect::<Vec<_>>()
    };
    let write = |writer: u64, count: u64| -> Result<(), Error> {
        let keys = keys(writer, count);
        let puts: Vec<_> = keys.iter().map(|key| Op::Put { key, value: &VALUE }).collect();
        let granted = bench.store.reserve(&Demand::Ops(&puts), Wait::Yes)?;
        // Others get room meanwhile.
        Environment::real().sleep(Duration::from_micros(100));
        let ticket = bench.sequence.begin();
        let mut room = granted.expect("it waits for room");
        bench.store.apply(&puts, ticket.seqno(), &mut room).expect("it was granted");
        Ok(())
    };
    let start = Barrier::new(WRITERS as usize);
    let write_until_refused = |writer: u64| {
        start.wait();
        let refused = (0..10_000).find_map(|count| Some((count, write(writer, count).err()?)));
        let (count, refusal) = refused.expect("the device is full");
        assert!(matches!(refusal, Error::SpaceUsedUp { .. }), "writer {writer}: {refusal:?}");
        count
    };
    let refused: Vec<u64> = std::thread::scope(|scope| {
        let run = |writer| scope.spawn(move || write_until_refused(writer));
        let threads: Vec<_> = (0..WRITERS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer ends")).collect()
    });
    let has = |writer, count, is_there: bool| {
        let expected = is_there.then(|| VALUE.to_vec());
        keys(writer, count).iter().all(|key| bench.get(key) == expected)
    };
    for (writer, refused) in (0..).zip(&refused) {
        assert!((0..*refused).all(|count| has(writer, count, true)), "writer {writer}");
        assert!(has(writer, *refused, false), "a part of a refused write of {writer} is there");
    }
    device.grow(1 << 20);
    (0..10).for_each(|_| bench.advance());
    for (writer, refused) in (0..).zip(&refused) {
        write(writer, *refused).expect("there is room");
        assert!(has(writer, *refused, true));
    }
    bench.store.flush().expect("the store stayed writable");
}

/// Room is held for all admitted writes together. A flush of their records finds room on a full
/// device, although none of them was applied when the others were admitted.
#[test]
fn a_flush_of_all_admitted_writes_finds_room() {
    const WRITERS: u64 = 64;
    const LONG_PAGE: u64 = 128 << 10;
    let options = Options {
        log_memory_bytes: Some(256 * LONG_PAGE),
        page_bytes: Some(LONG_PAGE),
        segment_bytes: 4 * LONG_PAGE,
        read_cache_bytes: Some(0),
        ..Options::default()
    };
    let device = RoomDevice::new(device::memory(), 1 << 30).expect("it is empty");
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, options, 7);
    let value = vec![7; 16 << 10];
    let reserve = |writer: u64| {
        let put = Op::Put { key: &key(writer), value: &value };
        bench.store.reserve(&Demand::Ops(&[put]), Wait::Yes).map(|room| (writer, room))
    };
    // Room for some of them is held.
    let some: Vec<_> = (0..WRITERS / 4).map_while(|writer| reserve(writer).ok()).collect();
    assert_eq!(some.len() as u64, WRITERS / 4);
    drop(some);
    device.fill();
    let granted: Vec<_> = (0..WRITERS).map_while(|writer| reserve(writer).ok()).collect();
    let count = granted.len() as u64;
    assert!((WRITERS / 8..WRITERS).contains(&count), "{count} of {WRITERS}");
    for (writer, room) in granted {
        let ticket = bench.sequence.begin();
        let put = [Op::Put { key: &key(writer), value: &value }];
        let mut room = room.expect("it waits for room");
        bench.store.apply(&put, ticket.seqno(), &mut room).expect("it was granted");
    }
    bench.store.flush().expect("room was held for all of them");
    for writer in 0..WRITERS {
        let expected = (writer < count).then(|| value.clone());
        assert_eq!(bench.get(&key(writer)), expected, "writer {writer}");
    }
}

/// Readers never see a part of a finished batch, and nothing of a batch that a full device refuses.
#[test]
fn readers_of_a_full_device_see_whole_batches() {
    const WRITERS: u64 = 4;
    const VALUE: [u8; 200] = [8; 200];
    let (bench, device) = store();
    hold_room(&bench);
    take_ballast(&device);
    let keys =
        |writer: u64, count: u64| [0, 1, 2].map(|step| key(writer << 32 | count << 2 | step));
    let write_until_refused = |writer: u64| {
        let refused = (0..10_000).find(|count| {
            let keys = keys(writer, *count);
            let puts: Vec<_> = keys.iter().map(|key| Op::Put { key, value: &VALUE }).collect();
            match bench.store.write_next(&puts, &bench.sequence) {
                Ok(_) => false,
                Err(Error::SpaceUsedUp { .. }) => true,
                Err(other) => panic!("writer {writer}: {other}"),
            }
        });
        refused.expect("the device is full")
    };
    let is_over = AtomicBool::new(false);
    // Returns the last batch of which a key was there.
    let read = |writer: u64| {
        let (mut count, mut last_seen) = (0, None);
        while !is_over.load(SeqCst) {
            let are_there = |count| keys(writer, count).map(|key| bench.get(&key).is_some());
            // The writer begins the next batch once this one is whole.
            let has_next = are_there(count + 1).contains(&true);
            let seen = are_there(count);
            assert!(!has_next || seen == [true; 3], "batch {count} of {writer}: {seen:?}");
            if seen.contains(&true) {
                last_seen = Some(count + u64::from(has_next));
            }
            count += u64::from(has_next);
        }
        last_seen
    };
    let (refused, seen): (Vec<u64>, Vec<Option<u64>>) = std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || read(writer))).collect();
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write_until_refused(writer))).collect();
        let refused = writers.into_iter().map(|one| one.join().expect("a writer ends")).collect();
        // Readers look at the refused batches for a while.
        Environment::real().sleep(Duration::from_millis(20));
        is_over.store(true, SeqCst);
        (refused, readers.into_iter().map(|one| one.join().expect("a reader ends")).collect())
    });
    for (writer, (refused, seen)) in (0..).zip(refused.iter().zip(&seen)) {
        assert!(seen.is_none_or(|seen| seen < *refused), "writer {writer}: {seen:?}, {refused}");
        let is_whole = |count| keys(writer, count).iter().all(|key| bench.get(key).is_some());
        assert!((0..*refused).all(is_whole), "writer {writer}");
    }
    assert!(seen.iter().any(Option::is_some), "the readers saw nothing");
}

/// A write that does not wait and is longer than the room that is held ahead gets its room later.
#[test]
fn the_background_holds_room_for_a_long_write_that_does_not_wait() {
    let (bench, _device) = store_of(16 * PAGES);
    let pairs: Vec<_> =
        (0..6 * PAGES).map(|number| (key(number), [9; PAGE as usize / 2])).collect();
    let puts: Vec<Op<'_>> = pairs.iter().map(|(key, value)| Op::Put { key, value }).collect();
    let room = || bench.store.reserve(&Demand::Ops(&puts), Wait::No).expect("it is no refusal");
    assert!(room().is_none(), "so much room was held before");
    (0..10).for_each(|_| bench.advance());
    let mut room = room().expect("room was held in the background");
    let ticket = bench.sequence.begin();
    bench.store.apply(&puts, ticket.seqno(), &mut room).expect("it is taken");
}

/// A batch that never fits in memory is refused, and no step of it is visible.
#[test]
fn a_batch_that_is_longer_than_memory_is_refused() {
    let (bench, _device) = store();
    let pairs: Vec<_> =
        (0..4 * PAGES).map(|number| (key(number), [9; PAGE as usize / 3])).collect();
    let puts: Vec<Op<'_>> = pairs.iter().map(|(key, value)| Op::Put { key, value }).collect();
    for wait in [Wait::No, Wait::Yes] {
        let refused = bench.store.reserve(&Demand::Ops(&puts), wait).map(drop);
        assert!(matches!(refused, Err(Error::WriteTooLarge { .. })), "{refused:?}");
    }
    assert!(pairs.iter().all(|(key, _)| bench.get(key).is_none()));
    // A replay takes it: the batch is in the journal.
    bench.store.replay(&puts, bench.sequence.begin().seqno()).expect("it is taken");
    assert!(pairs.iter().all(|(key, value)| bench.get(key).as_deref() == Some(value)));
}

/// A flush takes the room that was held for it.
#[test]
fn a_checkpoint_is_made_while_the_device_is_full() {
    let (bench, device) = store();
    for number in 0..PAGES / 2 {
        bench.put(&key(number), &[3; PAGE as usize / 2]);
    }
    device.fill();
    bench.store.flush().expect("room was held for it");
    assert!(bench.store.background_errors().is_empty());
    drop(bench.store);
    let again = Bench::open_on(Arc::clone(&bench.device), Options::default());
    for number in 0..PAGES / 2 {
        assert_eq!(again.get(&key(number)), Some(vec![3; PAGE as usize / 2]));
    }
}

/// Segments that no checkpoint names are removed before an opening needs room, which may come from
/// the ballast.
#[test]
fn a_store_is_opened_while_the_device_is_full() {
    let (bench, device) = store();
    bench.put(&key(0), &value(0, 0, 8));
    bench.store.flush().expect("there is room");
    let named = device.list("").expect("lists").len();
    for number in 1..4 * PAGES {
        bench.put(&key(number), &[3; PAGE as usize / 2]);
    }
    bench.advance();
    assert!(device.list("").expect("lists").len() > named + 3, "pages were flushed");
    // The files are as a killed process leaves them.
    drop(bench.store);
    device.fill();
    for _ in 0..3 {
        let again = Bench::open_on(Arc::clone(&bench.device), Options::default());
        assert_eq!(again.get(&key(0)), Some(value(0, 0, 8)));
        assert_eq!(again.get(&key(1)), None, "no checkpoint has it");
        again.store.close().expect("closes");
    }
}

/// An operator that replaces any value by more than half a page.
struct Long;

impl Operator for Long {
    fn update_in_place(&mut self, _value: &mut [u8]) -> bool {
        false
    }

    fn update(&mut self, _value: Option<&[u8]>) -> Change {
        Change::Put(vec![7; PAGE as usize * 5 / 8])
    }
}

/// Room is reserved for the value that the operator makes, however long it is, or the update is
/// refused and changes nothing.
#[test]
fn a_read_modify_write_is_refused_before_it_changes_anything() {
    let (bench, device) = store();
    hold_room(&bench);
    take_ballast(&device);
    let write = |number: u64| -> Result<(), Error> {
        let (key, value) = (key(number), value(number, 0, 8));
        // Short values come in between, so that a page is filled to any part when a long one comes.
        if number.is_multiple_of(8) {
            bench.store.rmw(&key, &mut Long, bench.sequence.begin().seqno())
        } else {
            let put = Op::Put { key: &key, value: &value };
            bench.store.write_next(&[put], &bench.sequence).map(drop)
        }
    };
    // The first refusal is of a long value; then short ones are still taken.
    let refusals: Vec<(u64, Error)> =
        (0..10_000).filter_map(|number| Some((number, write(number).err()?))).collect();
    let refused = |number: u64| refusals.iter().any(|(refused, _)| *refused == number);
    let (first, _) = refusals[0];
    assert!(first > PAGES, "memory was to be filled");
    assert!(refused(9_999) && !refusals.is_empty());
    for (number, refusal) in &refusals {
        assert!(matches!(refusal, Error::SpaceUsedUp { .. }), "{number}: {refusal:?}");
    }
    for number in 0_u64..10_000 {
        let long = vec![7; PAGE as usize * 5 / 8];
        let value = if number.is_multiple_of(8) { long } else { value(number, 0, 8) };
        assert_eq!(bench.get(&key(number)), (!refused(number)).then_some(value), "{number}");
    }
    device.grow(1 << 20);
    (0..10).for_each(|_| bench.advance());
    write(0).expect("there is room");
    bench.store.flush().expect("the store stayed writable");
}

/// A log that has to release memory does so once there is room for its pages, even without a
/// writer.
#[test]
fn pages_are_flushed_once_there_is_room_without_a_writer() {
    let (bench, device) = store();
    let log = &bench.store.shared.hot.log;
    let mut keys = 0;
    while log.pages_held() < PAGES / 4 * 3 {
        bench.put(&key(keys), &value(keys, 0, 8));
        keys += 1;
    }
    take_ballast(&device);
    log.resize(8);
    (0..10).for_each(|_| bench.advance());
    assert!(!log.is_within_limit() && log.pages_held() > 8, "there is no room for what has to go");
    device.grow(1 << 20);
    (0..10).for_each(|_| bench.advance());
    assert!(log.is_within_limit(), "{} pages are in memory", log.pages_held());
    for number in 0..keys {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)));
    }
}

/// The error is reported as a failed flush, and not as a compaction. Writes are reported as refused
/// once they are.
#[test]
fn a_flush_without_room_is_reported_and_refuses_nothing_that_memory_has_room_for() {
    let (bench, device) = store();
    bench.put(&key(0), &value(0, 0, 8));
    take_ballast(&device);
    let flushed = bench.store.flush();
    assert!(flushed.as_ref().is_err_and(Error::is_retryable), "{flushed:?}");
    let told = || {
        let errors = bench.store.background_errors();
        assert_eq!(errors[0].work, "the flush of the logs");
        let figures = ["compactions_failing", "writes_refused"].map(|name| bench.figure(name));
        (errors.iter().any(|error| error.refuses_writes), figures)
    };
    assert_eq!(told(), (false, [0, 0]));
    let refused = (1..10_000).find(|number| {
        let put = Op::Put { key: &key(*number), value: &value(*number, 0, 8) };
        match bench.store.reserve(&Demand::Ops(&[put]), Wait::Yes).map(drop) {
            Ok(()) => bench.put(&key(*number), &value(*number, 0, 8)),
            Err(Error::SpaceUsedUp { .. }) => return true,
            Err(other) => panic!("{other}"),
        }
        false
    });
    assert!(refused.is_some_and(|number| number > PAGES), "{refused:?}");
    assert_eq!(told(), (true, [0, 1]));
    device.grow(1 << 20);
    bench.store.flush().expect("there is room");
    (0..10).for_each(|_| bench.advance());
    assert_eq!((bench.store.background_errors(), bench.figure("writes_refused")), (Vec::new(), 0));
}

/// The flush and the superblock each take the room that they need from the ballast, and the
/// superblock's part is returned.
#[test]
fn a_superblock_is_made_durable_on_a_full_device_while_pages_are_flushed() {
    let (bench, device) = store();
    bench.put(&key(0), &value(0, 0, 8));
    bench.store.flush().expect("there is room");
    bench.store.close().expect("closes");
    let faults = FaultDevice::new(bench.device);
    let options = Options { page_bytes: Some(PAGE), ..Options::default() };
    let bench = Bench::open_by_hand(Arc::clone(&faults) as Arc<dyn Device>, options, 8);
    for number in 0..PAGES {
        bench.put(&key(number), &[3; PAGE as usize / 2]);
    }
    device.fill();
    let (used, held) = (device.used_bytes(), bench.figure("ballast_bytes"));
    let shared = Arc::clone(&bench.store.shared);
    let flushed = shared.hot.log.flushed();
    let (flushes, before) = (Arc::clone(&shared.hot.log), flushed);
    faults.interpose(OperationKind::Rename, move || {
        let page = flushes.geometry.page(flushes.tail());
        flushes.shift_read_only(flushes.geometry.page_begin(page));
        flushes.flush_until(flushes.safe_read_only()).expect("room was held for it");
        assert!(flushes.flushed() > before);
    });
    assert_eq!(bench.store.make_durable(), Ok(true));
    let bytes = shared.hot.log.flushed().get() - flushed.get();
    let spent = held - bench.figure("ballast_bytes");
    assert!(bytes > PAGE && (bytes..2 * bytes).contains(&spent), "{spent} bytes for {bytes}");
    assert_eq!(device.used_bytes(), used, "nothing of it is free for others");
}
