//! Range deletes and ingestions concurrently with flushes, compactions, reads and old values.
//!
//! The test keeps a history of each key: its values in order. It checks each reader against it: a
//! reader finds a value that the key had at some moment since the reader began, and none older than
//! the values that it has found before.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex as Plain};

use engine::{At, Demand, Direction, Engine, KeyRange, Lookup, NoJournal, Op, Reservation, Wait};
use reads::ReadPool;
use shuttle::thread::{JoinHandle, spawn, yield_now};
use sync::Mutex;
use sync::schedules::finds;

use super::super::stores::{Bench, scan, small};
use super::{KEYS, SCHEDULES, number_of};
use crate::Options;
use crate::background::flush::Wanted;
use crate::planted::Planted;

/// Values of a key in order: a number, or nothing. It began with nothing.
#[derive(Default)]
struct History {
    given: Plain<Vec<Option<u64>>>,
    /// How many of these have returned.
    returned: std::sync::atomic::AtomicU64,
}

impl History {
    fn begin(&self, given: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let mut all = self.given.lock().expect("no model panics here");
        let turn = all.len() as u64 + 1;
        all.push(given(turn));
        turn
    }

    fn end(&self, turn: u64) {
        self.returned.fetch_max(turn, SeqCst);
    }

    /// The first turn from `after` on by which the key had this.
    fn turn_of(&self, found: Option<u64>, after: u64) -> Option<u64> {
        let all = self.given.lock().expect("no model panics here");
        let had = |turn: u64| turn.checked_sub(1).map_or(None, |at| all[at as usize]);
        (after..=all.len() as u64).find(|turn| had(*turn) == found)
    }
}

/// A store, and what its keys were given.
struct Model {
    bench: Bench,
    keys: [History; KEYS.len()],
    /// Law L6: a writer holds it.
    locks: Mutex<()>,
}

impl Model {
    /// Each key has a version in a table, and another one in a younger table.
    fn new(merging: bool) -> Arc<Self> {
        Self::of(Options { slots_max: 1, merging, ..small() })
    }

    fn of(options: Options) -> Arc<Self> {
        let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), 1 << 20, options);
        let model = Self {
            bench: bench.expect("opens"),
            keys: Default::default(),
            locks: Mutex::default(),
        };
        for _ in 0..2 {
            (0..KEYS.len()).for_each(|key| model.put(key));
            model.bench.store.flush().expect("memory takes it");
        }
        Arc::new(model)
    }

    fn reserve(&self, demand: &Demand<'_>) -> Reservation<'_> {
        let granted = self.bench.store.reserve(demand, Wait::Yes).expect("it is not refused");
        granted.expect("it waits for room")
    }

    fn put(&self, key: usize) {
        let demand = Demand::Update { key: KEYS[key], bytes_max: size_of::<u64>() as u64 };
        let mut room = self.reserve(&demand);
        let _held = self.locks.lock();
        let ticket = self.bench.sequence.begin();
        let turn = self.keys[key].begin(Some);
        let op = [Op::Put { key: KEYS[key], value: &turn.to_le_bytes() }];
        self.bench.store.apply(&op, ticket.seqno(), &mut room).expect("the write is taken");
        drop(ticket);
        self.keys[key].end(turn);
    }

    /// Deletes all keys in one write.
    fn delete_range(&self) {
        let op = [Op::DeleteRange { start: b"a", end: None }];
        let mut room = self.reserve(&Demand::Ops(&op));
        let _held = self.locks.lock();
        let ticket = self.bench.sequence.begin();
        let turns: Vec<u64> = self.keys.iter().map(|key| key.begin(|_| None)).collect();
        self.bench.store.apply(&op, ticket.seqno(), &mut room).expect("the write is taken");
        drop(ticket);
        self.keys.iter().zip(turns).for_each(|(key, turn)| key.end(turn));
    }

    /// Ingests all keys in one write, each in a table of its own.
    fn ingest(&self) {
        let mut ingestion = self.bench.store.ingestion().expect("the store is open");
        let _held = self.locks.lock();
        let ticket = self.bench.sequence.begin();
        let mut turns = Vec::new();
        for (key, history) in KEYS.iter().zip(&self.keys) {
            let turn = history.begin(Some);
            // Tables end at 4 KiB.
            let mut value = turn.to_le_bytes().to_vec();
            value.extend((0..6000_u64).map(|at| codec::hash64(at, b"") as u8));
            ingestion.push(key, &value).expect("memory takes it");
            turns.push(turn);
        }
        ingestion.commit(ticket.seqno()).expect("memory takes it");
        drop(ticket);
        self.keys.iter().zip(turns).for_each(|(key, turn)| key.end(turn));
    }

    fn judge(&self, key: usize, found: Option<Vec<u8>>, after: u64) -> u64 {
        let found = found.map(|value| number_of(value[..8].to_vec()));
        let turn = self.keys[key].turn_of(found, after);
        turn.unwrap_or_else(|| panic!("{found:?} is not what key {key} had since turn {after}"))
    }

    /// Looks at each key, with nothing seen before.
    fn look_at_each(&self) {
        for key in 0..KEYS.len() {
            self.look(key, &mut 0);
            yield_now();
        }
    }

    /// Looks at a key.
    fn look(&self, key: usize, seen: &mut u64) {
        let after = self.keys[key].returned.load(SeqCst).max(*seen);
        *seen = self.judge(key, self.bench.get(KEYS[key]), after);
    }

    /// Looks at all keys, which range deletes and ingestions change at one moment.
    fn look_at_all(&self, seen: &mut [u64]) {
        let after: Vec<u64> = self.keys.iter().map(|key| key.returned.load(SeqCst)).collect();
        let pairs = scan(&self.bench.view(), KeyRange::all(), Direction::Forward);
        for (key, seen) in seen.iter_mut().enumerate() {
            let found = pairs.iter().find(|(found, _)| found == KEYS[key]);
            let found = found.map(|(_, value)| value.clone());
            *seen = self.judge(key, found, after[key].max(*seen));
        }
    }

    fn does(self: &Arc<Self>, what: impl Fn(&Self) + Send + 'static) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || what(&model))
    }

    fn watcher(self: &Arc<Self>, key: usize) -> JoinHandle<()> {
        self.does(move |model| {
            let mut seen = [0; KEYS.len()];
            for _ in 0..4 {
                model.look(key, &mut seen[key]);
                yield_now();
            }
            model.look_at_all(&mut seen);
        })
    }

    fn flusher(self: &Arc<Self>, wanted: Wanted) -> JoinHandle<()> {
        self.does(move |model| {
            let shared = &model.bench.store.shared;
            for _ in 0..2 {
                let actives = shared.state.load().actives.clone();
                shared.seal(&actives);
                shared.flush_sealed(wanted).expect("memory takes it");
            }
        })
    }

    /// Does what was queued: persisting range deletes, flushes, compactions, and the drops and
    /// sweeps of range deletes. There is one of these in a model.
    fn worker(self: &Arc<Self>) -> JoinHandle<()> {
        self.does(|model| {
            for _ in 0..6 {
                model.bench.crank.run_one();
                yield_now();
            }
        })
    }

    /// Checks at the end that everything is as the histories say, also after everything was
    /// rewritten.
    fn end(self: Arc<Self>, threads: Vec<JoinHandle<()>>) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        for _ in 0..2 {
            let mut seen = [0; KEYS.len()];
            (0..KEYS.len()).for_each(|key| self.look(key, &mut seen[key]));
            self.look_at_all(&mut seen);
            self.bench.run_background();
        }
    }
}

