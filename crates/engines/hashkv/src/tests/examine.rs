//! The examination of segments that a crash may have left with void records.

use std::sync::Arc;

use device::{
    Device, Failure, Fault, FaultDevice, Faults, Lasting, Mode, OperationKind, SimulatedDisk,
};
use engine::{Barrier, Engine, Error, SeqNo};

use super::stores::{Bench, key};
use crate::segment_table::{Described, State};

fn segments(bench: &Bench) -> Vec<Described> {
    let all = bench.store.shared.values.with_table(|table| Ok(table.all.segments.clone()));
    all.expect("the store is open").into_values().collect()
}

/// The state after the barrier of the index, and before the index has a table.
fn left_behind_the_index() -> Bench {
    let bench = Bench::new();
    for number in 0..4 {
        bench.put(&key(number), &[1; 400]);
    }
    // A pair that becomes small leaves a record as well.
    bench.put(&key(0), b"v");
    let reached = bench.store.shared.values.reach(SeqNo::new(5)).expect("memory takes it");
    assert_eq!(reached, SeqNo::new(5));
    assert!(!segments(&bench).is_empty());
    bench
}

/// Case C3: all records are void. The numbers of their writes do not come again.
#[test]
fn void_records_are_dropped_and_their_numbers_stay_used() {
    let bench = left_behind_the_index();
    let before = segments(&bench);
    let bench = bench.reopen();
    assert_eq!(segments(&bench), []);
    // The header of the volume.
    assert_eq!(bench.detail("volume_bytes"), 4096);
    assert!((0..4).all(|number| bench.get(&key(number)).is_none()));
    assert!(bench.put(&key(1), &[2; 400]) > SeqNo::new(5));
    // A segment's number is used once.
    bench.write_buffers().expect("memory takes it");
    let after = segments(&bench);
    assert!(!after.is_empty());
    let largest = before.iter().map(|segment| segment.number).max();
    assert!(after.iter().all(|segment| Some(segment.number) > largest), "{after:?}");
    bench.end_sound();
}

/// The records that the index knows are kept, also in a segment with void records.
#[test]
fn records_that_the_index_has_stay() {
    let bench = Bench::new();
    for number in 0..4 {
        bench.put(&key(number), &[1; 400]);
    }
    bench.store.flush().expect("memory takes it");
    for number in 2..6 {
        bench.put(&key(number), &[2; 400]);
    }
    bench.store.shared.values.reach(SeqNo::new(8)).expect("memory takes it");
    let bench = bench.reopen();
    let sealed = segments(&bench);
    assert!(sealed.iter().all(|segment| matches!(segment.state, State::Sealed { .. })));
    let entries: u32 = sealed
        .iter()
        .map(|segment| match segment.state {
            State::Sealed { entries, .. } => entries,
            State::Open { .. } => 0,
        })
        .sum();
    assert_eq!(entries, 4);
    for number in 0..6 {
        assert_eq!(bench.get(&key(number)), (number < 4).then(|| vec![1; 400]), "key {number}");
    }
    bench.end_sound();
}

/// Returns the device of a store in which a void record of write 2 has superseded that of write 1.
/// Another one is of write 3.
fn with_void_records() -> Arc<dyn Device> {
    let bench = Bench::new();
    bench.put(&key(1), &[1; 400]);
    bench.store.flush().expect("memory takes it");
    bench.put(&key(1), &[2; 400]);
    bench.put(&key(2), &[3; 400]);
    bench.store.shared.values.reach(SeqNo::new(3)).expect("memory takes it");
    bench.0.end()
}

/// Writes and flushes, so that the index is durable above the numbers of void records. Then opens
/// again, and has jobs collect all garbage. The pair of write 1 is there.
fn must_keep_the_first_write(bench: Bench) {
    assert_eq!(bench.get(&key(1)), Some(vec![1; 400]));
    for number in 10..20 {
        bench.put(&key(number), &[4; 400]);
    }
    bench.store.flush().expect("memory takes it");
    assert!(bench.store.persisted() > SeqNo::new(3));
    let bench = bench.reopen();
    for number in 10..20 {
        bench.put(&key(number), &[5; 400]);
    }
    bench.end_segments();
    bench.crank.run_all();
    bench.store.shared.collect_all().expect("memory takes it");
    assert_eq!(bench.get(&key(1)), Some(vec![1; 400]));
    assert_eq!(bench.get(&key(2)), None);
}

#[test]
fn records_stay_void_if_the_opening_cannot_drop_them() {
    let mut failed = 0;
    for nth in 1..8 {
        let faults = FaultDevice::new(with_void_records());
        let (kind, failure) = (Some(OperationKind::Write), Failure::NoSpace);
        faults.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        let open = || Bench::on(Arc::clone(&faults) as Arc<dyn Device>);
        let opened = open();
        failed += faults.failed();
        faults.heal();
        // A superblock that was not written may have been.
        must_keep_the_first_write(opened.or_else(|_| open()).expect("the device has room"));
    }
    assert!(failed >= 2, "{failed}");
}

