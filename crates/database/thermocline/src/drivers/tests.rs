//! An engine that is one line of the list, in a database.

use std::sync::Arc;

use device::Device;
use engine::KeyRange;

use super::EngineKind;
use crate::{Batch, Change, Db, Error, KeyspaceOptions, Options, check_on, salvage_on};

#[test]
fn each_engine_has_stores_of_small_parts() {
    for engine in EngineKind::ALL {
        let trials = engine.driver().trials;
        let first = trials.crashed.first().map(|trial| trial.name);
        assert_eq!(first, Some(engine.name()), "the first store has the engine's name");
        for trial in trials.crashed {
            assert_eq!((trial.settings)().engine(), engine.name(), "{}", trial.name);
        }
        let killed = (trials.killed)();
        assert_eq!(killed.engine(), engine.name());
        assert_eq!(killed.check(), Ok(()), "{engine}: a database is opened with them");
    }
}

fn open(device: &Arc<dyn Device>) -> Db {
    let options = Options { sync_interval: None, background_threads: 1, ..Options::default() };
    Db::open_on(Arc::clone(device), "memory", options).expect("opens")
}

#[test]
fn an_engine_of_one_line_does_all_that_a_database_does() {
    let engine: EngineKind = "reference".parse().expect("it is in the list");
    assert_eq!((engine, engine.is_ordered()), (EngineKind::Reference, true));
    let device = device::memory();
    let db = open(&device);
    let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let space = db.keyspace("s", options).expect("is made");
    for number in 0..100u8 {
        space.put(&[number], &[number; 9]).expect("is written");
    }
    let snapshot = db.snapshot().expect("is taken");
    let mut batch = Batch::new();
    batch.delete(&space, &[7]).put(&space, &[200], b"new");
    db.write(&batch).expect("is written");
    space.rmw(&[8], |old| Change::Put(old.unwrap_or_default().repeat(2))).expect("is updated");
    let range = KeyRange::of(vec![90]..vec![100]);
    space.delete_range(&range).expect("is deleted");
    assert_eq!(snapshot.get(&space, &[7]).expect("is read"), Some(vec![7; 9]));
    drop(snapshot);
    db.flush().expect("is flushed");
    space.put(b"journal", b"alone").expect("is written");
    db.close().expect("closes");
    drop((db, space));
    let again = open(&device);
    let space = again.existing_keyspace("s").expect("is there");
    assert_eq!(space.options().engine, engine);
    let pairs: Vec<_> =
        space.scan(KeyRange::all()).expect("begins").map(|pair| pair.expect("is read").0).collect();
    assert_eq!(pairs.len(), 100 - 1 - 10 + 2);
    assert_eq!(space.get(&[7]).expect("is read"), None);
    assert_eq!(space.get(&[8]).expect("is read"), Some(vec![8; 18]));
    assert_eq!(space.get(b"journal").expect("is read"), Some(b"alone".to_vec()));
    let refused =
        space.compact_range(&KeyRange::all()).expect_err("the engine has no compaction on demand");
    assert_eq!(refused, Error::Engine(engine::Error::NoRanges { engine: "reference" }));
    let stats = again.stats();
    assert!(stats.keyspaces[0].memory_share_bytes.is_some(), "it has a share of the memory");
    again.close().expect("closes");
    drop((again, space));
    let report = check_on(Arc::clone(&device), "memory").expect("is checked");
    assert!(report.is_whole(), "{:?}", report.damage);
    let line = report.checked.last().expect("the keyspace").to_string();
    assert!(line.starts_with("keyspace s: 90 pairs;"), "{line}");
    let new = device::memory();
    let (from, into) = ((device, "memory"), (Arc::clone(&new), "new"));
    let found = salvage_on(from, into, Options::default()).expect("is salvaged");
    assert_eq!(found.damage_count(), 0);
    assert_eq!(
        open(&new).existing_keyspace("s").expect("is there").get(&[8]).map(|v| v.is_some()),
        Ok(true)
    );
}
