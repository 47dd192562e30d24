//! A store that many threads use, with the part of a host that they need: numbers, key locks and a
//! journal in memory.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use device::Device;
use engine::{BlockingWrites, Change, Demand, NoJournal, Op, Operator, Reservation, SeqNo, Wait};
use environment::{Environment, JoinHandle};
use memory_budget::MemoryBudget;
use reads::{BlockingReads, ReadPool};
use sync::locks::{Mutex, MutexGuard};

use crate::Fixture;
use crate::bench::Journaled;
use crate::failure::catch;
use crate::host::{self, Opened};
use crate::operation::Step;

/// Key locks; a power of two.
const STRIPES: usize = 64;
/// Pairs that push older records out of a small memory.
const FILLERS: usize = 100;
const FILLER_BYTES: usize = 1000;

pub(super) struct Shared {
    pub(super) opened: Opened,
    pub(super) reads: ReadPool,
    device: Arc<dyn Device>,
    locks: Vec<Mutex<()>>,
    journal: Mutex<Vec<(SeqNo, Vec<Step>)>>,
    /// The barrier at which the threads that matter wait for each other before they begin.
    pub(super) start: Barrier,
    /// Set once the threads that matter are done.
    pub(super) over: AtomicBool,
}

pub(super) fn failed(error: engine::Error) -> String {
    error.to_string()
}

fn open(
    fixture: &dyn Fixture,
    device: &Arc<dyn Device>,
    barrier: Arc<dyn engine::Barrier>,
) -> Result<Opened, String> {
    host::open_threaded(fixture, device, barrier, 0).map_err(failed)
}

impl Shared {
    /// Returns a fresh store for this many threads that matter.
    pub(super) fn open(fixture: &dyn Fixture, threads: usize) -> Result<Arc<Self>, String> {
        let device = device::memory();
        let opened = open(fixture, &device, Arc::new(NoJournal))?;
        let locks = (0..STRIPES).map(|_| Mutex::new(())).collect();
        let journal = Mutex::default();
        let start = Barrier::new(threads);
        let reads = ReadPool::new(&Arc::new(MemoryBudget::new(u64::MAX)));
        Ok(Arc::new(Self { opened, reads, device, locks, journal, start, over: false.into() }))
    }

    fn stripe(key: &[u8]) -> usize {
        codec::hash64(0, key) as usize % STRIPES
    }

