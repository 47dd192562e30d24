//! What a commit takes of the system's allocator at once, beside what the budget counts: reads, plans, what is written,
//! and the records of the space's log.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Barrier, Engine, Host, MemoryBudget, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_flexdb::{Options, Store};
use workers::{HandCranked, Order, Pool};

const BUDGET: u64 = 16 << 20;
const VALUE_BYTES: usize = 127;
/// Three times the budget.
const KEYS: u64 = 3 * BUDGET / (27 + VALUE_BYTES as u64);
const ROUNDS: u64 = 6;
/// Parts of the budget of which a commit takes one at most: some chunks with what is read for them, the records, and
/// copies of nodes, of which there are no more before readers get another base.
const PARTS: u64 = 19;

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
    sequence: Arc<Sequence>,
    crank: HandCranked,
}

impl Bench {
    /// A store on a device of the system, as what one in memory holds would be allocated, too.
    fn on(directory: &std::path::Path) -> Self {
        let (environment, _clock) = Environment::simulated(7);
        let telemetry = Registry::default();
        let (workers, crank) = Pool::hand_cranked(&environment, &telemetry, Order::InOrder);
        let sequence = Arc::new(Sequence::new());
        let host = Host {
            device: device::open(directory, device::Options::default()).expect("it opens"),
            workers,
            environment,
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(Journaled),
            memory: Arc::new(MemoryBudget::new(BUDGET)),
        };
        let store = Store::open(host, Options::default()).expect("the store opens");
        Self { store, sequence, crank }
    }

    fn put(&self, number: u64, byte: u8) {
        let key = format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes();
        let put = [Op::Put { key: &key, value: &[byte; VALUE_BYTES] }];
        self.store.admit(&put).expect("there is room");
        let ticket = self.sequence.begin();
        self.store.apply(&put, ticket.seqno()).expect("the write is taken");
    }

    fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }
}

#[test]
fn a_commit_takes_a_small_part_of_the_budget_beside_what_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let bench = Bench::on(directory.path());
    (0..KEYS).for_each(|number| bench.put(number, 1));
    bench.store.flush().expect("the device takes it");
    let mut number = 0_u64;
    for round in 0..ROUNDS {
        let (mut puts, commits) = (0, bench.detail("commits"));
        while puts % 64 > 0 || bench.detail("memtables") < 4 {
            number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
            bench.put(number % KEYS, round as u8);
            puts += 1;
        }
        assert_eq!(bench.detail("commits"), commits, "nobody has run one");
        let (pairs, index) = (bench.detail("committed_pairs"), bench.detail("index_bytes"));
        let taken = allocation_counter::measure(|| _ = bench.crank.run_all());
        assert!(bench.detail("commits") > commits, "one was due");
        let pairs = bench.detail("committed_pairs") - pairs;
        let grown = bench.detail("index_bytes") as i64 - index as i64;
        println!(
            "{pairs} pairs: {} KiB at most, {} KiB left, index {} KiB and {} more, {} allocations",
            taken.bytes_max >> 10,
            taken.bytes_current >> 10,
            index >> 10,
            grown >> 10,
            taken.count_total,
        );
        assert!(taken.bytes_max < BUDGET / PARTS, "{} bytes at once", taken.bytes_max);
    }
    bench.store.close().expect("closes");
}
