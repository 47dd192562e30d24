//! Models of a whole store under shuttle: very many random schedules of a few threads that write,
//! read, reorganise, merge and flush.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-lsm --profile models --lib models \
//!     --target-dir target/shuttle
//! ```
//!
//! A schedule switches threads at the locks that are held for long (the gates of memtables, the
//! lock for installing a state, the lock for flushes) and at calls of the sequence. The oracle is
//! always the same. A get or a scan never misses a write that was acknowledged before it began, and
//! never returns an older one. A get never returns an older version than a get before it.

mod planted;
mod ranges;
mod reserve;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{BlockingWrites, Direction, Engine, KeyRange, NoJournal, Op};
use shuttle::thread::{JoinHandle, spawn};
use sync::schedules::{Schedules, finds};

use super::stores::{Bench, scan, small};
use crate::Options;
use crate::background::flush::Wanted;
use crate::dranges::construct::{Layout, Part};

/// All planted bugs together are found in less time than one model is explored in by these.
const SCHEDULES: Schedules = Schedules::new(1_000);
const WRITES: u64 = 4;
/// Keys, in order, with a boundary of Dranges between them in every layout.
const KEYS: [&[u8]; 2] = [b"c", b"p"];

/// A store, and the newest write to each key that was acknowledged.
struct Model {
    bench: Bench,
    acknowledged: [AtomicU64; KEYS.len()],
}

impl Model {
    fn new() -> Arc<Self> {
        Self::of(&[(b"", 1), (b"m", 1)])
    }

    fn of(parts: &[(&[u8], usize)]) -> Arc<Self> {
        let options = Options { slots_max: 4, merging: true, ..small() };
        let limit = 1 << 20;
        let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), limit, options);
        let model = Self { bench: bench.expect("opens"), acknowledged: Default::default() };
        model.install(parts);
        Arc::new(model)
    }

    fn install(&self, parts: &[(&[u8], usize)]) {
        let part = |(start, slots): &(&[u8], usize)| Part {
            tranges: vec![(start.to_vec(), 0)],
            slots: *slots,
            is_point: false,
        };
        let layout = Layout { parts: parts.iter().map(part).collect(), basis: 0 };
        self.bench.store.shared.install_layout(layout);
    }

    /// Writes one key, again and again: its number is the value.
    fn writer(self: &Arc<Self>, key: usize) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || (1..=WRITES).for_each(|value| model.write(key, value)))
    }

    fn write(&self, key: usize, value: u64) {
        let op = [Op::Put { key: KEYS[key], value: &value.to_le_bytes() }];
        self.bench.store.write_next(&op, &self.bench.sequence).expect("the write is taken");
        self.acknowledged[key].store(value, SeqCst);
    }

    /// Looks at each key by a get, and at all by scans both ways.
    fn reader(self: &Arc<Self>) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            let mut seen = [0; KEYS.len()];
            for direction in [Direction::Forward, Direction::Backward] {
                for (key, seen) in seen.iter_mut().enumerate() {
                    model.look(key, seen);
                }
                let before: Vec<u64> =
                    model.acknowledged.iter().map(|value| value.load(SeqCst)).collect();
                let pairs = scan(&model.bench.view(), KeyRange::all(), direction);
                for (key, before) in KEYS.iter().zip(before) {
                    let found = pairs.iter().find(|(found, _)| found == key);
                    let found = found.map_or(0, |(_, value)| number_of(value.clone()));
                    assert!(found >= before, "a scan gave {found}, not {before}");
                }
            }
        })
    }

    /// Reads one key, and checks it against the acknowledged and the previously read versions.
    fn look(&self, key: usize, seen: &mut u64) {
        let before = self.acknowledged[key].load(SeqCst).max(*seen);
        *seen = self.bench.get(KEYS[key]).map_or(0, number_of);
        assert!(*seen >= before, "a get gave {seen}, not {before}");
    }

    /// Looks at one key again and again.
    fn watcher(self: &Arc<Self>, key: usize) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            let mut seen = 0;
            for _ in 0..4 {
                model.look(key, &mut seen);
                shuttle::thread::yield_now();
            }
        })
    }

    /// Finds one slot full, and later the other one, as writers do.
    fn sealer(self: &Arc<Self>) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            for slot in [1, 0] {
                let shared = &model.bench.store.shared;
                let full = Arc::clone(&shared.state.load().actives[slot]);
                shared.seal(&[full]);
            }
        })
    }

    fn flusher(self: &Arc<Self>, wanted: Wanted) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            let shared = &model.bench.store.shared;
            for _ in 0..2 {
                let actives = shared.state.load().actives.clone();
                shared.seal(&actives);
                shared.flush_sealed(wanted).expect("memory takes it");
            }
        })
    }

    /// Moves boundaries over the keys, and has one key's Drange duplicated.
    fn reorganiser(self: &Arc<Self>) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            model.install(&[(b"", 1), (b"b", 2), (b"q", 1)]);
            model.install(&[(b"", 1), (b"d", 1)]);
        })
    }

    /// Everything that was written is there in the end, also when it is all flushed.
    fn end(self: Arc<Self>, threads: Vec<JoinHandle<()>>) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        for _ in 0..2 {
            for (key, acknowledged) in KEYS.iter().zip(&self.acknowledged) {
                let found = self.bench.get(key).map_or(0, number_of);
                assert_eq!(found, acknowledged.load(SeqCst));
            }
            self.bench.store.flush().expect("memory takes it");
        }
        assert_eq!(self.bench.store.persisted(), self.bench.sequence.visible());
    }
}

