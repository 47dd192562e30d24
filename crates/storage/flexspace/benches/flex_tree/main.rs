//! Costs of a FlexTree's operations, next to a B+-tree without shifts and a sorted array.
//!
//! `THERMOCLINE_FLEX_EXTENTS=100000,1000000` sets the numbers of extents (one hundred thousand and
//! one million by default; ten million take some minutes, and a hundred million several gigabytes,
//! and leave out inserts). Inserts into indexes without shifts are measured up to a million
//! extents, as each costs O(N).

mod index;
mod rivals;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use environment::Seed;
use flexspace::FlexTree;
use index::{Index, LENGTH, address, appended, inserted, offsets};
use rand::RngExt;
use rivals::{SortedArray, UnshiftedTree};

/// Lookups of one iteration.
const LOOKUPS: usize = 1000;

/// Extents of a range.
const RANGE: u64 = 50;

/// Inserts of one iteration into an index without shifts.
const SLOW_INSERTS: usize = 10;

fn sizes() -> Vec<u64> {
    let given = std::env::var("THERMOCLINE_FLEX_EXTENTS").ok();
    let list = given.as_deref().unwrap_or("100000,1000000");
    list.split(',').map(|number| number.trim().parse().expect("a number of extents")).collect()
}

fn measure<I: Index>(criterion: &mut Criterion, count: u64) {
    let mut random = Seed::from(1).stream("flex_tree");
    let mut group = criterion.benchmark_group(format!("{count}_extents"));
    group.sample_size(10);

    group.throughput(Throughput::Elements(count));
    group.bench_function(BenchmarkId::new("append", I::NAME), |b| {
        b.iter_with_large_drop(|| appended::<I>(count));
    });
    if I::IS_SHIFTED && count <= I::INSERTS_MAX {
        group.bench_function(BenchmarkId::new("insert", I::NAME), |b| {
            b.iter_with_large_drop(|| inserted::<I>(count, &mut random));
        });
    } else if count <= I::INSERTS_MAX {
        // Into an index that has all its extents already: the paper's average is half of that.
        let mut index = appended::<I>(count);
        group.throughput(Throughput::Elements(SLOW_INSERTS as u64));
        group.bench_function(BenchmarkId::new("insert", I::NAME), |b| {
            b.iter(|| {
                for _ in 0..SLOW_INSERTS {
                    let offset = random.random_range(0..count) * u64::from(LENGTH);
                    index.insert(offset, address(count));
                }
            });
        });
    }

    // The paper looks up extents that were appended.
    let index: I = appended(count);
    let places = offsets(count, &mut random);
    let mut batches = places.chunks_exact(LOOKUPS).cycle();
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    group.bench_function(BenchmarkId::new("lookup", I::NAME), |b| {
        b.iter(|| {
            let batch = batches.next().expect("endless");
            black_box(batch.iter().map(|&offset| index.get(offset)).fold(0, u64::wrapping_add))
        });
    });
    group.bench_function(BenchmarkId::new("range_of_50", I::NAME), |b| {
        b.iter(|| {
            let batch = batches.next().expect("endless");
            let sum = |&offset: &u64| index.sum(offset, offset + RANGE * u64::from(LENGTH));
            black_box(batch.iter().map(sum).fold(0, u64::wrapping_add))
        });
    });
    group.finish();
}

fn all(criterion: &mut Criterion) {
    for count in sizes() {
        measure::<FlexTree>(criterion, count);
        measure::<UnshiftedTree>(criterion, count);
        measure::<SortedArray>(criterion, count);
    }
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
}

criterion_group!(name = benches; config = short(); targets = all);
criterion_main!(benches);
