//! What a store really takes of memory while ten times its budget goes through it: the process's
//! resident set, as the system counts it, less what it was before the store was opened.
//!
//! One test, in a process of its own, so that nothing else is in the resident set.

use std::sync::Arc;

use engine::{Engine, Host, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::Pool;

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 16 * MIB;
/// What the allocator keeps of freed memory, stacks of threads, and what this test itself takes.
const SLACK: u64 = 4 * MIB;
/// A record of a key of 8 bytes and a value of 100.
const RECORD_BYTES: u64 = 128;
const KEYS: u64 = 10 * BUDGET / RECORD_BYTES;

fn resident_bytes() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/statm").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.expect("the second number is the resident set")
}

struct Watched {
    store: Store,
    budget: Arc<MemoryBudget>,
    before: u64,
    most: u64,
    most_charged: u64,
}

impl Watched {
    fn look(&mut self) {
        self.most = self.most.max(resident_bytes().saturating_sub(self.before));
        self.most_charged = self.most_charged.max(self.budget.used());
    }

    fn tell(&self, phase: &str) {
        println!(
            "{phase}: {} KiB resident at most, {} KiB charged, of {} KiB",
            self.most >> 10,
            self.most_charged >> 10,
            BUDGET >> 10
        );
    }
}

/// Scatters numbers below [`KEYS`].
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS
}

#[test]
fn a_store_keeps_within_its_budget() {
    let dir = tempfile::tempdir().expect("a directory");
    let (environment, telemetry) = (Environment::real(), Registry::default());
    let workers = Pool::start(&environment, 2, &telemetry).expect("threads start");
    let budget = Arc::new(MemoryBudget::new(BUDGET));
    let host = Host {
        device: device::open(dir.path(), device::Options::default()).expect("it opens"),
        workers,
        environment,
        telemetry,
        sequence: Arc::new(Sequence::new()),
        barrier: Arc::new(NoJournal),
        memory: Arc::clone(&budget),
    };
    let sequence = Arc::clone(&host.sequence);
    let before = resident_bytes();
    let store = Store::open(host, Options::default()).expect("the store opens");
    let mut watched = Watched { store, budget, before, most: 0, most_charged: 0 };
    for number in 0..KEYS {
        let (key, value) = (number.to_le_bytes(), [number as u8; 100]);
        let ops = [Op::Put { key: &key, value: &value }];
        watched.store.admit(&ops).expect("there is room");
        let ticket = sequence.begin();
        watched.store.apply(&ops, ticket.seqno()).expect("the write is taken");
        drop(ticket);
        if number % 1000 == 0 {
            watched.look();
        }
    }
    watched.tell("loaded");
    let mut value = Vec::new();
    for number in 0..KEYS / 20 {
        let number = if number % 2 == 0 { scattered(number) } else { scattered(number % 5000) };
        let found = watched.store.get(&number.to_le_bytes(), &mut value).expect("it is read");
        assert!(found && value == [number as u8; 100], "key {number}");
        if number % 100 == 0 {
            watched.look();
        }
    }
    watched.tell("read");
    watched.store.flush().expect("flushes");
    watched.look();
    watched.tell("flushed");
    for (name, figure) in watched.store.stats().detail {
        println!("  {name} {figure}");
    }
    assert!(watched.most_charged <= BUDGET, "{} bytes are charged", watched.most_charged);
    assert!(watched.most <= BUDGET + SLACK, "{} bytes are resident", watched.most);
    assert!(watched.most > BUDGET / 2, "{} bytes: this test sees nothing", watched.most);
    watched.store.close().expect("closes");
}