fn delete_beside_flush() {
    let model = Model::new(false);
    let threads = vec![
        model.does(|model| {
            model.put(0);
            model.delete_range();
            model.put(1);
        }),
        model.flusher(Wanted::Everything),
        model.watcher(0),
        model.watcher(1),
    ];
    model.end(threads);
}

fn delete_beside_compaction() {
    let model = Model::new(false);
    let threads = vec![
        model.does(|model| {
            model.delete_range();
            model.put(0);
            model.delete_range();
        }),
        model.worker(),
        model.watcher(0),
    ];
    model.end(threads);
}

/// A read, while the space of keys that were deleted before is released.
fn read_beside_the_end() {
    read_at_the_end(Model::new(false));
}

/// Without a lookup index, so that the read searches tables.
fn read_at_the_end_without_hints() {
    read_at_the_end(Model::of(Options { lookup_index_bytes_max: 0, ..small() }));
}

fn read_at_the_end(model: Arc<Model>) {
    model.delete_range();
    let threads = vec![model.worker(), model.watcher(0)];
    model.end(threads);
}

/// Merged entries stay in memory, and so does the range delete that hides them.
fn delete_beside_merge() {
    let model = Model::new(true);
    model.put(0);
    let threads = vec![
        model.does(|model| {
            model.delete_range();
            model.put(1);
        }),
        model.flusher(Wanted::WhatWaitsLongest),
        model.worker(),
        model.watcher(0),
    ];
    model.end(threads);
}

/// Two threads flush, and one of them also persists range deletes, concurrently with range deletes:
/// each thread may know of the entries that the other one sweeps.
fn delete_beside_everything() {
    let model = Model::new(false);
    let threads = vec![
        model.does(Model::delete_range),
        model.does(|model| {
            model.put(0);
            model.delete_range();
        }),
        model.flusher(Wanted::Everything),
        model.worker(),
        model.watcher(0),
    ];
    model.end(threads);
}

fn old_value(beside: fn(&Model)) {
    let model = Model::new(false);
    let device = Arc::clone(&model.bench.device);
    model.bench.store.close().expect("closes");
    let cold = Bench::on(device).expect("opens");
    let Ok(Model { keys, locks, .. }) = Arc::try_unwrap(model) else { panic!("nobody has it") };
    let model = Arc::new(Model { bench: cold, keys, locks });
    let threads = vec![
        model.does(|model| {
            let mut value = Vec::new();
            let lookup = model.bench.store.lookup(KEYS[0], At::ForUpdate, &mut value);
            let Ok(Lookup::Pending(lookup)) = lookup else { return };
            yield_now();
            let pool = ReadPool::new(&model.bench.budget);
            let completed = pool.complete_pending(lookup, &mut value);
            let (is_found, lookup) = completed.expect("nothing fails");
            let held = model.locks.lock();
            if lookup.is_newest() {
                // As long as no other write of the key runs, the key has its last given value.
                let given = model.keys[0].given.lock().expect("no model panics here");
                let after = given.len() as u64;
                drop(given);
                model.judge(0, is_found.then_some(value), after);
            }
            drop(held);
        }),
        model.does(beside),
        model.worker(),
    ];
    model.end(threads);
}

