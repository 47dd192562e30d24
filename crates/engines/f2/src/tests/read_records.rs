//! Reads of many records of a log together, wherever they are.

use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use engine::{Engine, Error};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use reads::BlockingReads;
use workers::StopToken;

use super::stores::{Bench, key, tiny, value};
use super::two_logs::{KEYS, cold_store, small_cold};
use crate::Options;
use crate::address::LogAddress;
use crate::hybrid_log::{Scan, Wanted, stretches};
use crate::open::COLD_LOG;
use crate::record::Stored;

/// A record's address, its key and its value.
type Known = (LogAddress, Vec<u8>, Option<Vec<u8>>);

/// Opens a store whose pages have many records, and which compacts nothing.
fn open_with_long_pages() -> Bench {
    Bench::open(Options {
        log_memory_bytes: Some(8 * 65_536),
        page_bytes: Some(65_536),
        segment_bytes: 1 << 20,
        disk_bytes_max: Some(u64::MAX),
        ..tiny()
    })
}

/// Opens a store with records of many lengths. The longest are far longer than the guessed length;
/// all are on disk, and the newest are in memory too.
fn filled() -> (Bench, Vec<Known>) {
    let bench = open_with_long_pages();
    for number in 0..12_000 {
        let words = if number % 500 == 0 { 4_000 } else { number % 40 };
        bench.put(&key(number), &value(number, 0, words as usize));
        if number % 7 == 0 {
            bench.delete(&key(number));
        }
    }
    engine::Engine::flush(&bench.store).expect("flushes");
    let known = records_of(&bench);
    let head = bench.store.shared.hot.log.head();
    assert!(known.first().is_some_and(|(address, ..)| *address < head));
    assert!(known.last().is_some_and(|(address, ..)| *address >= head));
    (bench, known)
}

/// Returns all records of the log.
fn records_of(bench: &Bench) -> Vec<Known> {
    let log = &bench.store.shared.hot.log;
    let mut known = Vec::new();
    let scanned = stretches(&log.segments, &log.geometry, log.begin(), log.flushed(), &mut |it| {
        it.records(&mut |address, stored| {
            known.push((address, stored.key.to_vec(), stored.value.map(<[u8]>::to_vec)));
            Ok(())
        })
    });
    scanned.expect("it is whole");
    known
}

/// Reads the wanted records in one call, checks each of them, and returns the number of reads.
fn read_all(bench: &Bench, known: &[Known], wanted: &[usize]) -> u64 {
    let log = &bench.store.shared.hot.log;
    let wanted_of =
        |payload: &usize| Wanted { address: known[*payload].0, bytes: None, payload: *payload };
    let mut told = vec![0; known.len()];
    let before = bench.device.accounting().counts().read_ops;
    let mut with = |index: usize, stored: Option<&Stored<'_>>| {
        told[index] += 1;
        let stored = stored.expect("nothing is truncated");
        assert_eq!(stored.key, known[index].1);
        assert_eq!(stored.value, known[index].2.as_deref());
        Ok(())
    };
    let wanted_all = wanted.iter().map(wanted_of).collect();
    assert!(log.read_records(wanted_all, &StopToken::default(), &mut with).expect("all are read"));
    assert_eq!(told.iter().sum::<usize>(), wanted.len());
    assert!(wanted.iter().all(|index| told[*index] == 1));
    bench.device.accounting().counts().read_ops - before
}

#[test]
fn all_records_of_a_log_are_read_in_long_pieces() {
    let (bench, known) = filled();
    let mut wanted: Vec<usize> = (0..known.len()).collect();
    wanted.shuffle(&mut SmallRng::seed_from_u64(3));
    let reads = read_all(&bench, &known, &wanted);
    let pages = bench.figure("log_tail") / 65_536;
    // One read for each page, and one more for each record that is longer than a block.
    assert!(reads <= pages + pages / 4 + 24, "{reads} reads of {pages} pages");
}

