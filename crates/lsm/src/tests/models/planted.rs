//! Bugs planted in a store, each with the models that find it (`docs/reliability/planted-lsm.md`).

use engine::{Direction, Engine, KeyRange};
use shuttle::thread::spawn;

use super::{
    KEYS, Model, all_at_once, finds, flush_beside_merge, gets_beside_merge, number_of,
    reorganisation_beside_put, reorganisation_beside_scan, scan, slot_beside_flush,
};
use crate::background::flush::Wanted;
use crate::background::plan_compaction::tests::a_group_that_is_too_large_gives_up_its_youngest;
use crate::planted::Planted;

/// A key has a version in the memtable of a Drange that is gone, and a newer one in that which came in
/// its place; both are flushed.
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

/// What a view shows stays there, whatever is written and flushed beside it.
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
        let pairs = scan(&*view, KeyRange::all(), Direction::Forward);
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

/// An ordinary test, twice at once: a checker refuses a model of one thread.
fn groups_that_are_too_large() {
    let threads = [(); 2].map(|()| spawn(a_group_that_is_too_large_gives_up_its_youngest));
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
}

#[test]
fn flushes_of_two_generations_never_go_back() {
    super::check("flushes_of_two_generations_never_go_back", flushes_of_two_generations);
}

#[test]
fn a_view_shows_the_same_after_a_flush() {
    super::check("a_view_shows_the_same_after_a_flush", view_beside_flush);
}

#[test]
fn groups_that_are_too_large_give_up_their_youngest() {
    super::check("groups_that_are_too_large_give_up_their_youngest", groups_that_are_too_large);
}

#[test]
fn a_write_to_a_sealed_memtable_is_found() {
    finds(Planted::SealedEntered, slot_beside_flush);
    finds(Planted::SealedEntered, all_at_once);
}

#[test]
fn a_lookup_index_that_compares_no_numbers_is_found() {
    finds(Planted::NumbersUncompared, gets_beside_merge);
}

#[test]
fn a_memtable_that_is_indexed_late_is_found() {
    finds(Planted::IndexedLate, slot_beside_flush);
}

#[test]
fn a_memtable_that_is_indexed_under_its_start_is_found() {
    finds(Planted::IndexedUnderStart, reorganisation_beside_put);
    finds(Planted::IndexedUnderStart, reorganisation_beside_scan);
}

#[test]
fn a_flush_of_the_youngest_first_is_found() {
    finds(Planted::YoungestFlushedFirst, flushes_of_two_generations);
}

#[test]
fn a_merge_of_what_it_has_not_read_is_found() {
    finds(Planted::MergedUnread, flush_beside_merge);
}

#[test]
fn a_job_that_leaves_older_tables_is_found() {
    finds(Planted::OldestLeft, groups_that_are_too_large);
}

#[test]
fn a_flush_that_forgets_snapshots_is_found() {
    finds(Planted::SnapshotsForgotten, view_beside_flush);
}
