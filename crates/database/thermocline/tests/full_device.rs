//! A full device: acknowledged data can be read, and the database continues, or opens, once there
//! is room.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use device::{
    Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, RoomDevice, SimulatedDisk,
};
use thermocline::{
    Db, Durability, EngineKind, Environment, Error, ErrorKind, Keyspace, KeyspaceOptions, Options,
};

/// Memory of a store, which is less than its data in the journal.
const MEMORY_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 1000;
/// Keys that are written while there is room, and keys that are tried after that.
const KEYS: u32 = 20_000;

fn options() -> Options {
    Options { memory_bytes: MEMORY_BYTES, ..Options::default() }
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; VALUE_BYTES]
}

/// Writes until the device is full, and returns the number of acknowledged keys.
fn fill(device: &Arc<FaultDevice>, engine: EngineKind) -> u32 {
    let db = Db::open_on(Arc::clone(device) as Arc<dyn Device>, "full", options()).unwrap();
    let space = db.keyspace("space", KeyspaceOptions { engine, ..Default::default() }).unwrap();
    (0..KEYS).for_each(|key| space.put(&key.to_be_bytes(), &value(key)).map(drop).unwrap());
    for kind in [OperationKind::Write, OperationKind::Resize] {
        let failure = Failure::NoSpace;
        device.fail(Fault { kind: Some(kind), nth: 1, failure, lasting: Lasting::ForGood });
    }
    let refused = (KEYS..2 * KEYS).find(|key| space.put(&key.to_be_bytes(), &value(*key)).is_err());
    // It cannot close as it should.
    let _: Result<(), Error> = db.close();
    refused.expect("the device is full")
}

#[test]
fn a_full_device_is_read_and_opens_once_there_is_room() {
    for engine in [EngineKind::F2, EngineKind::Lsm] {
        let device = FaultDevice::new(device::memory());
        let acknowledged = fill(&device, engine);
        let holds_all = |db: &Db| {
            let space = db.existing_keyspace("space").unwrap();
            for key in (0..acknowledged).rev().step_by(97) {
                assert_eq!(space.get(&key.to_be_bytes()).unwrap(), Some(value(key)), "{engine}");
            }
        };
        let on = || Arc::clone(&device) as Arc<dyn Device>;
        let refused = Db::open_on(on(), "full", options()).unwrap_err();
        assert!(refused.is_no_space(), "{engine}: {refused}");
        let db = Db::open_read_only_on(on(), "full", options()).unwrap();
        holds_all(&db);
        db.close().unwrap();
        device.heal();
        let db = Db::open_on(on(), "full", options()).unwrap();
        holds_all(&db);
        db.close().unwrap();
    }
}

/// Keys that are written before the device is full; an engine in memory has room for them, too.
const BEFORE: u32 = 4000;

/// A database on a simulated disk, which is full for a while.
struct Full {
    disk: Arc<SimulatedDisk>,
    device: Arc<RoomDevice>,
    db: Db,
    space: Keyspace,
    engine: EngineKind,
    /// The keys that were acknowledged, in order.
    taken: Vec<u32>,
    next: u32,
}

impl Full {
    /// The background tries to flush all the while.
    fn new(engine: EngineKind, journaled: bool) -> Self {
        Self::with_journal(engine, journaled, 1 << 20)
    }

    fn with_journal(engine: EngineKind, journaled: bool, journal_bytes: u64) -> Self {
        let disk = SimulatedDisk::new(1, Faults::none());
        let device = RoomDevice::new(disk.clone(), 1 << 30).unwrap();
        let options = Options { journal_bytes, ..options() };
        let db = Db::open_on(device.clone(), "full", options).unwrap();
        let keyspace = KeyspaceOptions { engine, journaled, ..Default::default() };
        let space = db.keyspace("space", keyspace).unwrap();
        let mut full = Self { disk, device, db, space, engine, taken: Vec::new(), next: 0 };
        (0..BEFORE).for_each(|_| full.put().unwrap());
        if journaled {
            full.db.sync().unwrap();
        } else {
            full.db.flush().unwrap();
        }
        full
    }