/// A segment with damage keeps its void records. It is examined by each opening.
#[test]
fn records_of_a_damaged_segment_stay_void() {
    let device = with_void_records();
    let file = device.open("volume-0", Mode::Write).expect("it is there");
    let mut bytes = vec![0; file.len().expect("has one") as usize];
    file.read_at(0, &mut bytes).expect("memory reads");
    let at = bytes.windows(400).position(|value| value == [3; 400]).expect("the value of write 3");
    file.write_at(at as u64 + 7, &[9]).expect("memory takes it");
    must_keep_the_first_write(Bench::on(device).expect("opens with damage"));
}

/// An opening that finds everything sealed writes no segment and no table.
#[test]
fn a_second_opening_finds_nothing_to_do() {
    let bench = Bench::new();
    for number in 0..40 {
        bench.put(&key(number), &[1; 400]);
    }
    let bench = Bench::on(bench.end_sound()).expect("opens again");
    let first = segments(&bench);
    let bench = bench.reopen();
    assert_eq!(segments(&bench), first);
    assert_eq!(bench.detail("sealed_segments"), 0);
    bench.end_sound();
}

/// A segment with damage before the end of its durable bytes is left unchanged. So no durable
/// record is dropped.
#[test]
fn a_damaged_segment_stays_open() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let bench = Bench::on(disk.clone()).expect("an empty device opens");
    for number in 0..30 {
        bench.put(&key(number), &[1; 400]);
    }
    bench.store.flush().expect("an honest disk");
    let open =
        segments(&bench).into_iter().find(|segment| matches!(segment.state, State::Open { .. }));
    let open = open.expect("the last one of a group");
    let at = bench.store.shared.values.volumes.offset(open.place) + 100;
    // A close seals it.
    let disk = disk.crash(1);
    drop(bench);
    disk.flip_bit("volume-0", at, 3).expect("it is there");
    let device: Arc<dyn Device> = disk.clone();
    let bench = Bench::on(device.clone()).expect("opens all the same");
    let found = segments(&bench).into_iter().find(|segment| segment.number == open.number);
    assert_eq!(found, Some(open));
    let mut value = Vec::new();
    let outcomes: Vec<_> = (0..30).map(|number| engine_get(&bench, number, &mut value)).collect();
    let damaged = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!(damaged, 1, "{outcomes:?}");
    assert!(outcomes.iter().flatten().all(|found| *found));
    bench.store.close().expect("closes");
    let report = crate::check(&device).expect("the disk reads");
    assert!(!report.is_sound());
    assert_eq!(report.damage[0].file, "volume-0");
}

fn engine_get(bench: &Bench, number: u64, value: &mut Vec<u8>) -> Result<bool, Error> {
    reads::BlockingReads::get(&bench.store, &key(number), value)
}

/// Without the index the values have no keys: the store is not opened, and nothing is changed.
#[test]
fn a_store_without_its_index_is_damaged() {
    let bench = Bench::new();
    bench.put(b"k", &[1; 400]);
    let device = bench.end_sound();
    device.remove_dir("index").expect("memory removes it");
    let before = device.list("").expect("memory lists");
    let refused = Bench::on(device.clone()).err();
    assert!(matches!(refused, Some(Error::Corruption(_))), "{refused:?}");
    assert_eq!(device.list("").expect("memory lists"), before);
}

#[test]
fn a_missing_volume_is_damage() {
    let bench = Bench::new();
    bench.put(b"k", &[1; 400]);
    let device = bench.end_sound();
    device.remove("volume-0").expect("memory removes it");
    let refused = Bench::on(device.clone()).err();
    assert!(matches!(refused, Some(Error::Corruption(_))), "{refused:?}");
    let report = crate::check(&device).expect("memory reads");
    assert_eq!(report.damage[0].file, "volume-0");
    assert!(device.open("volume-0", Mode::Read).is_err(), "nothing was made");
}

/// The index may have a delete above its durable number: one with a larger number than that of a
/// write that was not over. Its tombstone is no void record.
#[test]
fn a_tombstone_that_the_index_has_counts() {
    let bench = Bench::new();
    bench.put(&key(1), &[1; 400]);
    bench.end_segments();
    let unfinished = bench.sequence.begin();
    let number = bench.delete(&key(1));
    bench.store.flush().expect("memory takes it");
    assert!(bench.store.persisted() < number, "{:?}", bench.store.persisted());
    drop(unfinished);
    let bench = bench.reopen();
    assert_eq!(bench.get(&key(1)), None);
    bench.put(&key(2), &[2; 400]);
    bench.end_segments();
    bench.collect_all();
    bench.end_segments();
    bench.collect_all();
    assert_eq!(bench.store.shared.values.records_on_device().1, 1);
    bench.end_sound();
}
