//! What writing costs the device: bytes written for each byte put, reads for each put, and bytes that the
//! collector moves, where a journal keeps what is in memory: of pairs that are loaded in no order, and of keys some of
//! which are written more often than others.

use std::sync::Arc;
use std::time::Duration;

use codec::SeqNo;
use device::{Device, IoCounts};
use engine::{Barrier, Engine, Host, MemoryBudget, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_flexdb::{Options, Store};
use workers::Pool;

const BUDGET: u64 = 8 << 20;
const VALUE_BYTES: usize = 127;
const PAIR_BYTES: u64 = 27 + VALUE_BYTES as u64;
/// Four times the budget.
const KEYS: u64 = 4 * BUDGET / PAIR_BYTES;
const PUTS: u64 = 400_000;
/// Zipf's exponent.
const THETA: f64 = 0.99;

/// A journal that has everything.
struct Journaled;

impl Barrier for Journaled {
    fn reach(&self, seqno: SeqNo) -> engine::Result<SeqNo> {
        Ok(seqno)
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

struct Bench {
    store: Store,
    device: Arc<dyn Device>,
    sequence: Arc<Sequence>,
    /// How often keys up to each are drawn, of all.
    shares: Vec<f64>,
    workers: Pool,
}

/// The key of that number: in no order.
fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}

impl Bench {
    fn new() -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, 2, &telemetry).expect("threads start");
        let sequence = Arc::new(Sequence::new());
        let device = device::memory();
        let host = Host {
            device: Arc::clone(&device),
            workers: workers.clone(),
            environment,
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(Journaled),
            memory: Arc::new(MemoryBudget::new(BUDGET)),
        };
        let store = Store::open(host, Options::default()).expect("the store opens");
        let weights = (1..=KEYS).map(|rank| (rank as f64).powf(-THETA));
        let shares = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { store, device, sequence, shares: shares.collect(), workers }
    }

    fn put(&self, number: u64, byte: u8) {
        let key = key(number);
        let put = [Op::Put { key: &key, value: &[byte; VALUE_BYTES] }];
        self.store.admit(&put).expect("there is room");
        let ticket = self.sequence.begin();
        self.store.apply(&put, ticket.seqno()).expect("the write is taken");
    }

    /// The key that is drawn by that number: the same each time.
    fn drawn(&self, number: u64) -> u64 {
        let draw = codec::hash64(11, &number.to_le_bytes()) as f64 / u64::MAX as f64;
        let wanted = draw * self.shares.last().copied().unwrap_or_default();
        self.shares.partition_point(|share| *share < wanted) as u64
    }

    fn load(&self) {
        (0..KEYS).for_each(|number| self.put(number, 1));
    }

    fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }

    /// Waits until the collector has nothing to do any more, nor a pass that writes neighbours as one.
    fn settle(&self) -> IoCounts {
        let environment = Environment::real();
        let mut before = IoCounts::default();
        loop {
            let now = self.device.accounting().counts();
            if now == before {
                return now;
            }
            before = now;
            environment.sleep(Duration::from_millis(3000));
        }
    }
}

#[test]
fn what_is_written_often_is_seldom_committed_and_neighbours_are_written_together() {
    let bench = Bench::new();
    bench.load();
    let before = bench.settle();
    let committed = bench.detail("committed_pairs");
    let (moved, tidied) = (bench.detail("collected_bytes"), bench.detail("bytes_tidied"));
    (0..PUTS).for_each(|number| bench.put(bench.drawn(number), number as u8));
    let after = bench.settle();
    let put = (PUTS * PAIR_BYTES) as f64;
    let committed = (bench.detail("committed_pairs") - committed) as f64 / PUTS as f64;
    let tidied = (bench.detail("bytes_tidied") - tidied) as f64;
    let written = ((after.write_bytes - before.write_bytes) as f64 - tidied) / put;
    let tidied = tidied / put;
    let reads = (after.read_ops - before.read_ops) as f64 / PUTS as f64;
    let moved = (bench.detail("collected_bytes") - moved) as f64 / put;
    println!("{committed:.3} committed and {reads:.3} reads for each put");
    println!("{written:.3} bytes written and {moved:.3} moved for each byte put");
    println!("and {tidied:.3} afterwards, while nobody wanted the store");
    assert!(committed < 0.5, "{committed} pairs committed for each put");
    assert!(written < 2.0, "{written} bytes written for each byte put");
    assert!(reads < 0.25, "{reads} reads for each put");
    assert!(tidied <= 1.0, "{tidied} bytes written while it was idle for each byte put");
    assert!(moved < 0.5, "{moved} bytes moved by the collector for each byte put");
    let mut value = Vec::new();
    let mut last = vec![1; KEYS as usize];
    (0..PUTS).for_each(|number| last[bench.drawn(number) as usize] = number as u8);
    for number in (0..KEYS).step_by(7) {
        assert_eq!(bench.store.get(&key(number), &mut value), Ok(true), "{number}");
        assert_eq!(value, [last[number as usize]; VALUE_BYTES], "{number}");
    }
    bench.store.close().expect("closes");
    assert!(bench.workers.stop().is_empty(), "no task panics");
}

/// Each pair is put once, and by a few commits: those of all memtables that wait are one.
#[test]
fn what_is_loaded_in_no_order_is_appended_and_seldom_written_anew() {
    let bench = Bench::new();
    bench.load();
    bench.store.flush().expect("the device takes it");
    let loaded = bench.device.accounting().counts();
    let put = (KEYS * PAIR_BYTES) as f64;
    let part = |name| bench.detail(name) as f64 / put;
    let (appended, anew) = (part("bytes_appended"), part("bytes_rewritten"));
    let (moved, tidied) = (part("collected_bytes"), part("bytes_tidied"));
    let written = loaded.write_bytes as f64 / put - tidied;
    let reads = loaded.read_ops as f64 / KEYS as f64;
    let memtables = bench.detail("committed_memtables") as f64 / bench.detail("commits") as f64;
    println!("{written:.3} bytes written for each byte loaded, and {reads:.3} reads for each pair");
    println!("{appended:.3} appended, {anew:.3} written anew, {moved:.3} moved");
    println!("{memtables:.2} memtables a commit");
    assert!(memtables > 2.5, "{memtables} memtables a commit");
    assert!(written < 4.1, "{written} bytes written for each byte loaded");
    assert!(reads < 0.2, "{reads} reads for each pair");
    assert!(moved < 0.6, "{moved} bytes moved by the collector for each byte loaded");
    bench.store.close().expect("closes");
    assert!(bench.workers.stop().is_empty(), "no task panics");
}
