//! What a store really takes of memory ([`resident`]). Small pairs, several times its budget, go through
//! it by several threads: nothing else leaves as many small pieces of memory behind.

use std::ops::ControlFlow;
use std::sync::Arc;

use conformance::resident::{self, Resident};
use device::Device;
use engine::{Engine, Host, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_lsm::{Options, Store};
use workers::Pool;

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 100;
const PAIR_BYTES: u64 = 8 + VALUE_BYTES as u64;
const THREADS: u64 = 2;

/// A budget, and how many times it is loaded.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    budget: u64,
    times: u64,
    /// Beside the budget: stacks of threads, what the system keeps of the program itself; what was freed and is
    /// yet to be given back, and what is free beside a piece in use on the same page.
    slack: u64,
}

const CASES: [Case; 2] = [
    Case { name: "small", budget: 16 * MIB, times: 4, slack: 6 * MIB },
    Case { name: "large", budget: 64 * MIB, times: 2, slack: 8 * MIB },
];

struct Watched {
    case: Case,
    store: Option<Store>,
    device: Arc<dyn Device>,
    budget: Arc<MemoryBudget>,
    sequence: Arc<Sequence>,
    workers: Pool,
    resident: Resident,
}

fn key(number: u64) -> [u8; 8] {
    codec::hash64(7, &number.to_le_bytes()).to_be_bytes()
}

impl Watched {
    fn new(case: Case, directory: &std::path::Path) -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, 2, &telemetry).expect("threads start");
        let device = device::open(directory, device::Options::default()).expect("it opens");
        let budget = Arc::new(MemoryBudget::new(case.budget));
        let resident = Resident::watch(&budget, case.slack);
        let sequence = Arc::new(Sequence::new());
        let mut watched = Self { case, store: None, device, budget, sequence, workers, resident };
        watched.open();
        watched
    }

    fn open(&mut self) {
        let host = Host {
            device: Arc::clone(&self.device),
            workers: self.workers.clone(),
            environment: Environment::real(),
            telemetry: Registry::default(),
            sequence: Arc::clone(&self.sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::clone(&self.budget),
        };
        self.store = Some(Store::open(host, Options::default()).expect("the store opens"));
    }

    fn reopen(&mut self) {
        self.store().flush().expect("flushes");
        self.store().close().expect("closes");
        self.store = None;
        self.open();
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn keys(&self) -> u64 {
        self.case.times * self.case.budget / PAIR_BYTES
    }

    /// Writes every `step`th key, on several threads, in no order.
    fn write(&self, step: usize, byte: u8) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for number in (thread..self.keys()).step_by(step * THREADS as usize) {
                        let key = key(number);
                        let put = [Op::Put { key: &key, value: &[byte; VALUE_BYTES] }];
                        self.store().admit(&put).expect("there is room");
                        let ticket = self.sequence.begin();
                        self.store().apply(&put, ticket.seqno()).expect("the write is taken");
                    }
                });
            }
        });
    }

    fn read(&self) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut value = Vec::new();
                    for number in (thread..self.keys()).step_by(9) {
                        assert_eq!(self.store().get(&key(number), &mut value), Ok(true));
                    }
                });
            }
        });
    }

    fn walk(&self) {
        let mut met = 0;
        let walked = self.store().walk(None, &mut |_, _| {
            met += 1;
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        assert_eq!(met, self.keys(), "each is met once");
    }
}

/// The part of the others that has a process of its own; without a case there is nothing to measure.
#[test]
fn child() {
    let Some(name) = resident::case() else { return };
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case of that name");
    // As every program of ours does that has a store.
    sync::bound_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    let mut watched = Watched::new(case, directory.path());
    watched.write(1, 1);
    watched.resident.end_phase("loaded");
    watched.write(3, 2);
    watched.resident.end_phase("updated");
    watched.read();
    watched.resident.end_phase("read");
    watched.write(3, 3);
    watched.resident.end_phase("written to after reading");
    watched.walk();
    watched.resident.end_phase("walked over");
    watched.reopen();
    watched.read();
    watched.resident.end_phase("opened and read");
    for (name, figure) in watched.store().stats().detail {
        println!("  {name} {figure}");
    }
    watched.store().close().expect("closes");
    watched.resident.end();
}

#[test]
fn a_store_keeps_within_its_budget() {
    resident::run_alone("small");
}

#[test]
fn a_store_with_more_memory_keeps_within_its_budget() {
    resident::run_alone("large");
}