fn old_value_beside_delete() {
    old_value(Model::delete_range);
}

fn old_value_beside_ingestion() {
    old_value(Model::ingest);
}

fn ingestion_beside_reads() {
    ingestion_beside_reads_of(Model::new(false));
}

/// Without a lookup index, so that the order of tables counts.
fn ingestion_without_hints() {
    ingestion_beside_reads_of(Model::of(Options { lookup_index_bytes_max: 0, ..small() }));
}

fn ingestion_beside_reads_of(model: Arc<Model>) {
    model.put(0);
    let threads = vec![
        model.does(|model| {
            model.ingest();
            model.look_at_each();
            model.put(0);
            model.bench.store.flush().expect("memory takes it");
            model.look_at_each();
        }),
        model.watcher(0),
        model.watcher(1),
        model.worker(),
    ];
    model.end(threads);
}

/// All of it becomes visible atomically.
fn ingestion_beside_scans() {
    let model = Model::new(false);
    let threads = vec![
        model.does(Model::ingest),
        model.does(|model| {
            let given = || model.bench.get(KEYS[0]).map(|value| number_of(value[..8].to_vec()));
            for _ in 0..3 {
                let first = given();
                yield_now();
                let other = model.bench.get(KEYS[1]).map(|value| number_of(value[..8].to_vec()));
                // The other one was asked later, and both get their turns together.
                assert!(other >= first, "{first:?}, but {other:?}");
                yield_now();
            }
        }),
        model.worker(),
    ];
    model.end(threads);
}

#[test]
fn a_range_delete_beside_a_flush_hides_what_it_should() {
    SCHEDULES.check("a_range_delete_beside_a_flush_hides_what_it_should", delete_beside_flush);
}

#[test]
fn a_range_delete_beside_compactions_hides_what_it_should() {
    SCHEDULES
        .check("a_range_delete_beside_compactions_hides_what_it_should", delete_beside_compaction);
}

#[test]
fn a_range_delete_beside_a_merge_hides_what_it_should() {
    SCHEDULES.check("a_range_delete_beside_a_merge_hides_what_it_should", delete_beside_merge);
}

#[test]
fn range_deletes_beside_everything_hide_what_they_should() {
    SCHEDULES
        .check("range_deletes_beside_everything_hide_what_they_should", delete_beside_everything);
}

#[test]
fn an_old_value_beside_a_range_delete_is_not_confirmed() {
    SCHEDULES.check("an_old_value_beside_a_range_delete_is_not_confirmed", old_value_beside_delete);
}

#[test]
fn an_old_value_beside_an_ingestion_is_not_confirmed() {
    SCHEDULES
        .check("an_old_value_beside_an_ingestion_is_not_confirmed", old_value_beside_ingestion);
}

#[test]
fn reads_beside_an_ingestion_never_go_back() {
    SCHEDULES.check("reads_beside_an_ingestion_never_go_back", ingestion_beside_reads);
}

#[test]
fn a_read_while_a_range_delete_ends_finds_nothing() {
    SCHEDULES.check("a_read_while_a_range_delete_ends_finds_nothing", read_beside_the_end);
}

#[test]
fn a_read_while_a_range_delete_ends_needs_no_hints() {
    SCHEDULES
        .check("a_read_while_a_range_delete_ends_needs_no_hints", read_at_the_end_without_hints);
}

#[test]
fn reads_beside_an_ingestion_need_no_hints() {
    SCHEDULES.check("reads_beside_an_ingestion_need_no_hints", ingestion_without_hints);
}

#[test]
fn an_ingestion_shows_as_a_whole() {
    SCHEDULES.check("an_ingestion_shows_as_a_whole", ingestion_beside_scans);
}

#[test]
fn a_commit_over_others_is_found() {
    finds(Planted::InstalledOverOthers, "", delete_beside_flush);
}

#[test]
fn a_range_delete_that_ends_too_early_is_found() {
    finds(Planted::OverInMemory, "", delete_beside_merge);
}

#[test]
fn a_get_of_two_states_is_found() {
    finds(Planted::DeletesOfLater, "", read_at_the_end_without_hints);
}

#[test]
fn an_old_value_over_a_range_delete_is_found() {
    finds(Planted::DeletesUncounted, "", old_value_beside_delete);
}

#[test]
fn a_hint_past_an_ingested_table_is_found() {
    finds(Planted::OldHintBelieved, "", ingestion_beside_reads);
}

#[test]
fn memtables_that_stay_below_an_ingestion_are_found() {
    finds(Planted::MemtablesKept, "", ingestion_without_hints);
}
