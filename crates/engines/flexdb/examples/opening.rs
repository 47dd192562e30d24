//! The time to open a store of four times its memory, without the index that a close leaves.
//!
//! ```text
//! cargo run --release -p thermocline-flexdb --example opening -- DIR [KEYS [ROUNDS]]
//! ```
//!
//! Keys of 27 bytes, values of 1000, put in no order; a budget of a quarter of that, direct I/O, no
//! journal. An existing store is opened unchanged.
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::sync::Arc;

use device::{Device, Io, Options as DeviceOptions};
use engine::{BlockingWrites, Demand, Engine, Host, NoJournal, Op, Sequence, Wait};
use environment::Environment;
use memory_budget::MemoryBudget;
use telemetry::Registry;
use thermocline_flexdb::{Options, Store};
use workers::Pool;

const VALUE_BYTES: usize = 1000;
const PAIR_BYTES: u64 = 27 + VALUE_BYTES as u64;

fn open(device: &Arc<dyn Device>, keys: u64) -> (Store, Arc<Sequence>, Pool) {
    let (environment, telemetry) = (Environment::real(), Registry::default());
    let workers = Pool::start(&environment, 2, &telemetry).unwrap();
    let sequence = Arc::new(Sequence::new());
    let host = Host {
        device: Arc::clone(device),
        workers: workers.clone(),
        environment,
        telemetry,
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(keys * PAIR_BYTES / 4)),
    };
    let store = Store::open(host, Options::default()).unwrap();
    sequence.recover_to(store.persisted());
    (store, sequence, workers)
}

fn load(store: &Store, sequence: &Sequence, keys: u64) {
    for number in 0..keys {
        let key = format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes();
        let ops = [Op::Put { key: &key, value: &[7; VALUE_BYTES] }];
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
    let (keys, rounds) = (number(1, 2_000_000), number(2, 3));
    let options = DeviceOptions { io: Io::DirectBlocks, ..DeviceOptions::default() };
    let device = device::open(dir, options).unwrap();
    let (store, sequence, pool) = open(&device, keys);
    if sequence.last().get() == 0 {
        load(&store, &sequence, keys);
    }
    store.close().unwrap();
    drop((store, pool));
    for _ in 0..rounds {
        // As after a kill.
        if device.exists("index").unwrap() {
            device.remove("index").unwrap();
        }
        let before = device.accounting().counts();
        let environment = Environment::real();
        let begun = environment.now();
        let (store, _, pool) = open(&device, keys);
        let taken_ms = (environment.now().as_nanos() - begun.as_nanos()) / 1_000_000;
        let reads = device.accounting().counts().read_ops - before.read_ops;
        let detail = store.stats().detail;
        let figure = |name| detail.iter().find(|(known, _)| *known == name).unwrap().1;
        println!(
            "opened in {taken_ms} ms: {} keys, {reads} reads of the device, {} MiB",
            figure("opening_keys"),
            figure("space_bytes") >> 20,
        );
        store.close().unwrap();
        drop(pool);
    }
}
