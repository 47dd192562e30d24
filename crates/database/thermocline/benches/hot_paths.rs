//! Costs that the database adds to its engine.
//!
//! These are a get, a put, a read-modify-write and a transaction over 1 M keys of `8+100` in
//! memory, journaled but not waited for; and a put while a transaction is open.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rand::RngExt;
use thermocline::{Change, Db, Durability, Environment, KeyspaceOptions, Options};

const KEYS: u64 = 1_000_000;

fn hot_paths(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options { durability: Durability::Buffered, ..Options::default() };
    let db = Db::open(dir.path(), options).expect("an empty directory opens");
    let space = db.keyspace("bench", KeyspaceOptions::default()).expect("a new keyspace");
    let value = [7; 100];
    for key in 0..KEYS {
        space.put(&key.to_be_bytes(), &value).expect("the budget is large enough");
    }
    let mut random = Environment::seeded(1).random("bench");
    let mut key = move || random.random_range(0..KEYS).to_be_bytes();
    let mut into = Vec::new();
    let mut group = criterion.benchmark_group("database");
    group.bench_function("get", |bencher| {
        bencher.iter_batched(
            &mut key,
            |key| space.get_into(&key, &mut into),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("put", |bencher| {
        bencher.iter_batched(&mut key, |key| space.put(&key, &value), BatchSize::SmallInput);
    });
    group.bench_function("rmw", |bencher| {
        let add = |old: Option<&[u8]>| Change::Put(old.unwrap_or_default().to_vec());
        bencher.iter_batched(&mut key, |key| space.rmw(&key, add), BatchSize::SmallInput);
    });
    group.bench_function("transaction", |bencher| {
        let get_and_put = |key: [u8; 8]| {
            db.transaction(|tx| tx.put(&space, &key, &tx.get(&space, &key)?.unwrap_or_default()))
        };
        bencher.iter_batched(&mut key, get_and_put, BatchSize::SmallInput);
    });
    let open = db.begin().expect("an open database");
    group.bench_function("put while a transaction is open", |bencher| {
        bencher.iter_batched(&mut key, |key| space.put(&key, &value), BatchSize::SmallInput);
    });
    drop(open);
    group.finish();
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
