//! Files against a vector of bytes.

use flexspace::space::{Error as SpaceError, FlexSpace, Options};
use rand::RngExt;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::file::{Sought, SpaceFile};
use crate::refusal::Refusal;
use crate::shift::Shift;

fn small(capacity_segments: u64) -> SpaceFile {
    let options = Options {
        segment_bytes: 16 << 10,
        capacity_bytes: capacity_segments * (16 << 10),
        ..Options::default()
    };
    SpaceFile::new(FlexSpace::create(device::memory(), options).expect("a device"))
}

fn all(file: &SpaceFile) -> Vec<u8> {
    file.read(0, u64::MAX).expect("whole")
}

/// Writes to a vector as to a file.
fn write(model: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    model.resize(model.len().max(offset + data.len()), 0);
    model[offset..offset + data.len()].copy_from_slice(data);
}

/// A reader that runs while bytes are written behind the end sees them in their place or not at
/// all.
#[test]
fn bytes_behind_the_end_are_never_seen_before_their_offset() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let (file, has_ended) = (small(4096), AtomicBool::new(false));
    const OFFSET: u64 = 1 << 20;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !has_ended.load(Relaxed) {
                    let found = file.read(0, 8).expect("whole");
                    assert!(found.iter().all(|byte| *byte == 0), "{found:?} at the beginning");
                }
            });
        }
        for _ in 0..20_000 {
            file.write(Some(OFFSET), &[1; 8]).expect("room");
            assert_eq!(file.read(OFFSET, 9).expect("whole"), [1; 8]);
            file.set_len(0).expect("a range");
        }
        has_ended.store(true, Relaxed);
    });
}

#[test]
fn what_is_written_behind_the_end_and_refused_leaves_no_hole() {
    let file = small(128);
    let before = loop {
        let len = file.len();
        match file.write(Some(len + 1000), &[1; 100_000]) {
            Ok(()) => {}
            Err(Refusal::Space(SpaceError::NoSpace { .. })) => break len,
            Err(refusal) => panic!("{refusal}"),
        }
    };
    assert_eq!(file.len(), before);
}

#[test]
fn what_is_appended_while_a_file_is_made_longer_is_kept() {
    const APPENDS: usize = 50_000;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let (file, has_ended) = (small(4096), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Relaxed) {
                file.allocate(0, file.len() + 1, FallocateFlags::empty()).expect("room");
            }
        });
        (0..APPENDS).for_each(|_| file.write(None, &[1; 64]).expect("room"));
        has_ended.store(true, Relaxed);
    });
    let found = file.read(0, u64::MAX).expect("whole");
    assert_eq!(found.iter().filter(|byte| **byte == 1).count(), 64 * APPENDS);
}

#[test]
fn any_calls_give_the_bytes_of_a_vector() {
    let seed = environment::Seed::from_entropy();
    println!("seed {}", seed.get());
    let mut random = seed.stream("calls");
    let (file, mut model) = (small(4096), Vec::new());
    for step in 0..3000_u32 {
        let len = model.len();
        let offset = random.random_range(0..=len);
        let behind = random.random_range(0..=len + 300);
        let length = random.random_range(1..400_usize);
        let inside = length.min(len - offset);
        let data = vec![step as u8 | 1; length];
        match random.random_range(0..9) {
            0 => {
                file.write(None, &data).expect("room");
                model.extend_from_slice(&data);
            }
            1 => {
                file.write(Some(behind as u64), &data).expect("room");
                write(&mut model, behind, &data);
            }
            2 => {
                file.set_len(behind as u64).expect("room");
                model.resize(behind, 0);
            }
            3 => {
                file.shift(Shift::Insert { offset: offset as u64, bytes: &data }).expect("room");
                model.splice(offset..offset, data);
            }
            4 => {
                let (at, zeros) = (offset as u64, length as u64);
                file.shift(Shift::InsertZeros { offset: at, length: zeros }).expect("room");
                model.splice(offset..offset, vec![0; length]);
            }
            5 | 6 if inside > 0 => {
                let (offset, length) = (offset as u64, inside as u64);
                file.shift(Shift::Collapse { offset, length }).expect("a range");
                model.drain(offset as usize..(offset + length) as usize);
            }
            7 => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                file.allocate(behind as u64, length as u64, mode).expect("a range");
                let end = (behind + length).min(len);
                model[behind.min(len)..end].fill(0);
            }
            8 => {
                file.allocate(behind as u64, length as u64, FallocateFlags::ZERO_RANGE)
                    .expect("room");
                write(&mut model, behind, &vec![0; length]);
            }
            _ => {}
        }
        assert_eq!(file.len(), model.len() as u64, "step {step}");
        if step % 10 == 0 {
            assert!(all(&file) == model, "step {step}: other bytes");
        }
    }
    // So it is long enough, however it has ended.
    file.write(None, &[5; 150]).expect("room");
    model.extend([5; 150]);
    let part = file.read(100, 50).expect("whole");
    assert_eq!(part, model[100..150]);
    assert_eq!(file.read(model.len() as u64 + 5, 50), Ok(Vec::new()));
}

