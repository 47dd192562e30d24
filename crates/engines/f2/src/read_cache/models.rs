//! Models of the cache concurrent with writers, readers and itself, for both checkers: the cache,
//! the index and the epochs are real, the log is numbers.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/loom read_cache
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/shuttle read_cache
//! ```

use std::sync::Arc;

use memory_budget::MemoryBudget;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::epoch::Epochs;
use sync::thread::yield_now;

use super::{ReadCache, Ring};
use crate::address::LogAddress;
use crate::checkers::{self, run};
use crate::hash_index::HashIndex;
use crate::key_hash::KeyHash;
use crate::planted::{Planted, mutant};

const SEED: u64 = 3;
/// A record of a key and a value of a byte each.
const RECORD_BYTES: u64 = 32;
const PAGES: u64 = 2;
/// So that the memory of pages is released, and not kept for later pages.
const SLOTS: u64 = 4;

/// The record that is in the cold log at first, different from all others.
const COLD: LogAddress = LogAddress::new(32);
/// The record that is in the log at first, and the record that the model's writer links.
const OLD: LogAddress = LogAddress::new(64);
const NEW: LogAddress = LogAddress::new(128);

struct Shared {
    index: HashIndex,
    epochs: Epochs,
    cache: ReadCache,
    /// How often the log was truncated.
    truncations: AtomicU64,
    /// The cold log's record of a key that is not in the log.
    cold: AtomicU64,
}

fn hash(key: u8) -> KeyHash {
    KeyHash::of(&[key], SEED)
}

impl Shared {
    /// Makes a cache of two pages of `records` records, and a log that has key 1 at [`OLD`].
    fn new(records: u64) -> Arc<Self> {
        let shared = Self::without_entries(records);
        shared.write(1, OLD);
        shared
    }

    /// The same with an empty log.
    fn without_entries(records: u64) -> Arc<Self> {
        let epochs = Epochs::new();
        let memory = Arc::new(MemoryBudget::new(u64::MAX));
        let ring = Ring::new(records * RECORD_BYTES, PAGES, SLOTS, epochs.clone(), memory);
        let cache = ReadCache::with_ring(Some(ring), SLOTS * records * RECORD_BYTES, SEED);
        let (truncations, cold) = (AtomicU64::new(0), AtomicU64::new(COLD.get()));
        Arc::new(Self { index: HashIndex::new(0), epochs, cache, truncations, cold })
    }

    /// Links a record behind the log head, as every write does.
    fn write(&self, key: u8, at: LogAddress) {
        let _guard = self.epochs.protect();
        while self.index.find_or_create(hash(key)).compare_exchange(at).is_err() {}
    }

    /// The record at `at` and all below move to the cold log, as hot-to-cold compaction has it:
    /// then the log begins behind, and entries that lead below are freed.
    fn move_to_cold(&self, at: LogAddress) {
        self.cold.store(at.get(), Ordering::Release);
        self.truncations.fetch_add(1, Ordering::AcqRel);
        let is_over = Arc::new(AtomicBool::new(mutant!(Planted::ScrubbedEarly, false, true)));
        let over = Arc::clone(&is_over);
        self.epochs.bump_with(move || over.store(true, Ordering::Release));
        while !is_over.load(Ordering::Acquire) {
            yield_now();
        }
        let _guard = self.epochs.protect();
        assert_eq!(self.index.scrub(at.plus(1), 0, usize::MAX), None);
    }

    /// Gets a key: if it finds nothing in memory, it reads the value from a device, a step for
    /// itself. The value is the number of the key's log head, or the cold log's record if there is
    /// none. It caches the value as production does.
    fn get(&self, key: u8) -> u8 {
        let guard = self.epochs.protect();
        let truncations = self.truncations.load(Ordering::Acquire);
        let seen = self.cache.seen(self.index.find(hash(key)), truncations);
        let mut value = Vec::new();
        if self.cache.read(&seen, hash(key), &[key], &mut value) {
            return value[0];
        }
        let noted = seen.note();
        drop(guard);
        let value = match noted.log_head {
            LogAddress::NONE => self.cold.load(Ordering::Acquire) as u8,
            head => head.get() as u8,
        };
        let _guard = self.epochs.protect();
        let truncations = || self.truncations.load(Ordering::Acquire);
        let (key, value_bytes) = (&[key], &[value]);
        let hash = hash(key[0]);
        self.cache.insert_noted(&self.index, &noted, hash, key, value_bytes, truncations, true);
        value
    }

    /// Checks which log head the entry leads to, and that a copy in front of it is a copy of this
    /// record.
    fn must_hold(&self, key: u8, log_head: LogAddress) {
        let (found, value) = self.entry(key);
        assert_eq!(found, log_head, "a lost write: another log head");
        if let Some(value) = value {
            assert_eq!(value, log_head.get() as u8, "an old value is cached");
        }
    }