    fn lock(&self, keys: impl Iterator<Item = usize>) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<usize> = keys.collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.locks[stripe].lock()).collect()
    }

    pub(super) fn lock_one(&self, key: &[u8]) -> Vec<MutexGuard<'_, ()>> {
        self.lock(std::iter::once(Self::stripe(key)))
    }

    /// Writes one batch as a host does (law L6): room is reserved before the keys are locked.
    pub(super) fn write(&self, steps: Vec<Step>) -> Result<(), String> {
        let room = self.reserve(&steps, Wait::Yes)?.ok_or("there is no room")?;
        let _locks = match steps.iter().any(|step| step.op().is_range()) {
            true => self.lock(0..STRIPES),
            false => self.lock(steps.iter().map(|step| Self::stripe(step.op().key()))),
        };
        self.apply(steps, room)
    }

    pub(super) fn reserve(
        &self,
        steps: &[Step],
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>, String> {
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        self.opened.engine.reserve(&Demand::Ops(&ops), wait).map_err(failed)
    }

    /// Applies a batch whose keys are locked.
    pub(super) fn apply(&self, steps: Vec<Step>, mut room: Reservation<'_>) -> Result<(), String> {
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let ticket = self.opened.sequence.begin();
        self.opened.engine.apply(&ops, ticket.seqno(), &mut room).map_err(failed)?;
        self.journal.lock().push((ticket.seqno(), steps));
        Ok(())
    }

    /// Notes a write that the engine has applied.
    pub(super) fn note(&self, seqno: SeqNo, steps: Vec<Step>) {
        self.journal.lock().push((seqno, steps));
    }

    /// Writes enough that earlier writes are on disk alone, if memory is small.
    pub(super) fn push_out(&self) -> Result<(), String> {
        for number in 0..FILLERS {
            let (key, value) = (format!("filler{number}").into_bytes(), vec![7; FILLER_BYTES]);
            self.write(vec![Step::Put { key, value }])?;
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut value = Vec::new();
        Ok(self.opened.engine.get(key, &mut value).map_err(failed)?.then_some(value))
    }

    /// Flushes and copies, until it is over.
    pub(super) fn upkeep(&self) -> Result<(), String> {
        let mut rounds = 0;
        while !self.over.load(SeqCst) || rounds < 2 {
            self.opened.engine.flush().map_err(|error| format!("flush failed: {error}"))?;
            if rounds % 4 == 3 {
                let copied = self.opened.engine.checkpoint(device::memory(), &engine::go_on);
                copied.map_err(|error| format!("checkpoint failed: {error}"))?;
            }
            rounds += 1;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Closes, opens, replays, and compares the content of `keys` with their content before.
    pub(super) fn reopen_and_compare(
        &self,
        fixture: &dyn Fixture,
        keys: &[Vec<u8>],
    ) -> Result<(), String> {
        let before = keys.iter().map(|key| self.get(key)).collect::<Result<Vec<_>, _>>()?;
        let persisted = self.opened.engine.persisted();
        self.opened.engine.close().map_err(failed)?;
        fixture.check(&self.device).map_err(|error| format!("the offline check: {error}"))?;
        // Without a journal an engine may take the numbers that it finds for used.
        let again = open(fixture, &self.device, Arc::new(Journaled))?;
        let engine = &again.engine;
        if engine.persisted() < persisted {
            return Err(format!("persisted() fell from {persisted} to {}", engine.persisted()));
        }
        let mut journal = self.journal.lock();
        journal.sort_by_key(|(seqno, _)| *seqno);
        for (seqno, steps) in journal.iter().filter(|(seqno, _)| *seqno > engine.persisted()) {
            let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
            engine.replay(&ops, *seqno).map_err(failed)?;
            again.recovered_to(seqno.get());
        }
        let mut value = Vec::new();
        for (key, before) in keys.iter().zip(&before) {
            let after = engine.get(key, &mut value).map_err(failed)?.then_some(&value);
            if after != before.as_ref() {
                let key = key.escape_ascii();
                return Err(format!("{key} was {before:?}, after reopening it is {after:?}"));
            }
        }
        engine.close().map_err(failed)
    }
}

/// Passes calls on and remembers the last decision, which is the one that counts.
pub(super) struct Recorder<'a> {
    operator: &'a mut dyn Operator,
    after: Option<Change>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(operator: &'a mut dyn Operator) -> Self {
        Self { operator, after: None }
    }

    /// Returns whether the last decision changes nothing.
    pub(super) fn has_kept(&self) -> bool {
        self.after == Some(Change::Keep)
    }

    /// Returns the step that was decided upon last.
    pub(super) fn step(self, key: &[u8]) -> Result<Step, String> {
        let key = key.to_vec();
        match self.after {
            Some(Change::Put(value)) => Ok(Step::Put { key, value }),
            Some(Change::Delete) => Ok(Step::Delete { key }),
            Some(Change::Keep) => Err("nothing was to change".to_owned()),
            None => Err("rmw never called its operator".to_owned()),
        }
    }
}

/// Returns the decision of an operator about a value that memory knows.
pub(super) fn decide(operator: &mut dyn Operator, value: Option<&mut Vec<u8>>) -> Change {
    let Some(value) = value else { return operator.update(None) };
    match operator.update_in_place(value) {
        true => Change::Put(value.clone()),
        false => operator.update(Some(value)),
    }
}

impl Operator for Recorder<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let done = self.operator.update_in_place(value);
        if done {
            self.after = Some(Change::Put(value.to_vec()));
        }
        done
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let change = self.operator.update(value);
        self.after = Some(change.clone());
        change
    }
}

/// Returns a thread of a check; its panic is an error like any other.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<JoinHandle<Result<T, String>>, String> {
    let spawned = Environment::real().spawn(name, move || catch(work));
    spawned.map_err(|error| format!("no thread to be had: {error}"))
}

/// Waits for a thread of a check.
pub(crate) fn join<T>(handle: JoinHandle<Result<T, String>>) -> Result<T, String> {
    handle.join().unwrap_or_else(|_| Err("a thread of the check panicked".to_owned()))
}

/// Joins the threads that matter, ends the others, and joins them too.
pub(super) fn join_all<T>(
    shared: &Shared,
    workers: Vec<JoinHandle<Result<T, String>>>,
    beside: Vec<JoinHandle<Result<(), String>>>,
) -> Result<Vec<T>, String> {
    let done: Vec<_> = workers.into_iter().map(join).collect();
    shared.over.store(true, SeqCst);
    let beside: Vec<_> = beside.into_iter().map(join).collect();
    let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    beside.into_iter().collect::<Result<(), _>>()?;
    Ok(done)
}
