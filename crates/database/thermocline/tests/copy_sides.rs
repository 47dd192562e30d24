//! A copy that fails says which side has failed, and keeps the cause: no room at the target is no
//! damage of the source.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting};
use thermocline::{
    Backups, CopySide, Db, EngineKind, Error, KeyspaceOptions, Options, Progress, salvage_on,
};

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

/// A database with a keyspace of each engine, and a journal that a copy has to take over.
fn filled(device: &Arc<dyn Device>) -> Db {
    let db = Db::open_on(Arc::clone(device), "source", options()).unwrap();
    for &engine in EngineKind::ALL {
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let keyspace = db.keyspace(engine.name(), options).unwrap();
        for key in 0..60_u8 {
            keyspace.put(&[key], &[key; 2000]).unwrap();
            if key == 30 {
                keyspace.flush().unwrap();
            }
        }
    }
    db
}

/// Has `copy` fail at each operation of a device, which is the target or the source.
fn fails_at_each_operation(
    what: &str,
    side: CopySide,
    failure: Failure,
    mut copy: impl FnMut(Arc<FaultDevice>) -> Result<(), Error>,
    inner: impl Fn() -> Arc<dyn Device>,
) {
    let mut failed = 0;
    for nth in 1.. {
        let faulty = FaultDevice::new(inner());
        faulty.fail(Fault { kind: None, nth, failure, lasting: Lasting::ForGood });
        let outcome = copy(Arc::clone(&faulty));
        if faulty.failed() == 0 {
            outcome.unwrap();
            break;
        }
        let Err(error) = outcome else { continue };
        let case = format!("{what}, operation {nth}: {error}");
        assert!(matches!(&error, Error::Copy { side: found, .. } if *found == side), "{case}");
        // A sync that finds no room is a failed sync, and so is a write over room that a file has
        // already.
        let is_for_good = case.contains("Sync of") || case.contains("Write of");
        let is_no_space = failure == Failure::NoSpace && !is_for_good;
        assert_eq!(error.is_no_space(), is_no_space, "{case}");
        assert_eq!(error.corruption(), None, "{case}");
        let named = if side == CopySide::Target { "the target" } else { "the source" };
        assert!(error.to_string().starts_with(named), "{case}");
        failed += 1;
    }
    println!("{what}: {failed} failures");
    assert!(failed > 10, "{what}: {failed}");
}

#[test]
fn a_target_without_room_is_named_and_is_no_damage() {
    let source = device::memory();
    let db = filled(&source);
    let checkpoint = |target: Arc<FaultDevice>| db.checkpoint_on(target, "copy");
    let target = CopySide::Target;
    fails_at_each_operation("checkpoint", target, Failure::NoSpace, checkpoint, device::memory);

    let backup = |target: Arc<FaultDevice>| {
        let backups = Backups::open_on(target, "backups")?;
        db.backup(&backups, &Progress::default()).map(drop)
    };
    // The first operations are those of `Backups::open_on`, which copies nothing.
    let opens = |target: Arc<FaultDevice>| match backup(Arc::clone(&target)) {
        Err(Error::Engine(_)) if target.failed() == 1 => Ok(()),
        outcome => outcome,
    };
    fails_at_each_operation("backup", target, Failure::NoSpace, opens, device::memory);

    let backups = device::memory();
    let made = Backups::open_on(Arc::clone(&backups), "backups").unwrap();
    db.backup(&made, &Progress::default()).unwrap();
    let restore = |target: Arc<FaultDevice>| {
        let target: Arc<dyn Device> = target;
        made.restore_on(None, &target, "restored", &Progress::default()).map(drop)
    };
    let restore = |target: Arc<FaultDevice>| match restore(Arc::clone(&target)) {
        // The look whether the target is empty.
        Err(Error::Engine(_)) if target.failed() == 1 => Ok(()),
        outcome => outcome,
    };
    fails_at_each_operation("restore", target, Failure::NoSpace, restore, device::memory);
    db.close().unwrap();
}

#[test]
fn a_backup_does_without_a_lost_file_of_the_one_before() {
    let device = device::memory();
    let db = filled(&device::memory());
    let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
    let first = db.backup(&backups, &Progress::default()).unwrap();
    let mut removed = 0;
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in device.list(&dir).unwrap() {
            let path =
                if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
            if entry.is_dir {
                dirs.push(path);
            } else if entry.name.starts_with("table-") {
                device.remove(&path).unwrap();
                removed += 1;
            }
        }
    }
    assert!(removed > 0, "the keyspace of engine lsm has a table");
    let second = db.backup(&backups, &Progress::default()).unwrap();
    assert!(backups.verify(Some(first.number), &Progress::default()).is_err());
    backups.verify(Some(second.number), &Progress::default()).unwrap();
    db.close().unwrap();
}

#[test]
fn a_source_that_fails_is_named() {
    let backups = device::memory();
    let db = filled(&device::memory());
    let made = Backups::open_on(Arc::clone(&backups), "backups").unwrap();
    db.backup(&made, &Progress::default()).unwrap();
    db.close().unwrap();
    let restore = |source: Arc<FaultDevice>| {
        let target = device::memory();
        let count = source.failed();
        let made = Backups::open_on(Arc::clone(&source) as Arc<dyn Device>, "backups");
        let restored =
            made.and_then(|made| made.restore_on(None, &target, "restored", &Progress::default()));
        match restored.map(drop) {
            // Opening the directory of backups reads before anything is copied.
            Err(Error::Engine(_)) if count == 0 && target.list("").unwrap().is_empty() => Ok(()),
            outcome => outcome,
        }
    };
    let inner = || Arc::clone(&backups);
    fails_at_each_operation("restore", CopySide::Source, Failure::Io, restore, inner);
}

#[test]
fn a_salvage_without_room_names_its_target() {
    let device = device::memory();
    filled(&device).close().unwrap();
    let salvage = |target: Arc<FaultDevice>| {
        let source = (Arc::clone(&device), "source");
        match salvage_on(source, (Arc::clone(&target) as Arc<dyn Device>, "new"), options()) {
            // The look whether the target is empty.
            Err(Error::Engine(_)) if target.failed() == 1 => Ok(()),
            outcome => outcome.map(drop),
        }
    };
    let target = CopySide::Target;
    fails_at_each_operation("salvage", target, Failure::NoSpace, salvage, device::memory);
}