fn number_of(value: Vec<u8>) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

fn reorganisation_beside_put() {
    let model = Model::new();
    let threads = vec![model.writer(0), model.writer(1), model.reorganiser()];
    model.end(threads);
}

fn reorganisation_beside_scan() {
    let model = Model::new();
    let threads = vec![model.writer(0), model.reorganiser(), model.reader()];
    model.end(threads);
}

fn flush_beside_merge() {
    let model = Model::new();
    let (merge, flush) = (Wanted::WhatWaitsLongest, Wanted::Everything);
    let threads = vec![model.writer(0), model.flusher(merge), model.flusher(flush), model.reader()];
    model.end(threads);
}

fn slot_beside_flush() {
    let model = Model::of(&[(b"", 2)]);
    let threads =
        vec![model.writer(0), model.sealer(), model.flusher(Wanted::Everything), model.watcher(0)];
    model.end(threads);
}

/// One write and one merge of earlier entries: a reader that has found the write keeps finding it.
fn gets_beside_merge() {
    let model = Model::of(&[(b"", 1)]);
    model.bench.store.flush().expect("memory takes it");
    let shared = &model.bench.store.shared;
    // In two memtables, so that the merged one has not the id of the first key's.
    for key in 0..KEYS.len() {
        model.write(key, 1);
        shared.seal(&shared.state.load_full().actives);
    }
    let (writing, merging) = (Arc::clone(&model), Arc::clone(shared));
    let write = spawn(move || writing.write(0, 2));
    let merge = spawn(move || {
        merging.flush_sealed(Wanted::WhatWaitsLongest).expect("memory takes it");
    });
    let threads = vec![write, merge, model.watcher(0)];
    model.end(threads);
}

/// A get caches the pair that it found in the table of an old value, or does not, during the flush
/// of a new value.
fn gets_beside_flush() {
    let model = Model::of(&[(b"", 1)]);
    model.write(0, 1);
    model.bench.store.flush().expect("memory takes it");
    let writing = Arc::clone(&model);
    let write = spawn(move || {
        writing.write(0, 2);
        writing.bench.store.flush().expect("memory takes it");
    });
    let threads = vec![write, model.watcher(0), model.watcher(0)];
    model.end(threads);
}

fn all_at_once() {
    let model = Model::new();
    let threads = vec![
        model.writer(0),
        model.writer(1),
        model.reorganiser(),
        model.flusher(Wanted::WhatWaitsLongest),
        model.flusher(Wanted::Everything),
        model.reader(),
    ];
    model.end(threads);
}

#[test]
fn a_put_beside_a_reorganisation_is_ordered() {
    SCHEDULES.check("a_put_beside_a_reorganisation_is_ordered", reorganisation_beside_put);
}

#[test]
fn a_scan_beside_a_reorganisation_misses_nothing() {
    SCHEDULES.check("a_scan_beside_a_reorganisation_misses_nothing", reorganisation_beside_scan);
}

#[test]
fn a_flush_beside_a_merge_loses_nothing() {
    SCHEDULES.check("a_flush_beside_a_merge_loses_nothing", flush_beside_merge);
}

#[test]
fn a_slot_that_is_sealed_alone_loses_nothing_beside_a_flush() {
    SCHEDULES.check("a_slot_that_is_sealed_alone_loses_nothing_beside_a_flush", slot_beside_flush);
}

#[test]
fn gets_beside_a_merge_never_go_back() {
    SCHEDULES.check("gets_beside_a_merge_never_go_back", gets_beside_merge);
}

#[test]
fn gets_beside_a_flush_never_go_back() {
    SCHEDULES.check("gets_beside_a_flush_never_go_back", gets_beside_flush);
}

#[test]
fn pairs_of_old_tables_that_are_kept_are_found() {
    finds(cache::Planted::OldKept, "", gets_beside_flush);
}

#[test]
fn everything_at_once_misses_nothing() {
    SCHEDULES.check("everything_at_once_misses_nothing", all_at_once);
}