    fn put(&mut self) -> Result<(), Error> {
        let key = self.next;
        self.next += 1;
        self.space.put(&key.to_be_bytes(), &value(key))?;
        self.taken.push(key);
        Ok(())
    }

    fn stays_writable(&self) {
        assert_eq!(self.db.failure(), None, "{}", self.engine);
    }

    fn holds(&self, db: &Db, keys: &[u32], when: &str) {
        let space = db.existing_keyspace("space").unwrap();
        for key in keys.iter().rev().step_by(7) {
            let found = space.get(&key.to_be_bytes()).unwrap();
            assert_eq!(found, Some(value(*key)), "{} {key} {when}", self.engine);
        }
    }

    /// Checks that each image of a power cut has all of these keys.
    fn a_crash_keeps(&self, keys: &[u32], when: &str) {
        for seed in 0..3 {
            let db = Db::open_on(self.disk.crash(seed), "image", options()).unwrap();
            self.holds(&db, keys, when);
        }
    }

    /// Tries until there is room for a write, and a flush.
    fn goes_on(&mut self) {
        let clock = Environment::real();
        let deadline = clock.now() + Duration::from_secs(60);
        while self.put().is_err() || self.space.flush().is_err() {
            self.stays_writable();
            assert!(clock.now() < deadline, "{} does not go on", self.engine);
            clock.sleep(Duration::from_millis(20));
        }
        (0..BEFORE).for_each(|_| self.put().unwrap());
    }
}

#[test]
fn a_journaled_keyspace_goes_on_once_there_is_room() {
    for &engine in EngineKind::ALL {
        let mut full = Full::new(engine, true);
        let durable = full.taken.clone();
        full.device.fill();
        let (mut refused, mut applied) = (0, Vec::new());
        while refused < 20 {
            let key = full.next;
            if let Err(error) = full.put() {
                assert!(error.is_no_space(), "{engine}: {error}");
                let is_applied = matches!(error, Error::NotYetDurable { .. });
                assert_eq!(error.is_retryable(), !is_applied, "{engine}: {error}");
                let found = full.space.get(&key.to_be_bytes()).unwrap();
                assert_eq!(found, is_applied.then(|| value(key)), "{engine}: {error}");
                if let Error::NotYetDurable { seqno, .. } = error {
                    applied.push((key, seqno));
                }
                refused += 1;
            }
            assert!(full.next < 3 * KEYS, "{engine} is not refused anything");
        }
        let flushed = full.space.flush();
        // Room that is held for it may be enough, and all may be flushed already.
        let is_refused = flushed.as_ref().is_err_and(Error::is_no_space);
        assert!(flushed.is_ok() || is_refused, "{engine}: {flushed:?}");
        full.stays_writable();
        full.holds(&full.db, &full.taken, "while it is full");
        full.a_crash_keeps(&durable, "after a crash while it is full");

        full.device.grow(256 << 20);
        full.goes_on();
        for (key, seqno) in applied {
            full.db.wait(seqno, Durability::Synced).unwrap();
            full.taken.push(key);
        }
        full.db.sync().unwrap();
        full.a_crash_keeps(&full.taken, "after a crash");
        full.db.close().unwrap();
        let db = Db::open_on(full.device.clone(), "full", options()).unwrap();
        full.holds(&db, &full.taken, "after a close");
    }
}

