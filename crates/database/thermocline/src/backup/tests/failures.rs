//! Backups on failing storage, and damaged backups.
//!
//! The database continues, and no damaged file is restored.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use thermocline::{Backups, Db, Error, Progress};

use super::database::{content, open, options, restored, write};

/// A database with some content, and a backup of it on a device of its own.
fn made() -> (Db, Arc<dyn Device>) {
    let (db, device) = (open(device::memory()), device::memory());
    write(&db, 0..60, &[1; 2000]);
    db.flush().unwrap();
    write(&db, 30..90, &[2; 200]);
    let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    (db, device)
}

/// The same with `count` backups, opened.
fn made_of(count: usize) -> (Db, Arc<dyn Device>, Backups) {
    let (db, device) = made();
    let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
    for _ in 1..count {
        db.backup(&backups, &Progress::default()).unwrap();
    }
    (db, device, backups)
}

fn files_below(device: &dyn Device, dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in device.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir { names.extend(files_below(device, &name)) } else { names.push(name) }
    }
    names
}

#[test]
fn every_failure_of_the_backups_storage_leaves_the_database_and_older_backups() {
    let (db, device) = made();
    let expected = content(&db);
    let mut failed = 0;
    for nth in 1.. {
        let faulty = FaultDevice::new(Arc::clone(&device));
        let failure = [Failure::Io, Failure::NoSpace][nth as usize % 2];
        faulty.fail(Fault { kind: None, nth, failure, lasting: Lasting::ForGood });
        let target: Arc<dyn Device> = Arc::<FaultDevice>::clone(&faulty);
        let outcome = Backups::open_on(target, "faulty")
            .and_then(|backups| db.backup(&backups, &Progress::default()));
        assert_eq!(db.failure(), None, "operation {nth} of the backup stopped the database");
        if faulty.failed() == 0 {
            outcome.unwrap();
            break;
        }
        assert!(outcome.is_err(), "operation {nth} failed and the backup is said to be whole");
        failed += 1;
        if nth % 10 == 0 {
            let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
            assert!(restored(&backups, 1) == expected);
        }
    }
    let backups = Backups::open_on(device, "backups").unwrap();
    let newest = backups.list().unwrap().last().unwrap().number;
    assert!(restored(&backups, newest) == expected);
    write(&db, 0..2, b"goes on");
    println!("{failed} operations failed");
    assert!(failed > 50);
}

