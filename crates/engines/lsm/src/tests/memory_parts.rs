//! A budget that becomes smaller and larger while the store is open.

use std::sync::Arc;

use conformance::resized::value;
use engine::{Engine, Error, NoJournal, ResizableMemory};

use super::stores::{Bench, key};
use crate::Options;
use crate::memory_split::MemorySplit;

const MIB: u64 = 1 << 20;
const PAIRS: u64 = 40_000;

#[test]
fn memory_comes_back_and_is_taken_again() {
    let opened =
        Bench::with_options(device::memory(), Arc::new(NoJournal), 8 * MIB, Options::default());
    let bench = opened.expect("an empty device opens");
    bench.put_values(0..PAIRS);
    bench.crank.run_all();
    bench.read_values(0..PAIRS);
    assert!(bench.budget.used() > 3 * MIB, "{}", bench.budget.used());
    assert_eq!(bench.store.resize(2 * MIB), Ok(2 * MIB));
    bench.shrink();
    assert!(bench.budget.used() <= 2 * MIB, "{} bytes", bench.budget.used());
    bench.read_values(0..PAIRS);
    assert!(bench.budget.used() <= 2 * MIB);
    // The store takes more when it wants more, and is never given less than it works with.
    assert_eq!(bench.store.resize(8 * MIB), Ok(8 * MIB));
    bench.read_values(0..PAIRS);
    assert!(bench.budget.used() > 3 * MIB, "{}", bench.budget.used());
    assert_eq!(bench.store.resize(0), Ok(Options::MEMORY_BYTES_MIN));
    bench.shrink();
    bench.store.close().expect("closes");
    assert_eq!(bench.store.resize(8 * MIB), Err(Error::Closed));
}

/// A store that is read and not written reads with what its memtables do not need, and a writer is
/// given it back.
#[test]
fn what_memtables_leave_serves_reads_until_it_is_written_to() {
    let opened =
        Bench::with_options(device::memory(), Arc::new(NoJournal), 8 * MIB, Options::default());
    let bench = opened.expect("an empty device opens");
    bench.put_values(0..PAIRS);
    bench.store.flush().expect("flushes");
    bench.crank.run_all();
    // Not immediately: the memory that memtables took stays claimed until much was read without
    // it.
    (0..6).for_each(|_| bench.read_values(0..PAIRS));
    let of_cache = MemorySplit::of(8 * MIB, &Options::default()).cache_bytes;
    let cached = || bench.detail("cache_bytes") + bench.detail("pair_bytes");
    assert!(cached() > of_cache, "{} of {of_cache}", cached());
    for number in 0..PAIRS {
        bench.put(&key(number), &value(number));
        assert!(bench.budget.used() <= 8 * MIB, "{} bytes after {number}", bench.budget.used());
    }
    assert!(cached() <= of_cache, "{} of {of_cache}", cached());
}

/// The needs report memory that is not released yet.
#[test]
fn a_memtable_that_is_not_flushed_yet_is_not_given_back() {
    let opened =
        Bench::with_options(device::memory(), Arc::new(NoJournal), 8 * MIB, Options::default());
    let bench = opened.expect("an empty device opens");
    let mut number = 0;
    while bench.detail("memtable_bytes") < MIB {
        bench.put(&key(number), &value(number));
        number += 1;
    }
    bench.shrink_memtables(MIB);
    assert_eq!(bench.get(&key(number - 1)), Some(value(number - 1)));
}

/// Data that are a little larger than the cache are worth more memory. Data that are far larger, or
/// read only once, are not.
#[test]
fn what_is_read_again_and_again_gains() {
    let gain = |pairs: u64, turns: u64, are_kept: bool| {
        // Small memtables, each with tables of its own. Otherwise the metadata of some tables share
        // a clock of the cache that has room for few of them, and most repeated reads are of
        // metadata.
        let options =
            Options { pairs: are_kept, memtable_bytes_max: MIB / 4, ..Options::default() };
        let opened = Bench::with_options(device::memory(), Arc::new(NoJournal), 4 * MIB, options);
        let bench = opened.expect("an empty device opens");
        for number in 0..pairs {
            bench.put(&key(number), &value(number));
            bench.crank.run_all();
        }
        let gain = bench.gain_of_reads(pairs, pairs * turns);
        assert_eq!(gain.reach_bytes, MIB / 4);
        gain.saved_bytes
    };
    for are_kept in [false, true] {
        let none = gain(3_000, 8, are_kept);
        let (much, large) = (gain(21_000, 2, are_kept), gain(120_000, 1, are_kept) / 4);
        assert_eq!(none, 0, "all of it is cached");
        assert!(much > 100 * 4096, "{much}");
        // Of a read that a larger cache of blocks would have spared, or one of pairs, both are
        // counted.
        let most = if are_kept { much } else { much / 2 };
        assert!(large < most, "{large} for as many reads, {much} where it is nearly enough");
    }
}