/// The first write without room in the journal is applied, and says so: a second one is refused.
#[test]
fn a_write_that_waits_in_vain_for_the_journal_is_not_yet_durable() {
    // Nothing is flushed meanwhile, which would make room.
    let mut full = Full::with_journal(EngineKind::Memory, true, 256 << 20);
    full.device.fill();
    let error = (0..KEYS).find_map(|_| full.put().err()).expect("the device is full");
    let Error::NotYetDurable { seqno, .. } = error else { panic!("{error}") };
    assert!(error.is_no_space() && !error.is_retryable(), "{error}");
    assert_eq!(seqno, full.db.last(), "it is the newest write");
    let key = full.next - 1;
    assert_eq!(full.space.get(&key.to_be_bytes()).unwrap(), Some(value(key)));
    assert_eq!(error.kind(), ErrorKind::NotYetDurable);
    let waited = full.db.wait(seqno, Durability::Synced).unwrap_err();
    assert!(matches!(waited, Error::Journal(_)) && waited.is_retryable(), "{waited}");

    full.device.grow(256 << 20);
    full.db.wait(seqno, Durability::Synced).unwrap();
    full.taken.push(key);
    full.a_crash_keeps(&full.taken, "after the wait");
}

/// Without a journal it is the engine itself that has no room.
#[test]
fn a_keyspace_without_a_journal_goes_on_once_there_is_room() {
    for &engine in EngineKind::ALL {
        let mut full = Full::new(engine, false);
        let durable = full.taken.clone();
        full.device.fill();
        // Data in memory need no room on the device for a write.
        let is_in_memory = engine == EngineKind::Memory;
        let end = if is_in_memory { 2 * BEFORE } else { 3 * KEYS };
        let mut refused = 0;
        while refused < 20 && full.next < end {
            if let Err(error) = full.put() {
                assert!(error.is_no_space(), "{engine}: {error}");
                refused += 1;
            }
        }
        assert_eq!(refused, if is_in_memory { 0 } else { 20 }, "{engine}");
        let flushed = full.space.flush();
        match engine {
            // Room was held for it.
            EngineKind::F2 => assert_eq!(flushed, Ok(())),
            _ => assert!(flushed.as_ref().is_err_and(Error::is_no_space), "{engine}: {flushed:?}"),
        }
        assert!(
            !full.db.background_errors().is_empty() || engine == EngineKind::FlexDb,
            "{engine} tells"
        );
        full.stays_writable();
        full.holds(&full.db, &full.taken, "while it is full");
        full.a_crash_keeps(&durable, "after a crash while it is full");

        full.device.grow(256 << 20);
        full.goes_on();
        full.space.flush().unwrap();
        assert_eq!(full.db.background_errors(), [], "{engine}");
        full.a_crash_keeps(&full.taken, "after a crash");
        full.db.close().unwrap();
        let db = Db::open_on(full.device.clone(), "full", options()).unwrap();
        full.holds(&db, &full.taken, "after a close");
    }
}

/// If there is no room for the flushes of a close, the journal has all the data.
#[test]
fn a_close_without_room_loses_nothing() {
    for &engine in EngineKind::ALL {
        let full = Full::new(engine, true);
        // Enough to end the journal.
        full.device.fill();
        full.device.grow(16 << 10);
        full.db.close().unwrap();
        full.device.grow(256 << 20);
        let db = Db::open_on(full.device.clone(), "full", options()).unwrap();
        full.holds(&db, &full.taken, "after a close");
    }
}

