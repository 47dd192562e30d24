//! How long it takes to open a store of ten times its memory, and how long each part takes.
//!
//! ```text
//! cargo run --release -p thermocline-f2 --example opening -- DIR [KEYS [ROUNDS]]
//! ```
//!
//! Keys of 8 bytes, values of 100, a budget of a tenth of that, direct I/O, no journal. The keys
//! are put in a scattered order. Puts of existing keys follow, a fifth of the number of keys, so
//! that all logs have seen compactions. A store that already exists is opened without these puts.
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::sync::Arc;

use device::{Io, Options as DeviceOptions};
use engine::{BlockingWrites, Demand, Engine, Host, NoJournal, Op, Sequence, Wait};
use environment::Environment;
use memory_budget::MemoryBudget;
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::Pool;

const PAIR_BYTES: u64 = 108;

fn open(dir: &str, keys: u64) -> (Store, Arc<Sequence>, Pool) {
    let environment = Environment::real();
    let telemetry = Registry::default();
    let options = DeviceOptions { io: Io::DirectBlocks, ..DeviceOptions::default() };
    let pool = Pool::start(&environment, 2, &telemetry).unwrap();
    let sequence = Arc::new(Sequence::new());
    let host = Host {
        device: device::open(dir, options).unwrap(),
        workers: pool.clone(),
        telemetry,
        environment,
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(keys * PAIR_BYTES / 10)),
    };
    (Store::open(host, Options::default()).unwrap(), sequence, pool)
}

/// Maps each number to a different number.
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn load(store: &Store, sequence: &Sequence, keys: u64) {
    for put in 0..keys + keys / 5 {
        let key = scatter(if put < keys { put } else { scatter(put) % keys }).to_le_bytes();
        let ops = [Op::Put { key: &key, value: &[7; 100] }];
        store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop).unwrap();
        let number = sequence.begin();
        store.write(&ops, number.seqno()).unwrap();
    }
    store.flush().unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().expect("usage: opening DIR [KEYS [ROUNDS]]");
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (keys, rounds) = (number(1, 10_000_000), number(2, 3));
    let (store, sequence, pool) = open(dir, keys);
    if sequence.last().get() == 0 {
        load(&store, &sequence, keys);
    }
    store.close().unwrap();
    drop((store, pool));
    for _ in 0..rounds {
        let (store, ..) = open(dir, keys);
        let detail = store.stats().detail;
        let figure = |name| detail.iter().find(|(known, _)| *known == name).unwrap().1;
        println!(
            "opened in {} ms: {} ms for {} MiB of the hot log, {} ms for {} MiB of the chunk log, \
             {} MiB of cold records, {} KiB of directory",
            figure("recovery_us") / 1000,
            figure("recovery_hot_log_us") / 1000,
            figure("log_bytes") >> 20,
            figure("recovery_chunk_log_us") / 1000,
            figure("chunk_log_bytes") >> 20,
            figure("cold_log_bytes") >> 20,
            figure("cold_index_directory_bytes") >> 10,
        );
        store.close().unwrap();
    }
}
