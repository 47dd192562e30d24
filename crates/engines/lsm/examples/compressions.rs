//! Cost and savings of each compression in a store.
//!
//! ```text
//! cargo run --release -p thermocline-lsm --example compressions -- [TEXT]
//! ```
//!
//! The pairs are records of JSON, or pieces of 100 to 500 bytes of the file TEXT. They are written
//! in a random order, flushed and compacted; then some are read, in a random order, with a cache
//! that is too small for them, and all are walked over. The device is memory: what is measured is
//! the processor.
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::sync::Arc;
use std::time::Duration;

use engine::{
    BlockingWrites, Demand, Direction, Engine, Host, KeyRange, NoJournal, Op, Sequence, Wait,
};
use environment::Environment;
use memory_budget::MemoryBudget;
use rand::{Rng, RngExt};
use reads::BlockingReads;
use telemetry::Registry;
use thermocline_lsm::{Compression, Options, Store};
use workers::Pool;

const PAIRS: u64 = 400_000;
const GETS: u64 = 200_000;
const MEMORY: u64 = 16 << 20;

/// Records as people store them.
fn records() -> Vec<Vec<u8>> {
    let mut random = Environment::seeded(1).random("records");
    let record = |id: u64| {
        let (name, day, tag) =
            (random.next_u64() >> 24, random.random_range(1..29), random.next_u32() % 200);
        let (cents, active) = (random.next_u32() % 10_000_000, random.random_bool(0.7));
        format!(
            "{{\"id\":{id},\"email\":\"{name:x}@example.org\",\"created\":\"2026-11-{day:02}\",\
             \"balance\":{cents},\"active\":{active},\"tags\":[\"lake\",\"t{tag}\"]}}"
        )
        .into_bytes()
    };
    (0..PAIRS).map(record).collect()
}

/// Pieces of a text, from its beginning again when it ends.
fn pieces(text: &[u8]) -> Vec<Vec<u8>> {
    let mut random = Environment::seeded(1).random("pieces");
    let mut at = 0;
    let mut piece = |_| {
        let len = random.random_range(100..500);
        let (head, rest) = text.split_at(at);
        at = (at + len) % text.len();
        rest.iter().chain(head).cycle().take(len).copied().collect()
    };
    (0..PAIRS).map(&mut piece).collect()
}

fn key(number: u64) -> Vec<u8> {
    format!("user:{number:010}").into_bytes()
}

/// Returns the numbers below `PAIRS`, each once, with successive numbers far apart.
fn scattered() -> impl Iterator<Item = u64> {
    (0..PAIRS).map(|at| at * 247_213 % PAIRS)
}

fn measure(name: &str, options: Options, values: &[Vec<u8>]) {
    let environment = Environment::real();
    let telemetry = Registry::default();
    let sequence = Arc::new(Sequence::new());
    let workers = Pool::start(&environment, 2, &telemetry).unwrap();
    let host = Host {
        device: device::memory(),
        workers,
        telemetry,
        environment: environment.clone(),
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(MEMORY)),
    };
    let store = Store::open(host, options).unwrap();
    let detail = |wanted: &str| {
        let stats = store.stats();
        stats.detail.iter().find(|(name, _)| *name == wanted).unwrap().1
    };
    let begin = environment.now();
    for number in scattered() {
        let value = &values[number as usize];
        let ops = [Op::Put { key: &key(number), value }];
        store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop).unwrap();
        store.write_next(&ops, &sequence).unwrap();
    }
    store.flush().unwrap();
    let mut idle_looks = 0;
    while idle_looks < 20 {
        idle_looks = if detail("compactions_under_way") == 0 { idle_looks + 1 } else { 0 };
        environment.sleep(Duration::from_millis(10));
    }
    let written = environment.now() - begin;
    let (all, stored) = (detail("block_bytes"), detail("block_bytes_stored"));
    let begin = environment.now();
    let mut value = Vec::new();
    for number in scattered().take(GETS as usize) {
        assert!(store.get(&key(number), &mut value).unwrap());
        assert_eq!(value, values[number as usize]);
    }
    let read = environment.now() - begin;
    let begin = environment.now();
    let view = store.view(sequence.pin());
    let mut cursor = view.scan(KeyRange::all(), Direction::Forward).unwrap();
    let mut pairs = 0;
    while cursor.next().unwrap().is_some() {
        pairs += 1;
    }
    let walked = environment.now() - begin;
    assert_eq!((pairs, detail("zstd_mistakes")), (PAIRS, 0));
    drop((cursor, view));
    println!(
        "{name:>14}: on disk {:6.1} MB, blocks {:5.1} %, written in {:5.2} s ({:.0} MB of blocks), \
         a get {:5.2} us, a pair walked over {:4.0} ns",
        store.stats().disk_bytes as f64 / 1e6,
        100.0 * stored as f64 / all as f64,
        written.as_secs_f64(),
        all as f64 / 1e6,
        read.as_secs_f64() * 1e6 / GETS as f64,
        walked.as_secs_f64() * 1e9 / PAIRS as f64,
    );
    store.close().unwrap();
}

/// Most of the data is in Level 2.
fn options(block_bytes: usize, compression: &[Compression]) -> Options {
    let compression = compression.to_vec();
    Options { compression, block_bytes, level1_bytes: 4 << 20, ..Options::default() }
}

fn main() {
    let values = match std::env::args().nth(1) {
        #[expect(clippy::disallowed_methods, reason = "reads what was asked for")]
        Some(path) => pieces(&std::fs::read(path).unwrap()),
        None => records(),
    };
    for block_bytes in [4096, 16384] {
        println!("blocks of {block_bytes} bytes");
        for compression in Compression::ALL {
            measure(compression.name(), options(block_bytes, &[compression]), &values);
        }
        let by_level = [Compression::Lz4, Compression::Lz4, Compression::Zstd];
        measure("lz4,lz4,zstd", options(block_bytes, &by_level), &values);
    }
}
