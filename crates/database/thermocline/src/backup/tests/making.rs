//! Backups of a running database: their contents, the work next to which they are made, and the
//! files that they share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use rand::Rng;
use tempfile::TempDir;
use thermocline::{
    Backups, Batch, Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions,
    Options, Progress, Stage,
};

use super::database::{SPACES, content, open, options, restored, write};

fn backups() -> Backups {
    Backups::open_on(device::memory(), "backups").unwrap()
}

#[test]
fn every_engine_comes_back_as_it_was_when_each_backup_was_made() {
    let (db, backups) = (open(device::memory()), backups());
    let mut expected = Vec::new();
    for round in 0..4 {
        write(&db, round * 50..round * 50 + 100, &[round as u8; 300]);
        if round == 2 {
            db.flush().unwrap();
        }
        let made = db.backup(&backups, &Progress::default()).unwrap();
        assert_eq!((made.number, made.keyspaces), (u64::from(round) + 1, SPACES.len() as u64));
        assert!(made.newest >= db.last() && made.bytes > 0, "{made:?}");
        expected.push(content(&db));
    }
    for (number, expected) in (1..).zip(&expected) {
        assert!(restored(&backups, number) == *expected, "backup {number}");
    }
    let listed = backups.list().unwrap();
    assert_eq!(listed.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(backups.verify(None, &Progress::default()).unwrap(), listed[3]);

    assert_eq!(backups.keep(2).unwrap(), 2);
    assert_eq!(backups.list().unwrap(), listed[2..]);
    assert!(restored(&backups, 3) == expected[2]);
    let gone = backups.verify(Some(1), &Progress::default()).unwrap_err();
    assert!(matches!(gone, Error::NoBackup { number: Some(1), cut_off: None, .. }), "{gone}");
}

/// Ends a writer, also where an assertion fails that would otherwise wait for it.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Each batch writes the same to every keyspace with a journal, so all of them are equal at any
/// moment.
#[test]
fn a_backup_beside_writes_holds_whole_batches_of_one_moment() {
    let (db, backups) = (open(device::memory()), backups());
    let db = db.durability(Durability::Flushed);
    let spaces: Vec<_> = db.keyspaces().into_iter().filter(|one| one.options().journaled).collect();
    let journaled = SPACES.iter().filter(|(.., is_journaled)| *is_journaled);
    assert_eq!(spaces.len(), journaled.count());
    let (acknowledged, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number: u64 = 0;
            while !ended.load(SeqCst) {
                number += 1;
                let value = number.to_be_bytes().repeat(50);
                let mut batch = Batch::new();
                for space in &spaces {
                    batch.put(space, b"newest", &value);
                    batch.put(space, &(number % 5000).to_be_bytes(), &value);
                }
                db.write(&batch).unwrap();
                acknowledged.store(number, SeqCst);
            }
        });
        let _ended = Ended(&ended);
        for number in 1..=5 {
            let before = acknowledged.load(SeqCst);
            db.backup(&backups, &Progress::default()).unwrap();
            let found = restored(&backups, number);
            let states: Vec<_> = spaces.iter().map(|space| &found[space.name()]).collect();
            for state in &states {
                assert!(*state == states[0], "a batch is in part in backup {number}");
            }
            let newest = states[0]
                .get(&b"newest"[..])
                .map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()));
            assert!(newest >= before, "{newest} of {before} acknowledged");
        }
    });
}

/// Only how long a test that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has `work` done by another thread at the first write of a copy, which waits for it.
fn meanwhile(target: &FaultDevice, work: impl FnOnce() + Send + 'static) {
    target.interpose(OperationKind::Write, move || {
        let (is_done, done) = mpsc::channel();
        let working = Environment::real().spawn("beside", move || {
            work();
            let _ = is_done.send(());
        });
        // Not joined, since it may wait for this thread.
        drop(working.unwrap());
        assert_eq!(done.recv_timeout(PATIENCE), Ok(()), "somebody waits for the backup");
    });
}

