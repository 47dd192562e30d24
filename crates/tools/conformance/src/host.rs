//! The host that the suite hands to an engine that it opens.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use engine::{Barrier, Engine, Host, Result, SeqNo, Sequence};
use environment::{Environment, ManualClock};
use memory_budget::MemoryBudget;
use telemetry::Registry;
use workers::{HandCranked, Order, Pool};

use crate::Fixture;

/// Threads of the pool, where there are any.
const POOL_THREADS: usize = 2;

/// An open engine, and the parts of its host that the suite needs.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) sequence: Arc<Sequence>,
    /// Without a limit, as recovery needs it, until a caller sets one.
    pub(crate) memory: Arc<MemoryBudget>,
    /// The crank of background work, and its clock, if the pool has no threads.
    hand: Option<(HandCranked, Arc<ManualClock>)>,
    _pool: Pool,
}

/// A way to open an engine: [`open`] or [`open_threaded`].
pub(crate) type Open = fn(&dyn Fixture, &Arc<dyn Device>, Arc<dyn Barrier>, u64) -> Result<Opened>;

/// Opens an engine whose clock does not move, whose background work is cranked by hand, and whose
/// randomness follows from `seed`.
pub(crate) fn open(
    fixture: &dyn Fixture,
    device: &Arc<dyn Device>,
    barrier: Arc<dyn Barrier>,
    seed: u64,
) -> Result<Opened> {
    let (environment, clock) = Environment::simulated(seed);
    let registry = Registry::default();
    let (pool, crank) = Pool::hand_cranked(&environment, &registry, Order::Random);
    open_with(fixture, device, barrier, environment, registry, pool, Some((crank, clock)))
}

/// Opens an engine that many threads will use, with a pool that has threads too.
pub(crate) fn open_threaded(
    fixture: &dyn Fixture,
    device: &Arc<dyn Device>,
    barrier: Arc<dyn Barrier>,
    seed: u64,
) -> Result<Opened> {
    let environment = Environment::seeded(seed);
    let registry = Registry::default();
    let pool = Pool::start(&environment, POOL_THREADS, &registry);
    let pool = pool.expect("the machine has room for two threads");
    open_with(fixture, device, barrier, environment, registry, pool, None)
}

fn open_with(
    fixture: &dyn Fixture,
    device: &Arc<dyn Device>,
    barrier: Arc<dyn Barrier>,
    environment: Environment,
    telemetry: Registry,
    workers: Pool,
    hand: Option<(HandCranked, Arc<ManualClock>)>,
) -> Result<Opened> {
    let sequence = Arc::new(Sequence::new());
    let memory = Arc::new(MemoryBudget::new(u64::MAX));
    let engine = fixture.open(Host {
        device: Arc::clone(device),
        environment,
        workers: workers.clone(),
        telemetry,
        sequence: Arc::clone(&sequence),
        barrier,
        memory: Arc::clone(&memory),
    })?;
    Ok(Opened { engine, sequence, memory, hand, _pool: workers })
}

impl Opened {
    /// Notes in the sequence that everything up to `last` is applied again.
    pub(crate) fn recovered_to(&self, last: u64) {
        self.sequence.recover_to(SeqNo::new(last));
    }

    /// Lets time pass, which makes background work due.
    pub(crate) fn pass(&self, ms: u64) {
        if let Some((_, clock)) = &self.hand {
            clock.advance(Duration::from_millis(ms));
        }
    }

    /// Does one piece of background work, if there is any.
    pub(crate) fn turn(&self) {
        if let Some((crank, _)) = &self.hand {
            crank.run_one();
        }
    }

    /// Moves the clock, and does the work that has become due.
    pub(crate) fn advance(&self, ms: u64) {
        if let Some((crank, clock)) = &self.hand {
            clock.advance(Duration::from_millis(ms));
            crank.run_all();
        }
    }
}