/// Data that a close had no room to write stays unwritten: another handle may own the directory
/// then.
#[test]
fn a_handle_that_was_closed_without_room_writes_nothing_any_more() {
    let mut full = Full::new(EngineKind::Memory, true);
    full.device.fill();
    // Acknowledged as in the process, up to the first one that finds no room.
    let unsynced = full.space.durability(Durability::Buffered);
    let mut key = KEYS;
    while unsynced.put(&key.to_be_bytes(), &value(key)).is_ok() {
        key += 1;
        assert!(key < 4 * KEYS, "nothing is refused");
    }
    let closed = full.db.close();
    // A close may find room in segments that it trims. Then it has written all that was
    // acknowledged.
    let acknowledged = if closed.is_ok() { KEYS..key } else { 0..0 };
    assert!(closed.is_ok() || closed.as_ref().is_err_and(Error::is_no_space), "{closed:?}");
    assert_eq!(full.db.close(), closed, "the first close decides");

    full.device.grow(256 << 20);
    let next = Db::open_on(full.device.clone(), "full", options()).unwrap();
    let space = next.existing_keyspace("space").unwrap();
    space.put(b"next", b"1").unwrap();
    next.sync().unwrap();
    assert!(full.db.sync().is_err());
    space.put(b"next", b"2").unwrap();
    next.close().unwrap();
    let last = Db::open_on(full.device.clone(), "full", options()).unwrap();
    let found = last.existing_keyspace("space").unwrap().get(b"next").unwrap();
    assert_eq!(found.as_deref(), Some(&b"2"[..]));
    full.taken.truncate(BEFORE as usize);
    full.taken.extend(acknowledged);
    full.holds(&last, &full.taken.clone(), "after another's");
}

/// A device without a free byte under a database that a crash has left: it is read, and it opens,
/// or says how much room is enough and takes none.
#[test]
fn an_opening_without_room_says_how_much_is_enough() {
    for &engine in EngineKind::ALL {
        let mut full = Full::new(engine, true);
        (0..BEFORE).for_each(|_| full.put().unwrap());
        full.db.sync().unwrap();
        let crashed = |seed: u64| {
            let device = RoomDevice::new(full.disk.crash(seed), 0).unwrap();
            device.fill();
            device
        };
        let device = crashed(1);
        let db = Db::open_read_only_on(device.clone(), "full", options()).unwrap();
        full.holds(&db, &full.taken, "opened to be read");
        db.close().unwrap();

        let used = device.used_bytes();
        for _ in 0..3 {
            match Db::open_on(device.clone(), "full", options()) {
                Ok(db) => {
                    full.holds(&db, &full.taken, "opened without room");
                    let _may_have_no_room: Result<(), Error> = db.close();
                }
                Err(Error::NoRoomToOpen { .. }) => assert!(device.used_bytes() <= used, "{engine}"),
                Err(error) => panic!("{engine}: {error}"),
            }
        }
        if let Err(Error::NoRoomToOpen { needed_bytes, .. }) =
            Db::open_on(device.clone(), "full", options())
        {
            device.grow(needed_bytes);
            let db = Db::open_on(device.clone(), "full", options()).unwrap();
            full.holds(&db, &full.taken, "opened with enough room");
            db.close().unwrap();
        }

        let device = crashed(2);
        let _refused: Result<Db, Error> = Db::open_on(device.clone(), "full", options());
        drop(_refused);
        device.grow(20 << 20);
        let db = Db::open_on(device.clone(), "full", options()).unwrap();
        let space = db.existing_keyspace("space").unwrap();
        space.put(b"more", b"value").unwrap();
        full.holds(&db, &full.taken, "opened with some room");
        db.close().unwrap();
    }
}

