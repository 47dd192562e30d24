//! The costs of the hash index.
//!
//! The benches find a chain that is there and one that is not, in a table that does not fit the
//! processor's caches. They also make a chain, and double the table.
#![allow(
    dead_code,
    unused_imports,
    reason = "the index is private to its crate: here is its source"
)]

#[path = "../src"]
mod source {
    pub(crate) mod address;
    pub(crate) mod hash_index;
    pub(crate) mod key_hash;
    pub(crate) mod planted;
    pub(crate) mod position;
    pub(crate) mod spin_wait;
}

use source::{address, hash_index, key_hash, planted, position, spin_wait};

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use address::LogAddress;
use hash_index::HashIndex;
use key_hash::KeyHash;

const CHAINS: u64 = 1_000_000;
/// Lookups of one iteration, of keys in no order.
const LOOKUPS: usize = 1000;

fn hash(key: u64) -> KeyHash {
    KeyHash::of(&key.to_le_bytes(), 42)
}

fn filled(base_bits: u32, chains: u64) -> HashIndex {
    let index = HashIndex::new(base_bits);
    for key in 0..chains {
        let slot = index.find_or_create(hash(key));
        slot.compare_exchange(LogAddress::new(64 + key)).expect("there is one thread");
        if key % 1024 == 0 && index.should_grow() {
            double(&index);
        }
    }
    index
}

fn double(index: &HashIndex) {
    index.grow();
    while index.split_some(1024) {}
}

/// Returns hashes of keys from `first` on; each key comes once before any key comes again.
fn hashes(first: u64) -> Vec<[KeyHash; LOOKUPS]> {
    (0..CHAINS / LOOKUPS as u64)
        .map(|batch| {
            let step = CHAINS / LOOKUPS as u64;
            std::array::from_fn(|i| hash(first + (i as u64 * step + batch) % CHAINS))
        })
        .collect()
}

fn find_all(index: &HashIndex, hashes: &[KeyHash]) -> u64 {
    hashes.iter().filter_map(|&hash| index.find(hash)).map(|slot| slot.address().get()).sum()
}

fn finding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash_index");
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    // Two to the 18th buckets in the end, 3.8 chains a bucket, and 16 MiB.
    for (name, level) in [("table/as_made", 0), ("table/doubled_4_times", 4)] {
        let index = filled(18 - level, CHAINS);
        assert_eq!(index.level(), level);
        for (what, first) in [("find_hit", 0), ("find_miss", CHAINS)] {
            let batches = hashes(first);
            let mut batch = batches.iter().cycle();
            group.bench_function(BenchmarkId::new(what, name), |b| {
                b.iter(|| black_box(find_all(&index, batch.next().expect("endless"))));
            });
        }
    }
    group.finish();
}

fn making(criterion: &mut Criterion) {
    const MADE: u64 = 100_000;
    let mut group = criterion.benchmark_group("hash_index");
    group.throughput(Throughput::Elements(MADE));
    group.sample_size(20);
    group.bench_function("find_or_create_and_link", |b| {
        b.iter_batched(|| (), |()| filled(15, MADE), BatchSize::PerIteration);
    });
    group.bench_function("double", |b| {
        b.iter_batched(
            || filled(15, MADE),
            |index| {
                double(&index);
                index
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, finding, making);
criterion_main!(benches);
