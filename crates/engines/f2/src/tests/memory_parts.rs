//! A budget that becomes smaller and larger while the store is open.

use engine::{Engine, Error, ResizableMemory};

use super::stores::{Bench, key, tiny, value};
use crate::Options;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 16 * MIB;
const PAIRS: u64 = 120_000;
/// Words of a value.
const WORDS: usize = 20;

fn needs(bench: &Bench) -> memory_budget::MemoryNeeds {
    bench.store.needs()
}

fn loaded() -> Bench {
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), Options::default(), 7);
    for number in 0..PAIRS {
        bench.put(&key(number), &value(number, 0, WORDS));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    bench
}

fn read(bench: &Bench) {
    for number in (0..PAIRS).rev() {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, WORDS)));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
}

/// Runs background work until the store has released its memory.
fn wait_within_limit(bench: &Bench) {
    for _ in 0..500 {
        bench.advance();
        if needs(bench).is_within_limit {
            return;
        }
    }
    panic!("{:?}, {} bytes", needs(bench), bench.memory.used());
}

#[test]
fn memory_comes_back_and_is_taken_again() {
    let bench = loaded();
    read(&bench);
    let full = bench.memory.used();
    assert!(full > LIMIT / 2 && full <= LIMIT, "{full}");
    let least = needs(&bench).least_bytes;
    println!("{full} bytes, {least} at least");
    assert!(least < LIMIT * 3 / 4, "{least}");
    let smaller = LIMIT * 3 / 4;
    assert_eq!(bench.store.resize(smaller), Ok(smaller));
    wait_within_limit(&bench);
    assert!(bench.memory.used() <= smaller, "{}", bench.memory.used());
    read(&bench);
    assert!(bench.memory.used() <= smaller, "{}", bench.memory.used());
    // Twice the budget that it was opened with.
    assert_eq!(bench.store.resize(2 * LIMIT), Ok(2 * LIMIT));
    (0..2).for_each(|_| read(&bench));
    let grown = bench.memory.used();
    assert!(grown > full * 5 / 4 && grown <= 2 * LIMIT, "{full} became {grown}");
    assert_eq!(bench.store.resize(LIMIT), Ok(LIMIT));
    wait_within_limit(&bench);
    assert!(bench.memory.used() <= LIMIT);
    // The store has no use for more than four times its first budget, and works with no less than
    // it reports.
    assert_eq!(bench.store.resize(100 * LIMIT), Ok(4 * LIMIT));
    let least = bench.store.resize(0).expect("it is open");
    assert!((MIB..LIMIT).contains(&least), "{least}");
    wait_within_limit(&bench);
    assert!(bench.memory.used() <= least, "{} of {least}", bench.memory.used());
    read(&bench);
    for number in 0..PAIRS / 4 {
        bench.put(&key(number), &value(number, 1, WORDS));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    assert_eq!(bench.get(&key(7)), Some(value(7, 1, WORDS)));
    bench.store.close().expect("closes");
    assert_eq!(bench.store.resize(LIMIT), Err(Error::Closed));
}

/// A log that gets more memory also gets more of the disk, so that records in memory are not moved
/// to the cold log.
#[test]
fn the_hot_log_may_be_longer_with_more_memory() {
    let bench = loaded();
    let before = bench.store.shared.hot_disk_bytes_max().expect("there is a limit");
    bench.store.resize(4 * LIMIT).expect("it is open");
    (0..20).for_each(|_| bench.advance());
    (0..2).for_each(|_| read(&bench));
    let shared = &bench.store.shared;
    let memory = shared.hot.log.frames() * shared.hot.log.geometry.page_bytes();
    let now = shared.hot_disk_bytes_max().expect("there is a limit");
    assert!(now >= before && now >= 2 * memory, "{now} bytes of disk for {memory}");
}

#[test]
fn what_was_chosen_does_not_change() {
    for options in [
        tiny(),
        Options { single_log: true, ..Options::default() },
        Options { adaptive_split: false, ..Options::default() },
        Options { read_cache_bytes: Some(MIB), ..Options::default() },
    ] {
        let bench = Bench::open_made_for(LIMIT, options.clone());
        assert!(bench.store.memory().is_none(), "{options:?}");
    }
}
