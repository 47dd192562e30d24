//! Effects and refusals of each call.

use std::io::{Read, Seek, SeekFrom, Write};

use device::{FaultDevice, Mode, OperationKind, SyncKind};

use super::{content, create, open, small};
use crate::space::{Error, FlexSpace, Options, check_offline};

#[test]
fn bytes_come_go_and_are_found_again() {
    let device = device::memory();
    let space = create(device.clone());
    space.append(b"0123456789").expect("room");
    space.insert(5, b"abc").expect("room");
    space.collapse(0, 2).expect("a range");
    space.pwrite(9, b"XYZ").expect("room");
    space.splice(0, 1, b"--", 7).expect("room");
    let expected = b"--34abc567XYZ".to_vec();
    assert_eq!(space.read(0, space.len()), Ok(expected.clone()));
    space.sync().expect("a device");
    drop(space);

    let space = open(device.clone());
    assert_eq!(space.read(0, space.len()), Ok(expected));
    assert!(space.stats().replayed_records > 0, "the log was replayed");
    let first = space.read_extent(1, 100).expect("an extent");
    assert_eq!((first.offset, first.length, first.tag, &*first.bytes), (0, 2, 7, &b"--"[..]));
    let model = content(&space).expect("whole");
    assert_eq!(model.bytes[0], (b'-', 7));
    space.close().expect("a device");
    assert_eq!(check_offline(&*device), Ok(13));
    assert_eq!(space.append(b"x"), Err(Error::Closed));
    assert_eq!(space.read(0, 1), Err(Error::Closed));
    assert_eq!(open(device).stats().replayed_records, 1, "one segment's generation");
}

#[test]
fn a_write_of_several_segments_is_cut_into_extents() {
    let space = create(device::memory());
    let data: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
    space.append(&data).expect("room");
    space.insert(50_000, &data).expect("room");
    let mut expected = data.clone();
    expected.splice(50_000..50_000, data);
    assert_eq!(space.read(0, 200_000), Ok(expected.clone()));
    let mut part = vec![0; 777];
    space.pread(49_800, &mut part).expect("a range");
    assert_eq!(part, expected[49_800..50_577]);
    let snapshot = space.snapshot().expect("open");
    let max = space.stats().extent_bytes_max;
    assert!(snapshot.extents(0..200_000).all(|piece| piece.length <= max));
    space.check().expect("sound");
}

#[test]
fn an_extent_begins_where_a_write_began() {
    let space = create(device::memory());
    for number in 0..500_u64 {
        let offset = (number * 7919) % (space.len() / 100 + 1) * 100;
        space.splice(offset, 0, &[number as u8; 100], 1).expect("room");
    }
    let snapshot = space.snapshot().expect("open");
    for offset in (0..snapshot.len()).step_by(37) {
        let found = snapshot.read_extent(offset, 4).expect("an extent");
        assert_eq!((found.offset, found.length, found.tag), (offset / 100 * 100, 100, 1));
    }
}

#[test]
fn ranges_behind_the_end_are_refused_and_nothing_is_changed() {
    let space = create(device::memory());
    space.append(b"abc").expect("room");
    let behind = |end| Err(Error::BehindTheEnd { end, len: 3 });
    assert_eq!(space.insert(4, b"x"), behind(4));
    assert_eq!(space.pwrite(4, b"x"), behind(4));
    assert_eq!(space.collapse(2, 2), behind(4));
    assert_eq!(space.set_tag(3, 1), behind(4));
    assert_eq!(space.defrag(0, 4), behind(4));
    assert_eq!(space.read(1, 3), Err(Error::BehindTheEnd { end: 4, len: 3 }));
    assert_eq!(space.collapse(1, u64::MAX), behind(u64::MAX));
    assert_eq!(space.read(0, 3), Ok(b"abc".to_vec()));
}

#[test]
fn a_sync_writes_what_is_new() {
    let device = device::memory();
    let space = create(device.clone());
    space.append(&[1; 9000]).expect("room");
    space.sync().expect("a device");
    for _ in 0..50 {
        let before = device.accounting().counts();
        space.append(b"!").expect("room");
        space.sync().expect("a device");
        let after = device.accounting().counts();
        let written = after.write_bytes - before.write_bytes;
        // A block of data and a unit of the log; a new segment begins every fourth time.
        assert_eq!(written, 4096 + 512);
        assert_eq!(after.syncs - before.syncs, 2);
    }
    let before = device.accounting().counts();
    space.sync().expect("a device");
    assert_eq!(device.accounting().counts(), before, "nothing was done");
}

