//! Promises of a journal without faults: order, durabilities, reopening, trimming.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use environment::Environment;
use thermocline_journal::{Cut, Durability, Error, Journal, OpenError, Options, Recovery};

type Records = Vec<(u64, Vec<u8>)>;

fn open(
    device: &Arc<dyn Device>,
    options: &Options,
    after: u64,
) -> Result<(Journal, Recovery, Records), OpenError> {
    let mut records = Vec::new();
    let environment = Environment::seeded(1);
    let (journal, recovery) = Journal::open(
        device.clone(),
        "db/journal",
        options.clone(),
        &environment,
        SeqNo::new(after),
        &mut |seqno, payload| {
            records.push((seqno.get(), payload.to_vec()));
            Ok(())
        },
    )?;
    Ok((journal, recovery, records))
}

fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; (number % 300) as usize]
}

fn append(journal: &Journal, number: u64) {
    journal
        .append(|| SeqNo::new(number), |_, bytes| bytes.extend_from_slice(&payload(number)))
        .expect("the journal works");
}

fn expected(numbers: impl Iterator<Item = u64>) -> Records {
    numbers.map(|number| (number, payload(number))).collect()
}

fn small() -> Options {
    Options { segment_bytes: 4096, buffer_bytes: 1024, ..Options::default() }
}

#[test]
fn without_a_number_nothing_is_appended() {
    let (journal, _, _) = open(&device::memory(), &small(), 0).unwrap();
    append(&journal, 1);
    let before = journal.stats();
    let appended = journal.append_numbered(|| None, |_, _| unreachable!("there is no record"));
    assert_eq!(appended, Ok(None));
    assert_eq!((journal.last(), journal.stats()), (SeqNo::new(1), before));
    let appended = journal.append_numbered(|| Some(SeqNo::new(2)), |_, bytes| bytes.push(2));
    assert_eq!(appended, Ok(Some(SeqNo::new(2))));
    assert_eq!(journal.last(), SeqNo::new(2));
}

#[test]
fn who_must_not_wait_is_told_where_the_group_is_full() {
    let (journal, _, _) = open(&device::memory(), &small(), 0).unwrap();
    let mut number = 0;
    let mut append = |journal: &Journal| {
        let appended =
            journal.try_append(|| Some(SeqNo::new(number + 1)), |_, bytes| bytes.extend([7; 100]));
        number += u64::from(appended.as_ref().unwrap().is_some());
        appended.unwrap()
    };
    while append(&journal).is_some() {
        assert!(journal.last() < SeqNo::new(100), "it is never full");
    }
    let before = journal.stats();
    assert!(before.payload_bytes >= 500, "the group has room for {}", before.payload_bytes);
    assert_eq!(journal.flushed(), SeqNo::ZERO, "nothing was written for it");
    assert_eq!((append(&journal), journal.stats()), (None, before));
    let last = journal.last();
    journal.wait(last, Durability::Flushed).unwrap();
    assert_eq!(append(&journal), Some(last.next()), "there is room again");
    let none = journal.try_append(|| None, |_, _| unreachable!("there is no record"));
    assert_eq!((none, journal.last()), (Ok(None), last.next()));
}

#[test]
fn a_closed_journal_gives_back_what_was_appended() {
    let device = device::memory();
    let (journal, recovery, records) = open(&device, &small(), 0).unwrap();
    assert_eq!((recovery.segments, records.len(), recovery.closed), (0, 0, true));
    for number in 1..=500 {
        append(&journal, 2 * number);
    }
    journal.close().unwrap();
    assert_eq!(journal.synced(), SeqNo::new(1000));
    assert_eq!(journal.append(|| SeqNo::new(1001), |_, _| {}), Err(Error::Closed));
    assert_eq!(journal.close(), Err(Error::Closed));

    let (journal, recovery, records) = open(&device, &small(), 0).unwrap();
    assert_eq!(records, expected((1..=500).map(|number| 2 * number)));
    assert_eq!((recovery.last, recovery.closed), (SeqNo::new(1000), true));
    assert!(recovery.segments > 10, "{recovery:?}");
    assert_eq!(journal.last(), SeqNo::new(1000));
    let (_, _, records) = open(&device, &small(), 700).unwrap();
    assert_eq!(records, expected((351..=500).map(|number| 2 * number)));
}

#[test]
fn what_nobody_waited_for_may_be_lost_and_what_was_flushed_is_not() {
    let device = device::memory();
    let (journal, ..) = open(&device, &Options::default(), 0).unwrap();
    append(&journal, 1);
    append(&journal, 2);
    journal.wait(SeqNo::new(2), Durability::Flushed).unwrap();
    assert_eq!((journal.flushed(), journal.synced()), (SeqNo::new(2), SeqNo::ZERO));
    append(&journal, 3);
    journal.wait(SeqNo::new(3), Durability::Buffered).unwrap();
    drop(journal);
    let (journal, recovery, records) = open(&device, &Options::default(), 0).unwrap();
    assert_eq!(records, expected(1..=2));
    assert!(!recovery.closed);
    append(&journal, 3);
    journal.wait(SeqNo::new(3), Durability::Synced).unwrap();
    drop(journal);
    let (_, recovery, records) = open(&device, &Options::default(), 0).unwrap();
    assert_eq!(records, expected(1..=3));
    assert_eq!(recovery.cut, None::<Cut>);
}

