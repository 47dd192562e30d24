//! The directory's snapshot: a directory opened from it has its former content, it is rejected when
//! it is damaged, and it saves the reads that it is for. Random runs with it are in `against_map`.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use engine::Error;

use super::{Bench, Sizes, TINY, at, go_on, position, put, replace, take};
use crate::address::LogAddress;
use crate::cold_index::snapshot::Head;
use crate::cold_index::{NamedSnapshot, check_snapshot, restore};

const KEYS: u64 = 50_000;
/// Segments and pages as a store of some size has them.
const USUAL: Sizes =
    Sizes { page_bytes: 64 << 10, segment_bytes: 1 << 20, chunk_bytes: 256, ..TINY };

/// With a snapshot, and a few changes behind it.
fn filled() -> Bench {
    let mut bench = Bench::new(USUAL);
    bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    bench.snapshot();
    let changes = (0..100).map(|key| replace(key, at(key + 1), at(KEYS + key + 1)));
    assert_eq!(bench.apply(changes.collect()).replaced, 100);
    bench
}

fn must_be_whole(bench: &Bench) {
    for key in (0..KEYS).step_by(37).chain(0..100) {
        let record = if key < 100 { at(KEYS + key + 1) } else { at(key + 1) };
        assert!(bench.find(position(key)).contains(&record), "{key}");
    }
    assert_eq!(bench.index.counts().entries, KEYS);
}

/// Opens again, and returns the number of bytes that were read for it.
fn reopened(bench: Bench) -> (Bench, u64) {
    bench.flush();
    let device = Arc::clone(&bench.device);
    let before = device.accounting().counts().read_bytes;
    let bench = bench.reopen();
    (bench, device.accounting().counts().read_bytes - before)
}

#[test]
fn opening_reads_the_snapshot_and_the_logs_end() {
    let (bench, read) = reopened(filled());
    must_be_whole(&bench);
    let (log_bytes, words) =
        (bench.index.figures().log_bytes, bench.index.figures().directory_bytes);
    // The last page of the entries put before, and the entries after it.
    assert!(read < words + 4 * USUAL.page_bytes, "{read} bytes of a log of {log_bytes}");
    assert!(log_bytes > 8 * USUAL.page_bytes, "{log_bytes} bytes: this shows nothing");
}

#[test]
fn a_snapshot_that_is_not_what_was_written_is_not_believed() {
    let file = |bench: &Bench| {
        let name = format!("directory-{:016}", bench.named.number);
        bench.device.open(&name, Mode::Write).expect("it is there")
    };
    let turn = |bench: &Bench, offset: u64| {
        let mut byte = [0];
        file(bench).read_at(offset, &mut byte).expect("reads");
        file(bench).write_at(offset, &[!byte[0]]).expect("writes");
    };
    let damages: [&dyn Fn(&mut Bench); 6] = [
        &|bench| turn(bench, 3),
        &|bench| turn(bench, 20),
        &|bench| turn(bench, 38),
        &|bench| turn(bench, 30_000),
        &|bench| file(bench).set_len(20_000).expect("is cut"),
        &|bench| bench.named.remove(&*bench.device).expect("is removed"),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let mut bench = filled();
        damage(&mut bench);
        let (bench, read) = reopened(bench);
        must_be_whole(&bench);
        let log_bytes = bench.index.figures().log_bytes;
        assert!(read >= log_bytes / 2, "damage {number}: {read} bytes of {log_bytes}");
    }
    // One that another checkpoint has named.
    let mut bench = filled();
    let older = bench.named;
    bench.snapshot();
    bench.named = NamedSnapshot { from: older.from, ..bench.named };
    must_be_whole(&reopened(bench).0);
}

#[test]
fn one_that_cannot_be_read_is_done_without() {
    let bench = filled();
    let (begin, end) = (bench.log.begin(), bench.flush());
    for kind in [OperationKind::Open, OperationKind::Read] {
        for nth in 1..=2 {
            let device = FaultDevice::new(Arc::clone(&bench.device));
            let kind = Some(kind);
            device.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::ForGood });
            let (segments, geometry) = (&bench.log.segments, &bench.log.geometry);
            let restored = restore(&*device, bench.named, segments, geometry, (begin, end));
            let restored = restored.expect("the chunk log has it all");
            assert!(device.failed() > 0 || device.count(kind) < nth, "{kind:?}");
            let directory = &bench.index.directory;
            assert_eq!(restored.chunks(), directory.chunks());
            for number in 0..directory.chunks() {
                assert_eq!(restored.load(number), directory.load(number), "{number}");
            }
        }
    }
}

