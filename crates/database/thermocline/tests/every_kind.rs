//! Keyspaces of every kind, which the tests of transactions use: each engine, with a journal and
//! without.

use tempfile::TempDir;
use thermocline::{
    Db, EngineKind, Error, KeyRange, Keyspace, KeyspaceOptions, Options, Transaction,
};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn ordered() -> Vec<EngineKind> {
    EngineKind::ALL.iter().copied().filter(|engine| engine.is_ordered()).collect()
}

pub(crate) fn open(dir: &TempDir) -> Db {
    let options = Options { memory_bytes: 64 * MIB, ..Options::default() };
    Db::open(dir.path(), options).expect("it opens")
}

pub(crate) fn space(db: &Db, engine: EngineKind, journaled: bool) -> Keyspace {
    let name = format!("{engine}-{}", if journaled { "journaled" } else { "alone" });
    let options = KeyspaceOptions {
        engine,
        journaled,
        memory_bytes: Some(8 * MIB),
        ..KeyspaceOptions::default()
    };
    db.keyspace(&name, options).expect("it is made")
}

/// Runs `test` on an empty keyspace of every kind.
pub(crate) fn on_every_kind(engines: &[EngineKind], test: impl Fn(&Db, &Keyspace)) {
    for engine in engines {
        for journaled in [true, false] {
            let dir = TempDir::new().expect("there is room");
            let db = open(&dir);
            let space = space(&db, *engine, journaled);
            println!("{}", space.name());
            test(&db, &space);
        }
    }
}

#[track_caller]
pub(crate) fn is_conflict<T: std::fmt::Debug>(
    outcome: Result<T, Error>,
    space: &Keyspace,
    key: &[u8],
) {
    let wanted = Error::Conflict { keyspace: space.name().to_owned(), key: key.to_vec() };
    assert_eq!(outcome.expect_err("a conflict"), wanted, "in {}", space.name());
}

pub(crate) fn scanned(
    tx: &Transaction,
    space: &Keyspace,
    range: KeyRange,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let scan = tx.scan(space, range).expect("it begins");
    scan.map(|pair| pair.expect("it is read")).collect()
}
