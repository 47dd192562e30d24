//! Damage names its file by the path in the database, whichever call finds it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Device, File, Mode};
use futures::executor::block_on;
use thermocline::{
    Backups, Change, Completed, Db, EngineKind, Error, KeyRange, Keyspace, KeyspaceOptions,
    Options, Progress, SessionGet,
};

use crate::small_parts::with_small_parts;

const KEYS: u32 = 3000;
/// One byte in each of these is changed.
const DAMAGE_EVERY: u64 = 512;

fn options() -> Options {
    with_small_parts(Options { memory_bytes: 64 << 20, ..Options::default() })
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Returns an open database, and a keyspace whose files are damaged without its notice.
fn damaged(engine: EngineKind) -> (Db, Keyspace) {
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "place", options()).unwrap();
    let options_of = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let space = db.keyspace("space", options_of).unwrap();
    for number in 0..KEYS {
        space.put(&key(number), &[7; 200]).unwrap();
    }
    space.flush().unwrap();
    drop(space);
    db.close().unwrap();
    let db = Db::open_on(Arc::clone(&device), "place", options()).unwrap();
    let space = db.existing_keyspace("space").unwrap();
    let dir = format!("keyspaces/space/{}", device.list("keyspaces/space").unwrap()[0].name);
    damage_each_file(&*device, &dir);
    (db, space)
}

/// Background work makes files and removes them, so the directory is listed until no file is new.
fn damage_each_file(device: &dyn Device, dir: &str) {
    let mut damaged = BTreeSet::new();
    loop {
        let files = device.list(dir).unwrap().into_iter();
        let is_new = |name: &String| name != "superblock" && !damaged.contains(name);
        let new: Vec<String> =
            files.filter(|file| !file.is_dir).map(|file| file.name).filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        for name in new {
            match device.open(&format!("{dir}/{name}"), Mode::Write) {
                Ok(file) => damage(&*file),
                Err(device::Error::NotFound { .. }) => {}
                Err(error) => panic!("{name}: {error}"),
            }
            damaged.insert(name);
        }
    }
}

fn damage(file: &dyn File) {
    let mut at = 100;
    while at < file.len().unwrap() {
        let mut byte = [0];
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 1]).unwrap();
        at += DAMAGE_EVERY;
    }
}

/// Runs `call` for keys until one finds damage, whose file must be named from the database on.
#[track_caller]
fn must_name(engine: EngineKind, call: &str, mut each: impl FnMut(u32) -> Result<(), Error>) {
    let found = (0..KEYS).find_map(|number| each(number).err());
    let Some(error) = found else { panic!("{engine}: {call} found no damage") };
    let Some(damage) = error.corruption() else { panic!("{engine}: {call}: {error}") };
    assert!(damage.file.starts_with("keyspaces/space/"), "{engine}: {call}: {error}");
    assert_eq!(damage.file.matches("keyspaces/").count(), 1, "{engine}: {call}: {error}");
}

fn in_session(space: &Keyspace, number: u32) -> Result<(), Error> {
    let mut session = space.session(1)?;
    if session.begin_get(0, &key(number), &mut Vec::new())? != SessionGet::Pending {
        return Ok(());
    }
    let mut found = Ok(());
    while session.pending() > 0 {
        session.complete(true, &mut |_, outcome: Result<Completed<'_>, Error>| {
            found = outcome.map(drop);
        })?;
    }
    found
}

fn every_call_names_the_file(engine: EngineKind) {
    let (db, space) = damaged(engine);
    must_name(engine, "get", |number| space.get(&key(number)).map(drop));
    must_name(engine, "multi_get", |number| space.multi_get(&[&key(number)]).map(drop));
    must_name(engine, "get_async", |number| block_on(space.futures().get(&key(number))).map(drop));
    must_name(engine, "session", |number| in_session(&space, number));
    must_name(engine, "walk", |_| space.walk(None, |_, _| ControlFlow::Continue(())));
    must_name(engine, "rmw", |number| space.rmw(&key(number), |_| Change::Keep).map(drop));
    let transaction = db.begin().unwrap();
    must_name(engine, "transaction", |number| transaction.get(&space, &key(number)).map(drop));
    if space.is_ordered() {
        let snapshot = db.snapshot().unwrap();
        must_name(engine, "snapshot", |number| snapshot.get(&space, &key(number)).map(drop));
        let scan = |_| space.scan(KeyRange::all())?.find_map(Result::err).map_or(Ok(()), Err);
        must_name(engine, "scan", scan);
        let scan = |_| {
            let mut scan = transaction.scan(&space, KeyRange::all())?;
            scan.find_map(Result::err).map_or(Ok(()), Err)
        };
        must_name(engine, "transaction's scan", scan);
    }
    let backups = Backups::open_on(device::memory(), "backups").unwrap();
    // An engine copies files unchanged, or reads them.
    if let Err(error) = db.backup(&backups, &Progress::default()) {
        must_name(engine, "backup", |_| Err(error.clone()));
    }
}

#[test]
fn damage_names_the_file_in_the_database() {
    let larger_than_memory = EngineKind::ALL.iter().filter(|engine| engine.driver().has_share());
    larger_than_memory.copied().for_each(every_call_names_the_file);
}
