//! Which operator a keyspace has: kept, never changed, and needed by merges alone.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use thermocline::{
    Backups, Db, EngineKind, Environment, Error, KeyspaceOptions, MergeOperators, Options,
    Progress, check_on, salvage_on,
};

use super::{kinds, merged_by, name, number, open, operators, options};

const ONE: [u8; 8] = 1_u64.to_le_bytes();

#[test]
fn a_keyspace_keeps_its_operator_and_is_read_without_it() {
    for (engine, journaled) in kinds() {
        let device = device::memory();
        let db = open(&device, operators());
        let options = merged_by("add", engine, journaled);
        let space = db.keyspace("s", options).unwrap();
        assert_eq!(space.options().merge, Some(name("add")));
        space.merge(b"k", &ONE).unwrap();
        space.clear().unwrap();
        space.merge(b"k", &ONE).unwrap();
        space.merge(b"k", &ONE).unwrap();
        db.close().unwrap();
        drop((space, db));
        // Of a journal that has merges, too.
        let db = open(&device, MergeOperators::new());
        let space = db.existing_keyspace("s").unwrap();
        assert_eq!(space.options().merge, Some(name("add")));
        assert_eq!(number(&space, b"k"), 2, "{engine}, {journaled}");
        space.put(b"k", &7_u64.to_le_bytes()).unwrap();
        let unknown = Err(Error::UnknownMergeOperator { name: name("add") });
        assert_eq!(space.merge(b"k", &ONE), unknown);
        // As the server opens it, and as a program that has forgotten to register the operator.
        let plain = KeyspaceOptions { merge: None, ..options };
        assert!(db.keyspace("s", plain).is_ok());
        assert_eq!(db.keyspace("s", options).map(drop), unknown.map(drop));
        db.close().unwrap();
        drop((space, db));
        let db = open(&device, operators());
        let space = db.keyspace("s", plain).unwrap();
        space.merge(b"k", &ONE).unwrap();
        assert_eq!(number(&space, b"k"), 8, "{engine}, {journaled}");
        db.close().unwrap();
    }
}

#[test]
fn another_operator_is_refused_and_a_keyspace_without_one_gets_it_once() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let device: Arc<dyn Device> = disk.clone();
    let db = open(&device, operators());
    let of = |operator| merged_by(operator, EngineKind::Memory, true);
    let plain = KeyspaceOptions { merge: None, ..of("add") };
    let space = db.keyspace("s", plain).unwrap();
    let none = Err(Error::NoMergeOperator { keyspace: "s".to_owned() });
    assert_eq!(space.merge(b"k", &ONE), none);
    assert_eq!(db.begin().unwrap().merge(&space, b"k", &ONE), none.clone().map(drop));
    assert_eq!(db.write(thermocline::Batch::new().merge(&space, b"k", &ONE)).map(Some), none);
    let begun = disk.operations();
    db.keyspace("s", of("add")).unwrap();
    assert!(disk.operations() > begun);
    // By the handle that was there before, too.
    space.merge(b"k", &ONE).unwrap();
    let refused = db.keyspace("s", of("edit")).unwrap_err();
    let (stored, asked) = (name("add"), name("edit"));
    assert_eq!(refused, Error::OtherMergeOperator { keyspace: "s".to_owned(), stored, asked });
    let before = disk.operations();
    db.keyspace("s", of("add")).unwrap();
    db.keyspace("s", plain).unwrap();
    assert_eq!(disk.operations(), before, "nothing is new");
    drop((space, db));
    // A power cut: the name was durable immediately.
    let image: Arc<dyn Device> = disk.crash(3);
    let db = open(&image, operators());
    assert_eq!(db.existing_keyspace("s").unwrap().options(), of("add"));
    assert_eq!(db.keyspace("s", of("edit")).unwrap_err(), refused);
    for bad in ["", "a b", "ä", &"a".repeat(33)] {
        let refused = bad.parse::<thermocline::MergeName>();
        assert_eq!(refused, Err(Error::BadMergeName { name: bad.to_owned() }));
    }
    assert_eq!(name(&"a".repeat(32)).as_str().len(), 32);
}

/// A copy of keyspaces needs none of their operators.
#[test]
fn copies_keep_the_names() {
    let device: Arc<dyn Device> = SimulatedDisk::new(1, Faults::none());
    let db = open(&device, operators());
    for (engine, journaled) in kinds() {
        let space =
            db.keyspace(&format!("{engine}-{journaled}"), merged_by("add", engine, journaled));
        space.unwrap().merge(b"k", &ONE).unwrap();
    }
    db.flush().unwrap();
    let backups = Backups::open_on(device::memory(), "backups").unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    let copies: [Arc<dyn Device>; 3] = std::array::from_fn(|_| device::memory());
    db.checkpoint_on(Arc::clone(&copies[0]), "checkpoint").unwrap();
    backups.restore_on(None, &copies[1], "restored", &Progress::default()).unwrap();
    db.close().unwrap();
    let plain = Options {
        merge_operators: MergeOperators::new(),
        ..options(Environment::real(), operators())
    };
    salvage_on((device, "old"), (Arc::clone(&copies[2]), "new"), plain.clone()).unwrap();
    for copy in copies {
        assert!(check_on(Arc::clone(&copy), "copy").unwrap().is_whole());
        let db = Db::open_on(copy, "copy", plain.clone()).unwrap();
        for (engine, journaled) in kinds() {
            let space = db.existing_keyspace(&format!("{engine}-{journaled}")).unwrap();
            assert_eq!(space.options(), merged_by("add", engine, journaled));
            assert_eq!(number(&space, b"k"), 1);
        }
    }
}
