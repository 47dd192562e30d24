//! Databases opened to be read: their files do not change, nothing is written, several may read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;

use device::{Accounting, Device, Entry, Faults, File, Mode, Queue, SimulatedDisk, Space};
use tempfile::TempDir;
use thermocline::{
    Batch, Change, Db, EngineKind, Error, KeyRange, KeyspaceOptions, Options, Tried, check,
    check_on, salvage_on,
};

/// Returns a journaled keyspace of each engine, and one that is checkpointed.
fn spaces() -> Vec<(&'static str, EngineKind, bool)> {
    let journaled = EngineKind::ALL.iter().map(|kind| (kind.name(), *kind, true));
    [("checkpointed", EngineKind::F2, false)].into_iter().chain(journaled).collect()
}

type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

/// Writes pairs that are flushed in part, and more than one memtable takes.
fn fill(db: &Db) {
    for (name, engine, journaled) in spaces() {
        let options = KeyspaceOptions { engine, journaled, ..Default::default() };
        let space = db.keyspace(name, options).unwrap();
        for key in 0..3000_u32 {
            space.put(&key.to_be_bytes(), &[key as u8; 1000]).unwrap();
            if key == 1500 {
                space.flush().unwrap();
            }
        }
        space.delete(&7_u32.to_be_bytes()).unwrap();
    }
}

fn content(db: &Db) -> Content {
    let pairs = |space: &thermocline::Keyspace| {
        let mut pairs = BTreeMap::new();
        let walked = space.walk(None, |key, value| {
            pairs.insert(key.to_vec(), value.to_vec());
            Continue(())
        });
        walked.unwrap();
        pairs
    };
    db.keyspaces().iter().map(|space| (space.name().to_owned(), pairs(space))).collect()
}

/// Every file with its bytes, but for the one that is locked.
fn files(device: &dyn Device, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in device.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            found.extend(files(device, &name));
            continue;
        } else if name == "LOCK" {
            continue;
        }
        let file = device.open(&name, Mode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        found.insert(name, bytes);
    }
    found
}

fn files_in(path: &Path) -> BTreeMap<String, Vec<u8>> {
    files(&*device::open(path, device::Options::default()).unwrap(), "")
}

#[test]
fn readers_see_everything_and_leave_the_directory_as_it_is() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    fill(&db);
    let expected = content(&db);
    let refused = Db::open_read_only(dir.path(), options()).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    db.close().unwrap();
    let before = files_in(dir.path());
    let readers = [(); 2].map(|()| Db::open_read_only(dir.path(), options()).unwrap());
    for db in &readers {
        assert!(content(db) == expected);
        let lsm = db.existing_keyspace("lsm").unwrap();
        let snapshot = db.snapshot().unwrap();
        let backward = lsm.scan_reverse(KeyRange::all()).unwrap();
        assert_eq!(backward.count(), 2999);
        assert_eq!(snapshot.scan(&lsm, KeyRange::all()).unwrap().count(), 2999);
        let keys: Vec<_> = [3_u32, 7, 2900].map(|key| key.to_be_bytes().to_vec()).to_vec();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for space in db.keyspaces() {
            let values = space.multi_get(&keys).unwrap();
            let lengths = values.iter().map(|value| value.as_ref().map(Vec::len));
            assert_eq!(lengths.collect::<Vec<_>>(), [Some(1000), None, Some(1000)]);
        }
    }
    assert!(check(dir.path()).unwrap().is_whole(), "beside those who read");
    let refused = Db::open(dir.path(), options()).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    readers.iter().for_each(|db| db.close().unwrap());
    assert!(files_in(dir.path()) == before, "the directory changed");
    drop(readers);
    assert!(content(&Db::open(dir.path(), options()).unwrap()) == expected);
}

