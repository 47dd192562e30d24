//! Snapshots: they never change, hold segments, and block no thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use device::{FaultDevice, OperationKind};
use environment::Environment;
use rand::RngExt;

use super::{create, small};
use crate::seed::seed;
use crate::space::{Error, FlexSpace, Options, Snapshot};

#[test]
fn a_snapshot_holds_the_segments_that_it_can_reach() {
    let space = create(device::memory());
    let old: Vec<u8> = (0..100_000_u32).map(|number| (number % 249) as u8).collect();
    space.append(&old).expect("room");
    let snapshot = space.snapshot().expect("open");
    let clone = snapshot.clone();
    space.pwrite(0, &[1; 100_000]).expect("room");
    space.sync().expect("a device");
    let held = space.stats().held_segments;
    assert!(held >= 5, "{held} segments are held");
    drop(clone);
    for round in 0..20 {
        space.pwrite(0, &[round; 30_000]).expect("room");
        space.sync().expect("a device");
    }
    assert_eq!(snapshot.read(0, 100_000), Ok(old));
    drop(snapshot);
    space.append(b"!").expect("room");
    space.sync().expect("a device");
    let stats = space.stats();
    assert_eq!((stats.held_segments, stats.snapshots), (0, 0));
    space.check().expect("sound");
}

/// A read in pieces, passed in any order, has the bytes that a single read has: of the file, of the
/// segment that is being filled, and of neither.
#[test]
fn a_read_takes_its_blocks_in_any_order() {
    let space = create(device::memory());
    let bytes: Vec<u8> = (0..60_000_u32).map(|number| (number % 251) as u8).collect();
    space.append(&bytes).expect("room");
    for at in 0..20 {
        space.splice(3000 * at, 7, &[at as u8; 11], 0).expect("room");
    }
    let snapshot = space.snapshot().expect("open");
    for (offset, length) in [(0, 60_080), (0, 0), (5, 9000), (40_001, 1), (59_000, 1080)] {
        let expected = snapshot.read(offset, length).expect("it was written");
        let mut reading = snapshot.begin_read(offset, length).expect("a range");
        assert_eq!(reading.missing(), reading.wanted().len());
        // Of more than a hundred extents; neighbours share a read.
        assert!(reading.wanted().len() <= 5, "{} runs", reading.wanted().len());
        for index in (0..reading.wanted().len()).rev() {
            let wanted = &reading.wanted()[index];
            let mut blocks = vec![0; wanted.bytes];
            reading.file().read_at(wanted.offset, &mut blocks).expect("a device");
            let mut damaged = blocks.clone();
            damaged[7] ^= 1;
            let damaged = reading.give(index, Ok(&damaged));
            assert!(matches!(damaged, Err(Error::Corruption(_))), "{damaged:?}");
            assert_eq!(reading.missing(), index + 1);
            reading.give(index, Ok(&blocks)).expect("it is what was written");
        }
        assert_eq!(reading.into_bytes(), expected, "{length} at {offset}");
    }
    let behind = snapshot.begin_read(60_000, 81);
    assert!(matches!(behind, Err(Error::BehindTheEnd { end: 60_081, len: 60_080 })));
    space.close().expect("closes");
    assert!(matches!(snapshot.begin_read(0, 1), Err(Error::Closed)));
}

/// Segments of which `snapshot` has bytes.
fn reached(snapshot: &Snapshot) -> BTreeSet<u64> {
    let extents = snapshot.extents(0..snapshot.len());
    extents.filter_map(|piece| piece.extent.address()).map(|address| address / (16 << 10)).collect()
}

#[test]
fn a_snapshot_holds_no_segments_that_were_begun_after_it() {
    let space = create(device::memory());
    space.append(&[7; 10_000]).expect("room");
    let snapshot = space.snapshot().expect("open");
    // Ten times the room of the space, since no snapshot reaches these bytes.
    let limit = space.stats().limit_bytes as usize;
    for round in 0..20_u8 {
        space.append(&vec![round; limit / 2]).expect("room beside what the snapshot holds");
        space.sync().expect("a device");
        space.collapse(10_000, limit as u64 / 2).expect("a range");
        space.sync().expect("a device");
        let stats = space.stats();
        assert_eq!((stats.held_segments, stats.snapshots), (0, 1), "round {round}");
    }
    space.collapse(0, 10_000).expect("a range");
    space.sync().expect("a device");
    assert_eq!(space.stats().held_segments, 1, "the one that it reaches");
    assert_eq!(snapshot.read(0, 10_000), Ok(vec![7; 10_000]));
    drop(snapshot);
    space.append(b"!").expect("room");
    space.sync().expect("a device");
    assert_eq!(space.stats().held_segments, 0);
    space.check().expect("sound");
}