/// A small device is filled, and other files on it are removed: `f2` continues, closes and opens
/// again.
#[test]
fn a_small_device_that_was_filled_goes_on_and_opens_again() {
    const OTHERS_BYTES: u64 = 8 << 20;
    let options = || Options { memory_bytes: 32 << 20, journal_bytes: 8 << 20, ..options() };
    let device = RoomDevice::new(device::memory(), 96 << 20).unwrap();
    let other = device.open("other", device::Mode::CreateNew).unwrap();
    other.allocate(0, OTHERS_BYTES).unwrap();
    let place = device.subdevice("db").unwrap();
    let db = Db::open_on(Arc::clone(&place), "small", options()).unwrap();
    let f2 = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    let space = db.keyspace("space", f2).unwrap();
    let value = |key: u32| vec![key as u8; 600];
    // Until one is refused.
    let put = |keys: std::ops::Range<u32>| {
        keys.into_iter().find(|key| match space.put(&key.to_be_bytes(), &value(*key)) {
            Ok(_) => false,
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                true
            }
        })
    };
    let first = put(0..400_000).expect("the device was to be full");
    for key in 0..1000_u32 {
        if let Err(error) = space.delete(&key.to_be_bytes()) {
            assert!(error.is_no_space(), "{error}");
        }
    }
    assert_eq!(db.failure(), None);
    device.remove("other").unwrap();
    let clock = Environment::real();
    let deadline = clock.now() + Duration::from_secs(60);
    while put(first..first + 1).is_some() {
        assert_eq!(db.failure(), None);
        assert!(clock.now() < deadline, "it does not go on");
        clock.sleep(Duration::from_millis(20));
    }
    put(first + 1..first + 20_000);
    assert_eq!(db.failure(), None);
    let _may_have_no_room: Result<(), Error> = db.close();
    for _ in 0..3 {
        let db = Db::open_on(Arc::clone(&place), "small", options()).unwrap();
        let space = db.existing_keyspace("space").unwrap();
        for key in (1000..=first).step_by(97).chain([first]) {
            assert_eq!(space.get(&key.to_be_bytes()).unwrap(), Some(value(key)), "{key}");
        }
        db.close().unwrap();
    }
}

/// The journal has no room for a record, and no keyspace was ever flushed. The room that the
/// database holds suffices to write that record. So flushes succeed, the journal frees its room,
/// and writes continue.
#[test]
fn a_full_journal_is_flushed_and_trimmed() {
    for &engine in EngineKind::ALL {
        // The journal alone would not ask for a flush.
        let options = || Options { memory_bytes: 32 << 20, ..options() };
        let device = RoomDevice::new(device::memory(), 96 << 20).unwrap();
        let db = Db::open_on(device.clone(), "small", options()).unwrap();
        let keyspace = KeyspaceOptions { engine, ..Default::default() };
        let space = db.keyspace("space", keyspace).unwrap();
        // The data of an engine in memory fit there.
        let keys = if engine == EngineKind::Memory { 2000 } else { 20_000 };
        let (mut taken, mut refused) = (Vec::new(), 0);
        while refused < 20 && taken.len() < 60_000 {
            let key = (taken.len() + refused) as u32 % keys;
            match space.put(&key.to_be_bytes(), &[key as u8; 4096]) {
                Ok(_) => taken.push(key),
                Err(error) => {
                    assert!(error.is_no_space(), "{engine}: {error}");
                    refused += 1;
                    Environment::real().sleep(Duration::from_millis(20));
                }
            }
        }
        assert_eq!(db.failure(), None, "{engine}");
        db.close().unwrap_or_else(|error| panic!("{engine}: {error}"));
        let db = Db::open_on(device.clone(), "small", options()).unwrap();
        let space = db.existing_keyspace("space").unwrap();
        for key in taken.iter().step_by(97) {
            let found = space.get(&key.to_be_bytes()).unwrap();
            assert_eq!(found, Some(vec![*key as u8; 4096]), "{engine} {key}");
        }
        db.close().unwrap();
    }
}

/// Another program takes the room that is held for the journal. The error of a flush names the
/// journal.
#[test]
fn a_flush_without_room_for_the_journal_names_the_journal() {
    // The journal has more bytes than the test writes: the background flushes nothing.
    let mut full = Full::with_journal(EngineKind::F2, true, 64 << 20);
    full.device.remove("ballast").unwrap();
    full.device.fill();
    let refused = std::iter::from_fn(|| Some(full.put())).find_map(Result::err).unwrap();
    assert!(refused.to_string().contains("writing journal/"), "{refused}");
    let error = full.space.flush().unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(matches!(error, Error::Engine(engine::Error::NoRoomForJournal { .. })), "{error:?}");
    assert!(error.to_string().contains("writing journal/"), "{error}");
    full.stays_writable();
    full.device.grow(64 << 20);
    full.goes_on();
}
