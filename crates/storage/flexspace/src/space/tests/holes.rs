//! Holes: zeros without an address.

use super::{create, open, small};
use crate::space::{Error, FlexSpace, Options, Snapshot, verify_offline};

/// Returns how many extents of a space are holes, and how many bytes they have.
fn holes(snapshot: &Snapshot) -> (usize, u64) {
    let extents = snapshot.extents(0..snapshot.len());
    let lengths: Vec<u64> =
        extents.filter(|piece| piece.extent.is_hole()).map(|p| u64::from(p.length)).collect();
    (lengths.len(), lengths.iter().sum())
}

#[test]
fn zeros_come_between_bytes_and_in_their_place() {
    let device = device::memory();
    let space = create(device.clone());
    space.append(b"0123456789").expect("room");
    space.splice_hole(3, 0, 4).expect("a range");
    space.splice_hole(9, 2, 2).expect("a range");
    space.splice_hole(0, 1, 0).expect("nothing but bytes out");
    let expected = b"12____34__789".map(|byte| if byte == b'_' { 0 } else { byte }).to_vec();
    assert_eq!(space.read(0, space.len()), Ok(expected.clone()));
    assert_eq!(space.stats().live_bytes, 7, "zeros live nowhere");
    space.pwrite(3, b"ab").expect("room");
    let mut expected = expected;
    expected[3..5].copy_from_slice(b"ab");
    space.sync().expect("a device");
    drop(space);
    let space = open(device.clone());
    assert!(space.stats().replayed_records > 4, "the log was replayed");
    assert_eq!(space.read(0, space.len()), Ok(expected.clone()));
    space.close().expect("a device");
    let space = open(device);
    assert_eq!(space.read(0, space.len()), Ok(expected));
    assert_eq!(holes(&space.snapshot().expect("open")), (3, 4));
    space.check().expect("sound");
}

#[test]
fn a_hole_of_terabytes_takes_no_room_and_no_time() {
    const LONG: u64 = 1 << 42;
    let device = device::memory();
    let space = create(device.clone());
    space.append(b"ab").expect("room");
    space.splice_hole(1, 0, LONG).expect("no room is wanted");
    assert_eq!(space.len(), LONG + 2);
    assert_eq!(space.read(LONG - 3, 5), Ok(b"\0\0\0\0b".to_vec()));
    space.defrag(0, space.len()).expect("room");
    space.check().expect("sound");
    let stats = space.stats();
    assert_eq!((stats.live_bytes, stats.used_segments), (2, 1));
    space.close().expect("a device");
    let verified = verify_offline(&*device, &mut |_| {}).expect("whole");
    assert_eq!((verified.len, verified.damage_count), (LONG + 2, 0));
    let space = open(device);
    space.collapse(1, LONG).expect("a range");
    assert_eq!(space.read(0, 2), Ok(b"ab".to_vec()));
}

#[test]
fn what_would_be_too_long_is_refused() {
    let space = create(device::memory());
    space.append(b"a").expect("room");
    for length in [(1 << 48) + 1, u64::MAX] {
        let refused = space.splice_hole(0, 0, length);
        assert_eq!(refused, Err(Error::TooLong { len: 1, more_bytes: length }));
    }
    let refused = space.splice_hole(1, 1, 9);
    assert_eq!(refused, Err(Error::BehindTheEnd { end: 2, len: 1 }));
    assert_eq!(space.read(0, space.len()), Ok(b"a".to_vec()));
}

#[test]
fn a_hole_that_is_written_over_counts_at_the_limit() {
    let space = create(device::memory());
    let limit = space.stats().limit_bytes;
    space.splice_hole(0, 0, 4000).expect("a range");
    space.append(&vec![1; limit as usize - 1000]).expect("room for just that");
    let refused = space.pwrite(0, &[2; 2000]);
    assert!(matches!(refused, Err(Error::NoSpace { more_bytes: 2000, .. })), "{refused:?}");
    // Half of the overwritten bytes are a hole.
    space.pwrite(3000, &[2; 2000]).expect("a thousand bytes of room");
    assert_eq!(space.stats().live_bytes, limit);
    assert!(matches!(space.pwrite(2999, &[2; 2]), Err(Error::NoSpace { more_bytes: 1, .. })));
    space.splice_hole(3000, 2000, 2000).expect("a hole takes nothing");
    assert_eq!(space.stats().live_bytes, limit - 2000);
    space.check().expect("sound");
}

#[test]
fn the_collector_gets_on_beside_a_hole_that_is_longer_than_one_change_makes() {
    let space = create(device::memory());
    let data: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    space.append(&data).expect("room");
    for (offset, length) in [(100_000, 1 << 48), (200_000, 1 << 32)] {
        space.splice_hole(offset, 0, length).expect("a range");
    }
    for at in (0..100_000).step_by(1000) {
        space.splice_hole(at, 900, 900).expect("a range");
    }
    space.sync().expect("a device");
    let done = space.collect().expect("a device");
    assert!(done.segments > 3, "{done:?}");
    assert_eq!(space.read(900, 100), Ok(data[900..1000].to_vec()));
    let behind = 100_000 + (1 << 48) + (1 << 32);
    assert_eq!(space.read(behind, 100_000), Ok(data[100_000..].to_vec()));
    space.check().expect("sound");
}

#[test]
fn the_collector_and_defrag_leave_holes_alone() {
    let options = Options { segment_bytes: 16 << 10, ..small() };
    let space = FlexSpace::create(device::memory(), options).expect("a device");
    let data: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    space.append(&data).expect("room");
    let mut expected = data;
    for at in (0..150_000).step_by(1000) {
        space.splice_hole(at as u64, 900, 900).expect("a range");
        expected[at..at + 900].fill(0);
    }
    let before = holes(&space.snapshot().expect("open"));
    assert_eq!(before, (150, 135_000));
    space.sync().expect("a device");
    let done = space.collect().expect("a device");
    assert!(done.segments > 3, "{done:?}");
    space.defrag(0, space.len()).expect("room");
    let snapshot = space.snapshot().expect("open");
    assert_eq!(holes(&snapshot), before);
    assert!(snapshot.read(0, snapshot.len()) == Ok(expected), "other bytes");
    space.check().expect("sound");
}
