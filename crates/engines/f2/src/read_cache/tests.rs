//! The cache and an index, without a log: addresses of the log are just numbers here.

use std::sync::Arc;

use memory_budget::MemoryBudget;
use sync::epoch::Epochs;

use super::*;

const SEED: u64 = 5;
/// A record of an 8-byte key and value takes 32 bytes: eight to a page.
const PAGE_BYTES: u64 = 256;

struct Bench {
    index: HashIndex,
    epochs: Epochs,
    cache: ReadCache,
    memory: Arc<MemoryBudget>,
}

impl Bench {
    fn new(pages: u64) -> Self {
        Self::growing(PAGE_BYTES, pages, pages)
    }

    fn growing(page_bytes: u64, pages: u64, pages_max: u64) -> Self {
        let (epochs, memory) = (Epochs::new(), Arc::new(MemoryBudget::new(u64::MAX)));
        let ring = Ring::new(page_bytes, pages, pages_max, epochs.clone(), Arc::clone(&memory));
        let cache = ReadCache::with_ring(Some(ring), pages_max * page_bytes, SEED);
        Self { index: HashIndex::new(8), epochs, cache, memory }
    }

    fn seen(&self, key: u64) -> Seen<'_> {
        self.cache.seen(self.index.find(hash(key)), 0)
    }

    fn insert(&self, seen: &Seen<'_>, key: u64, truncations: u64) -> bool {
        let bytes = key.to_le_bytes();
        let now = || truncations;
        self.cache.insert(&self.index, seen, hash(key), &bytes, &bytes, now, true)
    }

    /// A get that finds the key on a device; whether it is cached then.
    fn get(&self, key: u64) -> bool {
        let _guard = self.epochs.protect();
        self.insert(&self.seen(key), key, 0)
    }

    /// Caches a key, whether the cache is full or not.
    fn cache(&self, key: u64) -> bool {
        self.get(key) || self.get(key)
    }

    fn is_cached(&self, key: u64) -> bool {
        self.entry(key).is_some_and(LogAddress::is_cached)
    }

    fn hit(&self, key: u64) -> bool {
        let _guard = self.epochs.protect();
        let (seen, mut value) = (self.seen(key), Vec::new());
        let hit = self.cache.read(&seen, hash(key), &key.to_le_bytes(), &mut value);
        assert!(!hit || value == key.to_le_bytes());
        hit
    }

    fn link(&self, key: u64, address: LogAddress) {
        let slot = self.index.find_or_create(hash(key));
        slot.compare_exchange(address).expect("nobody else is there");
    }

    fn entry(&self, key: u64) -> Option<LogAddress> {
        self.index.find(hash(key)).map(|slot| slot.address())
    }
}

fn hash(key: u64) -> KeyHash {
    KeyHash::of(&key.to_le_bytes(), SEED)
}

#[test]
fn a_copy_is_found_in_front_of_the_log_head() {
    let bench = Bench::new(4);
    bench.link(1, LogAddress::new(640));
    assert!(!bench.hit(1));
    assert!(bench.cache(1));
    assert!(bench.hit(1));
    assert!(bench.entry(1).is_some_and(LogAddress::is_cached));
    assert_eq!(bench.seen(1).log_head, LogAddress::new(640));
    // A second copy takes the place of the first, not one behind it.
    assert!(bench.cache(1));
    assert_eq!(bench.seen(1).log_head, LogAddress::new(640));
    assert_eq!(bench.cache.figures().hits, 1);
}

#[test]
fn a_copy_of_what_was_overwritten_meanwhile_is_refused() {
    let bench = Bench::new(4);
    bench.link(1, LogAddress::new(640));
    let seen = bench.seen(1);
    bench.link(1, LogAddress::new(1280));
    assert!(!bench.insert(&seen, 1, 0));
    assert_eq!(bench.entry(1), Some(LogAddress::new(1280)));
}

