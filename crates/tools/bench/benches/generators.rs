//! The harness's cost per operation: draw, key, value filled, value verified, version taken.
//!
//! Each must stay far below a store's own cost (a few hundred nanoseconds).

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use environment::Seed;
use thermocline_bench::distribution::{Choice, Distribution};
use thermocline_bench::shape::{KeyOrder, Keys, hash};
use thermocline_bench::value::{Versions, fill, verify};
use thermocline_bench::workload::{Place, Stream, StreamOptions, Workload};

const KEYS: u64 = 100_000_000;

fn draws(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("draw");
    let named = ["zipfian", "uniform", "latest", "hotspot:10:90", "composite", "sequential"];
    for name in named {
        let distribution: Distribution = name.parse().expect("a known name");
        let mut choice = Choice::new(distribution, KEYS, 0.99, 0);
        let mut random = Seed::from(1).stream(name);
        group.bench_function(name, |bencher| bencher.iter(|| choice.draw(0, &mut random)));
    }
    let mut steep = Choice::new(Distribution::Zipfian, KEYS, 1.2, 0);
    let mut random = Seed::from(1).stream("steep");
    group.bench_function("zipfian-1.2", |bencher| bencher.iter(|| steep.draw(0, &mut random)));
    let mut mixgraph = Choice::mixgraph_prefix(KEYS);
    group.bench_function("mixgraph", |bencher| bencher.iter(|| mixgraph.draw(0, &mut random)));
}

fn operations(criterion: &mut Criterion) {
    let workload = Workload::Ycsb('a');
    let options = StreamOptions {
        distribution: workload.distribution(),
        workload,
        trace: None,
        keys: KEYS,
        theta: 0.99,
        scan_length: None,
        seed: 1,
    };
    let mut stream = Stream::new(&options, Place { thread: 0, threads: 1 });
    criterion.bench_function("operation/ycsb-a", |bencher| bencher.iter(|| stream.next()));
}

fn keys_and_values(criterion: &mut Criterion) {
    let keys = Keys::generated(24, KeyOrder::Hashed);
    let mut key = Vec::new();
    let mut number = 0;
    criterion.bench_function("key/24", |bencher| {
        bencher.iter(|| {
            number += 1;
            keys.write(number, &mut key);
            hash(&key)
        });
    });
    for bytes in [100, 1000] {
        let mut value = vec![0; bytes];
        let mut version = 0;
        criterion.bench_function(&format!("fill/{bytes}"), |bencher| {
            bencher.iter(|| {
                version += 1;
                fill(7, version, black_box(&mut value));
            });
        });
        criterion.bench_function(&format!("verify/{bytes}"), |bencher| {
            bencher.iter(|| verify(7, black_box(&value)));
        });
    }
}

fn versions(criterion: &mut Criterion) {
    let versions = Versions::new(1 << 20, 1 << 20, 2);
    let mut choice = Choice::new(Distribution::Zipfian, 1 << 20, 0.99, 0);
    let mut random = Seed::from(1).stream("versions");
    criterion.bench_function("version/write", |bencher| {
        bencher.iter(|| {
            let write = versions.begin(0, choice.draw(0, &mut random), false);
            versions.acknowledge(0, write);
        });
    });
}

criterion_group!(benches, draws, operations, keys_and_values, versions);
criterion_main!(benches);
