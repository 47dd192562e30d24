//! The space of records that deletes made dead is freed.

use engine::Engine;

use super::stores::{Bench, key, tiny};
use crate::Options;

const KEYS: u64 = 400;
const VALUE_BYTES: usize = 3000;

/// The hot log takes 256 KiB, so most of the records are cold.
fn options() -> Options {
    Options { log_memory_bytes: Some(16 * 4096), read_cache_bytes: Some(0), ..tiny() }
}

/// Opens a store with all keys, of which most are cold.
fn loaded() -> Bench {
    let bench = Bench::open_by_hand(device::memory(), options(), 3);
    for number in 0..KEYS {
        bench.put(&key(number), &[number as u8; VALUE_BYTES]);
        if number % 4 == 0 {
            bench.advance();
        }
    }
    bench.store.flush().expect("flushes");
    (0..50).for_each(|_| bench.advance());
    assert!(disk_bytes(&bench) > KEYS * VALUE_BYTES as u64);
    bench
}

fn disk_bytes(bench: &Bench) -> u64 {
    ["log_disk_bytes", "cold_log_disk_bytes", "chunk_log_disk_bytes"]
        .iter()
        .map(|name| bench.figure(name))
        .sum()
}

/// Bytes that may stay: the last segment of the hot and of the cold log, and some of the chunk log.
const LEFT_BYTES: u64 = 3 * (64 << 10);

fn delete_all_but(bench: &Bench, kept: u64) {
    (kept..KEYS).for_each(|number| bench.delete(&key(number)));
}

fn must_be_given_back(bench: &Bench) {
    let names = ["log_disk_bytes", "cold_log_disk_bytes", "chunk_log_disk_bytes"];
    let each = names.map(|name| bench.figure(name));
    assert!(disk_bytes(bench) < LEFT_BYTES, "{each:?}");
}

fn must_have(bench: &Bench, kept: u64) {
    for number in 0..KEYS {
        let wanted = (number < kept).then(|| vec![number as u8; VALUE_BYTES]);
        assert_eq!(bench.get(&key(number)), wanted, "{number}");
    }
}

#[test]
fn deletes_give_space_back_without_another_write() {
    let bench = loaded();
    delete_all_but(&bench, 5);
    (0..500).for_each(|_| bench.advance());
    must_be_given_back(&bench);
    must_have(&bench, 5);
    // The compactions end then.
    let rounds = ["compactions", "cold_compactions"].map(|name| bench.figure(name));
    (0..200).for_each(|_| bench.advance());
    assert_eq!(["compactions", "cold_compactions"].map(|name| bench.figure(name)), rounds);
}

/// The opening learns of the deletes from the tombstones.
#[test]
fn a_store_that_is_opened_again_gives_deleted_space_back() {
    let bench = loaded();
    delete_all_but(&bench, 5);
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let bench = Bench::open_by_hand(bench.device, options(), 4);
    assert!(disk_bytes(&bench) > KEYS * VALUE_BYTES as u64, "not yet");
    (0..500).for_each(|_| bench.advance());
    must_be_given_back(&bench);
    must_have(&bench, 5);
}

#[test]
fn a_compaction_on_demand_gives_all_dead_space_back() {
    let bench = loaded();
    // Too few records are dead for a compaction.
    delete_all_but(&bench, KEYS - KEYS / 10);
    let before = disk_bytes(&bench);
    bench.store.compact().expect("compacts");
    let after = disk_bytes(&bench);
    let dead = KEYS / 10 * VALUE_BYTES as u64;
    assert!(after + dead / 2 < before, "{before} bytes before, {after} after");
    must_have(&bench, KEYS - KEYS / 10);
    let checked = crate::check(&bench.device).expect("is checked");
    assert_eq!(checked.damage, []);
}