#[test]
fn an_entry_that_may_have_come_and_gone_is_refused() {
    let bench = Bench::new(4);
    let seen = bench.seen(1);
    bench.link(1, LogAddress::new(640));
    assert!(!bench.insert(&seen, 1, 0), "there is an entry by now");
    while bench.index.scrub(LogAddress::new(1280), 0, 1 << 8).is_some() {}
    assert_eq!(bench.entry(1), None);
    assert!(!bench.insert(&seen, 1, 1), "the log was truncated");
    assert!(!bench.hit(1));
    let seen = bench.cache.seen(None, 1);
    assert!(bench.insert(&seen, 1, 1), "not since");
    assert!(bench.hit(1));
    let no_room = bench.cache.insert(
        &bench.index,
        &bench.seen(2),
        hash(2),
        &2u64.to_le_bytes(),
        b"",
        || 0,
        false,
    );
    assert!(!no_room, "no entry may be made");
    assert_eq!(bench.entry(2), None);
}

#[test]
fn evicted_entries_lead_back_to_the_log_or_go() {
    let bench = Bench::new(4);
    bench.link(1, LogAddress::new(640));
    bench.link(2, LogAddress::new(1280));
    for key in 1..=3 {
        assert!(bench.cache(key));
    }
    bench.link(2, LogAddress::new(1920));
    let cached = (10..200).filter(|&key| bench.cache(key)).count();
    assert_eq!(cached, 190, "one record evicted for each that comes is enough");
    assert_eq!(bench.entry(1), Some(LogAddress::new(640)));
    assert_eq!(bench.entry(2), Some(LogAddress::new(1920)));
    assert_eq!(bench.entry(3), None);
    assert!(bench.hit(199) && !bench.hit(10));
    let figures = bench.cache.figures();
    assert_eq!(figures.bytes, 4 * PAGE_BYTES);
    assert_eq!(bench.memory.used(), figures.bytes);
    let held = (1..200).filter(|&key| bench.is_cached(key));
    let held = held.count() as u64;
    assert_eq!(figures.evicted, 192 - held, "all but what was overwritten");
    drop(bench.cache);
    assert_eq!(bench.memory.used(), 0);
}

#[test]
fn what_is_hit_again_stays() {
    let bench = Bench::new(8);
    for key in 0..500 {
        assert!(bench.cache(key));
        assert!(key < 7 || bench.hit(7), "key 7 was hit before each of {key}");
    }
    assert!(!bench.hit(8));
    assert!(bench.cache.figures().second_chances > 5);
}

/// A record of the cache takes 32 bytes, so a page of 4 KiB holds 128.
#[test]
fn a_full_cache_admits_what_is_read_twice() {
    let bench = Bench::growing(4096, 8, 8);
    let first = (0..10_000).take_while(|&key| bench.get(key)).count() as u64;
    assert!((6 * 128..8 * 128).contains(&first), "{first} until it is full");
    assert!(!(first + 1..10_000).any(|key| bench.get(key)), "each is read once");
    assert!((0..first).all(|key| bench.is_cached(key)), "and takes nobody's place");
    assert!(bench.get(9_999), "read again");
    assert!((10_000..10_200).all(|key| !bench.get(key) && bench.get(key)));
    let evicted = bench.cache.figures().evicted;
    assert!((16..256).contains(&evicted), "{evicted}: the oldest make room");
    assert!((0..evicted).all(|key| !bench.is_cached(key)) && bench.is_cached(evicted));
    assert!(bench.get(evicted - 1), "what was evicted is back with the next read");
}

#[test]
fn pages_become_free_though_everything_was_read() {
    let bench = Bench::growing(4096, 8, 8);
    for key in 0..10_000 {
        assert!(bench.cache(key), "{key}");
        assert!(bench.hit(key));
    }
    let figures = bench.cache.figures();
    assert!(figures.second_chances > 4_000, "{figures:?}");
    assert_eq!(figures.bytes, 8 * 4096);
}

