//! Models of a whole store under shuttle: very many random schedules of a few threads.
//!
//! The threads write, read, commit, collect, and close. In `reserve` they wait for room.
//!
//! ```text
//! RUSTC_WORKSPACE_WRAPPER=crates/base/sync/checkers/shuttle cargo test -p thermocline-flexdb \
//!     --profile models --target-dir target/models --lib models
//! ```
//!
//! Each key is given numbers that grow. The oracle is always the same. A get or a scan never misses
//! a write that was acknowledged before it began, and never returns an older one. A view never
//! changes. After a crash the journal, replayed onto the remains, gives the newest writes. Shuttle
//! itself reports a lost wake-up, like any other deadlock.

mod reserve;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use conformance::Journaled;
use device::{Device, Faults, SimulatedDisk};
use engine::{
    Barrier, BlockingWrites, Demand, Direction, Engine, Error, KeyRange, NoJournal, Op, Result,
    Wait,
};
use reads::{BlockingReads, View};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use sync::Mutex;
use sync::schedules::{Schedules, finds};

use super::stores::{Bench, key, scan, small};
use crate::planted::Planted;
use crate::state::freed_here;
use crate::{Options, Store};

const SCHEDULES: Schedules = Schedules::new(400);

const MEMORY_BYTES: u64 = 1 << 20;
/// Keys that are written to.
const KEYS: usize = 2;
const WRITES: u64 = 3;

/// A store, and the newest number that each key was given and that was acknowledged.
struct Model {
    bench: Bench,
    acknowledged: [AtomicU64; KEYS],
    /// Law L6: the writer of a key holds the key's lock.
    locks: [Mutex<()>; KEYS],
    /// The writes, in the order of their numbers, if there is a journal.
    journal: Mutex<Vec<(SeqNo, usize, u64)>>,
}

/// The numbers of the keys in pairs.
fn numbers_in(pairs: &[(Vec<u8>, Vec<u8>)]) -> [u64; KEYS] {
    std::array::from_fn(|at| {
        let found = pairs.iter().find(|(found, _)| *found == name(at));
        found.map_or(0, |(_, value)| number_of(value))
    })
}

fn number_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// Returns a key: one is before, and one behind, the other keys of the store.
fn name(at: usize) -> Vec<u8> {
    key(at as u64 * 1_000)
}

/// Returns none if the store reports that it is closed.
fn or_closed<T>(answer: Result<T>) -> Option<T> {
    match answer {
        Err(Error::Closed) => None,
        answer => Some(answer.expect("memory takes it")),
    }
}

impl Model {
    fn of(
        device: Arc<dyn Device>,
        barrier: Arc<dyn Barrier>,
        memory: u64,
        options: Options,
    ) -> Arc<Self> {
        let bench = Bench::with(device, barrier, memory, options).expect("an empty device");
        let (acknowledged, locks, journal) = Default::default();
        Arc::new(Self { bench, acknowledged, locks, journal })
    }

    fn new() -> Arc<Self> {
        Self::of(device::memory(), Arc::new(NoJournal), MEMORY_BYTES, small())
    }

    fn does(self: &Arc<Self>, work: impl Fn(&Self) + Send + 'static) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || work(&model))
    }

    /// Gives a key its next number, in a value of `bytes` bytes; returns whether the store is open.
    fn write(&self, at: usize, bytes: usize) -> bool {
        let name = name(at);
        let bytes_max = bytes.max(size_of::<u64>()) as u64;
        let demand = Demand::Update { key: &name, bytes_max };
        let Some(granted) = or_closed(self.bench.store.reserve(&demand, Wait::Yes)) else {
            return false;
        };
        let mut room = granted.expect("it waits for room");
        let _held = self.locks[at].lock();
        let number = self.acknowledged[at].load(SeqCst) + 1;
        let mut value = number.to_le_bytes().to_vec();
        value.resize(bytes_max as usize, 0);
        let op = [Op::Put { key: &name, value: &value }];
        let ticket = {
            let mut journal = self.journal.lock();
            let ticket = self.bench.sequence.begin();
            journal.push((ticket.seqno(), at, number));
            ticket
        };
        let applied = self.bench.store.apply(&op, ticket.seqno(), &mut room);
        let written = or_closed(applied).is_some();
        drop(ticket);
        if written {
            self.acknowledged[at].store(number, SeqCst);
        }
        written
    }

    fn writer(self: &Arc<Self>, at: usize) -> JoinHandle<()> {
        self.does(move |model| (0..WRITES).for_each(|_| assert!(model.write(at, 0))))
    }

