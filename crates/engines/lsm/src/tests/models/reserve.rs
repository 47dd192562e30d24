//! Reservations: writers that wait for memory, concurrently with flushes, pins, a caller that does
//! not wait, and a close.
//!
//! A writer whose wake-up is lost never ends, and shuttle reports a schedule that is too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{Demand, Direction, Engine, Error, KeyRange, NoJournal, Op, Result, Wait};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use sync::Mutex;

use super::super::stores::{Bench, scan, small};
use super::{KEYS, SCHEDULES, number_of};

/// The memtables may take a quarter of it.
const MEMORY_BYTES: u64 = 64 << 10;
/// Bytes of a value: two of them do not fit.
const VALUE_BYTES: usize = 9_000;
const WRITES: u64 = 3;
/// How often a writer has waited for room, in all schedules of a model so far.
static STALLS: AtomicU64 = AtomicU64::new(0);
static STALLS_BESIDE_CLOSE: AtomicU64 = AtomicU64::new(0);

/// A store whose memtables are small.
struct Model {
    bench: Bench,
    /// The newest number of each key that was acknowledged.
    acknowledged: [AtomicU64; KEYS.len()],
    /// Law L6: the writer of a key holds the key's lock.
    locks: [Mutex<()>; KEYS.len()],
    /// Writers that have not ended.
    writers: AtomicU64,
}

/// Returns `None` if the store reports that it is closed.
fn or_closed<T>(result: Result<T>) -> Option<T> {
    match result {
        Err(Error::Closed) => None,
        result => Some(result.expect("memory takes it")),
    }
}

impl Model {
    fn new() -> Arc<Self> {
        let opened =
            Bench::with_options(device::memory(), Arc::new(NoJournal), MEMORY_BYTES, small());
        let (acknowledged, locks) = Default::default();
        let (bench, writers) = (opened.expect("opens"), AtomicU64::new(2));
        Arc::new(Self { bench, acknowledged, locks, writers })
    }

    fn does(self: &Arc<Self>, work: impl Fn(&Self) + Send + 'static) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || work(&model))
    }

    /// Puts the next number of a key. Returns whether the store is open.
    fn write(&self, at: usize) -> bool {
        let demand = Demand::Update { key: KEYS[at], bytes_max: VALUE_BYTES as u64 };
        let Some(granted) = or_closed(self.bench.store.reserve(&demand, Wait::Yes)) else {
            return false;
        };
        let mut room = granted.expect("it waits for room");
        let _held = self.locks[at].lock();
        let number = self.acknowledged[at].load(SeqCst) + 1;
        let mut value = number.to_le_bytes().to_vec();
        value.resize(VALUE_BYTES, 7);
        let ticket = self.bench.sequence.begin();
        let op = [Op::Put { key: KEYS[at], value: &value }];
        let is_written =
            or_closed(self.bench.store.apply(&op, ticket.seqno(), &mut room)).is_some();
        drop(ticket);
        if is_written {
            self.acknowledged[at].store(number, SeqCst);
        }
        is_written
    }

    fn writer(self: &Arc<Self>, at: usize) -> JoinHandle<()> {
        self.does(move |model| {
            (0..WRITES).take_while(|_| model.write(at)).for_each(drop);
            model.writers.fetch_sub(1, SeqCst);
        })
    }

    /// A thread of the pool. It works until both writers have ended.
    fn worker(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            while model.writers.load(SeqCst) > 0 {
                model.bench.crank.run_all();
                yield_now();
            }
        })
    }

    fn flusher(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            (0..2).for_each(|_| _ = or_closed(model.bench.store.flush()));
        })
    }

    /// Reserves room without waiting, and drops it.
    fn taster(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            for _ in 0..3 {
                let demand = Demand::Update { key: b"t", bytes_max: VALUE_BYTES as u64 };
                drop(or_closed(model.bench.store.reserve(&demand, Wait::No)));
                yield_now();
            }
        })
    }

    /// Pins a moment while writers wait, and scans it twice.
    fn pinner(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            let least: Vec<u64> = model.acknowledged.iter().map(|it| it.load(SeqCst)).collect();
            let view = model.bench.view();
            let once = scan(&view, KeyRange::all(), Direction::Forward);
            yield_now();
            assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), once, "a pin has moved");
            for (key, least) in KEYS.iter().zip(least) {
                let found = once.iter().find(|(found, _)| found == key);
                let found = found.map_or(0, |(_, value)| number_of(value[..8].to_vec()));
                assert!(found >= least, "{found} at a pin, {least} was acknowledged");
            }
        })
    }

    fn join(&self, threads: Vec<JoinHandle<()>>, stalls: &AtomicU64) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        let shared = &self.bench.store.shared;
        stalls.fetch_add(shared.admission.writers.stalls(), SeqCst);
        assert!(!shared.family.memory().has_reservations(), "a reservation is outstanding");
    }
}

fn reserve_beside_flush_and_pin() {
    let model = Model::new();
    let threads = vec![
        model.writer(0),
        model.writer(1),
        model.worker(),
        model.flusher(),
        model.taster(),
        model.pinner(),
    ];
    model.join(threads, &STALLS);
    for (key, number) in KEYS.iter().zip(&model.acknowledged).take(2) {
        let found = model.bench.get(key).map(|value| number_of(value[..8].to_vec()));
        assert_eq!(found, Some(number.load(SeqCst)));
    }
}

fn reserve_beside_close() {
    let model = Model::new();
    let closer = |model: &Model| model.bench.store.close().expect("closes");
    let threads =
        vec![model.writer(0), model.writer(1), model.worker(), model.taster(), model.does(closer)];
    model.join(threads, &STALLS_BESIDE_CLOSE);
    assert_eq!(model.bench.store.shared.family.memory().bytes(), 0, "a closed store has memory");
}

#[test]
fn writers_that_wait_for_room_continue() {
    SCHEDULES.check("reserve_beside_flush_and_pin", reserve_beside_flush_and_pin);
    assert!(STALLS.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn writers_that_wait_for_room_end_with_a_close() {
    SCHEDULES.check("reserve_beside_close", reserve_beside_close);
    assert!(STALLS_BESIDE_CLOSE.load(SeqCst) > 0, "no writer has waited");
}
