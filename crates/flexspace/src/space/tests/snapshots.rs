//! Snapshots: they never change, hold segments, and nobody up.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use device::{FaultDevice, OperationKind};
use environment::Environment;

use super::{create, small};
use crate::space::{FlexSpace, Options};

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
