//! The room that a database holds on a full device: which calls spend it, and which free it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use device::{Device, Faults, Mode, RoomDevice, SimulatedDisk};
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Options,
};

/// Bytes of the value of a key.
const VALUE_BYTES: usize = 1000;
/// Bytes that the next opening needs: for the journal, and for one keyspace.
const OPENING_BYTES: u64 = (1 << 20) + (32 << 10);

fn options() -> Options {
    Options { memory_bytes: 256 << 20, ..Options::default() }
}

fn open(device: &Arc<RoomDevice>) -> Result<Db, Error> {
    Db::open_on(Arc::clone(device) as Arc<dyn Device>, "full", options())
}

/// A database with a few pairs on a device without a free byte.
fn full(engine: EngineKind) -> (Arc<RoomDevice>, Db, Keyspace) {
    let device = RoomDevice::new(device::memory(), 1 << 30).unwrap();
    let db = open(&device).unwrap();
    let space = db.keyspace("space", KeyspaceOptions { engine, ..Default::default() }).unwrap();
    for key in 0..4000_u32 {
        space.put(&key.to_be_bytes(), &[key as u8; VALUE_BYTES]).unwrap();
    }
    db.sync().unwrap();
    device.fill();
    let space = space.durability(Durability::Flushed);
    (device, db, space)
}

fn ballast_bytes(device: &Arc<RoomDevice>) -> u64 {
    device.open("ballast", Mode::Read).unwrap().len().unwrap()
}

fn holds_all(db: &Db, engine: EngineKind) {
    let space = db.existing_keyspace("space").unwrap();
    for key in (0..4000_u32).step_by(97) {
        let found = space.get(&key.to_be_bytes()).unwrap();
        assert_eq!(found, Some(vec![key as u8; VALUE_BYTES]), "{engine} {key}");
    }
}

/// The journal has no room for a long record, and the held room is less than the record. Neither
/// flushes nor the close spend the part for the next opening on it.
#[test]
fn a_record_that_never_fits_leaves_the_room_for_the_next_opening() {
    for &engine in EngineKind::ALL {
        let (device, db, space) = full(engine);
        let mut batch = Batch::new();
        for key in 0..12_u32 {
            batch.put(&space, &key.to_be_bytes(), &vec![key as u8; 1 << 20]);
        }
        let refused = db.durability(Durability::Flushed).write(&batch).unwrap_err();
        assert!(refused.is_no_space(), "{engine}: {refused}");
        for _ in 0..3 {
            let flushed = space.flush();
            assert!(flushed.is_ok() || flushed.as_ref().is_err_and(Error::is_no_space), "{engine}");
        }
        let closed = db.close();
        assert!(closed.is_ok() || closed.as_ref().is_err_and(Error::is_no_space), "{engine}");
        assert!(ballast_bytes(&device) >= OPENING_BYTES, "{engine}");
        // A flush in the background may have spent the other part, and the newest segment may be
        // longer than the first.
        let opened = match open(&device) {
            Err(Error::NoRoomToOpen { needed_bytes, .. }) => {
                device.grow(needed_bytes);
                open(&device)
            }
            opened => opened,
        };
        opened.unwrap_or_else(|error| panic!("{engine}: {error}"));
    }
}

/// The held room is enough for a record of more than half of it.
#[test]
fn a_long_record_is_written_by_a_close() {
    for &engine in EngineKind::ALL {
        let (_device, db, space) = full(engine);
        let mut batch = Batch::new();
        for key in 0..7_u32 {
            batch.put(&space, &key.to_be_bytes(), &vec![9; 512 << 10]);
        }
        let refused = db.durability(Durability::Flushed).write(&batch).unwrap_err();
        assert!(refused.is_no_space(), "{engine}: {refused}");
        db.close().unwrap_or_else(|error| panic!("{engine}: {error}"));
    }
}

/// A group of records of which the journal has no room for a part takes the room that is held for
/// it, and no more. (A flush in the background may spend more meanwhile, so it is tried a few
/// times.)
#[test]
fn a_close_holds_again_what_it_has_not_used() {
    for &engine in EngineKind::ALL {
        let spent: Vec<u64> = (0..10).map(|_| spent_by_a_close(engine)).collect();
        assert!(spent.iter().any(|spent| *spent < 128 << 10), "{engine}: {spent:?}");
    }
}

