//! A store of its own process, watched while it works; and pairs that are written and read.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use engine::{Barrier, Engine, Host, NoJournal, Result, Sequence};
use memory_budget::MemoryBudget;
use reads::BlockingReads;

use super::Resident;
use crate::{Bench, Journaled};

/// The settings with which a store is watched.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name with which a child is called.
    pub name: &'static str,
    /// Bytes that the store may take.
    pub budget: u64,
    /// How many times the budget is loaded.
    pub times: u64,
    /// Bytes in addition to the budget that may be resident, as in [`Resident::watch`].
    pub slack: u64,
}

/// A store with a device, a pool and a budget of its own.
pub struct Watched<S> {
    open: fn(Host) -> Result<S>,
    /// The open store; none while it is opened again.
    bench: Option<Bench<S>>,
    /// The watch of its resident bytes.
    pub resident: Resident,
}

impl<S: Engine> Watched<S> {
    /// Opens a store in `directory`, with `threads` threads in the background, and watches from
    /// before that on.
    ///
    /// # Panics
    /// If anything of it fails, here and below.
    pub fn new(case: Case, directory: &Path, threads: usize, open: fn(Host) -> Result<S>) -> Self {
        Self::of(case, directory, threads, Arc::new(NoJournal), open)
    }

    /// The same of a store over which there is a journal.
    ///
    /// # Panics
    /// If anything of it fails.
    pub fn journaled(
        case: Case,
        directory: &Path,
        threads: usize,
        open: fn(Host) -> Result<S>,
    ) -> Self {
        Self::of(case, directory, threads, Arc::new(Journaled), open)
    }

    fn of(
        case: Case,
        directory: &Path,
        threads: usize,
        barrier: Arc<dyn Barrier>,
        open: fn(Host) -> Result<S>,
    ) -> Self {
        let device = device::open(directory, device::Options::default()).expect("it opens");
        let mut resident = None;
        let bench = Bench::threaded(device, barrier, case.budget, threads, |host| {
            resident = Some(Resident::watch(&host.memory, case.slack));
            open(host)
        });
        Self { open, bench: Some(bench), resident: resident.expect("it was opened") }
    }

    /// Closes the store, with everything flushed, and opens it again.
    pub fn reopen(&mut self) {
        let bench = self.bench.take().expect("it is open");
        self.bench = Some(bench.reopen(self.open));
    }

    fn bench(&self) -> &Bench<S> {
        self.bench.as_ref().expect("it is open")
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.bench().store
    }

    /// Returns the source of its writes' numbers.
    pub fn sequence(&self) -> &Arc<Sequence> {
        &self.bench().host.sequence
    }

    /// Returns its budget.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.bench().host.memory
    }

    /// Writes a pair, as a database does.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.bench().put(key, value);
    }

    /// Prints the store's figures, closes it, and asks whether anything was seen.
    pub fn end(self) {
        for (name, figure) in self.store().stats().detail {
            println!("  {name} {figure}");
        }
        self.store().close().expect("closes");
        self.resident.end();
    }
}

/// Pairs that several threads write and read in no order.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// How many there are.
    pub count: u64,
    /// How many threads go over them.
    pub threads: u64,
    /// The key of each, by its number.
    pub key: fn(u64) -> Vec<u8>,
    /// Bytes of each value.
    pub value_bytes: usize,
}

impl Pairs {
    /// Has each thread do `work` with every `step`th of its own keys.
    fn each(&self, step: usize, work: impl Fn(&[u8]) + Sync) {
        let work = &work;
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                scope.spawn(move || {
                    let numbers = (thread..self.count).step_by(step * self.threads as usize);
                    numbers.for_each(|number| work(&(self.key)(number)));
                });
            }
        });
    }

    /// Writes every `step`th pair of each thread, with a value of these bytes.
    pub fn write<S: Engine>(&self, watched: &Watched<S>, step: usize, byte: u8) {
        let value = vec![byte; self.value_bytes];
        self.each(step, |key| watched.put(key, &value));
    }

    /// Reads every `step`th pair of each thread.
    pub fn read<S: Engine>(&self, watched: &Watched<S>, step: usize) {
        self.each(step, |key| {
            assert_eq!(watched.store().get(key, &mut Vec::new()), Ok(true));
        });
    }

    /// Walks over all of them.
    pub fn walk<S: Engine>(&self, watched: &Watched<S>) {
        let mut met = 0;
        let walked = watched.store().walk(None, &mut |_, _| {
            met += 1;
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        assert_eq!(met, self.count, "each is met once");
    }
}
