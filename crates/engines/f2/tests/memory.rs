//! The memory that a store really takes ([`resident`]).
//!
//! Several times its budget goes through it, by several threads, by lookups in flight, by walks,
//! and when it is opened again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use conformance::resident::{self, Case, Churn, Watched};
use conformance::session::KeyLocks;
use conformance::{InFlight, LookupStart};
use engine::{At, Change, Engine, Host};
use memory_budget::MemoryBudget;
use reads::BlockingReads;
use thermocline_f2::{Options, Store};

const MIB: u64 = 1 << 20;
/// Background threads: with this number a database runs all compactions at the same time.
const WORKERS: usize = 6;
/// Bytes of a record with a key of 8 bytes and a value of 100.
const RECORD_BYTES: u64 = 128;
/// A case, and the threads that use its store.
#[derive(Clone, Copy)]
struct Use {
    case: Case,
    threads: u64,
    /// Lookups in flight of each thread.
    depth: usize,
    flaw: Flaw,
}

/// A deliberate flaw of a store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The store counts its memory against four times its budget.
    TakesTooMuch,
    /// The store takes the memory of each value for good, and counts none of it.
    Leaks,
}

/// The cases. Their slack above the budget is for freed memory that the allocator keeps, stacks of
/// threads and memory that the test itself takes. It is also for buffers of lookups that begin
/// together, before log and cache have made room.
const USES: [Use; 6] = [
    Use {
        case: Case { name: "alone", budget: 16 * MIB, times: 10, slack: 3 * MIB / 2 },
        threads: 1,
        depth: 32,
        flaw: Flaw::None,
    },
    Use {
        case: Case { name: "crowd", budget: 16 * MIB, times: 5, slack: 4 * MIB },
        threads: 4,
        depth: 128,
        flaw: Flaw::None,
    },
    Use {
        case: Case { name: "large", budget: 64 * MIB, times: 3, slack: 5 * MIB },
        threads: 4,
        depth: 128,
        flaw: Flaw::None,
    },
    Use {
        case: Case { name: "too much", budget: 16 * MIB, times: 5, slack: 5 * MIB },
        threads: 4,
        depth: 128,
        flaw: Flaw::TakesTooMuch,
    },
    Use {
        case: Case { name: "leaks", budget: 16 * MIB, times: 5, slack: 5 * MIB },
        threads: 4,
        depth: 128,
        flaw: Flaw::Leaks,
    },
    Use {
        case: Case { name: "churn", budget: 32 * MIB, times: 1, slack: 32 * MIB / 20 + 16 * MIB },
        threads: 2,
        depth: 32,
        flaw: Flaw::None,
    },
];

/// Puts and deletes of short and long values at the limit, before and after the store is opened
/// again.
fn churn(mut watched: Watched<Store>, budget: u64) {
    let churn = Churn { keys: budget / 64, threads: 2, bytes: 4 * budget };
    churn.run(&watched, 1);
    watched.resident.end_phase("churned");
    watched.reopen();
    churn.run(&watched, 2);
    watched.resident.end_phase("churned again");
    watched.end();
}

struct Test {
    of: Use,
    locks: KeyLocks,
    watched: Watched<Store>,
}

fn value(number: u64) -> [u8; 100] {
    [number as u8; 100]
}

impl Test {
    fn new(of: Use, directory: &std::path::Path) -> Self {
        let open: fn(Host) -> engine::Result<Store> = match of.flaw {
            Flaw::TakesTooMuch => |host: Host| {
                let memory = Arc::new(MemoryBudget::new(4 * host.memory.limit()));
                Store::open(Host { memory, ..host }, Options::default())
            },
            Flaw::None | Flaw::Leaks => |host| Store::open(host, Options::default()),
        };
        Self {
            of,
            locks: KeyLocks::default(),
            watched: Watched::new(of.case, directory, WORKERS, open),
        }
    }

    fn store(&self) -> &Store {
        self.watched.store()
    }

    fn keys(&self) -> u64 {
        self.of.case.times * self.of.case.budget / RECORD_BYTES
    }

