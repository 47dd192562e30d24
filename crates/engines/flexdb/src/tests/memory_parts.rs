//! A budget that becomes smaller and larger while the store is open.

use std::sync::Arc;

use conformance::resized::value;
use engine::{Engine, Error, NoJournal, ResizableMemory};

use super::stores::{Bench, key};
use crate::Options;

const MIB: u64 = 1 << 20;
const PAIRS: u64 = 40_000;

fn loaded(limit: u64, pairs: u64) -> Bench {
    let bench = Bench::of(limit, Options { segment_bytes_max: 16 << 10, ..Options::default() });
    bench.put_values(0..pairs);
    bench
}

#[test]
fn memory_comes_back_and_is_taken_again() {
    let bench = loaded(8 * MIB, PAIRS);
    bench.crank.run_all();
    bench.read_values(0..PAIRS);
    assert!(bench.budget.used() > 3 * MIB / 2, "{}", bench.budget.used());
    let before = bench.budget.used();
    assert_eq!(bench.store.resize(3 * MIB), Ok(3 * MIB));
    bench.shrink();
    bench.read_values(0..PAIRS);
    let smaller = bench.budget.used();
    assert!(smaller < before / 4 * 3 && smaller <= 3 * MIB, "{before} became {smaller}");
    assert_eq!(bench.store.resize(8 * MIB), Ok(8 * MIB));
    bench.read_values(0..PAIRS);
    assert!(bench.budget.used() > smaller * 3 / 2, "{smaller} became {}", bench.budget.used());
    // The index stays in memory, whatever it is asked.
    let least = bench.store.resize(0).expect("it is open");
    assert!(least >= Options::MEMORY_BYTES_MIN.max(4 * bench.detail("index_bytes")), "{least}");
    bench.shrink();
    bench.store.close().expect("closes");
    assert_eq!(bench.store.resize(8 * MIB), Err(Error::Closed));
}

/// While a store is only read, its cache has the memory of memtables, too; and gives it back to
/// writers.
#[test]
fn what_memtables_do_not_use_is_lent_to_the_cache() {
    let bench = loaded(8 * MIB, 2 * PAIRS);
    bench.store.flush().expect("flushes");
    bench.crank.run_all();
    let limit = 8 * MIB;
    let read = |bench: &Bench| {
        bench.read_values(0..2 * PAIRS);
        bench.detail("cache_bytes") + bench.detail("pair_bytes")
    };
    let written_to = read(&bench);
    bench.store.close().expect("closes");
    let options = Options { segment_bytes_max: 16 << 10, ..Options::default() };
    let bench = Bench::with(bench.0.device, Arc::new(NoJournal), limit, options).expect("opens");
    let only_read = read(&bench);
    println!("{written_to} bytes after writes, {only_read} where nothing was written");
    assert!(only_read > written_to + limit / 6, "{written_to} and {only_read}");
    for number in 0..2 * PAIRS {
        bench.put(&key(number), &value(number));
        assert!(bench.budget.used() <= limit, "{} bytes", bench.budget.used());
    }
    bench.crank.run_all();
    let left = bench.detail("cache_bytes") + bench.detail("pair_bytes");
    assert!(left < only_read - limit / 6, "{left} of {only_read}");
    read(&bench);
    assert!(bench.budget.used() <= limit, "{} bytes", bench.budget.used());
}

/// The needs report memory that is not released yet.
#[test]
fn a_memtable_that_is_not_committed_yet_is_not_given_back() {
    let bench = loaded(8 * MIB, 3_000);
    assert!(bench.detail("memtable_bytes") > MIB / 4);
    bench.shrink_memtables(MIB);
    assert_eq!(bench.get(&key(2_999)), Some(value(2_999)));
}

/// Data a little larger than the cache are worth more memory; what is far larger is not.
#[test]
fn what_is_read_again_and_again_gains() {
    let gain = |pairs: u64, turns: u64| {
        let gain = loaded(4 * MIB, pairs).gain_of_reads(pairs, pairs * turns);
        assert_eq!(gain.reach_bytes, MIB / 4);
        gain.saved_bytes
    };
    let (none, much, large) = (gain(3_000, 8), gain(16_000, 2), gain(48_000, 1) * 2 / 3);
    assert_eq!(none, 0, "all of it is cached");
    assert!(much > 100 * 4096, "{much}");
    assert!(large < much / 2, "{large} for as many reads, {much} where it is nearly enough");
}