/// Bytes that the room is short by after a close that had to write a few records on a full device.
fn spent_by_a_close(engine: EngineKind) -> u64 {
    let (device, db, space) = full(engine);
    let before = ballast_bytes(&device);
    let refused = (0..100).any(|key: u32| space.put(&key.to_be_bytes(), &[1; 9000]).is_err());
    assert!(refused, "{engine}: the device is full");
    let closed = db.close();
    assert!(closed.is_ok() || closed.as_ref().is_err_and(Error::is_no_space), "{engine}");
    before.saturating_sub(ballast_bytes(&device))
}

/// A journal that is much shorter than a segment gives its room back, too, once it has lacked room.
/// (`f2` holds the room for its own flush; the others need room on the device for it.)
#[test]
fn a_short_journal_is_trimmed_on_a_full_device() {
    let (device, db, space) = full(EngineKind::F2);
    space.flush().unwrap();
    device.fill();
    let put = |key: u32| space.put(&key.to_be_bytes(), &[key as u8; VALUE_BYTES]);
    let clock = Environment::real();
    for round in 0..40 {
        let refused = (0..40_000).map(|key| key % 100).find(|key| put(*key).is_err());
        let refused = refused.expect("the device is full");
        let deadline = clock.now() + Duration::from_secs(20);
        while space.flush().is_err() || put(refused).is_err() {
            assert_eq!(db.failure(), None);
            assert!(clock.now() < deadline, "it does not go on after round {round}");
            clock.sleep(Duration::from_millis(20));
        }
    }
    holds_all(&db, EngineKind::F2);
}

/// After a kill the journal has much more than the files have room for. A flush without room for
/// all flushes a part. So the journal frees the segments of that part, and they are the room for
/// the rest.
#[test]
fn a_flush_without_room_for_all_flushes_a_part() {
    const KEYS: u32 = 24_000;
    let options = || Options { memory_bytes: 64 << 20, journal_bytes: 32 << 20, ..options() };
    let disk = SimulatedDisk::new(3, Faults::none());
    let device = Arc::clone(&disk) as Arc<dyn Device>;
    let db = Db::open_on(device, "full", options()).unwrap();
    let f2 = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    let space = db.keyspace("space", f2).unwrap();
    for key in 0..KEYS {
        space.put(&key.to_be_bytes(), &[key as u8; VALUE_BYTES]).unwrap();
    }
    db.sync().unwrap();
    for room_bytes in [6 << 20, 12 << 20] {
        let device = RoomDevice::new(disk.crash(room_bytes), 0).unwrap();
        device.fill();
        device.grow(room_bytes);
        let db = Db::open_on(device.clone(), "full", options()).unwrap();
        let space = db.existing_keyspace("space").unwrap();
        let clock = Environment::real();
        let deadline = clock.now() + Duration::from_secs(60);
        while let Err(error) = space.put(b"more", &[1; VALUE_BYTES]) {
            assert_eq!(db.failure(), None);
            assert!(clock.now() < deadline, "{room_bytes}: {error}, {:?}", db.stats().journal);
            clock.sleep(Duration::from_millis(20));
        }
        for key in (0..KEYS).step_by(97) {
            let found = space.get(&key.to_be_bytes()).unwrap();
            assert_eq!(found, Some(vec![key as u8; VALUE_BYTES]), "{room_bytes} {key}");
        }
        let _may_have_no_room: Result<(), Error> = db.close();
    }
}

/// A client of a full database makes room by clearing a keyspace. (A new keyspace of `flexdb` takes
/// more than the database holds.)
#[test]
fn a_keyspace_is_cleared_on_a_full_device() {
    for engine in [EngineKind::Memory, EngineKind::F2, EngineKind::Lsm] {
        let (device, db, space) = full(engine);
        let refused = (0..100).any(|key: u32| space.put(&key.to_be_bytes(), &[1; 9000]).is_err());
        assert!(refused, "{engine}: the device is full");
        let before = device.used_bytes();
        space.clear().unwrap_or_else(|error| panic!("{engine}: {error}"));
        assert!(device.used_bytes() < before, "{engine}");
        for key in 0..100_u32 {
            space
                .put(&key.to_be_bytes(), &[2; 9000])
                .unwrap_or_else(|error| panic!("{engine}: {error}"));
        }
        db.close().unwrap();
    }
}