    /// Has each thread do `work`, which is called with its number.
    fn together(&self, work: impl Fn(u64) + Sync) {
        std::thread::scope(|scope| {
            for thread in 0..self.of.threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
    }

    fn put(&self, number: u64) {
        self.watched.put(&number.to_le_bytes(), &value(number));
        if self.of.flaw == Flaw::Leaks {
            std::mem::forget(value(number).to_vec());
        }
    }

    fn update(&self, number: u64) {
        let key = number.to_le_bytes();
        let mut operator = |old: Option<&[u8]>| {
            assert!(old.is_none_or(|old| old == value(number)), "key {number}");
            Change::Put(value(number).to_vec())
        };
        let updated = self.locks.rmw(self.store(), self.watched.sequence(), &key, &mut operator);
        updated.expect("the update is taken");
    }

    fn load(&self) {
        let (threads, keys) = (self.of.threads, self.keys());
        self.together(|thread| {
            (thread..keys).step_by(threads as usize).for_each(|number| self.put(number));
        });
    }

    /// Returns a key, some of them far more often than others.
    fn draw(&self, at: u64) -> u64 {
        let spread = if at.is_multiple_of(2) { self.keys() } else { 5_000 };
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % spread
    }

    /// Reads and read-modify-writes keys one by one.
    fn mix(&self) {
        let count = self.keys() / 40 / self.of.threads;
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

    /// Reads with many lookups in flight.
    fn use_lookups(&self) {
        let count = self.keys() / 20 / self.of.threads;
        let pended = AtomicU64::new(0);
        self.together(|thread| {
            let depth = self.of.depth;
            let mut reads = InFlight::new(self.store(), depth, self.watched.budget());
            for at in (thread << 32)..(thread << 32) + count {
                let key = self.draw(2 * at).to_le_bytes();
                loop {
                    match reads.begin(at, &key, At::Newest).expect("it begins") {
                        LookupStart::Full => _ = reads.complete(true),
                        LookupStart::Pending => {
                            pended.fetch_add(1, Relaxed);
                            break;
                        }
                        LookupStart::Found(_) | LookupStart::Absent => break,
                    }
                    self.check(&mut reads);
                }
            }
            reads.finish();
            self.check(&mut reads);
        });
        let (pended, all) = (pended.into_inner(), self.keys() / 20);
        assert!(pended > all / 3, "{pended} of {all} were on disk");
    }

    /// All lookups have found a value.
    fn check(&self, reads: &mut InFlight<'_>) {
        for (_, end) in std::mem::take(&mut reads.ended) {
            assert!(matches!(end.value, Ok(Some(_))), "{end:?}");
        }
    }

    /// Walks over all keys next to writers.
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
}

/// The part of the other tests that has a process of its own; without a case there is nothing to
/// measure.
#[test]
fn child() {
    let Some(name) = resident::case() else { return };
    let of = USES.into_iter().find(|of| of.case.name == name).expect("a case of that name");
    // Every program of ours that has a store does this.
    arena::bound_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    let mut test = Test::new(of, directory.path());
    test.watched.resident.end_phase("opened");
    if of.case.name == "churn" {
        return churn(test.watched, of.case.budget);
    }
    test.load();
    test.watched.resident.end_phase("loaded");
    test.mix();
    test.watched.resident.end_phase("read and updated");
    test.use_lookups();
    test.watched.resident.end_phase("read with lookups in flight");
    test.walk();
    test.watched.resident.end_phase("walked over");
    test.watched.reopen();
    test.watched.resident.end_phase("opened again");
    test.mix();
    test.watched.resident.end_phase("read and updated again");
    test.watched.end();
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

#[test]
fn a_store_that_takes_more_than_its_budget_is_found() {
    resident::must_fail_alone("too much", "loaded");
}

#[test]
fn memory_that_is_not_counted_is_found() {
    resident::must_fail_alone("leaks", "loaded");
}

#[test]
fn a_store_of_short_and_long_values_keeps_within_its_budget_also_after_it_is_opened_again() {
    resident::run_alone("churn");
}