/// Except for the directory that has its name, which others share.
#[test]
fn one_that_cannot_be_written_is_done_without() {
    let bench = filled();
    let left = || {
        let files = bench.device.list("").expect("lists").into_iter();
        files.filter(|file| file.name.ends_with("99")).count()
    };
    for nth in 1.. {
        let device = FaultDevice::new(Arc::clone(&bench.device));
        let failure = Failure::NoSpace;
        device.fail(Fault { kind: None, nth, failure, lasting: Lasting::Once });
        let written = bench.index.write_snapshot(&*device, 99);
        if device.failed() == 0 {
            assert!(matches!(written, Ok(Some(_))) && nth > 4, "{nth}: {written:?}");
            break;
        }
        match device.count(Some(OperationKind::SyncDir)) {
            0 => assert_eq!((written, left()), (Ok(None), 0), "{nth}"),
            _ => assert!(written.is_err(), "{nth}: {written:?}"),
        }
    }
}

#[test]
fn what_compaction_has_forgotten_since_has_no_entries() {
    let mut bench = Bench::new(TINY);
    bench.apply((0..3_000).map(|key| put(key, at(key + 1))).collect());
    bench.snapshot();
    bench.apply((0..3_000).map(|key| take(key, at(key + 1))).collect());
    let end = bench.flush();
    assert!(bench.index.compact(end, &go_on(), &|_| ()).expect("compacts"));
    bench.apply(vec![put(1, at(7))]);
    let bench = bench.reopen();
    assert_eq!(bench.find(position(1)), [at(7)]);
    assert!((2..3_000).all(|key| bench.find(position(key)).is_empty()));
}

#[test]
fn none_is_made_while_the_directory_doubles() {
    let device = FaultDevice::new(device::memory());
    let bench = Arc::new(Bench::on(Arc::clone(&device) as Arc<dyn Device>, TINY));
    bench.apply((0..500).map(|key| put(key, at(key + 1))).collect());
    let beside = Arc::clone(&bench);
    device.interpose(OperationKind::Write, move || assert!(beside.index.directory.double(0)));
    let named = bench.index.write_snapshot(&*bench.device, 1).expect("nothing goes wrong");
    assert_eq!(named, None);
    assert!(
        bench.device.list("").expect("lists").iter().all(|it| !it.name.starts_with("directory"))
    );
    let named = bench.index.write_snapshot(&*bench.device, 2).expect("it is written");
    assert!(named.is_some());
}

/// The documented example.
#[test]
fn a_head_is_written_as_documented() {
    let named = NamedSnapshot { number: 7, from: LogAddress::new(0x1234_0000) };
    let expected: [u8; 40] = [
        0x54, 0x43, 0x46, 0x32, 0x44, 0x49, 0x52, 0x53, 0x01, 0x00, 0x00, 0x00, 0x12, 0xda, 0x53,
        0xfc, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x34, 0x12, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa2, 0x32, 0x16, 0xc5,
    ];
    assert_eq!(Head { named, level: 0 }.encode(), expected);
}

#[test]
fn a_snapshot_is_checked_offline() {
    let bench = filled();
    let name = format!("directory-{:016}", bench.named.number);
    let file = bench.device.open(&name, Mode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("has a length") as usize];
    file.read_at(0, &mut bytes).expect("reads");
    assert_eq!(check_snapshot(&bytes), Ok(bench.index.directory.chunks()));
    for end in [0, 15, 39, bytes.len() - 1] {
        assert!(check_snapshot(&bytes[..end]).is_err(), "{end} bytes");
    }
    bytes.push(0);
    assert!(check_snapshot(&bytes).is_err());
    let refused: Result<(), Error> = check_snapshot(&bytes).map(drop).map_err(Error::from);
    assert!(matches!(refused, Err(Error::Corruption(_))));
}