#[test]
fn snapshots_hold_what_they_reach_and_nothing_else() {
    let name = "snapshots_hold_what_they_reach_and_nothing_else";
    let mut random = seed(name, "").stream(name);
    let space = create(device::memory());
    space.append(&[0; 60_000]).expect("room");
    let mut kept: Vec<(Snapshot, Vec<u8>)> = Vec::new();
    let mut most = 0;
    for step in 0..400_u32 {
        let offset = random.random_range(0..=space.len());
        let length = random.random_range(0..6_000);
        let removed = if space.len() > 60_000 { length } else { 0 };
        let removed = removed.min(space.len() - offset);
        // Each change brings bytes, so from its first byte to its last one a segment is never
        // without.
        let data = vec![step as u8; length as usize + 1];
        space.splice(offset, removed, &data, 0).expect("room");
        match random.random_range(0..10) {
            0..3 => {
                let snapshot = space.snapshot().expect("open");
                let bytes = snapshot.read(0, snapshot.len()).expect("whole");
                kept.push((snapshot, bytes));
            }
            3..6 if !kept.is_empty() => {
                let (snapshot, bytes) = kept.swap_remove(random.random_range(0..kept.len()));
                assert!(snapshot.read(0, snapshot.len()) == Ok(bytes), "step {step}: it changed");
            }
            6 => drop(space.collect().expect("a device")),
            _ => {}
        }
        // The second commit releases the room that the first one freed.
        space.sync().expect("a device");
        space.set_tag(0, 0).expect("a byte");
        space.sync().expect("a device");
        let mut reached_by_any = BTreeSet::new();
        kept.iter().for_each(|(snapshot, _)| reached_by_any.append(&mut reached(snapshot)));
        let present = reached(&space.snapshot().expect("open"));
        let old = reached_by_any.difference(&present).count() as u64;
        let held = space.stats().held_segments;
        assert_eq!(held, old, "step {step}: {} snapshots live", kept.len());
        most = most.max(held);
    }
    assert!(most > 3, "{most} segments were held at most");
    kept.clear();
    space.check().expect("sound");
}

#[test]
fn a_segment_that_is_free_gives_its_room_back() {
    let device = FaultDevice::new(device::memory());
    let space = create(device.clone());
    space.append(&[1; 100_000]).expect("room");
    space.sync().expect("a device");
    let used = space.stats().used_segments;
    space.collapse(0, 100_000).expect("a range");
    let before = device.count(Some(OperationKind::Resize));
    space.sync().expect("a device");
    let stats = space.stats();
    let punched = device.count(Some(OperationKind::Resize)) - before;
    assert_eq!((stats.free_segments, stats.used_segments), (used - 1, 1), "one is being filled");
    // The tree's new nodes may have made the ballast longer.
    assert!((punched - stats.free_segments) <= 1, "{punched} resizes");
}

#[test]
fn readers_see_whole_states_beside_a_writer_and_the_collector() {
    const RECORD: usize = 100;
    const RECORDS: u64 = 600;
    // A reader that is not given the processor for long holds many segments.
    let capacity_bytes = 1 << 30;
    let options = Options { log_bytes_max: 20_000, capacity_bytes, ..small() };
    let space = FlexSpace::create(device::memory(), options).expect("a device");
    space.append(&[0; RECORD * RECORDS as usize]).expect("room");
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Arc::new(Barrier::new(3));
    let environment = Environment::real();
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (space, stop, begin) = (space.clone(), stop.clone(), begin.clone());
            let read = move || {
                let mut seen = 0_u64;
                begin.wait();
                loop {
                    let snapshot = space.snapshot().expect("open");
                    let bytes = snapshot.read(0, snapshot.len()).expect("whole");
                    // A change takes a record out and puts another in, in one go.
                    assert_eq!(bytes.len() % RECORD, 0, "half of a record");
                    assert!(
                        bytes.chunks(RECORD).all(|record| record.iter().all(|b| *b == record[0]))
                    );
                    seen += 1;
                    if stop.load(Relaxed) {
                        return seen;
                    }
                }
            };
            environment.spawn(&format!("reader-{reader}"), read).expect("a thread")
        })
        .collect();
    begin.wait();
    let mut collected = 0;
    for number in 0..6_000_u64 {
        let at = number * 7919 % RECORDS * RECORD as u64;
        space.splice(at, RECORD as u64, &[number as u8; RECORD], 0).expect("room");
        if number % 100 == 99 {
            space.sync().expect("a device");
            collected += space.collect().expect("a device").segments;
        }
    }
    stop.store(true, Relaxed);
    for reader in readers {
        let seen = reader.join().expect("a reader that saw whole records");
        assert!(seen > 0);
    }
    assert!(collected > 0, "the collector ran");
    space.check().expect("sound");
}
