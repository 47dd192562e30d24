//! Bugs planted in a store, each with the models that find it (`docs/reliability/planted-lsm.md`).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use engine::{Cursor, Direction, Engine, KeyRange};
use reads::{BlockingReads, View};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use sync::schedules::finds;

use super::{
    KEYS, Model, SCHEDULES, all_at_once, flush_beside_merge, gets_beside_merge, number_of,
    reorganisation_beside_put, reorganisation_beside_scan, scan, slot_beside_flush,
};
use crate::Store;
use crate::background::flush::Wanted;
use crate::planted::Planted;

/// A key has a version in the memtable of a removed Drange, and a newer one in the memtable
/// that took its place; both are flushed.
fn flushes_of_two_generations() {
    let model = Model::new();
    model.write(0, 1);
    model.install(&[(b"", 1), (b"b", 1), (b"q", 1)]);
    model.write(0, 2);
    let flushing = model.clone();
    let flush = spawn(move || {
        let shared = &flushing.bench.store.shared;
        shared.seal(&shared.state.load().actives.clone());
        shared.flush_sealed(Wanted::Everything).expect("memory takes it");
    });
    let threads = vec![flush, model.watcher(0)];
    model.end(threads);
}

/// A view keeps its pairs, whatever other threads write and flush.
fn view_beside_flush() {
    let model = Model::new();
    model.write(0, 1);
    let view = model.bench.view();
    let writing = model.clone();
    let write = spawn(move || {
        writing.write(0, 2);
        writing.bench.store.flush().expect("memory takes it");
    });
    let look = || {
        let pairs = scan(&view, KeyRange::all(), Direction::Forward);
        let found: Vec<_> = pairs.into_iter().map(|(key, value)| (key, number_of(value))).collect();
        assert_eq!(found, [(KEYS[0].to_vec(), 1)]);
    };
    look();
    let watcher = model.watcher(0);
    for thread in [write, watcher] {
        thread.join().expect("it does not panic");
        look();
    }
}

/// The numbers that all keys have.
type Shown = [u64; KEYS.len()];

/// Records the pairs of a cursor, while other threads run between its steps.
fn walk(cursor: &mut dyn Cursor, shown: &mut Shown) {
    while let Some((key, value)) = cursor.next().expect("the store is open") {
        let at = KEYS.iter().position(|one| *one == key).expect("there are no other keys");
        assert_eq!(shown[at], 0, "a cursor gave a key twice");
        shown[at] = number_of(value.to_vec());
        yield_now();
    }
}

fn shown(view: &View<'_, Store>, direction: Direction) -> Shown {
    let mut cursor = view.scan(KeyRange::all(), direction).expect("the store is open");
    let mut shown = Shown::default();
    walk(&mut *cursor, &mut shown);
    shown
}

/// A view shows the same both ways, and to gets.
fn stays(view: &View<'_, Store>, expected: Shown) {
    for direction in [Direction::Backward, Direction::Forward] {
        assert_eq!(shown(view, direction), expected, "{direction:?}");
    }
    for (key, expected) in KEYS.iter().zip(expected) {
        let mut value = Vec::new();
        let is_there = view.get(key, &mut value).expect("the store is open");
        assert_eq!(if is_there { number_of(value) } else { 0 }, expected);
    }
}

impl Model {
    /// Holds an earlier view, with cursors half way through, concurrently with all other threads.
    fn holder(self: &Arc<Self>) -> JoinHandle<()> {
        let (model, expected) = (Arc::clone(self), [1; KEYS.len()]);
        let pin = self.bench.sequence.pin();
        let view = self.bench.store.view(Arc::clone(&pin));
        let cursors = [Direction::Forward, Direction::Backward].map(|direction| {
            let mut cursor = view.scan(KeyRange::all(), direction).expect("the store is open");
            let (key, value) = cursor.next().expect("the store is open").expect("there are two");
            let at = usize::from(direction == Direction::Backward);
            assert_eq!((key, number_of(value.to_vec())), (KEYS[at], expected[at]));
            (at, cursor)
        });
        spawn(move || {
            for (at, mut cursor) in cursors {
                let mut shown = Shown::default();
                walk(&mut *cursor, &mut shown);
                shown[at] += expected[at];
                assert_eq!(shown, expected, "a cursor that went half way");
            }
            stays(&model.bench.store.view(pin), expected);
        })
    }

