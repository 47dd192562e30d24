//! Reservations: writers that wait for memory, concurrently with flushes, pins, a section, a caller
//! that does not wait, and a close.
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
/// Keys that a section writes together, one in each Drange.
const PAIR: [&[u8]; 2] = [b"d", b"q"];
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

/// Returns a value that has `number` in its first bytes.
fn value_of(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(bytes, 7);
    value
}

/// Returns the number in the value that a scan has found for `key`, or 0.
fn shown(pairs: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> u64 {
    let found = pairs.iter().find(|(found, _)| found == key);
    found.map_or(0, |(_, value)| number_of(value[..8].to_vec()))
}

impl Model {
    fn new(writers: u64) -> Arc<Self> {
        let opened =
            Bench::with_options(device::memory(), Arc::new(NoJournal), MEMORY_BYTES, small());
        let (acknowledged, locks) = Default::default();
        let (bench, writers) = (opened.expect("opens"), AtomicU64::new(writers));
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
        let value = value_of(number, VALUE_BYTES);
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

    /// Puts `number` for both keys of the pair as one write, with all keys locked. If there is no
    /// room, unlocks the keys, waits for room, and begins again with it. Returns whether the store
    /// is open.
    fn write_pair(&self, number: u64) -> bool {
        let value = value_of(number, VALUE_BYTES / 2);
        let ops = PAIR.map(|key| Op::Put { key, value: &value });
        let demand = Demand::Ops(&ops);
        let mut granted = None;
        loop {
            let held: Vec<_> = self.locks.iter().map(Mutex::lock).collect();
            if granted.is_none() {
                match or_closed(self.bench.store.reserve(&demand, Wait::No)) {
                    Some(room) => granted = room,
                    None => return false,
                }
            }
            if let Some(mut room) = granted {
                let ticket = self.bench.sequence.begin();
                return or_closed(self.bench.store.apply(&ops, ticket.seqno(), &mut room))
                    .is_some();
            }
            drop(held);
            match or_closed(self.bench.store.reserve(&demand, Wait::Yes)) {
                Some(room) => granted = room,
                None => return false,
            }
        }
    }

    fn section(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            (1..=2).take_while(|number| model.write_pair(*number)).for_each(drop);
            model.writers.fetch_sub(1, SeqCst);
        })
    }

    /// A thread of the pool. It works until all writers have ended.
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
                let found = shown(&once, key);
                assert!(found >= least, "{found} at a pin, {least} was acknowledged");
            }
            assert_eq!(shown(&once, PAIR[0]), shown(&once, PAIR[1]), "half of a write is shown");
        })
    }

    fn join(&self, threads: Vec<JoinHandle<()>>, stalls: &AtomicU64) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        let shared = &self.bench.store.shared;
        stalls.fetch_add(shared.admission.writers.stalls(), SeqCst);
        assert!(!shared.memtables.memory().has_reservations(), "a reservation is outstanding");
    }
}

fn reserve_beside_flush_and_pin() {
    let model = Model::new(3);
    let threads = vec![
        model.writer(0),
        model.writer(1),
        model.section(),
        model.worker(),
        model.flusher(),
        model.taster(),
        model.pinner(),
    ];
    model.join(threads, &STALLS);
    let last = scan(&model.bench.view(), KeyRange::all(), Direction::Forward);
    for (key, number) in KEYS.iter().zip(&model.acknowledged) {
        assert_eq!(shown(&last, key), number.load(SeqCst));
    }
    assert_eq!(PAIR.map(|key| shown(&last, key)), [2, 2]);
}

fn reserve_beside_close() {
    let model = Model::new(3);
    let closer = |model: &Model| model.bench.store.close().expect("closes");
    let threads =
        vec![model.writer(0), model.writer(1), model.section(), model.worker(), model.does(closer)];
    model.join(threads, &STALLS_BESIDE_CLOSE);
    assert_eq!(model.bench.store.shared.memtables.memory().bytes(), 0, "a closed store has memory");
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