/// Otherwise the files that are left would take the room that the database wants.
#[test]
fn a_backup_that_fails_leaves_nothing_of_it() {
    let (db, device) = made();
    let mut failed = 0;
    for nth in 1.. {
        let faulty = FaultDevice::new(Arc::clone(&device));
        let failure = Failure::NoSpace;
        faulty.fail(Fault { kind: None, nth, failure, lasting: Lasting::Once });
        let target: Arc<dyn Device> = Arc::<FaultDevice>::clone(&faulty);
        let outcome = Backups::open_on(target, "faulty")
            .and_then(|backups| db.backup(&backups, &Progress::default()));
        if faulty.failed() == 0 {
            outcome.unwrap();
            break;
        }
        if outcome.is_err() {
            failed += 1;
            let left = device.list("").unwrap();
            let is_whole = left.iter().all(|entry| !entry.name.ends_with(".unfinished"));
            assert!(is_whole, "after operation {nth}: {left:?}");
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn every_failure_of_a_restoring_leaves_nothing() {
    let (_, device) = made();
    let backups = Backups::open_on(device, "backups").unwrap();
    for nth in 1.. {
        let target = device::memory();
        let faulty = FaultDevice::new(Arc::clone(&target));
        let fault = Fault { kind: None, nth, failure: Failure::Io, lasting: Lasting::Once };
        faulty.fail(fault);
        let failing: Arc<dyn Device> = Arc::<FaultDevice>::clone(&faulty);
        let outcome = backups.restore_on(None, &failing, "target", &Progress::default());
        if faulty.failed() == 0 {
            outcome.unwrap();
            break;
        }
        if outcome.is_err() {
            let left = target.list("").unwrap();
            assert!(left.is_empty(), "after operation {nth}: {left:?}");
        }
    }
}

#[test]
fn every_changed_cut_or_missing_file_is_found_and_named() {
    let (_, device) = made();
    let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
    let refused = |what: &str| {
        let target = device::memory();
        let error = backups.restore_on(None, &target, "target", &Progress::default()).unwrap_err();
        assert!(target.list("").unwrap().is_empty(), "{what}: {error} leaves something");
        let verified = backups.verify(None, &Progress::default());
        assert!(verified.is_err(), "{what} is not found without restoring");
        error
    };
    let names = files_below(&*device, "backup-000001");
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let file = device.open(&name, Mode::Write).unwrap();
        let len = file.len().unwrap();
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).unwrap();
        let places = [0, len / 3, len / 2, len.saturating_sub(1)];
        for at in places.into_iter().filter(|at| *at < len) {
            file.write_at(at, &[bytes[at as usize] ^ 0x10]).unwrap();
            let error = refused(&format!("{name} changed at {at}"));
            let damage = error.corruption().unwrap_or_else(|| panic!("{name} at {at}: {error}"));
            assert_eq!(damage.file, name);
            file.write_at(at, &bytes[at as usize..][..1]).unwrap();
        }
        if len > 0 {
            file.set_len(len - 1).unwrap();
            let error = refused(&format!("{name} cut"));
            assert!(error.corruption().is_some_and(|damage| damage.file == name), "{error}");
            file.write_at(0, &bytes).unwrap();
        }
        device.rename(&name, "backup-000001/gone").unwrap();
        let error = refused(&format!("{name} missing"));
        let is_manifest = name.ends_with("/BACKUP");
        let told = match &error {
            Error::NoBackup { cut_off: Some(name), .. } => is_manifest && name == "backup-000001",
            other => other.corruption().is_some_and(|damage| damage.file == name),
        };
        assert!(told, "{name} is missing: {error}");
        device.rename("backup-000001/gone", &name).unwrap();
    }
    let target = device::memory();
    backups.restore_on(None, &target, "target", &Progress::default()).unwrap();
    Db::open_on(target, "target", options()).unwrap();
}

/// Has one byte in the middle of the file changed.
fn change(device: &dyn Device, name: &str) {
    let file = device.open(name, Mode::Write).unwrap();
    let (at, mut byte) = (file.len().unwrap() / 2, [0]);
    file.read_at(at, &mut byte).unwrap();
    file.write_at(at, &[byte[0] ^ 1]).unwrap();
}

/// Bytes that are read there differ from the bytes that were written, and were compared on their
/// way.
#[test]
fn what_is_damaged_where_it_was_restored_to_is_no_database() {
    let (_, device) = made();
    let backups = Backups::open_on(device, "backups").unwrap();
    let beneath = device::memory();
    let faulty = FaultDevice::new(Arc::clone(&beneath));
    let below = Arc::clone(&beneath);
    // Nothing is read there until it is verified.
    faulty.interpose(OperationKind::Read, move || {
        assert!(!below.exists("THERMOCLINE").unwrap(), "it is a database already");
        let names = files_below(&*below, "");
        let snapshot =
            names.iter().find(|name| name.contains("/memory/") && name.contains("snapshot"));
        change(&*below, snapshot.unwrap());
    });
    let target: Arc<dyn Device> = faulty;
    let refused = backups.restore_on(None, &target, "target", &Progress::default()).unwrap_err();
    assert!(
        refused.corruption().is_some_and(|damage| damage.file.contains("snapshot")),
        "{refused}"
    );
    assert!(beneath.list("").unwrap().is_empty());
}

#[test]
fn a_damaged_manifest_costs_its_own_backup_alone() {
    let (db, device) = made();
    let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
    let first = backups.list().unwrap().pop().unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    change(&*device, "backup-000002/BACKUP");
    assert_eq!(backups.list().unwrap(), [first]);
    let damaged = backups.damaged().unwrap();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].0, 2);
    assert_eq!(damaged[0].1.corruption().unwrap().file, "backup-000002/BACKUP");
    let third = db.backup(&backups, &Progress::default()).unwrap();
    assert_eq!(third.number, 3);
    assert!(third.shared_bytes > 0, "the first one has equal files");
    assert!(restored(&backups, 3) == content(&db));
    // No caller gets an older one for the newest without an error.
    change(&*device, "backup-000003/BACKUP");
    let refused = backups.restore_on(None, &device::memory(), "target", &Progress::default());
    assert!(refused.unwrap_err().corruption().is_some());
}

#[test]
fn only_backups_that_load_count_among_those_to_keep() {
    let (db, device, backups) = made_of(5);
    device.remove("backup-000005/BACKUP").unwrap();
    change(&*device, "backup-000004/BACKUP");
    change(&*device, "backup-000002/BACKUP");
    assert_eq!(backups.keep(3).unwrap(), 0, "there are two");
    assert_eq!(backups.keep(2).unwrap(), 0, "there is none before them");
    assert_eq!(backups.keep(1).unwrap(), 2);
    assert_eq!(backups.numbers().unwrap(), [3, 4, 5]);
    assert!(restored(&backups, 3) == content(&db));
    assert_eq!(backups.keep(0).unwrap(), 3);
}

#[test]
fn one_backup_is_removed_and_the_others_stay_whole() {
    let (db, device, backups) = made_of(3);
    change(&*device, "backup-000002/BACKUP");
    backups.remove(2).unwrap();
    assert_eq!(backups.numbers().unwrap(), [1, 3]);
    // The third one shares files with the first one.
    backups.remove(1).unwrap();
    assert_eq!(backups.verify(None, &Progress::default()).unwrap().number, 3);
    assert!(restored(&backups, 3) == content(&db));
    let missing = backups.remove(1).unwrap_err();
    assert!(matches!(missing, Error::NoBackup { number: Some(1), .. }), "{missing}");
    assert_eq!(db.backup(&backups, &Progress::default()).unwrap().number, 4);
}

#[test]
fn backups_are_made_where_no_links_can_be() {
    let (db, device) = made();
    let faulty = FaultDevice::new(device);
    let kind = Some(OperationKind::Link);
    faulty.fail(Fault { kind, nth: 1, failure: Failure::Io, lasting: Lasting::ForGood });
    let target: Arc<dyn Device> = Arc::<FaultDevice>::clone(&faulty);
    let backups = Backups::open_on(target, "backups").unwrap();
    let second = db.backup(&backups, &Progress::default()).unwrap();
    assert!(faulty.failed() > 0);
    assert_eq!(second.shared_bytes, 0);
    assert!(restored(&backups, 2) == content(&db));
}
