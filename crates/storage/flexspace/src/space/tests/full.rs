//! A device that is full before the capacity is, and stays full.
//! Changes that add are refused, nothing is lost, and all necessary work proceeds.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind, RoomDevice};

use super::{create, small, until_the_log_is_full, with_room};
use crate::space::{Error, FlexSpace, Options};

/// The room of most devices here: 200 segments.
const ROOM_BYTES: u64 = 200 * (16 << 10);

fn options() -> Options {
    Options { capacity_bytes: 1 << 40, ..small() }
}

fn on(device: &Arc<RoomDevice>) -> FlexSpace {
    FlexSpace::create(device.clone(), options()).expect("room for a space")
}

fn open(device: &Arc<RoomDevice>) -> Result<FlexSpace, Error> {
    FlexSpace::open(device.clone(), options())
}

/// A write that is repeated while the collector wins room for it.
fn with_collector(
    space: &FlexSpace,
    mut write: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        match write() {
            Err(Error::Uncollected) => {
                if space.collect()?.segments == 0 {
                    return write();
                }
            }
            done => return done,
        }
    }
}

/// Inserts pieces all over until none is taken any more.
fn fill(space: &FlexSpace, model: &mut Vec<u8>) -> Error {
    for number in 0..100_000_u64 {
        let data = [number as u8; 501];
        let offset = number * 7919 % (model.len() as u64 + 1);
        if let Err(error) = with_collector(space, || space.insert(offset, &data)) {
            return error;
        }
        model.splice(offset as usize..offset as usize, data);
    }
    panic!("the device is never full");
}

fn logs(device: &RoomDevice) -> Vec<String> {
    let names = device.list("").expect("a device").into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with("log-")).collect()
}

#[test]
fn a_full_device_refuses_what_adds_and_loses_nothing() {
    let device = with_room(ROOM_BYTES);
    let space = on(&device);
    let mut model = Vec::new();
    let refused = fill(&space, &mut model);
    assert!(matches!(refused, Error::NoSpace { .. } | Error::Uncollected), "{refused}");
    assert!(model.len() as u64 > ROOM_BYTES / 2, "{} bytes", model.len());
    // From here on only the space itself releases room.
    device.fill();
    space.sync().expect("a log has room");
    space.checkpoint().expect("a checkpoint has room");
    assert_eq!(space.read(0, space.len()).as_ref(), Ok(&model));
    space.check().expect("sound");
    space.close().expect("what was done is stored");
    drop(space);
    for _ in 0..3 {
        let space = open(&device).expect("it is opened, though the device is full");
        assert_eq!(space.read(0, space.len()).as_ref(), Ok(&model));
        let refused = space.insert(7, &[1; 1_000_000]);
        assert!(refused.as_ref().is_err_and(Error::is_refused), "{refused:?}");
        assert_eq!(space.len(), model.len() as u64);
    }
    what_is_taken_out_makes_room(&device, &mut model);
}

/// Checks that removed bytes make room for new ones.
fn what_is_taken_out_makes_room(device: &Arc<RoomDevice>, model: &mut Vec<u8>) {
    let space = open(device).expect("it is opened");
    let half = model.len() / 2;
    // Piece by piece, so that the log gets longer before any room is free.
    while model.len() > half {
        space.collapse(100, 450).expect("what takes out is taken");
        model.drain(100..550);
    }
    space.sync().expect("a log has room");
    assert_eq!(space.read(0, space.len()).as_ref(), Ok(&*model));
    let more = vec![9; 300_000];
    for chunk in more.chunks(3_000) {
        with_collector(&space, || space.append(chunk)).expect("there is room again");
    }
    model.extend(&more);
    space.sync().expect("a log has room");
    drop(space);
    let space = open(device).expect("it is opened");
    assert_eq!(space.read(0, space.len()).as_ref(), Ok(&*model));
    space.check().expect("sound");
}