    /// Checks that a copy of a key which has moved from `at` to the cold log is a copy of this
    /// record. The key keeps its entry, which leads to a removed record.
    fn must_have_moved(&self, key: u8, at: LogAddress) {
        let (found, value) = self.entry(key);
        assert!([LogAddress::NONE, at].contains(&found), "another log head: {found:?}");
        if let Some(value) = value {
            assert_eq!(value, at.get() as u8, "an old value is cached");
        }
    }

    /// A chain's newest record in the log, and the value of the copy in front of it.
    fn entry(&self, key: u8) -> (LogAddress, Option<u8>) {
        let _guard = self.epochs.protect();
        let seen = self.cache.seen(self.index.find(hash(key)), 0);
        let address = seen.slot.map_or(LogAddress::NONE, |slot| slot.address());
        let record = self.cache.find(address, &[key]);
        assert!(record.is_some() || !address.is_cached(), "an entry leads to another key's record");
        let mut value = Vec::new();
        (seen.log_head, record.map(|record| (record.read(&mut value), value[0]).1))
    }
}

/// A reader caches the value that it has read, while the key is written.
fn insert_beside_write() {
    let shared = Shared::new(1);
    let reader = run(&shared, |shared| shared.get(1));
    shared.write(1, NEW);
    assert_eq!(u64::from(shared.get(1)), NEW.get(), "a lost write: a reader gets an older value");
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
    // The second get is a hit; the page of this copy is full with the third, and to go with the
    // next.
    for key in [1, 1, 2, 3] {
        shared.get(key);
    }
    let writer = run(&shared, |shared| shared.write(1, NEW));
    shared.get(4);
    writer.join().expect("ends");
    shared.must_hold(1, NEW);
}

/// A reader holds a copy while it is evicted and its page is filled again.
fn evict_beside_read() {
    let shared = Shared::new(1);
    shared.get(1);
    let reader = run(&shared, |shared| {
        let _guard = shared.epochs.protect();
        let seen = shared.cache.seen(shared.index.find(hash(1)), 0);
        let mut value = Vec::new();
        let hit = shared.cache.read(&seen, hash(1), &[1], &mut value);
        assert_eq!(seen.log_head, OLD, "a reused page: another record's log head");
        let address = seen.slot.map_or(LogAddress::NONE, |slot| slot.address());
        assert_eq!(hit, address.is_cached(), "a reused page: another record's key");
        let is_old = value.first().is_some_and(|byte| u64::from(*byte) == OLD.get());
        assert!(!hit || is_old, "a reused page: another record's value");
    });
    for key in 2..5 {
        shared.get(key);
    }
    reader.join().expect("ends");
    shared.must_hold(1, OLD);
}

/// A reader caches the value that it has read from the cold log, while the key is written and the
/// new record moves there too: the entry is without an address again.
fn insert_beside_a_move() {
    let shared = Shared::without_entries(1);
    let reader = run(&shared, |shared| shared.get(1));
    shared.write(1, NEW);
    shared.move_to_cold(NEW);
    let seen = u64::from(reader.join().expect("ends"));
    assert!(seen == COLD.get() || seen == NEW.get(), "{seen}");
    shared.must_have_moved(1, NEW);
}

/// The same, and another write begins, which makes the entry again.
fn insert_beside_a_move_and_a_new_entry() {
    let shared = Shared::without_entries(1);
    let reader = run(&shared, |shared| shared.get(1));
    shared.write(1, NEW);
    shared.move_to_cold(NEW);
    let guard = shared.epochs.protect();
    let _: super::Slot<'_> = shared.index.find_or_create(hash(1));
    drop(guard);
    reader.join().expect("ends");
    shared.must_have_moved(1, NEW);
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
    must_be_found(Planted::CachedUnseen, "a lost write", insert_beside_write);
}

#[test]
fn an_eviction_that_undoes_a_write_is_found() {
    must_be_found(Planted::EvictedBlindly, "a lost write: another log head", evict_beside_write);
}

#[test]
fn second_chances_lose_against_writes() {
    check("second_chances_lose_against_writes", keep_beside_write);
}

#[test]
fn a_second_chance_that_undoes_a_write_is_found() {
    must_be_found(Planted::KeptBlindly, "a lost write: another log head", keep_beside_write);
}

#[test]
fn a_page_given_away_too_early_is_found() {
    must_be_found(Planted::FreedEarly, "a reused page", evict_beside_read);
}

#[test]
fn inserts_lose_against_what_came_and_went() {
    check("inserts_lose_against_what_came_and_went", insert_beside_a_move);
    check("inserts_lose_against_what_came_and_went", insert_beside_a_move_and_a_new_entry);
}

#[test]
fn a_copy_of_a_chain_that_is_not_compared_is_found() {
    must_be_found(Planted::NotedUncompared, "a lost write", insert_beside_write);
}

#[test]
fn a_copy_of_what_was_truncated_meanwhile_is_found() {
    must_be_found(Planted::TruncatedUnseen, "an old value is cached", insert_beside_a_move);
}

#[test]
fn an_entry_that_is_freed_early_is_found() {
    let how = "an old value is cached";
    must_be_found(Planted::ScrubbedEarly, how, insert_beside_a_move_and_a_new_entry);
}
