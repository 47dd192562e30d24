//! A store of its own process, watched while it works; and pairs that go through it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use device::Device;
use engine::{Barrier, Engine, Host, MemoryBudget, NoJournal, Op, Result, Sequence};
use environment::Environment;
use telemetry::Registry;
use workers::Pool;

use super::Resident;
use crate::Journaled;

/// What a store is watched with.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What a child is called with.
    pub name: &'static str,
    /// Bytes that the store may take.
    pub budget: u64,
    /// How many times the budget is loaded.
    pub times: u64,
    /// Bytes beside the budget that may be resident, as [`Resident::watch`] has them.
    pub slack: u64,
}

/// A store with a device, a pool and a budget of its own.
#[derive(Debug)]
pub struct Watched<S> {
    open: fn(Host) -> Result<S>,
    is_journaled: bool,
    store: Option<S>,
    device: Arc<dyn Device>,
    budget: Arc<MemoryBudget>,
    workers: Pool,
    /// Who gives its writes their numbers.
    pub sequence: Arc<Sequence>,
    /// What is resident of it.
    pub resident: Resident,
}

impl<S: Engine> Watched<S> {
    /// Opens a store in `directory`, with so many threads in the background, and watches from before that on.
    ///
    /// # Panics
    /// If anything of it fails, here and below.
    pub fn new(case: Case, directory: &Path, threads: usize, open: fn(Host) -> Result<S>) -> Self {
        Self::of(case, directory, threads, false, open)
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
        Self::of(case, directory, threads, true, open)
    }

    fn of(
        case: Case,
        directory: &Path,
        threads: usize,
        is_journaled: bool,
        open: fn(Host) -> Result<S>,
    ) -> Self {
        let workers = Pool::start(&Environment::real(), threads, &Registry::default());
        let workers = workers.expect("threads start");
        let device = device::open(directory, device::Options::default()).expect("it opens");
        let budget = Arc::new(MemoryBudget::new(case.budget));
        let resident = Resident::watch(&budget, case.slack);
        let sequence = Arc::new(Sequence::new());
        let store = None;
        let mut watched =
            Self { open, is_journaled, store, device, budget, workers, sequence, resident };
        watched.open();
        watched
    }

    fn open(&mut self) {
        let barrier: Arc<dyn Barrier> =
            if self.is_journaled { Arc::new(Journaled) } else { Arc::new(NoJournal) };
        let host = Host {
            device: Arc::clone(&self.device),
            workers: self.workers.clone(),
            environment: Environment::real(),
            telemetry: Registry::default(),
            sequence: Arc::clone(&self.sequence),
            barrier,
            memory: Arc::clone(&self.budget),
        };
        self.store = Some((self.open)(host).expect("the store opens"));
    }

    /// Closes the store, with everything flushed, and opens it again.
    pub fn reopen(&mut self) {
        let store = self.store.take().expect("it is open");
        store.flush().expect("flushes");
        store.close().expect("closes");
        drop(store);
        self.open();
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.store.as_ref().expect("it is open")
    }

    /// Writes a pair, as a database does.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        let ops = [Op::Put { key, value }];
        self.store().admit(&ops).expect("there is room");
        let ticket = self.sequence.begin();
        self.store().apply(&ops, ticket.seqno()).expect("the write is taken");
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
    /// Has each thread do `work` with every `step`th of those that are its own.
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