#[test]
fn a_writer_goes_on_while_a_sync_is_under_way() {
    let inner = device::memory();
    let device = FaultDevice::new(inner.clone());
    let space = FlexSpace::create(device.clone(), small()).expect("a device");
    space.append(b"first").expect("room");
    let other = space.clone();
    device.interpose(OperationKind::Sync, move || {
        other.append(b" and second").expect("room");
        assert_eq!(other.read(0, 16), Ok(b"first and second".to_vec()));
    });
    space.sync().expect("a device");
    assert!(space.stats().pending_bytes > 0, "what came meanwhile is for the next sync");
    drop(space);
    let space = open(inner.clone());
    assert_eq!(space.read(0, space.len()), Ok(b"first".to_vec()));
}

#[test]
fn what_is_written_while_a_checkpoint_begins_is_in_it_once() {
    let inner = device::memory();
    let device = FaultDevice::new(inner.clone());
    let space = FlexSpace::create(device.clone(), small()).expect("a device");
    space.append(b"first").expect("room");
    let other = space.clone();
    device.interpose(OperationKind::Sync, move || other.append(b", second").expect("room"));
    space.checkpoint().expect("a device");
    space.append(b", third").expect("room");
    space.sync().expect("a device");
    drop(space);
    let space = open(inner);
    assert_eq!(space.read(0, space.len()), Ok(b"first, second, third".to_vec()));
}

#[test]
fn a_checkpoint_writes_what_is_new_and_makes_the_log_short() {
    let device = device::memory();
    let space = create(device.clone());
    for number in 0..5000_u64 {
        space.insert(number * 31 % (space.len() + 1), &[number as u8; 9]).expect("room");
    }
    space.checkpoint().expect("a device");
    let slots = space.stats().used_slots;
    assert!(slots > 60, "{slots} slots");
    space.insert(77, b"one more").expect("room");
    space.sync().expect("a device");
    let before = device.accounting().counts();
    space.checkpoint().expect("a device");
    let written = device.accounting().counts().write_bytes - before.write_bytes;
    // A leaf, the pages of its parents, a log and a slot of the superblock.
    assert!(written <= 6 * 1024 + 4096 + 2048, "{written} bytes");
    assert_eq!(space.stats().log_bytes, 1024);
    drop(space);
    assert_eq!(open(device).len(), 45_008);
}

