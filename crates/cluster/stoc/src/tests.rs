//! The invariants S1 to S6, each with a test that fails without it.

mod crash;
mod damage;
mod memory;
mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use environment::Environment;

use crate::{Epoch, Error, FileName, Kind, Limits, Options, RangeId, Stoc};

const RANGE: RangeId = RangeId(7);

fn options(incarnation: u64) -> Options {
    Options {
        cluster: 0xc1,
        node: 3,
        incarnation,
        last_incarnation: (incarnation > 1).then(|| incarnation - 1),
        limits: Limits::default(),
        environment: Environment::seeded(1),
    }
}

fn open(device: &Arc<dyn Device>, incarnation: u64) -> Stoc {
    Stoc::open(Arc::clone(device), &options(incarnation)).expect("memory takes it")
}

fn log(number: u64) -> FileName {
    FileName { range: RANGE, kind: Kind::Log, number, nonce: 0xabc, part: 0 }
}

fn table(number: u64) -> FileName {
    FileName { kind: Kind::Data, ..log(number) }
}

/// Returns bytes that differ from those of other seeds.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| codec::hash64(seed, &at.to_le_bytes()) as u8).collect()
}

fn is_fenced(done: crate::Result<()>) -> bool {
    matches!(done, Err(Error::Fenced { promise: Epoch(5), .. }))
}

fn write_table(stoc: &Stoc, name: FileName, epoch: u64, content: &[u8]) {
    stoc.create_table(name, Epoch(epoch), 0).expect("memory takes it");
    for (number, part) in (0..).zip(content.chunks(5_000)) {
        stoc.write(&name, Epoch(epoch), number * 5_000, part).expect("memory takes it");
    }
    stoc.finish(&name, Epoch(epoch), content.len() as u64).expect("memory takes it");
}

/// A read of many appends takes one read of the device for each mebibyte.
#[test]
fn a_read_of_many_appends_is_one_read_of_the_device() {
    let device = FaultDevice::new(device::memory());
    let above: Arc<dyn Device> = Arc::clone(&device) as Arc<dyn Device>;
    let stoc = open(&above, 1);
    stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
    let content = bytes(3, 1_500_000);
    for (number, part) in (0..).zip(content.chunks(1_000)) {
        stoc.append(&log(1), Epoch(1), number * 1_000, part).expect("memory takes it");
    }
    let reads = || device.count(Some(OperationKind::Read));
    let before = reads();
    let read = stoc.read(&log(1), 10, 1_400_000).expect("it has the bytes");
    assert_eq!(Some(&read[..]), content.get(10..1_400_010));
    assert_eq!(reads() - before, 2);
    // An append that is longer than that is read whole.
    stoc.append(&log(1), Epoch(1), 1_500_000, &content).expect("memory takes it");
    let read = stoc.read(&log(1), 1_499_990, 1_000_000).expect("it has the bytes");
    let expected = [content.get(1_499_990..), content.get(..999_990)];
    assert_eq!(read, expected.map(Option::unwrap_or_default).concat());
}

/// S1: a promise holds for each call that changes something, and after an opening.
#[test]
fn s1_calls_of_an_old_epoch_change_nothing() {
    let device = device::memory();
    let stoc = open(&device, 1);
    stoc.create_log(log(1), Epoch(4)).expect("memory takes it");
    stoc.append(&log(1), Epoch(4), 0, b"one").expect("memory takes it");
    stoc.create_table(table(1), Epoch(4), 0).expect("memory takes it");
    write_table(&stoc, table(2), 4, b"whole");
    let fenced = stoc.fence(RANGE, Epoch(5)).expect("memory takes it");
    assert_eq!((fenced.before, fenced.logs), (Epoch(0), vec![(log(1), Some(3))]));
    let before = stoc.list(RANGE);
    let old_calls = |stoc: &Stoc| {
        assert!(matches!(stoc.fence(RANGE, Epoch(4)), Err(Error::Fenced { .. })));
        assert!(is_fenced(stoc.create_log(log(2), Epoch(4))));
        assert!(is_fenced(stoc.append(&log(1), Epoch(4), 3, b"two")));
        assert!(is_fenced(stoc.seal(&log(1), Epoch(4), 1)));
        assert!(is_fenced(stoc.create_table(table(3), Epoch(4), 0)));
        assert!(is_fenced(stoc.write(&table(1), Epoch(4), 0, b"x")));
        assert!(is_fenced(stoc.finish(&table(1), Epoch(4), 0)));
        assert!(is_fenced(stoc.add_references(RANGE, Epoch(4), &[RangeId(8)])));
        assert!(is_fenced(stoc.release(&table(2), RANGE, Epoch(4))));
    };
    old_calls(&stoc);
    assert_eq!(stoc.list(RANGE), before);
    // The same epoch again, and calls of other ranges.
    let again = stoc.fence(RANGE, Epoch(5)).expect("memory takes it");
    assert_eq!(again.before, Epoch(5));
    let other = FileName { range: RangeId(8), ..log(1) };
    stoc.create_log(other, Epoch(1)).expect("another range has no promise");
    drop(stoc);
    let stoc = open(&device, 2);
    old_calls(&stoc);
    assert!(matches!(stoc.append(&log(1), Epoch(5), 3, b"two"), Ok(())));
}

