//! What a store really takes of memory ([`resident`]). Several times its budget goes through it, by
//! several threads, by sessions, by seats, by walks, and when it is opened again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use conformance::resident::{self, Resident};
use device::Device;
use engine::{Begun, Change, Engine, Host, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_f2::{Completed, Get, Options, Store, Wait};
use workers::Pool;

const MIB: u64 = 1 << 20;
/// Threads in the background: with as many a database runs all compactions beside each other.
const WORKERS: usize = 6;
/// A record of a key of 8 bytes and a value of 100.
const RECORD_BYTES: u64 = 128;
/// A budget, and who uses the store.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    budget: u64,
    /// How many times the budget is loaded.
    times: u64,
    threads: u64,
    /// Of each session and seat, one a thread.
    depth: usize,
    /// Beside the budget: what the allocator keeps of freed memory, stacks of threads, what the test
    /// itself takes, and buffers of sessions that begin together, before log and cache have made room.
    slack: u64,
}

const CASES: [Case; 3] = [
    Case { name: "alone", budget: 16 * MIB, times: 10, threads: 1, depth: 32, slack: 3 * MIB / 2 },
    Case { name: "crowd", budget: 16 * MIB, times: 5, threads: 4, depth: 128, slack: 5 * MIB },
    Case { name: "large", budget: 64 * MIB, times: 3, threads: 4, depth: 128, slack: 5 * MIB },
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

fn value(number: u64) -> [u8; 100] {
    [number as u8; 100]
}

impl Watched {
    fn new(case: Case, directory: &std::path::Path) -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, WORKERS, &telemetry).expect("threads start");
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

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn keys(&self) -> u64 {
        self.case.times * self.case.budget / RECORD_BYTES
    }

    /// Has each thread do `work`, given its number.
    fn together(&self, work: impl Fn(u64) + Sync) {
        std::thread::scope(|scope| {
            for thread in 0..self.case.threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
    }

    fn put(&self, number: u64) {
        let (key, value) = (number.to_le_bytes(), value(number));
        let ops = [Op::Put { key: &key, value: &value }];
        self.store().admit(&ops).expect("there is room");
        let ticket = self.sequence.begin();
        self.store().apply(&ops, ticket.seqno()).expect("the write is taken");
    }

    fn update(&self, number: u64) {
        let key = number.to_le_bytes();
        self.store().admit(&[Op::Delete { key: &key }]).expect("there is room");
        let ticket = self.sequence.begin();
        let mut operator = |old: Option<&[u8]>| {
            assert!(old.is_none_or(|old| old == value(number)), "key {number}");
            Change::Put(value(number).to_vec())
        };
        self.store().rmw(&key, &mut operator, ticket.seqno()).expect("the update is taken");
    }

    fn load(&self) {
        let (threads, keys) = (self.case.threads, self.keys());
        self.together(|thread| {
            (thread..keys).step_by(threads as usize).for_each(|number| self.put(number));
        });
    }

    /// A key, some of them far more often than others.
    fn draw(&self, at: u64) -> u64 {
        let spread = if at.is_multiple_of(2) { self.keys() } else { 5_000 };
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % spread
    }

    /// Reads and read-modify-writes of one key after the other.
    fn mix(&self) {
        let count = self.keys() / 40 / self.case.threads;
        self.together(|thread| {
            let mut found = Vec::new();
            for at in (thread << 32)..(thread << 32) + count {
                let number = self.draw(at);
                let read = self.store().get(&number.to_le_bytes(), &mut found);
                assert!(read.expect("it is read") && found == value(number), "key {number}");
                if at % 4 == 0 {
                    self.update(self.draw(at / 4));
                }
            }
        });
    }

    /// Reads on sessions, many at once.
    fn use_sessions(&self) {
        let count = self.keys() / 20 / self.case.threads;
        let told = AtomicU64::new(0);
        self.together(|thread| {
            let mut session = self.store().session_of_depth(self.case.depth).expect("begins");
            let mut into = Vec::new();
            let complete = |session: &mut thermocline_f2::Session, wait| {
                let completed = session.complete_pending(wait, &mut |_, outcome| {
                    assert!(matches!(outcome, Ok(Completed::Value(Some(_)))), "{outcome:?}");
                });
                told.fetch_add(completed.expect("the queue works") as u64, Relaxed);
            };
            for at in (thread << 32)..(thread << 32) + count {
                let key = self.draw(2 * at).to_le_bytes();
                while session.get(&key, &mut into).expect("it begins") == Get::Full {
                    complete(&mut session, Wait::ForOne);
                }
            }
            complete(&mut session, Wait::ForAll);
        });
        let told = told.load(Relaxed);
        let all = self.keys() / 20;
        assert!(told > all / 3, "{told} of {all} were on disk");
    }

    /// The same on seats.
    fn use_seats(&self) {
        let count = self.keys() / 20 / self.case.threads;
        self.together(|thread| {
            let mut seat = self.store().seat(self.case.depth).expect("begins").expect("a seat");
            let mut into = Vec::new();
            let mut listener = |_: u64, found: engine::Result<Option<&[u8]>>| {
                assert!(matches!(found, Ok(Some(_))), "{found:?}");
            };
            for at in (thread << 32)..(thread << 32) + count {
                let key = self.draw(2 * at).to_le_bytes();
                while seat.begin_get(at, &key, &mut into).expect("it begins") == Begun::Full {
                    seat.complete(true, &mut listener).expect("the queue works");
                }
            }
            while seat.pending() > 0 {
                seat.complete(true, &mut listener).expect("the queue works");
            }
        });
    }

    /// A walk over all beside writers.
    fn walk(&self) {
        let mut met = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..self.keys() / 20).for_each(|at| self.put(self.draw(at))));
            let walked = self.store().walk(None, &mut |_, _| {
                met += 1;
                ControlFlow::Continue(())
            });
            walked.expect("the walk is made");
        });
        assert_eq!(met, self.keys(), "each is met once");
    }

    fn reopen(&mut self) {
        let store = self.store.take().expect("it is open");
        store.flush().expect("flushes");
        store.close().expect("closes");
        drop(store);
        self.open();
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
    watched.resident.end_phase("opened");
    watched.load();
    watched.resident.end_phase("loaded");
    watched.mix();
    watched.resident.end_phase("read and updated");
    watched.use_sessions();
    watched.resident.end_phase("read on sessions");
    watched.use_seats();
    watched.resident.end_phase("read on seats");
    watched.walk();
    watched.resident.end_phase("walked over");
    watched.reopen();
    watched.resident.end_phase("opened again");
    watched.mix();
    watched.resident.end_phase("read and updated again");
    for (name, figure) in watched.store().stats().detail {
        println!("  {name} {figure}");
    }
    watched.store().close().expect("closes");
    watched.resident.end();
}

#[test]
fn a_store_of_one_thread_keeps_within_its_budget() {
    resident::run_alone("alone");
}

#[test]
fn a_store_of_many_threads_keeps_within_its_budget() {
    resident::run_alone("crowd");
}

#[test]
fn a_store_with_more_memory_keeps_within_its_budget() {
    resident::run_alone("large");
}