    /// Takes views concurrently with all other threads: each has the writes that were acknowledged
    /// before, and keeps them.
    fn viewer(self: &Arc<Self>) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || {
            for _ in 0..2 {
                let before = model.acknowledged.each_ref().map(|value| value.load(SeqCst));
                let view = model.bench.view();
                let shown = shown(&view, Direction::Forward);
                let misses = shown.iter().zip(&before).any(|(shown, before)| shown < before);
                assert!(!misses, "a view of {shown:?}, not {before:?}");
                stays(&view, shown);
            }
        })
    }

    fn write_all(&self, value: u64) {
        (0..KEYS.len()).for_each(|key| self.write(key, value));
    }
}

/// A compaction has two versions of each key, which are in tables of their own: no flush had one to
/// forget.
fn view_beside_compaction() {
    let model = Model::of(&[(b"", 1)]);
    model.write_all(1);
    model.bench.store.flush().expect("memory takes it");
    let holder = model.holder();
    model.write_all(2);
    model.bench.store.flush().expect("memory takes it");
    let (compacting, writing) = (Arc::clone(&model), Arc::clone(&model));
    let compact = spawn(move || {
        compacting.bench.crank.run_all();
        assert!(compacting.bench.detail("compactions") > 0);
    });
    let write = spawn(move || writing.write(0, 3));
    let threads = vec![compact, holder, write, model.viewer()];
    model.end(threads);
}

/// A merge has two versions of each key, in memtables of their own.
fn view_beside_merge() {
    let model = Model::of(&[(b"", 1)]);
    model.bench.store.flush().expect("memory takes it");
    let shared = &model.bench.store.shared;
    model.write_all(1);
    shared.seal(&shared.state.load_full().actives);
    let holder = model.holder();
    model.write_all(2);
    shared.seal(&shared.state.load_full().actives);
    let (merging, writing) = (Arc::clone(&model), Arc::clone(&model));
    let merge = spawn(move || {
        let shared = &merging.bench.store.shared;
        shared.flush_sealed(Wanted::WhatWaitsLongest).expect("memory takes it");
        assert_eq!((merging.bench.detail("memtable_merges"), shared.state.load().due()), (1, 0));
    });
    let write = spawn(move || writing.write(0, 3));
    let threads = vec![merge, holder, write, model.viewer()];
    model.end(threads);
}

#[test]
fn flushes_of_two_generations_never_go_back() {
    SCHEDULES.check("flushes_of_two_generations_never_go_back", flushes_of_two_generations);
}

#[test]
fn a_view_shows_the_same_after_a_flush() {
    SCHEDULES.check("a_view_shows_the_same_after_a_flush", view_beside_flush);
}

#[test]
fn views_show_the_same_beside_a_compaction() {
    SCHEDULES.check("views_show_the_same_beside_a_compaction", view_beside_compaction);
}

#[test]
fn views_show_the_same_beside_a_merge() {
    SCHEDULES.check("views_show_the_same_beside_a_merge", view_beside_merge);
}

#[test]
fn a_write_to_a_sealed_memtable_is_found() {
    finds(Planted::SealedEntered, "", slot_beside_flush);
    finds(Planted::SealedEntered, "", all_at_once);
}

#[test]
fn a_lookup_index_that_compares_no_numbers_is_found() {
    finds(Planted::NumbersUncompared, "", gets_beside_merge);
}

#[test]
fn a_memtable_that_is_indexed_late_is_found() {
    finds(Planted::IndexedLate, "", slot_beside_flush);
}

#[test]
fn a_memtable_that_is_indexed_under_its_start_is_found() {
    finds(Planted::IndexedUnderStart, "", reorganisation_beside_put);
    finds(Planted::IndexedUnderStart, "", reorganisation_beside_scan);
}

#[test]
fn a_flush_of_the_youngest_first_is_found() {
    finds(Planted::YoungestFlushedFirst, "", flushes_of_two_generations);
}

#[test]
fn a_merge_of_what_it_has_not_read_is_found() {
    finds(Planted::MergedUnread, "", flush_beside_merge);
}