/// S1: the lengths that a fence returns cover each append that is acknowledged under a lower epoch.
#[test]
fn s1_a_fence_covers_the_appends_of_older_epochs() {
    for round in 0..20 {
        let device = device::memory();
        let stoc = open(&device, 1);
        stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
        let (acknowledged, is_begun) = (AtomicU64::new(0), AtomicBool::new(false));
        let fenced = thread::scope(|scope| {
            scope.spawn(|| {
                let mut length = 0;
                while stoc.append(&log(1), Epoch(1), length, b"0123456789").is_ok() {
                    length += 10;
                    acknowledged.store(length, SeqCst);
                    is_begun.store(true, SeqCst);
                }
            });
            while !is_begun.load(SeqCst) {
                thread::yield_now();
            }
            (0..round * 50).for_each(|_| thread::yield_now());
            stoc.fence(RANGE, Epoch(2)).expect("memory takes it")
        });
        let length = fenced.logs.first().and_then(|(_, length)| *length);
        assert_eq!(length.unwrap_or(0), acknowledged.load(SeqCst), "round {round}");
    }
}

/// S2: a file counts once it is finished, and never changes afterwards.
#[test]
fn s2_a_file_counts_once_it_is_finished() {
    let device = device::memory();
    let stoc = open(&device, 1);
    for (number, count) in [0, 1, 4_095, 4_096, 4_097, 50_000].into_iter().enumerate() {
        let (name, content) = (table(number as u64), bytes(number as u64, count));
        stoc.create_table(name, Epoch(1), 2).expect("memory takes it");
        assert_eq!(stoc.read(&name, 0, 0), Err(Error::NoFile { name }));
        assert_eq!(
            stoc.create_table(name, Epoch(1), 2),
            Err(Error::Exists { name }),
            "a name is used once"
        );
        for (at, part) in (0..).zip(content.chunks(5_000)) {
            stoc.write(&name, Epoch(1), at * 5_000, part).expect("memory takes it");
        }
        let length = count as u64;
        let wrong = stoc.write(&name, Epoch(1), length + 1, b"x");
        assert_eq!(wrong, Err(Error::NotAtEnd { name, length }));
        assert_eq!(stoc.finish(&name, Epoch(1), length + 1), Err(Error::NotAtEnd { name, length }));
        stoc.finish(&name, Epoch(1), length).expect("memory takes it");
        stoc.finish(&name, Epoch(1), length).expect("it is finished already");
        assert_eq!(stoc.write(&name, Epoch(1), length, b"x"), Err(Error::OtherKind { name }));
    }
    stoc.create_table(table(100), Epoch(1), 0).expect("memory takes it");
    stoc.write(&table(100), Epoch(1), 0, b"half").expect("memory takes it");
    let bytes_before = stoc.stats().expect("memory has space").bytes;
    drop(stoc);
    let stoc = open(&device, 2);
    let listed = stoc.list(RANGE);
    assert_eq!(listed.len(), 6, "the unfinished file is gone");
    assert!(listed.iter().all(|file| file.is_finished && file.epoch == Epoch(1)));
    assert!(stoc.stats().expect("memory has space").bytes < bytes_before);
    for (number, count) in [0, 1, 4_095, 4_096, 4_097, 50_000_usize].into_iter().enumerate() {
        let (name, content) = (table(number as u64), bytes(number as u64, count));
        assert_eq!(stoc.read(&name, 0, count as u64).as_ref(), Ok(&content));
        let (from, to) = (count / 3, count / 2);
        let part = stoc.read(&name, from as u64, (to - from) as u64);
        assert_eq!(part.as_deref(), Ok(content.get(from..to).unwrap_or_default()));
        let length = count as u64;
        assert_eq!(stoc.read(&name, 1, length), Err(Error::PastEnd { name, length }));
        stoc.verify(&name).expect("it is sound");
    }
}