/// In the middle of the copy, with one thread for all work in the background.
#[test]
fn work_in_the_background_goes_on_beside_a_backup() {
    let (environment, clock) = Environment::simulated(1);
    let options = Options { environment, ..options() };
    let db = Db::open_on(device::memory(), "db", options).unwrap();
    let of = |engine| KeyspaceOptions { engine, ..Default::default() };
    let lsm = db.keyspace("lsm", of(EngineKind::Lsm)).unwrap();
    lsm.put(b"before", b"v").unwrap();
    let target = FaultDevice::new(device::memory());
    let beside = db.clone();
    meanwhile(&target, move || {
        // The journal is to be trimmed.
        clock.advance(Duration::from_secs(2));
        let lsm = beside.existing_keyspace("lsm").unwrap();
        for number in 0..20_u32 {
            lsm.put(&number.to_be_bytes(), b"v").unwrap();
            beside.flush().unwrap();
        }
    });
    let copies = Backups::open_on(target, "backups").unwrap();
    db.backup(&copies, &Progress::default()).unwrap();
    let found = restored(&copies, 1);
    assert_eq!(found["lsm"].len(), 21);
}

/// Two keyspaces, which are copied sequentially.
fn two_in_memory() -> (Db, [Keyspace; 2]) {
    let db = Db::open_on(device::memory(), "db", options()).unwrap();
    let spaces = ["first", "second"].map(|name| db.keyspace(name, Default::default()).unwrap());
    (db, spaces)
}

/// A batch comes while the first keyspace is copied. The second one has its part in its files
/// before its own copy.
#[test]
fn a_batch_between_two_copies_is_whole() {
    let (db, spaces) = two_in_memory();
    let write = move |db: &Db, spaces: &[Keyspace; 2], value: &[u8]| {
        let mut batch = Batch::new();
        spaces.iter().for_each(|space| _ = batch.put(space, b"k", value));
        db.write(&batch).unwrap();
    };
    write(&db, &spaces, b"old");
    let target = FaultDevice::new(device::memory());
    let beside = db.clone();
    meanwhile(&target, move || {
        write(&beside, &spaces, b"new");
        spaces[1].flush().unwrap();
    });
    let copies = Backups::open_on(target, "backups").unwrap();
    db.backup(&copies, &Progress::default()).unwrap();
    let found = restored(&copies, 1);
    assert_eq!(found["first"], found["second"]);
    assert_eq!(found["second"][&b"k"[..]], b"new");
}

/// While the first one is copied all is flushed, so that only the copy needs the journal.
#[test]
fn the_journal_of_a_backup_is_not_trimmed_meanwhile() {
    let (db, [first, second]) = two_in_memory();
    first.put(b"k", b"v").unwrap();
    // Enough that a segment of the journal is worth ending.
    for _ in 0..20 {
        second.put(b"k", &[7; 1 << 20]).unwrap();
    }
    let journal_bytes = || db.stats().journal.bytes;
    let before = journal_bytes();
    let target = FaultDevice::new(device::memory());
    let beside = db.clone();
    meanwhile(&target, move || beside.flush().unwrap());
    let copies = Backups::open_on(target, "backups").unwrap();
    db.backup(&copies, &Progress::default()).unwrap();
    assert!(journal_bytes() >= before, "it was trimmed");
    assert!(restored(&copies, 1) == content(&db));
    db.flush().unwrap();
    assert!(journal_bytes() < before, "nobody needs it any more");
}

