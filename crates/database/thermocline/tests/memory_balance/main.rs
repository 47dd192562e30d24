//! One memory for all keyspaces: shares follow the load, and never are more than there is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crashes;
mod making;
mod moving;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use thermocline::{Db, EngineKind, Environment, Keyspace, KeyspaceOptions, Options};

const MIB: u64 = 1 << 20;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;

fn open(device: &Arc<dyn Device>, memory_bytes: u64) -> Db {
    open_with(device, Options { memory_bytes, ..Options::default() })
}

fn open_with(device: &Arc<dyn Device>, options: Options) -> Db {
    Db::open_on(Arc::clone(device), "memory", options).unwrap()
}

fn of(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, ..Default::default() }
}

fn key(number: u64) -> [u8; 8] {
    // Neighbours in time are none in the order of keys.
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// Puts this number of pairs, and flushes them to the keyspace's own files.
fn load(space: &Keyspace, pairs: u64) {
    for number in 0..pairs {
        space.put(&key(number), &value(number)).unwrap();
    }
    space.flush().unwrap();
}

/// The share of a keyspace.
fn share(db: &Db, name: &str) -> u64 {
    let stats = db.stats();
    let space = stats.keyspaces.iter().find(|space| space.name == name).unwrap();
    space.memory_share_bytes.unwrap()
}

/// The shares of all keyspaces.
fn all_shares(db: &Db) -> Vec<u64> {
    db.stats().keyspaces.iter().filter_map(|space| space.memory_share_bytes).collect()
}

/// All shares together are within the memory, and the bytes that engines count are within their
/// shares. A commit or a flush may have a little more for a moment: a 32nd.
fn check_sums(db: &Db) {
    let (used, limit) = db.memory_bytes();
    assert!(used <= limit, "{used} of {limit}");
    // Read at one moment: a step may change one of them while they are read.
    let (shares, used) = loop {
        let (before, used) = (all_shares(db), db.memory_bytes().0);
        if before == all_shares(db) {
            break (before.iter().sum::<u64>(), used);
        }
    };
    assert!(shares <= used, "{shares} of {used}");
    let stats = db.stats();
    let counted: u64 = stats.keyspaces.iter().map(|space| space.engine.memory_bytes).sum();
    assert!(counted <= limit + limit / 32, "{counted} of {limit}");
}

/// Reads keys of a keyspace, all alike often, until `is_enough`, or for a minute.
fn read_until(db: &Db, space: &Keyspace, pairs: u64, mut is_enough: impl FnMut() -> bool) -> bool {
    let environment = Environment::real();
    let until = environment.now() + Duration::from_secs(60);
    let mut state = 7_u64;
    while environment.now() < until {
        for _ in 0..500 {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let number = (state >> 33) % pairs;
            assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)));
        }
        check_sums(db);
        if is_enough() {
            return true;
        }
    }
    false
}