/// S3: a log grows at its end. A repeated append is acknowledged, and other bytes are refused.
#[test]
fn s3_a_log_is_a_prefix_of_one_stream() {
    let device = device::memory();
    let mut stoc = open(&device, 1);
    let (name, stream) = (log(1), bytes(9, 30_000));
    stoc.create_log(name, Epoch(1)).expect("memory takes it");
    let mut length = 0;
    for (incarnation, count) in [1, 7, 8, 9, 4_000, 1, 20_000].into_iter().enumerate() {
        let part = stream.get(length..length + count).unwrap_or_default();
        let offset = length as u64;
        stoc.append(&name, Epoch(1), offset, part).expect("memory takes it");
        stoc.append(&name, Epoch(1), offset, part).expect("the same bytes again");
        length += count;
        let end = length as u64;
        let gap = stoc.append(&name, Epoch(1), end + 1, b"x");
        assert_eq!(gap, Err(Error::NotAtEnd { name, length: end }));
        let other = stoc.append(&name, Epoch(1), offset, &vec![0; count]);
        assert_eq!(other, Err(Error::OtherBytes { name, offset }));
        let beyond = stoc.append(&name, Epoch(1), offset, &vec![0; count + 1]);
        assert_eq!(beyond, Err(Error::NotAtEnd { name, length: end }));
        assert_eq!(
            stoc.read(&name, 0, end).as_deref(),
            Ok(stream.get(..length).unwrap_or_default())
        );
        drop(stoc);
        stoc = open(&device, incarnation as u64 + 2);
        assert_eq!(stoc.list(RANGE).first().and_then(|file| file.length), Some(end));
    }
    let (from, count) = (5, 3_000);
    let part = stoc.read(&name, from as u64, count as u64);
    assert_eq!(part.as_deref(), Ok(stream.get(from..from + count).unwrap_or_default()));
    // A sealed log ends where the range says, also after an opening.
    stoc.seal(&name, Epoch(1), 4_000).expect("memory takes it");
    for incarnation in [9, 10] {
        let read = stoc.read(&name, 0, 4_000);
        assert_eq!(read.as_deref(), Ok(stream.get(..4_000).unwrap_or_default()));
        assert_eq!(stoc.read(&name, 0, 4_001), Err(Error::PastEnd { name, length: 4_000 }));
        let late = stoc.append(&name, Epoch(1), 4_000, b"late");
        assert_eq!(late, Err(Error::NotAtEnd { name, length: 4_000 }));
        let fenced = stoc.fence(RANGE, Epoch(1)).expect("memory takes it");
        assert_eq!(fenced.logs, [(name, Some(4_000))]);
        drop(stoc);
        stoc = open(&device, incarnation);
    }
}

/// S5: a directory of another StoC, an old copy, and an old start are refused.
#[test]
fn s5_a_directory_has_one_owner_and_goes_forward() {
    let device = device::memory();
    let cookie = open(&device, 1).identity().cookie;
    assert_eq!(open(&device, 2).identity().cookie, cookie);
    let refused =
        |options: &Options| Stoc::open(Arc::clone(&device), options).expect_err("refused");
    let other = Error::OtherOwner { found_cluster: 0xc1, found_node: 3 };
    assert_eq!(refused(&Options { cluster: 1, ..options(3) }), other);
    assert_eq!(refused(&Options { node: 1, ..options(3) }), other);
    assert_eq!(refused(&options(2)), Error::OldStart { given: 2, stored: 2 });
    let last_incarnation = Some(8);
    let old_copy = Error::OldCopy { stored: 2, last: 8 };
    assert_eq!(refused(&Options { last_incarnation, ..options(9) }), old_copy);
    // An empty directory in the place of one that was used is another StoC.
    let empty = device::memory();
    let environment = Environment::seeded(2);
    let replaced = Options { last_incarnation, environment, ..options(9) };
    let lost = Stoc::open(Arc::clone(&empty), &replaced);
    let lost = lost.expect("it is empty").identity();
    assert_ne!(lost.cookie, cookie);
    let old_copy = Error::OldCopy { stored: 9, last: 12 };
    let old = Stoc::open(empty, &Options { last_incarnation: Some(12), ..options(13) });
    assert_eq!(old.map(|_| ()), Err(old_copy));
    assert_eq!(open(&device, 3).identity().incarnation, 3);
}

