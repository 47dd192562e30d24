//! A store of some engine with all that it needs around it, written to and read as a database does.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, IoCounts};
use engine::{
    Barrier, BlockingWrites, Direction, Engine, Host, KeyRange, Op, Result, SeqNo, Sequence,
};
use environment::{Environment, ManualClock};
use memory_budget::MemoryBudget;
use reads::{BlockingReads, View};
use telemetry::Registry;
use workers::{HandCranked, Order, Pool};

/// If there is no input or output for this time, no work is left: work of an idle store begins
/// after one or two seconds.
const SETTLED: Duration = Duration::from_secs(3);

/// A journal that has everything, and takes no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Journaled;

impl Barrier for Journaled {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        Ok(seqno)
    }

    fn is_journaled(&self) -> bool {
        true
    }
}

/// All pairs in the order of a scan.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns all pairs of a range of a view.
///
/// # Panics
/// If it cannot be read, or the cursor continues behind its end.
pub fn scan<E: Engine + ?Sized>(
    view: &View<'_, E>,
    range: KeyRange,
    direction: Direction,
) -> Pairs {
    let mut cursor = view.scan(range, direction).expect("the store is open");
    let mut pairs = Vec::new();
    while let Some((key, value)) = cursor.next().expect("the store is open") {
        pairs.push((key.to_vec(), value.to_vec()));
    }
    assert_eq!(cursor.next(), Ok(None), "a cursor stays at its end");
    pairs
}

/// Returns a key that sorts by its number.
pub fn key(number: u64) -> Vec<u8> {
    format!("key-{number:010}").into_bytes()
}

/// Returns a host for a store that may take `budget` bytes: background work is cranked by hand, in
/// that order, the clock does not move, and each run has the same randomness.
pub fn cranked_host(
    device: Arc<dyn Device>,
    barrier: Arc<dyn Barrier>,
    budget: u64,
    order: Order,
) -> (Host, HandCranked, Arc<ManualClock>) {
    let ((environment, clock), telemetry) = (Environment::simulated(1), Registry::default());
    let (workers, crank) = Pool::hand_cranked(&environment, &telemetry, order);
    let sequence = Arc::new(Sequence::new());
    let memory = Arc::new(MemoryBudget::new(budget));
    let host = Host { device, environment, workers, telemetry, sequence, barrier, memory };
    (host, crank, clock)
}

/// A store whose background work and clock a test moves by hand.
pub struct Cranked<S> {
    /// The store.
    pub store: S,
    /// The numbers of its writes.
    pub sequence: Arc<Sequence>,
    /// Its budget.
    pub budget: Arc<MemoryBudget>,
    /// Its background work.
    pub crank: HandCranked,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// Its device.
    pub device: Arc<dyn Device>,
}

impl<S: Engine> Cranked<S> {
    /// Opens a store on the content of the device. The store may take `limit` bytes.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        limit: u64,
        open: impl FnOnce(Host) -> Result<S>,
    ) -> Result<Self> {
        let (host, crank, clock) = cranked_host(device, barrier, limit, Order::Random);
        let store = open(host.clone())?;
        let Host { device, sequence, memory: budget, .. } = host;
        sequence.recover_to(store.persisted());
        Ok(Self { store, sequence, budget, crank, clock, device })
    }

    /// Closes the store, and returns its device.
    ///
    /// # Panics
    /// If it does not close.
    pub fn end(self) -> Arc<dyn Device> {
        self.store.close().expect("closes");
        self.device
    }

    /// Writes these steps.
    ///
    /// # Panics
    /// If they are refused.
    pub fn apply(&self, ops: &[Op<'_>]) -> SeqNo {
        self.store.write_next(ops, &self.sequence).expect("the write is taken")
    }

    /// Writes a pair.
    ///
    /// # Panics
    /// If it is refused.
    pub fn put(&self, key: &[u8], value: &[u8]) -> SeqNo {
        self.apply(&[Op::Put { key, value }])
    }

    /// Deletes a pair.
    ///
    /// # Panics
    /// If that is refused.
    pub fn delete(&self, key: &[u8]) -> SeqNo {
        self.apply(&[Op::Delete { key }])
    }

    /// Returns the value of a key.
    ///
    /// # Panics
    /// If the store is closed or damaged.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = b"left over".to_vec();
        self.store.get(key, &mut value).expect("the store is open").then_some(value)
    }

    /// Returns the store at the present moment.
    pub fn view(&self) -> View<'_, S> {
        self.store.view(self.sequence.pin())
    }

    /// Returns all pairs.
    ///
    /// # Panics
    /// If the store is closed or damaged.
    pub fn pairs(&self) -> Pairs {
        scan(&self.view(), KeyRange::all(), Direction::Forward)
    }

    /// Returns a figure of the store.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn detail(&self, name: &str) -> u64 {
        detail(&self.store, name)
    }
}