    /// Puts pairs between the keys that are written to, each committed by itself.
    fn fill(&self, pairs: u64) {
        for number in 1..=pairs {
            self.bench.put(&key(number), &[7; 60]);
            self.bench.store.flush().expect("memory takes it");
        }
    }

    fn committer(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| (0..2).for_each(|_| model.bench.store.flush().expect("memory takes it")))
    }

    /// A thread of the pool.
    fn worker(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            for _ in 0..6 {
                model.bench.crank.run_all();
                yield_now();
            }
        })
    }

    fn acknowledged(&self) -> [u64; KEYS] {
        self.acknowledged.each_ref().map(|number| number.load(SeqCst))
    }

    /// Looks for each key by a get, and for all of them by scans of a view both ways.
    fn look(&self) {
        let mut seen = [0; KEYS];
        for direction in [Direction::Forward, Direction::Backward] {
            for (at, seen) in seen.iter_mut().enumerate() {
                let least = self.acknowledged[at].load(SeqCst).max(*seen);
                let mut value = Vec::new();
                let Some(found) = or_closed(self.bench.store.get(&name(at), &mut value)) else {
                    return;
                };
                *seen = if found { number_of(&value) } else { 0 };
                assert!(*seen >= least, "a get gave {seen}, not {least}");
            }
            let before = self.acknowledged();
            let pin = self.bench.sequence.pin();
            let view = self.bench.store.view(pin);
            let Some(pairs) = scanned(&view, direction) else { return };
            let numbers = numbers_in(&pairs);
            for (found, (before, seen)) in numbers.iter().zip(before.iter().zip(&mut seen)) {
                let least = (*before).max(*seen);
                assert!(*found >= least, "a scan gave {found}, not {least}");
                *seen = *found;
            }
        }
    }

    fn reader(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(Self::look)
    }

    /// Holds a view for long, and looks at it again and again.
    fn holder(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            let before = model.acknowledged();
            let view = model.bench.view();
            let shown = scan(&view, KeyRange::all(), Direction::Forward);
            let numbers = numbers_in(&shown);
            assert!(
                numbers.iter().zip(before).all(|(shown, before)| *shown >= before),
                "a view misses writes"
            );
            for direction in [Direction::Backward, Direction::Forward, Direction::Backward] {
                yield_now();
                let mut pairs = scan(&view, KeyRange::all(), direction);
                if direction == Direction::Backward {
                    pairs.reverse();
                }
                assert_eq!(numbers_in(&pairs), numbers, "a view has changed");
                assert!(pairs == shown, "a view has changed");
                for (at, number) in numbers.iter().enumerate() {
                    let mut value = Vec::new();
                    let found = view.get(&name(at), &mut value).expect("the store is open");
                    let found = if found { number_of(&value) } else { 0 };
                    assert_eq!(found, *number, "a view has changed");
                }
            }
        })
    }

    /// Checks that a closed store holds no memtables and has no tasks.
    fn holds_nothing(&self) {
        let state = self.bench.store.shared.state.load();
        assert!(state.is_none(), "a closed store holds its memtables");
        assert_eq!(self.bench.crank.ready(), 0, "tasks of a closed store");
    }

    fn join(threads: Vec<JoinHandle<()>>) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    }

    /// Checks that the newest writes are there in the end, also when all of them are committed.
    fn end(&self, threads: Vec<JoinHandle<()>>) {
        Self::join(threads);
        for _ in 0..2 {
            let found = numbers_in(&self.bench.pairs());
            assert_eq!(found, self.acknowledged(), "what is there in the end");
            self.bench.flush();
        }
        assert_eq!(self.bench.store.persisted(), self.bench.sequence.visible());
    }
}

/// All pairs of a view; none of a store that is closed.
fn scanned(view: &View<'_, Store>, direction: Direction) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = or_closed(view.scan(KeyRange::all(), direction))?;
    let mut pairs = Vec::new();
    while let Some((key, value)) = or_closed(cursor.next())? {
        pairs.push((key.to_vec(), value.to_vec()));
    }
    Some(pairs)
}

/// Memtables are sealed and committed concurrently with writers and readers.
fn commits_beside_all() {
    let model = Model::new();
    let threads = vec![
        model.writer(0),
        model.writer(1),
        model.committer(),
        model.committer(),
        model.reader(),
    ];
    model.end(threads);
}

/// Two commits concurrently with one write: a memtable is found to be full, and another thread
/// commits it.
fn commits_beside_a_write() {
    let model = Model::new();
    assert!(model.write(1, 0));
    let commit = |model: &Model| model.bench.store.flush().expect("memory takes it");
    let write = |model: &Model| assert!(model.write(0, 0));
    let threads = vec![model.does(write), model.does(commit), model.does(commit)];
    model.end(threads);
}

