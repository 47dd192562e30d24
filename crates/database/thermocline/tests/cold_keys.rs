//! A keyspace of each engine, most of whose keys are on the device alone, except with `memory`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::Device;
use thermocline::{Db, Durability, EngineKind, Keyspace, KeyspaceOptions, MergeOperators, Options};

use crate::few_pages;
use crate::numbered::{key, value};
use crate::small_parts::with_small_parts;

pub(crate) const KEYS: u64 = 2_000;

fn open(
    device: &Arc<dyn Device>,
    operators: &MergeOperators,
    keyspace: KeyspaceOptions,
) -> (Db, Keyspace) {
    let options = with_small_parts(Options {
        memory_bytes: 64 << 20,
        sync_interval: None,
        balance_memory: false,
        durability: Durability::Buffered,
        merge_operators: operators.clone(),
        ..Options::default()
    });
    // Compactions would move values into memory.
    let engines = options.engines.clone().with(few_pages::f2());
    let db = Db::open_on(Arc::clone(device), "memory", Options { engines, ..options }).unwrap();
    let space = db.keyspace("s", keyspace).unwrap();
    (db, space)
}

/// A keyspace with the keys, each with its number.
pub(crate) fn filled(
    device: &Arc<dyn Device>,
    operators: &MergeOperators,
    keyspace: KeyspaceOptions,
) -> (Db, Keyspace) {
    let (db, space) = open(device, operators, keyspace);
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    space.flush().unwrap();
    drop(space);
    db.close().unwrap();
    drop(db);
    open(device, operators, keyspace)
}

/// Every engine that reads values from the device, with a journal and without one.
pub(crate) fn engines() -> impl Iterator<Item = (EngineKind, bool)> {
    let reading = EngineKind::ALL.iter().filter(|engine| **engine != EngineKind::Memory);
    reading.flat_map(|&engine| [(engine, true), (engine, false)])
}
