//! Compares the map with two other designs for `docs/design/memory-engine.md`.
//!
//! The other two are a lock-free skip list, and shards of `BTreeMap`s behind locks. Loads, then
//! times gets and overwrites on one and on two threads, scans, and counts bytes of the process per
//! key.
//!
//! `cargo bench -p thermocline-memory --bench ways -- WAY KEYS ROUNDS`, `WAY` being `store`,
//! `skiplist` or `shards`: one a process, so that memory is counted for it alone.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use crossbeam_skiplist::SkipMap;
use engine::{BlockingWrites, Direction, Engine, Host, KeyRange, NoJournal, Op, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use rand::RngExt;
use reads::BlockingReads;
use sync::locks::RwLock;
use thermocline_memory::{Options, Store};

const VALUE: [u8; 100] = [7; 100];
const SHARDS: usize = 256;

/// The operations that all designs support.
trait Way: Sync {
    fn put(&self, key: &[u8], value: &[u8]);
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> bool;
    /// Visits every pair, and says how many there are.
    fn scan(&self) -> u64;
}

struct Ours {
    store: Store,
    sequence: Arc<Sequence>,
}

impl Ours {
    fn new(environment: &Environment) -> Self {
        let telemetry = telemetry::Registry::default();
        let sequence = Arc::new(Sequence::new());
        let host = Host {
            device: device::memory(),
            workers: workers::Pool::start(environment, 1, &telemetry).expect("threads start"),
            environment: environment.clone(),
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
        };
        let store = Store::open(host, Options::default()).expect("an empty device opens");
        Self { store, sequence }
    }
}

impl Way for Ours {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.store.write_next(&[Op::Put { key, value }], &self.sequence).expect("is taken");
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> bool {
        self.store.get(key, into).expect("the store is open")
    }

    fn scan(&self) -> u64 {
        let view = self.store.view(self.sequence.pin());
        let range = KeyRange::all();
        let mut cursor = view.scan(range, Direction::Forward).expect("the store is open");
        let mut count = 0;
        while let Some(pair) = cursor.next().expect("the store is open") {
            black_box(pair);
            count += 1;
        }
        count
    }
}

/// No versions, no snapshots, values replaced as a whole: what a skip list gives by itself.
#[derive(Default)]
struct SkipList(SkipMap<Box<[u8]>, Box<[u8]>>);

impl Way for SkipList {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> bool {
        let Some(entry) = self.0.get(key) else { return false };
        into.clear();
        into.extend_from_slice(entry.value());
        true
    }

    fn scan(&self) -> u64 {
        let mut count = 0;
        for entry in self.0.iter() {
            black_box((entry.key(), entry.value()));
            count += 1;
        }
        count
    }
}

type Shard = RwLock<BTreeMap<Box<[u8]>, Box<[u8]>>>;

/// Keys parted by hash, so a scan in order merges all shards: here it visits them one by one, which
/// is less work.
struct Shards(Vec<Shard>);

impl Shards {
    fn of(&self, key: &[u8]) -> &Shard {
        &self.0[codec::hash64(0, key) as usize % SHARDS]
    }
}

impl Way for Shards {
    fn put(&self, key: &[u8], value: &[u8]) {
        let mut shard = self.of(key).write();
        match shard.get_mut(key) {
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            _ => drop(shard.insert(key.into(), value.into())),
        }
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> bool {
        let shard = self.of(key).read();
        let Some(value) = shard.get(key) else { return false };
        into.clear();
        into.extend_from_slice(value);
        true
    }

    fn scan(&self) -> u64 {
        let mut count = 0;
        for shard in &self.0 {
            for pair in shard.read().iter() {
                black_box(pair);
                count += 1;
            }
        }
        count
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Bytes of memory that the process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Runs `each` with random keys on `threads` threads, `count` times in all; millions a second.
fn rate(
    environment: &Environment,
    threads: u64,
    keys: u64,
    count: u64,
    each: &(dyn Fn(u64, &mut Vec<u8>) + Sync),
) -> f64 {
    let began = environment.now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut dice = environment.random(&format!("thread {thread}"));
            scope.spawn(move || {
                let mut value = Vec::new();
                for _ in 0..count / threads {
                    each(dice.random_range(0..keys), &mut value);
                }
            });
        }
    });
    count as f64 / (environment.now() - began).as_secs_f64() / 1e6
}

fn measure(way: &dyn Way, environment: &Environment, keys: u64, rounds: u64) {
    let before = resident();
    let began = environment.now();
    (0..keys).for_each(|number| way.put(&key(number), &VALUE));
    let load = keys as f64 / (environment.now() - began).as_secs_f64() / 1e6;
    let bytes = (resident() - before) as f64 / keys as f64;
    println!("load {load:.2} M/s, {bytes:.1} bytes of the process per key of 8+100");
    let get = |number: u64, value: &mut Vec<u8>| assert!(way.get(&key(number), value));
    let put = |number: u64, _: &mut Vec<u8>| way.put(&key(number), &[8; 100]);
    for round in 0..rounds {
        for threads in [1, 2] {
            let gets = rate(environment, threads, keys, 4_000_000, &get);
            let puts = rate(environment, threads, keys, 4_000_000, &put);
            println!("round {round}, {threads} threads: get {gets:.2}, overwrite {puts:.2} M/s");
        }
        let began = environment.now();
        assert_eq!(way.scan(), keys);
        let scan = keys as f64 / (environment.now() - began).as_secs_f64() / 1e6;
        println!("round {round}: scan {scan:.2} M pairs/s");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|text| text != "--bench").collect();
    let [_, way, rest @ ..] = arguments.as_slice() else {
        return println!(
            "say which way: store, skiplist or shards; then how many keys, and rounds"
        );
    };
    let number = |index: usize, otherwise: u64| -> u64 {
        rest.get(index).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (keys, rounds) = (number(0, 1_000_000), number(1, 3));
    let environment = Environment::seeded(1);
    match way.as_str() {
        "store" => {
            let ours = Ours::new(&environment);
            measure(&ours, &environment, keys, rounds);
            let stats = ours.store.stats();
            let counted = stats.memory_bytes as f64 / keys as f64;
            println!("{counted:.1} bytes per key by its own count; {:?}", stats.detail);
        }
        "skiplist" => measure(&SkipList::default(), &environment, keys, rounds),
        "shards" => {
            let shards = Shards((0..SHARDS).map(|_| RwLock::default()).collect());
            measure(&shards, &environment, keys, rounds);
        }
        other => println!("{other} is none of store, skiplist and shards"),
    }
}