#[test]
fn whatever_writes_is_refused() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    fill(&db);
    db.close().unwrap();
    let db = Db::open_read_only(dir.path(), options()).unwrap();
    let refused = Error::OpenedReadOnly { path: dir.path().display().to_string() };
    let expected = content(&db);
    for space in db.keyspaces() {
        let mut batch = Batch::new();
        batch.put(&space, b"k", b"v");
        let put = |_: Option<&[u8]>| Change::Put(b"v".to_vec());
        let outcomes = [
            ("put", space.put(b"k", b"v").map(drop)),
            ("delete", space.delete(&1_u32.to_be_bytes()).map(drop)),
            ("batch", db.write(&batch).map(drop)),
            ("rmw", space.rmw(&1_u32.to_be_bytes(), put).map(drop)),
            ("rmw at once", {
                let outcome = space.try_rmw(b"k", &mut { put });
                outcome.map(|_: Tried| ())
            }),
            (
                "atomically",
                db.atomically(&[(&space, b"k")], |section| section.put(0, b"v".to_vec())).map(drop),
            ),
            ("compare and swap", space.compare_and_swap(b"k", None, Some(b"v")).map(drop)),
            ("transaction", db.transaction(|t| t.put(&space, b"k", b"v"))),
            ("flush", space.flush()),
            ("clear", space.clear()),
            ("drop", db.drop_keyspace(space.name())),
        ];
        for (what, outcome) in outcomes {
            assert_eq!(outcome, Err(refused.clone()), "{what} of {}", space.name());
        }
    }
    let made = db.keyspace("new", KeyspaceOptions::default()).map(drop);
    assert_eq!(made, Err(refused.clone()));
    assert_eq!(db.failure(), Some(refused));
    assert!(content(&db) == expected);
    let nowhere = Db::open_read_only(dir.path().join("journal"), options()).unwrap_err();
    assert!(matches!(nowhere, Error::NotADatabase { .. }), "{nowhere}");
    assert!(!dir.path().join("journal/LOCK").exists(), "a lock was made in what is no database");
}

/// The file THERMOCLINE is missing. Each function names an entry of the database that is there.
#[test]
#[expect(clippy::disallowed_methods, reason = "another program removes a file")]
fn a_database_without_its_catalog_is_named() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    fill(&db);
    db.close().unwrap();
    std::fs::remove_file(dir.path().join("THERMOCLINE")).unwrap();
    let target = dir.path().join("target");
    let refusals = [
        Db::open_read_only(dir.path(), options()).map(drop),
        thermocline::check(dir.path()).map(drop),
        thermocline::salvage(dir.path(), &target, options()).map(drop),
    ];
    for refused in refusals {
        let Err(Error::NotADatabase { found, .. }) = &refused else { panic!("{refused:?}") };
        assert!(matches!(found.as_deref(), Some("keyspaces" | "journal")), "{found:?}");
    }
}

/// The state after a power cut is recovered in memory: the images do not change.
#[test]
fn what_a_crash_left_is_recovered_beside_the_files() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let target: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(&disk);
    let db = Db::open_on(target, "db", options()).unwrap();
    fill(&db);
    db.sync().unwrap();
    let mut expected = content(&db);
    // It has no journal, and its writes after the flush are lost.
    expected.remove("checkpointed");
    for seed in 0..4 {
        let image = disk.crash(seed);
        let before = files(&*image, "");
        let target: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(&image);
        let read = Db::open_read_only_on(target, "image", options()).unwrap();
        let mut found = content(&read);
        let checkpointed = found.remove("checkpointed").unwrap();
        assert!(checkpointed.len() >= 1500 && found == expected, "image {seed}");
        read.close().unwrap();
        drop(read);
        assert!(files(&*image, "") == before, "image {seed} changed");
    }
}

/// A file system that is mounted to be read: whatever writes is refused.
#[derive(Debug)]
struct Mounted(Arc<dyn Device>);

fn refused<T>(name: &str) -> device::Result<T> {
    let operation = device::FailedOperation::Open;
    Err(device::Error::Io { operation, name: name.to_owned(), code: 30 })
}

impl Device for Mounted {
    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>> {
        if mode == Mode::Read { self.0.open(name, mode) } else { refused(name) }
    }

    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>> {
        self.0.queue(depth)
    }

    fn create_dir(&self, name: &str) -> device::Result<()> {
        if self.0.exists(name)? { Ok(()) } else { refused(name) }
    }

    fn list(&self, dir: &str) -> device::Result<Vec<Entry>> {
        self.0.list(dir)
    }

    fn exists(&self, name: &str) -> device::Result<bool> {
        self.0.exists(name)
    }

    fn rename(&self, from: &str, _to: &str) -> device::Result<()> {
        refused(from)
    }

    fn link(&self, from: &str, _to: &str) -> device::Result<()> {
        refused(from)
    }

    fn remove(&self, name: &str) -> device::Result<()> {
        refused(name)
    }

    fn remove_dir(&self, name: &str) -> device::Result<()> {
        refused(name)
    }

    fn sync_dir(&self, dir: &str) -> device::Result<()> {
        refused(dir)
    }

    fn lock(&self, name: &str) -> device::Result<Arc<dyn File>> {
        refused(name)
    }

    fn lock_shared(&self, name: &str) -> device::Result<Arc<dyn File>> {
        if self.0.exists(name)? { self.0.lock_shared(name) } else { refused(name) }
    }