/// One write, one commit of it: a reader that has found it continues to find it.
fn gets_beside_a_commit() {
    let model = Model::new();
    assert!(model.write(0, 0));
    let threads = vec![model.committer(), model.reader()];
    model.end(threads);
}

/// Gets look into a state while a commit replaces it, and are over soon.
fn gets_that_free_nothing() {
    let model = Model::new();
    assert!(model.write(0, 0));
    let gets = |model: &Model| {
        for _ in 0..3 {
            let mut value = Vec::new();
            assert!(model.bench.store.get(&name(0), &mut value).expect("the store is open"));
        }
        assert_eq!(freed_here(), 0, "a get frees what was replaced");
    };
    let threads = vec![model.does(gets), model.committer()];
    model.end(threads);
}

/// Views are before, between and behind the writes that commits put, and the base of readers is
/// renewed.
fn views_beside_commits() {
    let model = Model::new();
    model.fill(3);
    let writes = |model: &Model| {
        for _ in 0..2 {
            assert!(model.write(0, 0) && model.write(1, 0));
            model.bench.store.flush().expect("memory takes it");
        }
    };
    let renewals = |model: &Model| {
        for _ in 0..2 {
            let shared = &model.bench.store.shared;
            let mut committer = shared.committer.lock();
            shared.renew_base(&mut committer).expect("the store is open");
        }
    };
    let threads = vec![model.does(writes), model.does(renewals), model.holder(), model.reader()];
    model.end(threads);
}

/// Segments of the space are emptied and reused concurrently with readers, views and commits.
fn collections_beside_all() {
    let model = Model::new();
    model.fill(14);
    let collections = |model: &Model| {
        for _ in 0..2 {
            let shared = &model.bench.store.shared;
            shared.cache.shrink(0);
            shared.collect(false).expect("memory takes it");
        }
    };
    let threads = vec![
        model.writer(0),
        model.committer(),
        model.does(collections),
        model.holder(),
        model.reader(),
    ];
    model.end(threads);
}

/// Writes after a commit of memtables are planned by several threads, and done in the order of the
/// keys.
fn plans_of_many_threads() {
    // A chunk has few updates.
    let options = Options { tail_pairs_max: 0, ..small() };
    let model = Model::of(device::memory(), Arc::new(NoJournal), 64 << 10, options);
    for number in 1..=24 {
        model.bench.put(&key(number), &[7; 60]);
    }
    model.bench.flush();
    assert!(model.bench.intervals() > 3, "{} intervals", model.bench.intervals());
    for number in (1..=24).step_by(3) {
        model.bench.put(&key(number), &[8; 90]);
    }
    assert!(model.write(0, 0) && model.write(1, 0));
    let commit = |model: &Model| model.bench.store.flush().expect("memory takes it");
    let threads = vec![model.does(commit), model.worker(), model.worker(), model.reader()];
    model.end(threads);
    let pairs = model.bench.pairs();
    let expected = (1..=24).map(|number| if number % 3 == 1 { 90 } else { 60 });
    let found = pairs[1..25].iter().map(|(_, value)| value.len());
    assert!(found.eq(expected), "pairs of before a commit");
}

/// Writes of one key and of another one meet while memtables are sealed and committed. The power is
/// cut. The journal has all writes in the order of their numbers, and the writes above the
/// persisted number are made again.
fn racing_writes() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let model = Model::of(disk.clone(), Arc::new(Journaled), MEMORY_BYTES, small());
    let writer =
        |at: usize| model.does(move |model| (0..2).for_each(|_| assert!(model.write(at, 0))));
    let threads = vec![writer(0), writer(0), writer(1), model.committer()];
    Model::join(threads);
    let written = model.acknowledged();
    assert_eq!(numbers_in(&model.bench.pairs()), written, "what is there before a crash");
    let image = disk.crash(written[0]);
    let found = Bench::with(image, Arc::new(Journaled), MEMORY_BYTES, small()).expect("opens");
    let persisted = found.store.persisted();
    for (seqno, at, number) in model.journal.lock().iter().filter(|(seqno, ..)| *seqno > persisted)
    {
        let (name, value) = (name(*at), number.to_le_bytes());
        let op = [Op::Put { key: &name, value: &value }];
        found.store.write(&op, *seqno).expect("what was journaled is taken");
        found.sequence.recover_to(*seqno);
    }
    assert_eq!(numbers_in(&found.pairs()), written, "what is there after a crash");
    found.flush();
    assert_eq!(numbers_in(&found.pairs()), written, "what is there once that is committed");
}