#[test]
fn holes_take_no_room_and_are_found() {
    let file = small(4096);
    file.write(Some(1 << 40), b"end").expect("room");
    assert_eq!((file.len(), file.stored_bytes()), ((1 << 40) + 3, 3));
    assert_eq!(file.seek(5, Sought::Data), Ok(1 << 40));
    assert_eq!(file.seek(5, Sought::Hole), Ok(5));
    file.write(Some(0), &[1; 1000]).expect("room");
    assert_eq!((file.seek(5, Sought::Data), file.seek(5, Sought::Hole)), (Ok(5), Ok(1000)));
    assert_eq!(file.seek((1 << 40) + 1, Sought::Hole), Ok((1 << 40) + 3));
    assert_eq!(file.seek((1 << 40) + 3, Sought::Data), Err(Errno::NXIO.into()));
    file.set_len(1 << 30).expect("a length");
    assert_eq!(file.seek(2000, Sought::Data), Err(Errno::NXIO.into()));
    // Room is not reserved, so asking for it only makes the file longer.
    file.allocate(0, 2 << 30, FallocateFlags::empty()).expect("a length");
    file.allocate(0, 3 << 30, FallocateFlags::KEEP_SIZE).expect("a length");
    assert_eq!((file.len(), file.stored_bytes()), (2 << 30, 1000));
}

#[test]
fn what_is_refused_has_the_number_that_says_so() {
    let file = small(128);
    file.write(Some(0), b"0123456789").expect("room");
    let errno = |answer: Result<(), Refusal>| answer.expect_err("it is refused").errno();
    assert_eq!(errno(file.write(Some(i64::MAX as u64), b"xx")), Errno::FBIG);
    assert_eq!(errno(file.set_len(u64::MAX)), Errno::FBIG);
    assert_eq!(errno(file.set_len(1 << 60)), Errno::FBIG, "more than a space takes at once");
    // As if nothing had been written.
    assert_eq!(errno(file.write(Some(1 << 60), b"xx")), Errno::FBIG);
    assert_eq!(errno(file.allocate(5, 1 << 60, FallocateFlags::ZERO_RANGE)), Errno::FBIG);
    assert_eq!(all(&file), b"0123456789");
    let shift = Shift::Collapse { offset: 5, length: 6 };
    assert_eq!(errno(file.shift(shift)), Errno::INVAL);
    assert_eq!(errno(file.shift(Shift::Insert { offset: 11, bytes: b"x" })), Errno::INVAL);
    let insert = FallocateFlags::INSERT_RANGE;
    assert_eq!(errno(file.allocate(0, 5, insert)), Errno::OPNOTSUPP);
    let mut written = Ok(());
    while written.is_ok() {
        written = file.write(None, &[7; 30_000]);
    }
    assert_eq!(errno(written), Errno::NOSPC);
    let full = file.len();
    assert_eq!(errno(file.write(Some(full + 5), &[7; 30_000])), Errno::NOSPC);
    assert_eq!(file.len(), full);
    // Overwriting takes no more room; cutting off releases room.
    for _ in 0..50 {
        file.write(Some(0), &[8; 30_000]).expect("no more than there was");
    }
    file.set_len(full / 2).expect("a length");
    file.write(None, &[9; 30_000]).expect("there is room again");
    file.close().expect("a device");
    let closed = Refusal::Space(SpaceError::Closed);
    assert_eq!(file.read(0, 1), Err(closed));
}
