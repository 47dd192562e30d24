//! Models of the cache beside writers, readers and itself, for both checkers: the cache, the index
//! and the epochs are real, the log is numbers.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --release --lib --target-dir target/loom read_cache
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-f2 --release --lib --target-dir target/shuttle read_cache
//! ```

use std::sync::Arc;

use engine::MemoryBudget;
use sync::epoch::Epochs;

use super::{ReadCache, Ring};
use crate::address::LogAddress;
use crate::checkers::{self, run};
use crate::hash_index::HashIndex;
use crate::key_hash::KeyHash;
use crate::planted::Planted;

const SEED: u64 = 3;
/// A record of a key and a value of a byte each.
const RECORD_BYTES: u64 = 32;
const PAGES: u64 = 2;
/// So that the memory of pages is given back, and not kept for those to come.
const SLOTS: u64 = 4;

/// What is in the log at first, and what the model's writer links.
const OLD: LogAddress = LogAddress::new(64);
const NEW: LogAddress = LogAddress::new(128);

struct Shared {
    index: HashIndex,
    epochs: Epochs,
    cache: ReadCache,
}

fn hash(key: u8) -> KeyHash {
    KeyHash::of(&[key], SEED)
}

impl Shared {
    /// A cache of two pages of so many records, and a log that has key 1 at [`OLD`].
    fn new(records: u64) -> Arc<Self> {
        let epochs = Epochs::new();
        let memory = Arc::new(MemoryBudget::new(u64::MAX));
        let ring = Ring::new(records * RECORD_BYTES, PAGES, SLOTS, epochs.clone(), memory);
        let cache = ReadCache::with_ring(Some(ring), SEED);
        let shared = Self { index: HashIndex::new(0), epochs, cache };
        shared.write(1, OLD);
        Arc::new(shared)
    }

    /// Links a record behind the log head, as every write does.
    fn write(&self, key: u8, at: LogAddress) {
        let _guard = self.epochs.protect();
        while self.index.find_or_create(hash(key)).compare_exchange(at).is_err() {}
    }

    /// A get of a key that finds nothing in memory and reads its value, which is its log head's
    /// number, from a device: a step for itself.
    fn get(&self, key: u8) -> u8 {
        let guard = self.epochs.protect();
        let seen = self.cache.seen(self.index.find(hash(key)), 0);
        let mut value = Vec::new();
        if self.cache.read(&seen, hash(key), &[key], &mut value) {
            return value[0];
        }
        drop(guard);
        let value = seen.log_head.get() as u8;
        let _guard = self.epochs.protect();
        self.cache.insert(&self.index, &seen, hash(key), &[key], &[value], || 0, true);
        value
    }

    /// What the entry leads to in the log, and that a copy in front of it is one of this.
    fn must_hold(&self, key: u8, log_head: LogAddress) {
        let _guard = self.epochs.protect();
        let seen = self.cache.seen(self.index.find(hash(key)), 0);
        assert_eq!(seen.log_head, log_head, "another log head");
        let address = seen.slot.map_or(LogAddress::NONE, |slot| slot.address());
        if let Some(record) = self.cache.find(address, &[key]) {
            let mut value = Vec::new();
            record.read(&mut value);
            assert_eq!(value, [log_head.get() as u8], "an old value is cached");
        } else {
            assert!(!address.is_cached(), "an entry leads to what is another's");
        }
    }
}

/// A reader caches what it has read, while the key is written.
fn insert_beside_write() {
    let shared = Shared::new(1);
    let reader = run(&shared, |shared| shared.get(1));
    shared.write(1, NEW);
    assert_eq!(u64::from(shared.get(1)), NEW.get(), "older than what was acknowledged");
    let seen = u64::from(reader.join().expect("ends"));
    assert!(seen == OLD.get() || seen == NEW.get(), "{seen}");
    shared.must_hold(1, NEW);
}

/// Two readers cache the same.
fn insert_beside_insert() {
    let shared = Shared::new(1);
    let reader = run(&shared, |shared| shared.get(1));
    assert_eq!(u64::from(shared.get(1)), OLD.get());
    assert_eq!(u64::from(reader.join().expect("ends")), OLD.get());
    shared.must_hold(1, OLD);
}

/// A key is written while its copy is evicted, because others are cached.
fn evict_beside_write() {
    let shared = Shared::new(1);
    shared.get(1);
    let writer = run(&shared, |shared| shared.write(1, NEW));
    for key in 2..4 {
        shared.get(key);
    }
    writer.join().expect("ends");
    shared.must_hold(1, NEW);
}

/// A key is written while its copy gets a second chance.
fn keep_beside_write() {
    let shared = Shared::new(2);
    // The second get is a hit; the page of this copy is full with the third, and to go with the next.
    for key in [1, 1, 2, 3] {
        shared.get(key);
    }
    let writer = run(&shared, |shared| shared.write(1, NEW));
    shared.get(4);
    writer.join().expect("ends");
    shared.must_hold(1, NEW);
}

/// A reader holds a copy while it is evicted and its page is filled anew.
fn evict_beside_read() {
    let shared = Shared::new(1);
    shared.get(1);
    let reader = run(&shared, |shared| {
        let _guard = shared.epochs.protect();
        let seen = shared.cache.seen(shared.index.find(hash(1)), 0);
        let mut value = Vec::new();
        let hit = shared.cache.read(&seen, hash(1), &[1], &mut value);
        assert_eq!(seen.log_head, OLD, "another's log head");
        let address = seen.slot.map_or(LogAddress::NONE, |slot| slot.address());
        assert_eq!(hit, address.is_cached(), "a copy of another key");
        let is_old = value.first().is_some_and(|byte| u64::from(*byte) == OLD.get());
        assert!(!hit || is_old, "another's value");
    });
    for key in 2..5 {
        shared.get(key);
    }
    reader.join().expect("ends");
    shared.must_hold(1, OLD);
}

fn check(name: &str, model: fn()) {
    checkers::explore(name, 2, model);
}

fn must_be_found(bug: Planted, how: &str, model: fn()) {
    checkers::must_be_found(bug, how, || check(&format!("{bug:?}"), model));
}

#[test]
fn inserts_lose_against_writes() {
    check("inserts_lose_against_writes", insert_beside_write);
}

#[test]
fn inserts_beside_inserts() {
    check("inserts_beside_inserts", insert_beside_insert);
}

#[test]
fn evictions_lose_against_writes() {
    check("evictions_lose_against_writes", evict_beside_write);
}

#[test]
fn readers_keep_what_is_evicted() {
    check("readers_keep_what_is_evicted", evict_beside_read);
}

#[test]
fn a_copy_over_a_newer_write_is_found() {
    must_be_found(Planted::CachedUnseen, "", insert_beside_write);
}

#[test]
fn an_eviction_that_undoes_a_write_is_found() {
    must_be_found(Planted::EvictedBlindly, "another log head", evict_beside_write);
}

#[test]
fn second_chances_lose_against_writes() {
    check("second_chances_lose_against_writes", keep_beside_write);
}

#[test]
fn a_second_chance_that_undoes_a_write_is_found() {
    must_be_found(Planted::KeptBlindly, "another log head", keep_beside_write);
}

#[test]
fn a_page_given_away_too_early_is_found() {
    must_be_found(Planted::FreedEarly, "another", evict_beside_read);
}