#[test]
fn a_page_is_not_filled_again_while_a_reader_may_read_it() {
    let bench = Bench::new(4);
    assert!(bench.cache(0));
    let reader = bench.epochs.protect();
    let address = bench.entry(0).expect("cached");
    let refused = (1..100).filter(|&key| !bench.cache(key)).count();
    assert!(refused > 50, "the ring is full, and nobody waits");
    assert!(bench.cache.find(address, &0u64.to_le_bytes()).is_some());
    drop(reader);
    let refused = (100..200).filter(|&key| !bench.cache(key)).count();
    assert!(refused < 20, "{refused} refused");
}

#[test]
fn a_smaller_cache_gives_its_memory_back_and_a_larger_one_holds_more() {
    const PAGE: u64 = 4096;
    let bench = Bench::growing(PAGE, 16, 40);
    // A record takes 32 bytes.
    let held = |bench: &Bench, keys: std::ops::Range<u64>| {
        keys.filter(|&key| bench.is_cached(key)).count() as u64
    };
    for key in 0..10_000 {
        assert!(bench.cache(key));
    }
    assert!((15..=16).contains(&(bench.memory.used() / PAGE)));
    assert!((14 * 128..=16 * 128).contains(&held(&bench, 0..10_000)));
    bench.cache.resize(5 * PAGE);
    assert!(bench.cache.is_within_limit(&bench.index), "one call evicts as many records as these");
    assert!(bench.memory.used() <= 5 * PAGE, "{}", bench.memory.used());
    assert!(held(&bench, 0..10_000) >= 3 * 128);
    assert!(bench.hit(9_999) && !bench.hit(8_000));
    bench.cache.resize(40 * PAGE);
    assert!(bench.cache.is_within_limit(&bench.index));
    for key in 10_000..20_000 {
        assert!(bench.cache(key));
    }
    assert!((39..=40).contains(&(bench.memory.used() / PAGE)));
    assert!(held(&bench, 10_000..20_000) >= 38 * 128);
    assert_eq!(bench.cache.figures().pages, 40);
}

/// A reader that holds a copy keeps its page from being released.
#[test]
fn memory_is_not_given_back_under_a_reader() {
    let bench = Bench::growing(4096, 8, 8);
    for key in 0..8 * 128 {
        assert!(bench.cache(key));
    }
    let reader = bench.epochs.protect();
    let key = 3 * 128_u64;
    let address = bench.entry(key).expect("cached");
    assert!(address.is_cached());
    bench.cache.resize(4 * 4096);
    assert!(!bench.cache.is_within_limit(&bench.index));
    assert!(bench.entry(key).is_none_or(|entry| entry != address), "it was evicted");
    assert!(bench.cache.find(address, &key.to_le_bytes()).is_some(), "and is there");
    drop(reader);
    assert!(bench.cache.is_within_limit(&bench.index));
    assert!(bench.memory.used() <= 4 * 4096);
}

#[test]
fn a_ring_needs_four_pages_and_takes_no_long_records() {
    const MAX: u64 = 32 << 20;
    assert_eq!(Ring::shape(0, MAX), None);
    assert_eq!(Ring::shape((16 << 10) - 1, MAX), None);
    assert_eq!(Ring::shape(16 << 10, MAX), Some((4 << 10, 4)));
    assert_eq!(Ring::shape(1 << 30, MAX), Some((1 << 20, 1024)));
    assert_eq!(Ring::shape(1 << 30, 64 << 10), Some((64 << 10, 1 << 14)));
    let bench = Bench::new(4);
    let _guard = bench.epochs.protect();
    let seen = bench.seen(1);
    let long = [0; PAGE_BYTES as usize / 2];
    assert!(!bench.cache.insert(&bench.index, &seen, hash(1), b"key", &long, || 0, true));
}
