//! Long work: logs that become long, and checkpoints and releases of room next to writers.

use std::sync::Arc;

use device::{FaultDevice, Faults, OperationKind, SimulatedDisk};
use sync::Mutex;

use super::{create, open, small, until_the_log_is_full};
use crate::space::{Error, FlexSpace, Options, check_offline};

#[test]
fn a_log_that_nobody_syncs_is_made_short() {
    let device = device::memory();
    let options = Options { log_bytes_max: 4096, log_buffer_bytes: 600, ..small() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    for number in 0..2_000_u32 {
        space.insert(u64::from(number / 2) * 4, &number.to_le_bytes()).expect("room");
        let log_bytes = space.stats().log_bytes;
        assert!(log_bytes <= 2 * 4096 + 1024, "{log_bytes} bytes of log");
    }
    assert!(space.stats().checkpoints > 3);
    let expected = space.read(0, space.len());
    space.sync().expect("a device");
    drop(space);
    assert_eq!(open(device).read(0, 8_000), expected);
}

#[test]
fn the_first_frame_of_a_log_does_not_make_it_long() {
    let options = Options { log_bytes_max: 1, ..small() };
    let space = FlexSpace::create(device::memory(), options).expect("a device");
    for _ in 0..100 {
        space.append(b"!").expect("room");
        space.sync().expect("a device");
    }
    let count = space.stats().checkpoints;
    // A log begins with a kilobyte, and a sync adds half of one.
    assert!((5..=17).contains(&count), "{count} checkpoints");
}

#[test]
fn a_log_that_another_one_made_short_is_left_alone() {
    let device = FaultDevice::new(device::memory());
    let options = Options { log_bytes_max: 4096, ..small() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    space.append(&[1; 40_000]).expect("room");
    space.sync().expect("a device");
    until_the_log_is_full(&space);
    space.collapse(0, 39_000).expect("a range");
    // The log becomes longer than its bound; while room of segments is released, another thread
    // checks first.
    device.interpose(OperationKind::Resize, || {});
    let other = space.clone();
    device.interpose(OperationKind::Resize, move || other.checkpoint().expect("a device"));
    space.sync().expect("a device");
    assert_eq!(space.stats().checkpoints, 1);
}

/// An append of one byte before each of the next syncs of the device.
fn append_before_syncs(device: &FaultDevice, space: &FlexSpace, count: u8) {
    for byte in 0..count {
        let other = space.clone();
        device.interpose(OperationKind::Sync, move || other.append(&[byte]).expect("room"));
    }
}

#[test]
fn writers_go_on_at_every_sync_of_a_checkpoint() {
    let inner = device::memory();
    let device = FaultDevice::new(inner.clone());
    let space = create(device.clone());
    space.append(b"first").expect("room");
    // The syncs of the data and the log, of both once more for the bytes appended before the first
    // ones; of the new log, nodes, superblock.
    append_before_syncs(&device, &space, 7);
    space.checkpoint().expect("a device");
    assert_eq!(space.read(0, space.len()), Ok(b"first\0\x01\x02\x03\x04\x05\x06".to_vec()));
    space.sync().expect("a device");
    drop(space);
    let space = open(inner);
    assert_eq!(space.read(0, space.len()), Ok(b"first\0\x01\x02\x03\x04\x05\x06".to_vec()));
    space.check().expect("sound");
}

#[test]
fn room_is_given_back_in_parts_and_beside_writers() {
    let device = FaultDevice::new(device::memory());
    let options = Options { capacity_bytes: 2_000 * (16 << 10), ..small() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    let bytes = 1_000 * 4 * 4092;
    for _ in 0..1_000 {
        space.append(&[1; 4 * 4092]).expect("room");
    }
    space.sync().expect("a device");
    // The log gets room for the next frame, so the next resized file is a segment.
    while !(1..3_000).contains(&(space.stats().log_bytes % 4096)) {
        space.set_tag(0, 1).expect("an offset");
        space.sync().expect("a device");
    }
    space.collapse(0, bytes).expect("a range");
    let other = space.clone();
    device.interpose(OperationKind::Resize, move || other.append(b"beside").expect("room"));
    let mut free = 0;
    for round in 0..5 {
        space.sync().expect("a device");
        let stats = space.stats();
        let more = stats.free_segments - free;
        assert!(more <= 256 && (more > 200 || round > 2), "{more} more, then {stats:?}");
        free = stats.free_segments;
    }
    let stats = space.stats();
    assert_eq!((stats.held_segments, stats.used_segments), (0, 1), "{stats:?}");
    assert_eq!(space.read(0, 6), Ok(b"beside".to_vec()));
    space.check().expect("sound");
}

#[test]
fn what_waits_for_its_room_to_be_given_back_is_used_by_who_wants_it() {
    let space = create(device::memory());
    let large = vec![7; 70 * 4 * 4092];
    space.append(&large).expect("room");
    let snapshot = space.snapshot().expect("open");
    space.collapse(0, space.len()).expect("a range");
    space.sync().expect("a device");
    assert!(space.stats().held_segments > 60);
    // 136 may be used: the snapshot's segments and the same number again are too many.
    assert_eq!(space.append(&large), Err(Error::Uncollected));
    drop(snapshot);
    space.append(&large).expect("nothing has to be collected");
    assert_eq!(space.read(0, space.len()), Ok(large));
    space.check().expect("sound");
}

#[test]
fn much_that_goes_at_once_is_counted_and_gone() {
    let space = create(device::memory());
    for number in 0..6_000_u64 {
        space.insert(number * 7919 % (number + 1) * 20, &[number as u8; 20]).expect("room");
    }
    let whole = space.read(0, 120_000).expect("whole");
    let snapshot = space.snapshot().expect("open");
    assert!(snapshot.extents(0..120_000).count() > 5_000);
    space.checkpoint().expect("a device");
    space.splice(1_000, 118_000, b"instead", 0).expect("a range");
    let expected = [&whole[..1_000], b"instead", &whole[119_000..]].concat();
    assert_eq!(space.read(0, space.len()), Ok(expected));
    assert_eq!(snapshot.read(0, 120_000), Ok(whole));
    assert_eq!(space.stats().live_bytes, 2_007);
    space.check().expect("sound");
    space.close().expect("a device");
}

#[test]
fn a_segment_that_a_collection_filled_in_vain_is_free_with_the_next_sync() {
    let inner = device::memory();
    let device = FaultDevice::new(inner);
    let space = create(device.clone());
    // Three segments and a begun one, of which a quarter lives: one has room for it.
    for number in 0..28 {
        space.append(&[number; 2_000]).expect("room");
        space.collapse(space.len() - 1_500, 1_500).expect("a range");
    }
    space.sync().expect("a device");
    let other = space.clone();
    device.interpose(OperationKind::Write, move || {
        other.collapse(0, other.len()).expect("a range");
        other.sync().expect("a device");
    });
    let done = space.collect().expect("a device");
    assert!(done.remapped == 0 && done.moved_bytes > 10_000, "{done:?}");
    let stats = space.stats();
    assert_eq!((stats.used_segments, stats.held_segments), (1, 0), "one is being filled");
}

#[test]
fn a_reader_of_a_closed_space_is_told_so_and_not_of_damage() {
    let device = FaultDevice::new(device::memory());
    let space = create(device.clone());
    let large = vec![1; 6 * 4 * 4092];
    space.append(&large).expect("room");
    space.sync().expect("a device");
    let snapshot = space.snapshot().expect("open");
    let next = device.clone();
    device.interpose(OperationKind::Read, move || {
        space.close().expect("a device");
        let space = open(next);
        space.collapse(0, space.len()).expect("a range");
        space.sync().expect("a device");
        // The segments that only the old snapshot knows are filled again.
        space.append(&vec![2; 6 * 4 * 4092]).expect("room");
        space.close().expect("a device");
    });
    assert_eq!(snapshot.read(0, snapshot.len()), Err(Error::Closed));
}

#[test]
fn a_space_that_is_open_is_not_checked_offline() {
    let device = device::memory();
    let space = create(device.clone());
    let refused = check_offline(&*device);
    assert!(matches!(refused, Err(Error::Device(device::Error::Locked { .. }))), "{refused:?}");
    space.close().expect("a device");
    assert_eq!(check_offline(&*device), Ok(0));
}

#[test]
fn more_segments_than_a_generation_can_tell_end_the_life() {
    let generation = crate::space::write::generation;
    assert_eq!(generation(3, 7), Ok(3 << 32 | 7));
    assert_eq!(generation(3, u64::from(u32::MAX)), Ok(3 << 32 | 0xffff_ffff));
    assert!(matches!(generation(3, 1 << 32), Err(Error::Options(_))));
}

/// The states of a run, and which of them were synced after how many operations of the disk.
#[derive(Default)]
struct Course {
    states: Vec<Vec<u8>>,
    synced: Vec<(u64, usize)>,
}

/// A space on a disk that records, and the changes made to it.
#[derive(Clone)]
struct Run {
    disk: Arc<SimulatedDisk>,
    space: FlexSpace,
    course: Arc<Mutex<Course>>,
}

impl Run {
    fn write(&self, offset: u64, byte: u8, count: usize) {
        self.space.pwrite(offset, &vec![byte; count]).expect("room");
        let bytes = self.space.read(0, self.space.len()).expect("whole");
        self.course.lock().states.push(bytes);
    }

    fn sync(&self) {
        let index = self.course.lock().states.len() - 1;
        self.space.sync().expect("an honest disk");
        self.course.lock().synced.push((self.disk.operations(), index));
    }
}

/// A checkpoint, during which others sync before its nodes are durable, and before its superblock
/// is.
fn checkpoint_beside_syncs(device: &Arc<FaultDevice>, run: &Run, round: u8) {
    // The data's sync and the log's, the new log's; then the nodes' and the superblock's.
    for _ in 0..3 {
        device.interpose(OperationKind::Sync, || {});
    }
    let (other, again) = (run.clone(), device.clone());
    device.interpose(OperationKind::Sync, move || {
        for step in 0..3 {
            other.write(0, 100 + 10 * round + step, 30_000);
            other.sync();
        }
        again.interpose(OperationKind::Sync, move || {
            other.write(50, 200 + round, 1_000);
            other.sync();
        });
    });
    run.space.checkpoint().expect("an honest disk");
}

/// Syncs that go to the log of a checkpoint that is under way, and segments freed by them that are
/// filled again before the superblock names that log.
#[test]
fn commits_beside_a_checkpoint_survive_a_crash_at_any_operation() {
    let mut crashes = 0;
    for seed in 0..6 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let device = FaultDevice::new(disk.clone());
        let space = FlexSpace::create(device.clone(), small()).expect("an honest disk");
        let run = Run { disk: disk.clone(), space, course: Arc::default() };
        run.write(0, 1, 60_000);
        run.sync();
        for round in 0..3 {
            run.write(0, 10 + round, 20_000);
            checkpoint_beside_syncs(&device, &run, round);
            run.write(70, 20 + round, 100);
            run.sync();
        }
        let Run { space, course, .. } = run;
        drop(space);
        let course = course.lock();
        assert_eq!(course.synced.len(), 1 + 3 * 5, "the syncs were beside the checkpoints");
        let history = disk.history();
        let mut replay = history.replay();
        for operation in course.synced[0].0..=history.last_operation() {
            replay.advance_to(operation);
            let synced = course.synced.iter().rfind(|(at, _)| *at <= operation);
            let (_, synced) = synced.expect("the first");
            let fail = |what: Error| -> ! { panic!("seed {seed}, operation {operation}: {what}") };
            let space = FlexSpace::open(replay.crash(seed ^ operation), small());
            let space = space.unwrap_or_else(|error| fail(error));
            let found = space.read(0, space.len()).unwrap_or_else(|error| fail(error));
            let is_allowed = course.states[*synced..].contains(&found);
            assert!(is_allowed, "seed {seed}, operation {operation}: state {synced} is lost");
            space.check().unwrap_or_else(|error| fail(error));
            crashes += 1;
        }
    }
    assert!(crashes > 300, "{crashes} crashes");
}