    fn space(&self) -> device::Result<Space> {
        self.0.space()
    }

    fn accounting(&self) -> &Accounting {
        self.0.accounting()
    }

    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn subdevice(&self, dir: &str) -> device::Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        Ok(Arc::new(Self(self.0.subdevice(dir)?)))
    }
}

/// After a disk has begun to fail nothing must be written to it any more.
#[test]
fn what_cannot_be_written_to_is_read_checked_and_salvaged() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let db = Db::open_on(disk.clone() as Arc<dyn Device>, "db", options()).unwrap();
    fill(&db);
    db.flush().unwrap();
    let expected = content(&db);
    db.close().unwrap();
    drop(db);
    let mounted = Arc::new(Mounted(disk)) as Arc<dyn Device>;
    let read = Db::open_read_only_on(Arc::clone(&mounted), "mounted", options()).unwrap();
    assert!(content(&read) == expected);
    read.close().unwrap();
    drop(read);
    let report = check_on(Arc::clone(&mounted), "mounted").unwrap();
    assert!(report.is_whole(), "{:?}", report.damage);
    let new = device::memory();
    let found = salvage_on((mounted, "mounted"), (Arc::clone(&new), "new"), options()).unwrap();
    assert_eq!(found.damage_count(), 0, "{:?}", found.damage);
    assert!(content(&Db::open_on(new, "new", options()).unwrap()) == expected);
}

/// Each way to read the database in `device`.
fn read_in_each_way(device: &Arc<dyn Device>) -> [Result<(), Error>; 3] {
    let opened = Db::open_read_only_on(Arc::clone(device), "mounted", options());
    let new = (device::memory(), "new");
    [
        opened.and_then(|db| db.close()),
        check_on(Arc::clone(device), "mounted").map(|report| assert!(report.is_whole())),
        salvage_on((Arc::clone(device), "mounted"), new, options()).map(drop),
    ]
}

/// No writer has a database open that has no file to lock; a file that can be read keeps out a
/// writer of any user.
#[test]
fn a_database_without_a_lock_file_is_read_where_none_can_be_made() {
    let base = device::memory();
    let db = Db::open_on(Arc::clone(&base), "db", options()).unwrap();
    fill(&db);
    let expected = content(&db);
    let mounted = Arc::new(Mounted(Arc::clone(&base))) as Arc<dyn Device>;
    for refused in read_in_each_way(&mounted) {
        assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    }
    db.close().unwrap();
    drop(db);
    base.remove("LOCK").unwrap();
    for read in read_in_each_way(&mounted) {
        read.unwrap();
    }
    let db = Db::open_read_only_on(Arc::clone(&mounted), "mounted", options()).unwrap();
    assert!(content(&db) == expected);
    assert!(!base.exists("LOCK").unwrap());
}

/// A writer that comes while a database is opened without a lock is noticed.
#[test]
fn a_writer_that_comes_meanwhile_is_noticed() {
    let base = device::memory();
    let db = Db::open_on(Arc::clone(&base), "db", options()).unwrap();
    fill(&db);
    db.close().unwrap();
    drop(db);
    for way in 0..3 {
        base.remove("LOCK").unwrap();
        let faulty = device::FaultDevice::new(Arc::clone(&base));
        let made = Arc::clone(&base);
        faulty.interpose_anywhere(device::OperationKind::List, move || {
            drop(made.lock("LOCK").unwrap());
        });
        let mounted = Arc::new(Mounted(faulty)) as Arc<dyn Device>;
        let new = (device::memory(), "new");
        let refused = match way {
            0 => Db::open_read_only_on(mounted, "mounted", options()).map(drop),
            1 => check_on(mounted, "mounted").map(drop),
            _ => salvage_on((mounted, "mounted"), new, options()).map(drop),
        };
        assert!(matches!(refused, Err(Error::InUse { .. })), "{way}: {refused:?}");
    }
}

/// A copy may be moved to where nothing can be made, so it has the file that is locked.
#[test]
fn copies_have_a_file_to_lock() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db"), options()).unwrap();
    fill(&db);
    let backups = thermocline::Backups::open(path("backups")).unwrap();
    db.backup(&backups, &Default::default()).unwrap();
    db.checkpoint(path("checkpoint")).unwrap();
    db.close().unwrap();
    backups.restore(None, path("restored"), &Default::default()).unwrap();
    thermocline::salvage(path("db"), path("salvaged"), options()).unwrap();
    for copy in ["checkpoint", "restored", "salvaged"] {
        assert!(path(copy).join("LOCK").exists(), "{copy}");
    }
}