/// Returns a figure of a store.
///
/// # Panics
/// If there is none of that name.
pub fn detail(store: &impl Engine, name: &str) -> u64 {
    let stats = store.stats();
    stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
}

/// A store and its host.
pub struct Bench<S> {
    /// The store.
    pub store: S,
    /// The store's surroundings.
    pub host: Host,
}

impl<S: Engine> Bench<S> {
    /// Opens a store on the content of the device. The store may take `budget` bytes, and has
    /// `threads` threads in the background.
    ///
    /// # Panics
    /// If anything fails, here and below.
    pub fn threaded(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        budget: u64,
        threads: usize,
        open: impl FnOnce(Host) -> Result<S>,
    ) -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, threads, &telemetry).expect("threads start");
        let sequence = Arc::new(Sequence::new());
        let memory = Arc::new(MemoryBudget::new(budget));
        Self::of(Host { device, environment, workers, telemetry, sequence, barrier, memory }, open)
    }

    /// The same of a store whose background work is done by hand, one task after the other.
    ///
    /// # Panics
    /// If anything fails.
    pub fn cranked(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        budget: u64,
        open: impl FnOnce(Host) -> Result<S>,
    ) -> (Self, HandCranked) {
        let (host, crank, _clock) = cranked_host(device, barrier, budget, Order::InOrder);
        (Self::of(host, open), crank)
    }

    fn of(host: Host, open: impl FnOnce(Host) -> Result<S>) -> Self {
        let store = open(host.clone()).expect("the store opens");
        host.sequence.recover_to(store.persisted());
        Self { store, host }
    }

    /// Closes the store, with everything flushed, and opens it again.
    ///
    /// # Panics
    /// If anything fails.
    #[must_use]
    pub fn reopen(self, open: impl FnOnce(Host) -> Result<S>) -> Self {
        let Self { store, host } = self;
        store.flush().expect("flushes");
        store.close().expect("closes");
        drop(store);
        let host = Host { telemetry: Registry::default(), ..host };
        let store = open(host.clone()).expect("the store opens");
        Self { store, host }
    }

    /// Writes a pair.
    ///
    /// # Panics
    /// If it is refused.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        let ops = [Op::Put { key, value }];
        self.store.write_next(&ops, &self.host.sequence).expect("the write is taken");
    }

    /// Returns a figure of the store.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn detail(&self, name: &str) -> u64 {
        detail(&self.store, name)
    }

    /// Returns the counts of the device's operations so far.
    pub fn counts(&self) -> IoCounts {
        self.host.device.accounting().counts()
    }

    /// Waits until there was no background work for three seconds, and returns the counts of the
    /// device's operations until then.
    pub fn wait_idle(&self) -> IoCounts {
        let mut before = IoCounts::default();
        loop {
            let now = self.counts();
            if now == before {
                return now;
            }
            before = now;
            self.host.environment.sleep(SETTLED);
        }
    }

    /// Closes the store, and returns the parts that it was opened with.
    ///
    /// # Panics
    /// If a task has, or the store does not close.
    pub fn end(self) -> Host {
        self.store.close().expect("closes");
        assert!(self.host.workers.stop().is_empty(), "no task panics");
        self.host
    }
}