/// S6: a file goes with its last reference, also after openings in between.
#[test]
fn s6_a_file_goes_with_its_last_reference() {
    let device = device::memory();
    let mut stoc = open(&device, 1);
    let children = [RangeId(8), RangeId(9)];
    write_table(&stoc, table(1), 1, b"shared");
    write_table(&stoc, table(2), 1, b"own");
    stoc.release(&table(2), RANGE, Epoch(1)).expect("memory takes it");
    assert_eq!(stoc.list(RANGE).len(), 1);
    stoc.release(&table(2), RANGE, Epoch(1)).expect("it is released already");
    stoc.add_references(RANGE, Epoch(1), &children).expect("memory takes it");
    write_table(&stoc, table(3), 1, b"later");
    stoc.release(&table(1), RANGE, Epoch(1)).expect("memory takes it");
    for (number, child) in (2..).zip(children) {
        drop(stoc);
        stoc = open(&device, number);
        assert_eq!(stoc.read(&table(1), 0, 6).as_deref(), Ok(&b"shared"[..]));
        stoc.fence(child, Epoch(3)).expect("memory takes it");
        let old = stoc.release(&table(1), child, Epoch(2));
        assert!(matches!(old, Err(Error::Fenced { promise: Epoch(3), .. })));
        stoc.release(&table(3), child, Epoch(3)).expect("it has no reference to it");
        stoc.release(&table(1), child, Epoch(3)).expect("memory takes it");
    }
    assert_eq!(stoc.read(&table(1), 0, 6), Err(Error::NoFile { name: table(1) }));
    let left: Vec<_> = stoc.list(RANGE).into_iter().map(|file| file.name).collect();
    assert_eq!(left, [table(3)]);
    assert_eq!(device.list("files/00000007").map(|files| files.len()), Ok(1));
}

/// S6: after a failed sync nothing is changed any more.
#[test]
fn s6_a_failed_sync_ends_the_changes() {
    let device = FaultDevice::new(device::memory());
    let above: Arc<dyn Device> = Arc::clone(&device) as Arc<dyn Device>;
    let stoc = open(&above, 1);
    stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
    let (kind, lasting) = (Some(OperationKind::Sync), Lasting::Once);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::Io, lasting });
    assert!(matches!(stoc.append(&log(1), Epoch(1), 0, b"one"), Err(Error::Sync(_))));
    let refused = [
        stoc.append(&log(1), Epoch(1), 0, b"one"),
        stoc.create_log(log(2), Epoch(1)),
        stoc.fence(RANGE, Epoch(2)).map(|_| ()),
        stoc.release(&log(1), RANGE, Epoch(1)),
    ];
    assert!(refused.iter().all(|done| matches!(done, Err(Error::Stopped(_)))), "{refused:?}");
    drop(stoc);
    let stoc = open(&above, 2);
    stoc.create_log(log(2), Epoch(1)).expect("memory takes it");
}

/// S6: a call that waits for its range while a sync fails changes nothing either, and is not
/// acknowledged. (S3)
#[test]
fn s6_a_call_that_waits_during_a_failed_sync_is_refused() {
    let device = FaultDevice::new(device::memory());
    let above: Arc<dyn Device> = Arc::clone(&device) as Arc<dyn Device>;
    let stoc = open(&above, 1);
    stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
    let (kind, lasting) = (Some(OperationKind::Sync), Lasting::Once);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::Io, lasting });
    let (syncs, begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    device.interpose_anywhere(OperationKind::Sync, move || {
        let _if_the_test_has_failed = syncs.send(());
        let _when_the_other_waits = goes_on.recv();
    });
    let (first, others) = thread::scope(|scope| {
        let first = scope.spawn(|| stoc.append(&log(1), Epoch(1), 0, b"one"));
        begun.recv().expect("it syncs");
        let repeated = scope.spawn(|| stoc.append(&log(1), Epoch(1), 0, b"one"));
        let fenced = scope.spawn(|| stoc.fence(RANGE, Epoch(2)).map(|_| ()));
        // Usually both wait for the range after this time.
        Environment::real().sleep(std::time::Duration::from_millis(20));
        drop(go_on);
        let others = [repeated, fenced].map(|other| other.join().expect("it does not panic"));
        (first.join().expect("it does not panic"), others)
    });
    assert!(matches!(first, Err(Error::Sync(_))), "{first:?}");
    assert!(others.iter().all(|other| matches!(other, Err(Error::Stopped(_)))), "{others:?}");
    assert_eq!(stoc.list(RANGE).first().and_then(|file| file.length), Some(0));
}