#[test]
fn on_a_full_device_the_collector_wins_what_is_dead() {
    let device = with_room(ROOM_BYTES);
    let space = on(&device);
    let mut model = Vec::new();
    fill(&space, &mut model);
    device.fill();
    let (mut collected, mut refused) = (0, 0);
    // Overwritten bytes have to be won back: more than there are in all.
    for round in 0..8_000_u64 {
        let offset = round * 104_729 % (model.len() as u64 / 501) * 501;
        let data = [round as u8; 501];
        let written = loop {
            match space.pwrite(offset, &data) {
                Err(Error::Uncollected) => {}
                written => break written,
            }
            let done = space.collect().expect("it goes on without room");
            collected += done.segments;
            if done.segments == 0 {
                break Err(Error::Uncollected);
            }
        };
        match written {
            Ok(()) => {
                model[offset as usize..offset as usize + 501].copy_from_slice(&data);
            }
            // Nothing is dead that would win a segment.
            Err(error) if error.is_refused() => {
                space.collapse(0, 50 * 501).expect("what takes out is taken");
                model.drain(0..50 * 501);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(collected > 150 && refused < 15, "{collected} segments won, {refused} refusals");
    assert!(model.len() as u64 > ROOM_BYTES * 2 / 3, "{} bytes are left", model.len());
    assert_eq!(space.read(0, space.len()), Ok(model));
    space.check().expect("sound");
}

#[test]
fn an_opening_without_any_room_leaves_nothing_behind() {
    // The number of nodes is such that, with their room, no block is left for a log, or one, or
    // two.
    (0..12).for_each(|more| refuse_at_each_step(4_000 + 100 * more));
}

/// Returns a space of `pieces` pieces whose nodes no checkpoint has stored, so that the opening has
/// to, and its bytes.
fn with_unstored_nodes(pieces: usize) -> (Arc<RoomDevice>, Vec<u8>) {
    let device = with_room(ROOM_BYTES);
    let space = on(&device);
    let mut model = Vec::new();
    for number in 0..pieces {
        let offset = number * 7919 % (model.len() + 1);
        space.insert(offset as u64, &[number as u8; 9]).expect("room");
        model.splice(offset..offset, [number as u8; 9]);
    }
    space.sync().expect("a log has room");
    drop(space);
    (device, model)
}

fn refuse_at_each_step(pieces: usize) {
    let (device, model) = with_unstored_nodes(pieces);
    // Another program took the ballast's room, too.
    device.remove("ballast").expect("it is there");
    device.fill();
    let before = logs(&device);
    let mut refusals = 0;
    // It fails at each of its steps in turn.
    let space = loop {
        match open(&device) {
            Err(Error::Device(device::Error::NoSpace { .. })) => refusals += 1,
            opened => break opened.expect("there is room"),
        }
        assert_eq!(logs(&device), before, "after {refusals} refusals");
        device.grow(4096);
    };
    assert!(refusals > 10, "{refusals} refusals");
    device.grow(ROOM_BYTES);
    space.sync().expect("a device");
    space.checkpoint().expect("a device");
    assert_eq!(space.read(0, space.len()), Ok(model));
    assert!(space.stats().ballast_bytes > 0, "it is held again");
}

#[test]
fn a_life_that_cannot_begin_leaves_the_ballast_as_long_as_it_was() {
    const PAGE: u64 = 4096;
    let (device, model) = with_unstored_nodes(4_000);
    let ballast = device.open("ballast", Mode::Write).expect("it is there");
    let found = || (device.used_bytes(), ballast.len().expect("it is there"), logs(&device));
    ballast.set_len(0).expect("a device");
    device.fill();
    // It fails at each of its steps in turn, as the ballast has more and more room.
    let mut refusals = 0;
    let space = loop {
        let before = found();
        match open(&device) {
            Err(Error::Device(device::Error::NoSpace { .. })) => refusals += 1,
            opened => break opened.expect("the ballast has room"),
        }
        assert_eq!(found(), before, "after {refusals} refused openings");
        let space = FlexSpace::open_unchanged(device.clone(), options()).expect("a space");
        for _ in 0..2 {
            let refused = space.append(b"more");
            assert!(refused.as_ref().is_err_and(Error::is_refused), "{refused:?}");
            assert_eq!(found(), before, "after a refused change");
        }
        drop(space);
        device.grow(PAGE);
        ballast.allocate(before.1, PAGE).expect("there is a page");
    };
    assert!(refusals > 10, "{refusals} refusals");
    assert_eq!(space.read(0, space.len()), Ok(model));
}

#[test]
fn a_creation_without_room_is_refused() {
    let refused = FlexSpace::create(with_room(32 << 10), options());
    assert!(matches!(refused, Err(Error::Device(device::Error::NoSpace { .. }))));
}

#[test]
fn a_checkpoint_without_room_is_no_failure_and_the_next_one_stores_all() {
    let inner = device::memory();
    let device = FaultDevice::new(inner.clone());
    let space = create(device.clone());
    let mut model = Vec::new();
    let mut insert = |count: u64| {
        for number in 0..count {
            let data = [number as u8; 9];
            let offset = number * 31 % (model.len() as u64 + 1);
            space.insert(offset, &data).expect("room");
            model.splice(offset as usize..offset as usize, data);
        }
        space.sync().expect("a log has room");
        model.clone()
    };
    insert(2_000);
    let kind = Some(OperationKind::Resize);
    let mut expected = Vec::new();
    for _ in 0..2 {
        let nth = device.count(kind) + 1;
        device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
        for _ in 0..2 {
            let refused = space.checkpoint();
            assert!(refused.as_ref().is_err_and(Error::is_refused), "{refused:?}");
        }
        assert_eq!(space.stats().checkpoints, 0);
        device.heal();
        expected = insert(500);
    }
    space.checkpoint().expect("there is room again");
    let stats = space.stats();
    assert_eq!((stats.checkpoints, stats.pending_bytes), (1, 0));
    drop(space);
    let space = super::open(inner);
    let replayed = space.stats().replayed_records;
    assert!(replayed < 5, "{replayed} records are no generations of segments");
    assert_eq!(space.read(0, space.len()), Ok(expected));
    space.check().expect("sound");
}

#[test]
fn a_sync_that_is_durable_says_so_without_room_for_a_checkpoint() {
    let inner = device::memory();
    let device = FaultDevice::new(inner.clone());
    let options = Options { log_bytes_max: 4096, ..small() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    space.append(b"durable").expect("room");
    space.sync().expect("a device");
    until_the_log_is_full(&space);
    // The log gets room once more, and the next one none.
    let kind = Some(OperationKind::Resize);
    let nth = device.count(kind) + 2;
    device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
    space.collapse(0, 2).expect("what takes out is taken");
    assert_eq!(space.sync(), Ok(()), "it is durable");
    assert!(device.failed() > 0, "a checkpoint was due");
    drop(space);
    assert_eq!(super::open(inner).read(0, 5), Ok(b"rable".to_vec()));
}

#[test]
fn a_large_write_that_has_no_room_takes_none() {
    let device = with_room(ROOM_BYTES);
    let space = on(&device);
    space.append(&[1; 1_000_000]).expect("room");
    let before = space.stats();
    let taken = |bytes: u64| device.used_bytes() - bytes;
    let taken_before = taken(before.ballast_bytes);
    let refused = space.append(&vec![2; 4_000_000]);
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    let after = space.stats();
    assert_eq!((after.used_segments, after.live_bytes), (before.used_segments, 1_000_000));
    assert_eq!(taken(after.ballast_bytes), taken_before, "what it had taken was given back");
    space.append(&[3; 500_000]).expect("there is room for less");
}
