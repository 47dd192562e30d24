//! A database with a keyspace of every kind, and all that it holds.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;

use device::Device;
use thermocline::{
    Backups, Batch, Db, Durability, EngineKind, Environment, KeyRange, KeyspaceOptions, Options,
    Progress,
};

/// Every engine with a journal, and `f2` without: its own checkpoints are all that it has.
pub(crate) const SPACES: [(&str, EngineKind, bool); 6] = [
    ("checkpointed", EngineKind::F2, false),
    ("f2", EngineKind::F2, true),
    ("flexdb", EngineKind::FlexDb, true),
    ("hashkv", EngineKind::HashKv, true),
    ("lsm", EngineKind::Lsm, true),
    ("memory", EngineKind::Memory, true),
];

/// Pairs by keyspace.
pub(crate) type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(crate) fn options() -> Options {
    let (environment, _clock) = Environment::simulated(1);
    Options {
        environment,
        sync_interval: None,
        background_threads: 1,
        memory_bytes: 128 << 20,
        durability: Durability::Synced,
        create_if_missing: true,
        ..Options::default()
    }
}

/// Opens it, and makes its keyspaces.
pub(crate) fn open(device: Arc<dyn Device>) -> Db {
    let db = Db::open_on(device, "db", options()).unwrap();
    for (name, engine, journaled) in SPACES {
        db.keyspace(name, KeyspaceOptions { engine, journaled, ..Default::default() }).unwrap();
    }
    db
}

/// One batch over all keyspaces: every key of `keys` gets `value`, and the first loses its own;
/// some of the last lose theirs by a range, where the engine takes that.
pub(crate) fn write(db: &Db, keys: std::ops::Range<u32>, value: &[u8]) {
    let mut batch = Batch::new();
    for space in db.keyspaces() {
        for key in keys.clone() {
            batch.put(&space, &key.to_be_bytes(), value);
        }
        batch.delete(&space, &keys.start.to_be_bytes());
        if matches!(space.options().engine, EngineKind::Lsm | EngineKind::Memory) {
            let last = keys.end.saturating_sub(10).to_be_bytes()..keys.end.to_be_bytes();
            batch.delete_range(&space, &KeyRange::of(last));
        }
    }
    db.write(&batch).unwrap();
}

pub(crate) fn content(db: &Db) -> Content {
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

/// Returns the content of a backup, from a database that is restored from it, checked and opened.
pub(crate) fn restored(backups: &Backups, number: u64) -> Content {
    let target = device::memory();
    backups.restore_on(Some(number), &target, "restored", &Progress::default()).unwrap();
    let report = thermocline::check_on(Arc::clone(&target), "restored").unwrap();
    assert!(report.is_whole(), "{:?}", report.damage);
    let db = Db::open_on(target, "restored", options()).unwrap();
    let found = content(&db);
    db.close().unwrap();
    found
}