/// Limits are kept, and room that is released is there again.
#[test]
fn limits_are_kept() {
    let device = device::memory();
    let limits = Limits { bytes_max: 100_000, files_max: 3, ..Limits::default() };
    let stoc = Stoc::open(device, &Options { limits, ..options(1) }).expect("memory takes it");
    stoc.create_log(log(1), Epoch(1)).expect("there is room");
    let mut length = 0;
    let refused = loop {
        match stoc.append(&log(1), Epoch(1), length, &[7; 10_000]) {
            Ok(()) => length += 10_000,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused:?}");
    stoc.append(&log(1), Epoch(1), 0, &[7; 10_000]).expect("a repeated one takes nothing");
    let stats = stoc.stats().expect("memory has space");
    assert!(stats.bytes <= 100_000 && stats.bytes > 80_000, "{stats:?}");
    assert_eq!(
        stoc.fence(RANGE, Epoch(1)).map(|fenced| fenced.logs),
        Ok(vec![(log(1), Some(length))])
    );
    stoc.release(&log(1), RANGE, Epoch(1)).expect("memory takes it");
    assert_eq!(stoc.stats().map(|stats| (stats.files, stats.bytes)), Ok((0, 0)));
    for number in 0..3 {
        stoc.create_log(log(number), Epoch(1)).expect("there is room");
    }
    assert!(matches!(stoc.create_log(log(4), Epoch(1)), Err(Error::NoRoom { .. })));
    for number in 0..3 {
        stoc.release(&log(number), RANGE, Epoch(1)).expect("memory takes it");
    }
    write_table(&stoc, table(1), 1, &[8; 60_000]);
    stoc.create_table(table(2), Epoch(1), 0).expect("there is room");
    let refused = stoc.write(&table(2), Epoch(1), 0, &[8; 60_000]);
    assert!(matches!(refused, Err(Error::NoRoom { .. })), "{refused:?}");
    stoc.write(&table(2), Epoch(1), 0, &[8; 20_000]).expect("there is room");
    stoc.release(&table(2), RANGE, Epoch(1)).expect("memory takes it");
    stoc.release(&table(1), RANGE, Epoch(1)).expect("memory takes it");
    assert_eq!(stoc.stats().map(|stats| (stats.files, stats.bytes)), Ok((0, 0)));
}

/// A range that is dropped has no files, and no call for it makes one, also after an opening.
#[test]
fn a_dropped_range_gets_no_files_any_more() {
    let device = device::memory();
    let stoc = open(&device, 1);
    let other = FileName { range: RangeId(8), ..table(1) };
    write_table(&stoc, other, 1, b"other");
    let empty = stoc.stats().expect("memory has space");
    stoc.create_log(log(1), Epoch(4)).expect("memory takes it");
    stoc.append(&log(1), Epoch(4), 0, b"one").expect("memory takes it");
    write_table(&stoc, table(3), 4, b"shared");
    stoc.add_references(RangeId(8), Epoch(1), &[RANGE]).expect("memory takes it");
    stoc.add_references(RANGE, Epoch(4), &[RangeId(8)]).expect("memory takes it");
    stoc.create_table(table(1), Epoch(4), 0).expect("memory takes it");
    write_table(&stoc, table(2), 4, b"whole");
    assert_eq!(stoc.ranges_with_files(), [RANGE, RangeId(8)]);
    assert_eq!(stoc.drop_range(RANGE), Ok(5));
    // A file that another range has, too, stays.
    let left: Vec<FileName> = stoc.list(RANGE).into_iter().map(|file| file.name).collect();
    assert_eq!(left, [table(3)]);
    stoc.release(&table(3), RangeId(8), Epoch(1)).expect("memory takes it");
    assert_eq!(
        stoc.stats().map(|stats| (stats.files, stats.bytes)),
        Ok((empty.files, empty.bytes))
    );
    let refused = |stoc: &Stoc| {
        let made = stoc.create_log(log(2), Epoch(1 << 40));
        assert!(matches!(made, Err(Error::Fenced { .. })), "{made:?}");
    };
    refused(&stoc);
    drop(stoc);
    let stoc = open(&device, 2);
    refused(&stoc);
    assert_eq!(stoc.ranges_with_files(), [RangeId(8)]);
    assert_eq!(stoc.drop_range(RANGE), Ok(0));
}