#[test]
fn openings_that_append_nothing_leave_one_segment() {
    let device = device::memory();
    let files = || {
        let entries = device.list("db/journal").unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".journal")).count()
    };
    let (journal, ..) = open(&device, &small(), 0).unwrap();
    append(&journal, 1);
    journal.close().unwrap();
    for round in 0..20 {
        let (journal, recovery, records) = open(&device, &small(), 0).unwrap();
        assert_eq!((recovery.last, records), (SeqNo::new(1), expected(1..=1)));
        assert_eq!(files(), 2, "round {round}");
        // In order or not: nothing was written.
        if round % 2 == 0 {
            journal.close().unwrap();
        }
    }
    let (journal, ..) = open(&device, &small(), 0).unwrap();
    append(&journal, 2);
    journal.close().unwrap();
    let (journal, _, records) = open(&device, &small(), 0).unwrap();
    assert_eq!(records, expected(1..=2));
    assert_eq!(files(), 3, "a segment with a record in it is kept");
    journal.trim(SeqNo::new(2)).unwrap();
    drop(journal);
    let (journal, ..) = open(&device, &small(), 2).unwrap();
    assert_eq!((files(), journal.last()), (1, SeqNo::new(2)));
    drop(journal);
    assert!(thermocline_journal::check(&*device, "db/journal").unwrap().damage.is_empty());
}

/// The names of the segments.
fn segments(device: &dyn Device) -> Vec<String> {
    let names = device.list("db/journal").expect("it is there").into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".journal")).collect()
}

/// A rotation that finds no room for the next segment can be repeated, without an append between
/// them.
#[test]
fn a_rotation_without_room_is_repeated() {
    let faulty = FaultDevice::new(device::memory());
    let device: Arc<dyn Device> = Arc::clone(&faulty) as Arc<dyn Device>;
    let (journal, ..) = open(&device, &Options::default(), 0).unwrap();
    append(&journal, 1);
    journal.wait(SeqNo::new(1), Durability::Synced).unwrap();
    let (kind, lasting) = (Some(OperationKind::Write), Lasting::Once);
    let nth = faulty.count(kind) + 1;
    faulty.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting });
    assert!(matches!(journal.rotate(), Err(Error::NoRoom { .. })));
    journal.rotate().unwrap();
    append(&journal, 2);
    journal.close().unwrap();
    let (_, _, records) = open(&device, &Options::default(), 0).unwrap();
    assert_eq!(records, expected(1..=2));
}

/// After a rotation a trim removes all segments that were there, however short they are.
#[test]
fn a_rotation_ends_the_newest_segment() {
    for durability in [Durability::Buffered, Durability::Flushed, Durability::Synced] {
        let device = device::memory();
        let (journal, ..) = open(&device, &Options::default(), 0).unwrap();
        append(&journal, 1);
        journal.wait(SeqNo::new(1), durability).unwrap();
        let before = segments(&*device);
        journal.trim(SeqNo::new(1)).unwrap();
        assert_eq!(segments(&*device), before, "it is short");
        journal.rotate().unwrap();
        assert_eq!(journal.synced(), SeqNo::new(1));
        append(&journal, 2);
        journal.trim(SeqNo::new(1)).unwrap();
        assert!(segments(&*device).iter().all(|name| !before.contains(name)));
        // An empty segment is ended, too.
        for _ in 0..2 {
            journal.rotate().unwrap();
        }
        journal.close().unwrap();
        assert_eq!(journal.rotate(), Err(Error::Closed));
        let (_, _, records) = open(&device, &Options::default(), 1).unwrap();
        assert_eq!(records, expected(2..=2));
    }
}

#[test]
fn rotations_and_appends_do_not_wait_for_each_other() {
    const EACH: u64 = 400;
    let device = device::memory();
    let (journal, ..) = open(&device, &Options::default(), 0).unwrap();
    let (last, running) = (AtomicU64::new(0), AtomicU64::new(3));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..EACH {
                    let next = || SeqNo::new(last.fetch_add(1, SeqCst) + 1);
                    let seqno = journal.append(next, |_, bytes| bytes.push(7)).unwrap();
                    if number % 8 == 0 {
                        journal.wait(seqno, Durability::Flushed).unwrap();
                    }
                }
                running.fetch_sub(1, SeqCst);
            });
        }
        while running.load(SeqCst) > 0 {
            journal.rotate().unwrap();
        }
    });
    journal.close().unwrap();
    let (_, _, records) = open(&device, &Options::default(), 0).unwrap();
    let numbers: Vec<u64> = records.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=3 * EACH).collect::<Vec<_>>());
}