/// Records that are longer than was guessed, but still in the bytes that were read together.
#[test]
fn longer_records_among_others_take_no_reads_of_their_own() {
    let bench = open_with_long_pages();
    for number in 0..8_000 {
        let words = if number % 10 == 0 { 700 } else { 10 };
        bench.put(&key(number), &value(number, 0, words));
    }
    engine::Engine::flush(&bench.store).expect("flushes");
    let known = records_of(&bench);
    let wanted: Vec<usize> = (0..known.len()).collect();
    let reads = read_all(&bench, &known, &wanted);
    let pages = bench.figure("log_tail") / 65_536;
    assert!(pages > 50 && reads <= 2 * pages, "{reads} reads of {pages} pages");
}

#[test]
fn records_that_lie_far_apart_take_a_read_each() {
    let (bench, known) = filled();
    let mut last = LogAddress::NONE;
    let wanted: Vec<usize> = (0..known.len())
        .filter(|index| {
            let address = known[*index].0;
            let is_far = address.get() - last.get() > 48 << 10;
            last = if is_far { address } else { last };
            is_far
        })
        .collect();
    let reads = read_all(&bench, &known, &wanted);
    assert!(reads as usize <= wanted.len() + 12, "{reads} reads of {} records", wanted.len());
}

#[test]
fn what_was_truncated_is_told_so() {
    let (bench, known) = filled();
    let log = &bench.store.shared.hot.log;
    let gone = log.geometry.segment_begin(1);
    log.segments.remove_below(gone).expect("removes");
    let wanted = known.iter().map(|(address, ..)| Wanted {
        address: *address,
        bytes: None,
        payload: *address,
    });
    let mut told = 0;
    let mut with = |address: LogAddress, stored: Option<&Stored<'_>>| {
        assert_eq!(stored.is_none(), address < gone);
        told += 1;
        Ok(())
    };
    let is_whole = log.read_records(wanted.collect(), &StopToken::default(), &mut with);
    assert!(is_whole.expect("the others are read"));
    assert_eq!(told, known.len());
}

/// Several threads may use one scan: after an error no thread waits for a read that was lost.
#[test]
fn a_scan_that_failed_has_nothing_left() {
    let device = FaultDevice::new(device::memory());
    // Nothing is compacted, so that no other thread reads.
    let options = Options { single_log: true, disk_bytes_max: Some(u64::MAX), ..tiny() };
    let bench = Bench::open_on(Arc::clone(&device) as Arc<dyn Device>, options);
    for number in 0..4_000 {
        bench.put(&key(number), &value(number, 0, 8));
    }
    engine::Engine::flush(&bench.store).expect("flushes");
    let log = &bench.store.shared.hot.log;
    for failing in 1..5 {
        let mut scan = Scan::new(&log.geometry, log.begin(), log.flushed());
        let nth = device.count(Some(OperationKind::Read)) + failing;
        let (kind, failure, lasting) = (Some(OperationKind::Read), Failure::Io, Lasting::Once);
        device.fail(Fault { kind, nth, failure, lasting });
        let mut pages = 0;
        let failed = loop {
            match scan.next(&log.segments) {
                Ok(Some(_)) => pages += 1,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert!(failed, "{pages} pages were read, and the failure of read {failing} was not told");
        assert!(scan.is_at_end() && matches!(scan.next(&log.segments), Ok(None)));
    }
}

#[test]
fn a_segment_that_was_cut_short_is_damage_to_gets_and_walks() {
    let bench = cold_store(small_cold());
    let files = bench.device.list("").expect("lists").into_iter().map(|entry| entry.name);
    for name in files.filter(|name| name.starts_with(COLD_LOG)) {
        let file = bench.device.open(&name, Mode::Write).expect("opens");
        file.set_len(4096).expect("cuts");
    }
    let assert_damage = |error: Error| match error {
        Error::Corruption(damage) => assert_eq!(damage.what, "a segment is cut short"),
        other => panic!("{other}"),
    };
    let mut value = Vec::new();
    let gets = (0..KEYS).filter_map(|number| bench.store.get(&key(number), &mut value).err());
    let failed: Vec<Error> = gets.collect();
    assert!(failed.len() as u64 > KEYS / 2, "{} gets have failed", failed.len());
    failed.into_iter().for_each(assert_damage);
    let walked = bench.store.walk(None, &mut |_, _| ControlFlow::Continue(()));
    assert_damage(walked.expect_err("cold records are gone"));
}