/// A memtable is found to be full while the store is closed.
fn close_beside_a_seal() {
    let model = Model::new();
    assert!(model.write(0, 0));
    let shared = &model.bench.store.shared;
    let full = Arc::clone(&shared.state.load_full().expect("the store is open").active);
    let seal = move |model: &Model| model.bench.store.shared.seal(&full);
    let close = |model: &Model| model.bench.store.close().expect("closes");
    Model::join(vec![model.does(seal), model.does(close)]);
    model.holds_nothing();
}

/// Writes that were flushed before a close are there when the store is opened again, no thread
/// waits for ever, and a closed store holds nothing.
fn close_beside_all() {
    let options = Options { memtable_bytes_max: 4 << 10, ..small() };
    let model = Model::of(device::memory(), Arc::new(NoJournal), 64 << 10, options.clone());
    let flushed: Arc<[AtomicU64; KEYS]> = Arc::default();
    let writer = |at: usize| {
        model.does(move |model: &Model| _ = (0..3).take_while(|_| model.write(at, 5_000)).count())
    };
    let told = Arc::clone(&flushed);
    let committer = move |model: &Model| {
        for _ in 0..2 {
            let before = model.acknowledged();
            if or_closed(model.bench.store.flush()).is_none() {
                return;
            }
            for (told, before) in told.iter().zip(before) {
                told.fetch_max(before, SeqCst);
            }
        }
    };
    let closer = |model: &Model| model.bench.store.close().expect("closes");
    let threads = vec![
        writer(0),
        writer(1),
        model.does(committer),
        model.worker(),
        model.reader(),
        model.does(closer),
    ];
    Model::join(threads);
    model.holds_nothing();
    let device = Arc::clone(&model.bench.device);
    let again = Bench::with(device, Arc::new(NoJournal), 64 << 10, options).expect("opens again");
    let found = numbers_in(&again.pairs());
    for (at, found) in found.iter().enumerate() {
        let least = flushed[at].load(SeqCst);
        assert!(*found >= least, "number {found} after a close, {least} was flushed");
        assert!(*found <= model.acknowledged[at].load(SeqCst) + 1, "a number that nobody wrote");
    }
    again.check();
}

#[test]
fn commits_beside_all_miss_nothing() {
    SCHEDULES.check("commits_beside_all_miss_nothing", commits_beside_all);
}

#[test]
fn commits_beside_a_write_miss_nothing() {
    SCHEDULES.check("commits_beside_a_write_miss_nothing", commits_beside_a_write);
}

#[test]
fn a_close_beside_a_seal_holds_nothing() {
    SCHEDULES.check("a_close_beside_a_seal_holds_nothing", close_beside_a_seal);
}

#[test]
fn gets_beside_a_commit_never_go_back() {
    SCHEDULES.check("gets_beside_a_commit_never_go_back", gets_beside_a_commit);
}

#[test]
fn gets_beside_a_commit_free_nothing() {
    SCHEDULES.check("gets_beside_a_commit_free_nothing", gets_that_free_nothing);
}

#[test]
fn views_beside_commits_stay_the_same() {
    SCHEDULES.check("views_beside_commits_stay_the_same", views_beside_commits);
}

#[test]
fn collections_beside_all_miss_nothing() {
    SCHEDULES.check("collections_beside_all_miss_nothing", collections_beside_all);
}

#[test]
fn plans_of_many_threads_are_done_in_order() {
    SCHEDULES.check("plans_of_many_threads_are_done_in_order", plans_of_many_threads);
}

#[test]
fn racing_writes_keep_their_order() {
    SCHEDULES.check("racing_writes_keep_their_order", racing_writes);
}

#[test]
fn a_close_beside_all_keeps_what_was_flushed() {
    SCHEDULES.check("a_close_beside_all_keeps_what_was_flushed", close_beside_all);
}

#[test]
fn a_commit_of_what_is_written_to_is_found() {
    finds(Planted::CommittedUnsealed, "what is there in the end", commits_beside_a_write);
}

#[test]
fn memtables_that_go_before_their_base_comes_are_found() {
    finds(Planted::TakenOutFirst, "gave", gets_beside_a_commit);
}

#[test]
fn gets_that_free_what_a_commit_replaces_are_found() {
    finds(Planted::LeftToReaders, "a get frees what was replaced", gets_that_free_nothing);
}

#[test]
fn plans_that_are_done_out_of_turn_are_found() {
    finds(Planted::OutOfTurn, "", plans_of_many_threads);
}

#[test]
fn a_floor_that_passes_open_writes_is_found() {
    finds(Planted::FloorPassesOpen, "what is there", racing_writes);
}

#[test]
fn a_state_that_comes_back_after_a_close_is_found() {
    finds(Planted::ClosedUninstalled, "a closed store holds", close_beside_a_seal);
}