#[test]
fn what_did_not_change_takes_its_space_once() {
    let (dir, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let options = Options { memory_bytes: 64 << 20, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    let of = |engine| KeyspaceOptions { engine, ..Default::default() };
    let lsm = db.keyspace("lsm", of(EngineKind::Lsm)).unwrap();
    // Nothing that can be compressed.
    let mut random = thermocline::Environment::seeded(1).random("values");
    let mut value = |_: u32| {
        let mut value = vec![0; 1000];
        random.fill_bytes(&mut value);
        value
    };
    let values: Vec<Vec<u8>> = (0..2000).map(&mut value).collect();
    for (key, value) in (0_u32..).zip(&values) {
        lsm.put(&key.to_be_bytes(), value).unwrap();
    }
    db.flush().unwrap();
    let backups = Backups::open(copies.path().join("a/b")).unwrap();
    let first = db.backup(&backups, &Progress::default()).unwrap();
    lsm.put(b"later", b"v").unwrap();
    let progress = Progress::default();
    let second = db.backup(&backups, &progress).unwrap();
    assert_eq!(first.shared_bytes, 0);
    assert!(second.shared_bytes > 1_000_000, "{second:?}");
    let (stage, done, total) = progress.now();
    assert_eq!((stage, done), (Stage::Summing, second.bytes));
    assert_eq!(total, second.bytes, "what was copied is what is summed");
    // The older one is removed, and the files that it shared stay.
    backups.keep(1).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    let told = backups.restore(None, &elsewhere, &Progress::default()).unwrap();
    assert_eq!(told, second);
    let other = Db::open(&elsewhere, Options::default()).unwrap();
    let copy = other.existing_keyspace("lsm").unwrap();
    assert_eq!(copy.get(b"later").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(copy.get(&7_u32.to_be_bytes()).unwrap().unwrap(), values[7]);
    // It is the same database, so that its backups continue the numbers of the first one.
    assert_eq!(other.backup(&backups, &Progress::default()).unwrap().number, 3);
}

#[test]
fn directories_that_hold_something_else_are_refused() {
    let (db, backups) = (open(device::memory()), backups());
    db.backup(&backups, &Progress::default()).unwrap();
    // Its environment draws another id.
    let options = Options { memory_bytes: 64 << 20, ..Options::default() };
    let other = Db::open_on(device::memory(), "other", options).unwrap();
    let refused = other.backup(&backups, &Progress::default()).unwrap_err();
    assert!(matches!(refused, Error::OtherDatabase { .. }), "{refused}");

    let taken = device::memory();
    taken.create_dir("photos").unwrap();
    let refused = Backups::open_on(Arc::clone(&taken), "taken").unwrap_err();
    assert_eq!(refused, Error::NotBackups { path: "taken".to_owned(), found: "photos".to_owned() });
    let refused = backups.restore_on(None, &taken, "taken", &Progress::default()).unwrap_err();
    assert_eq!(refused, Error::NotEmpty { path: "taken".to_owned() });
    assert_eq!(taken.list("").unwrap().len(), 1, "it stays as it was");
}

#[test]
fn a_database_among_backups_is_refused_and_not_begun() {
    let (dir, db) = (TempDir::new().unwrap(), open(device::memory()));
    let place = dir.path().join("backups");
    let backups = Backups::open(&place).unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    for inside in [place.clone(), place.join("new"), place.join("new").join("er")] {
        let refused = backups.restore(None, &inside, &Progress::default()).unwrap_err();
        assert!(matches!(refused, Error::AmongBackups { .. }), "{refused}");
    }
    assert_eq!(Backups::open(&place).unwrap().list().unwrap().len(), 1, "they are backups still");
    backups.restore(None, dir.path().join("backups-restored"), &Progress::default()).unwrap();
}

#[test]
fn a_backup_is_no_database_until_it_is_restored() {
    let (dir, db) = (TempDir::new().unwrap(), open(device::memory()));
    let backups = Backups::open(dir.path()).unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    let refused = Db::open(dir.path().join("backup-000001"), Options::default()).unwrap_err();
    assert!(matches!(refused, Error::NotADatabase { .. }), "{refused}");
    assert_eq!(Backups::find(dir.path()).unwrap().unwrap().list().unwrap().len(), 1);
    assert!(Backups::find(dir.path().join("backup-000001")).unwrap().is_none());
    assert!(Backups::find(dir.path().join("not there")).unwrap().is_none());
}
