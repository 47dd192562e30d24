//! The hot loops of the store: get, overwrite, insert, rmw, scan. `THERMOCLINE_BENCH_KEYS` sets how
//! many keys of 8 bytes with values of 100 there are (one million unless it says otherwise).

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::{
    BlockingWrites, Change, Direction, Host, KeyRange, NoJournal, Op, Operator, Sequence,
};
use environment::Environment;
use memory_budget::MemoryBudget;
use rand::RngExt;
use reads::BlockingReads;
use thermocline_memory::{Options, Store};

const VALUE_BYTES: usize = 100;

struct Bench {
    store: Store,
    sequence: Arc<Sequence>,
}

impl Bench {
    fn new() -> Self {
        let environment = Environment::seeded(1);
        let telemetry = telemetry::Registry::default();
        let sequence = Arc::new(Sequence::new());
        let host = Host {
            device: device::memory(),
            workers: workers::Pool::start(&environment, 1, &telemetry).expect("threads start"),
            environment,
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
        };
        let store = Store::open(host, Options::default()).expect("an empty device opens");
        Self { store, sequence }
    }

    fn filled(keys: u64) -> Self {
        let bench = Self::new();
        (0..keys).for_each(|number| bench.put(number, &[7; VALUE_BYTES]));
        bench
    }

    fn put(&self, number: u64, value: &[u8]) {
        let key = key(number);
        self.store.write_next(&[Op::Put { key: &key, value }], &self.sequence).expect("is taken");
    }
}

/// Scattered over all of `u64`, each number another.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Adds one to the first byte.
struct Add;

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        value[0] = value[0].wrapping_add(1);
        true
    }

    fn update(&mut self, _value: Option<&[u8]>) -> Change {
        Change::Keep
    }
}

fn keys() -> u64 {
    let text = std::env::var("THERMOCLINE_BENCH_KEYS").ok();
    text.map_or(1_000_000, |text| text.parse().expect("a number of keys"))
}

fn points(c: &mut Criterion) {
    let keys = keys();
    let bench = Bench::filled(keys);
    let environment = Environment::seeded(1);
    let mut dice = environment.random("bench");
    let mut group = c.benchmark_group("point");
    group.throughput(Throughput::Elements(1));
    let mut value = Vec::new();
    group.bench_function("get", |b| {
        b.iter(|| bench.store.get(&key(dice.random_range(0..keys)), black_box(&mut value)));
    });
    group.bench_function("overwrite", |b| {
        b.iter(|| bench.put(dice.random_range(0..keys), &[8; VALUE_BYTES]));
    });
    group.bench_function("rmw_in_place", |b| {
        b.iter(|| {
            let key = key(dice.random_range(0..keys));
            let ticket = bench.sequence.begin();
            bench.store.rmw(&key, &mut Add, ticket.seqno())
        });
    });
    group.bench_function("overwrite_beside_a_view", |b| {
        let view = bench.store.view(bench.sequence.pin());
        b.iter(|| bench.put(dice.random_range(0..keys), &[9; VALUE_BYTES]));
        drop(view);
    });
    group.finish();
}

fn inserts(c: &mut Criterion) {
    const BATCH: u64 = 100_000;
    let mut group = c.benchmark_group("insert");
    group.throughput(Throughput::Elements(BATCH)).sample_size(10);
    let run = |bench: Bench, key_of: fn(u64) -> u64| {
        for number in 0..BATCH {
            let key = key_of(number).to_be_bytes();
            let ticket = bench.sequence.begin();
            let op = Op::Put { key: &key, value: &[7; VALUE_BYTES] };
            bench.store.write(&[op], ticket.seqno()).expect("is taken");
        }
        bench
    };
    group.bench_function("scattered", |b| {
        let scatter = |number| u64::from_be_bytes(key(number));
        b.iter_batched(Bench::new, |bench| run(bench, scatter), BatchSize::PerIteration);
    });
    group.bench_function("in_order", |b| {
        b.iter_batched(Bench::new, |bench| run(bench, |number| number), BatchSize::PerIteration);
    });
    group.finish();
}

fn scans(c: &mut Criterion) {
    let keys = keys().min(1_000_000);
    let bench = Bench::filled(keys);
    let environment = Environment::seeded(1);
    let mut dice = environment.random("bench");
    let mut group = c.benchmark_group("scan");
    for direction in [Direction::Forward, Direction::Backward] {
        group.throughput(Throughput::Elements(keys)).sample_size(10);
        group.bench_function(format!("all/{direction:?}"), |b| {
            b.iter(|| take(&bench, KeyRange::all(), direction, u64::MAX));
        });
    }
    group.throughput(Throughput::Elements(50)).sample_size(100);
    group.bench_function("50", |b| {
        b.iter(|| {
            let start = key(dice.random_range(0..keys));
            take(&bench, KeyRange::of(start.as_slice()..), Direction::Forward, 50)
        });
    });
    group.finish();
}

fn take(bench: &Bench, range: KeyRange, direction: Direction, count: u64) -> u64 {
    let view = bench.store.view(bench.sequence.pin());
    let mut cursor = view.scan(range, direction).expect("the store is open");
    let mut taken = 0;
    while taken < count
        && let Some(pair) = cursor.next().expect("the store is open")
    {
        black_box(pair);
        taken += 1;
    }
    taken
}

criterion_group!(benches, points, inserts, scans);
criterion_main!(benches);