#[test]
fn a_long_log_is_followed_by_a_checkpoint() {
    let device = device::memory();
    let options = Options { log_bytes_max: 4096, log_buffer_bytes: 600, ..small() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    for number in 0..1000_u32 {
        space.insert(u64::from(number / 2), &number.to_le_bytes()).expect("room");
        if number % 10 == 0 {
            space.sync().expect("a device");
        }
    }
    let stats = space.stats();
    assert!(stats.checkpoints > 3 && stats.log_bytes < 4096 + 1024, "{stats:?}");
    let expected = space.read(0, 4000);
    space.sync().expect("a device");
    drop(space);
    let space = open(device.clone());
    assert_eq!(space.read(0, 4000), expected);
    let logs = device.list("").expect("a device");
    let logs = logs.iter().filter(|entry| entry.name.starts_with("log-")).count();
    assert_eq!(logs, 1, "older logs are gone");
}

#[test]
fn defragmenting_makes_neighbours_of_neighbours() {
    let space = create(device::memory());
    for number in 0..400_u64 {
        space.insert(number * 13 % (space.len() + 1), &[number as u8; 10]).expect("room");
    }
    space.set_tag(1234, 3).expect("an offset");
    let before = content(&space).expect("whole");
    let extents = |space: &FlexSpace| space.snapshot().expect("open").extents(0..4000).count();
    let fragmented = extents(&space);
    space.defrag(0, 4000).expect("room");
    assert_eq!(content(&space), Ok(before));
    let whole = extents(&space);
    assert!(fragmented > 350 && whole <= 40, "{fragmented} extents, then {whole}");
    space.check().expect("sound");
}

#[test]
fn defragmenting_cuts_no_extent() {
    let space = create(device::memory());
    // From back to front, so that none is joined to another.
    (0..200_u8).for_each(|number| space.insert(0, &[number; 100]).expect("room"));
    for (offset, length) in [(0, 20_000), (0, 20_000), (1_250, 8_030), (19_999, 1), (7, 0)] {
        space.defrag(offset, length).expect("room");
        let snapshot = space.snapshot().expect("open");
        let cut = snapshot.extents(0..20_000).find(|piece| piece.offset % 100 != 0);
        assert_eq!(cut, None, "an extent begins within a write");
    }
    space.check().expect("sound");
}

#[test]
fn a_stream_is_a_file() {
    let space = create(device::memory());
    let mut stream = space.stream();
    stream.write_all(&[7; 3000]).expect("room");
    stream.seek(SeekFrom::End(-1000)).expect("within");
    stream.write_all(&[8; 2000]).expect("room");
    assert_eq!(stream.stream_position().expect("a position"), 4000);
    stream.rewind().expect("within");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("whole");
    assert_eq!(all, [[7; 2000], [8; 2000]].concat());
    assert!(stream.seek(SeekFrom::Start(4001)).is_err(), "there are no holes");
    stream.flush().expect("a device");
    assert_eq!(space.stats().pending_bytes, 0);
}

#[test]
fn a_space_is_opened_once_and_created_once() {
    let device = device::memory();
    let missing = FlexSpace::open(device.clone(), small());
    assert!(matches!(missing, Err(Error::Device(device::Error::NotFound { .. }))));
    let space = create(device.clone());
    let second = FlexSpace::open(device.clone(), small());
    assert!(matches!(second, Err(Error::Device(device::Error::Locked { .. }))));
    drop(space);
    let again = FlexSpace::create(device.clone(), small());
    assert!(matches!(again, Err(Error::Device(device::Error::AlreadyExists { .. }))));
    for segment_bytes in [0, 1000, 8 << 10, 3 << 20] {
        let options = Options { segment_bytes, ..small() };
        let refused = FlexSpace::create(device::memory(), options);
        assert!(matches!(refused, Err(Error::Options(_))));
    }
}

#[test]
fn options_with_which_the_collector_cannot_get_on_are_refused() {
    let with = |segments: u64, reserved_segments| {
        let capacity_bytes = segments * (16 << 10);
        let options = Options { capacity_bytes, reserved_segments, ..small() };
        FlexSpace::create(device::memory(), options)
    };
    for (segments, reserved) in [(127, 64), (65, 64), (64, 64), (1, 64), (200, 63), (200, 137)] {
        let refused = with(segments, reserved);
        assert!(matches!(refused, Err(Error::Options(_))), "{segments} less {reserved}");
    }
    with(128, 64).expect("as many as it takes");
    with(200, 136).expect("as many as it takes");
}

#[test]
fn what_a_creation_left_behind_is_no_space() {
    let device = device::memory();
    for name in ["data", "tree", "log-0000000000000001"] {
        let file = device.open(name, Mode::CreateNew).expect("a device");
        file.write_at(0, &[0xa5; 9000]).expect("a device");
        file.sync(SyncKind::All).expect("a device");
    }
    let space = create(device.clone());
    space.append(b"new").expect("room");
    space.close().expect("a device");
    drop(space);
    assert_eq!(open(device).read(0, 3), Ok(b"new".to_vec()));
}

/// The place of each stored node is known: memory that callers have to count.
#[test]
fn what_is_known_of_where_nodes_lie_is_counted() {
    let space = create(device::memory());
    (0..20_000_u64).for_each(|number| space.insert(number / 2, &[number as u8]).expect("room"));
    let (before, stored) = (space.node_bytes(), space.stats().used_slots);
    space.checkpoint().expect("a device");
    let nodes = space.stats().used_slots - stored;
    assert!(nodes > 200, "a tree of {nodes} nodes");
    let grown = space.node_bytes() - before;
    assert!((40 * nodes..200 * nodes).contains(&grown), "{grown} bytes for {nodes} nodes");
}
