//! Space and scans of a store in which much was deleted: deletes are flushed and compacted by the
//! bytes that they free, and scans do not step over them again and again.

use std::sync::Arc;

use conformance::deletes::{VALUE_BYTES, VALUES};
use device::Device;
use engine::{Direction, Engine, KeyRange, NoJournal};

use super::stores::{Bench, key, scan, small};
use crate::{Compression, Options};

fn options() -> Options {
    Options {
        memtable_bytes_max: 512 << 10,
        table_bytes: 256 << 10,
        block_bytes: 4096,
        level1_bytes: 1 << 20,
        compression: vec![Compression::None],
        merging: true,
        ..small()
    }
}

fn open(device: Arc<dyn Device>) -> Bench {
    Bench::with_options(device, Arc::new(NoJournal), 8 << 20, options()).expect("it opens")
}

/// A store of 4 MB, flushed.
fn loaded() -> Bench {
    let bench = open(device::memory());
    bench.fill_with_values();
    bench
}

/// Passes seconds, with all that the store does in them.
fn look(bench: &Bench, seconds: u32) {
    for _ in 0..seconds {
        bench.store.shared.compact_if_idle();
        bench.crank.run_all();
    }
}

fn written(bench: &Bench) -> u64 {
    bench.detail("flushed_bytes") + bench.detail("compacted_bytes")
}

#[test]
fn deleted_values_leave_the_device_without_a_flush_by_the_user() {
    let bench = loaded();
    bench.delete_values();
    look(&bench, 4);
    assert!(bench.disk_bytes() < 64 << 10, "{} bytes stay", bench.disk_bytes());
    assert_eq!(bench.store.persisted(), bench.sequence.visible(), "the journal may be trimmed");
    assert_eq!(bench.pairs(), []);
}

#[test]
fn deletes_that_are_replayed_free_space_too() {
    let bench = loaded();
    bench.delete_values();
    bench.store.close().expect("closes");
    let bench = open(Arc::clone(&bench.device));
    bench.delete_values();
    look(&bench, 4);
    assert!(bench.disk_bytes() < 64 << 10, "{} bytes stay", bench.disk_bytes());
}

#[test]
fn deletes_free_space_in_a_store_that_is_always_written_to() {
    let bench = loaded();
    bench.delete_values();
    for round in 0..11 {
        look(&bench, 1);
        bench.put(b"zz", &[round; 10]);
    }
    assert!(bench.disk_bytes() < 64 << 10, "{} bytes stay", bench.disk_bytes());
}

#[test]
fn deletes_that_a_snapshot_held_back_free_space_once_it_is_gone() {
    let bench = loaded();
    let snapshot = bench.view();
    bench.delete_values();
    look(&bench, 8);
    assert!(bench.disk_bytes() >= VALUES * VALUE_BYTES as u64);
    assert_eq!(scan(&snapshot, KeyRange::all(), Direction::Forward).len(), VALUES as usize);
    drop(snapshot);
    look(&bench, 4);
    assert!(bench.disk_bytes() < 64 << 10, "{} bytes stay", bench.disk_bytes());
}

/// A store is not rewritten for a small gain, and writes at most four bytes for each byte that it
/// frees.
#[test]
fn the_bytes_written_for_deletes_are_bounded_by_the_bytes_they_free() {
    for part in [40, 20, 10, 5, 3, 2] {
        let bench = loaded();
        let (before, stored) = (written(&bench), bench.disk_bytes());
        (0..VALUES).step_by(part).for_each(|number| _ = bench.delete(&key(number)));
        look(&bench, 30);
        let (written, freed) = (written(&bench) - before, stored - bench.disk_bytes().min(stored));
        assert!(written <= 4 * freed + (64 << 10), "1 of {part}: {written} for {freed}");
        if part >= 20 {
            assert_eq!(written, 0, "1 of {part} is a small gain");
        }
        if part <= 3 {
            assert!(freed >= stored / 4, "1 of {part}: {freed} of {stored}");
        }
    }
}

#[test]
fn the_head_of_a_queue_is_found_in_few_steps_while_it_is_used() {
    let bench = open(device::memory());
    bench.queue(0..1_000);
    for round in 1..20 {
        bench.queue(round * 1_000..(round + 1) * 1_000);
        bench.dead_before_first(Direction::Forward);
        bench.crank.run_all();
        look(&bench, 1);
        let steps = bench.dead_before_first(Direction::Forward);
        assert!(steps <= 512, "round {round}: {steps} dead entries before the first pair");
    }
    assert_eq!(bench.pairs().len(), 100);
}

#[test]
fn the_head_of_a_queue_is_found_in_few_steps_once_nobody_writes() {
    for is_merging in [true, false] {
        let (device, budget) = (device::memory(), 8 << 20);
        let options = Options { merging: is_merging, ..options() };
        let opened = Bench::with_options(device, Arc::new(NoJournal), budget, options);
        let bench = opened.expect("it opens");
        bench.queue(0..20_000);
        look(&bench, 6);
        let steps = bench.dead_before_first(Direction::Forward);
        assert!(steps <= 256, "{steps} dead entries before the first pair");
        assert_eq!(bench.pairs().len(), 100);
    }
}

/// A consumer that is behind: the pairs are in tables when they are deleted.
#[test]
fn deletes_over_flushed_pairs_are_not_stepped_over_twice() {
    for direction in [Direction::Forward, Direction::Backward] {
        let bench = open(device::memory());
        (0..20_000).for_each(|number| _ = bench.put(&key(number), &[1; 100]));
        bench.run_background();
        match direction {
            Direction::Forward => (0..5_000).for_each(|number| _ = bench.delete(&key(number))),
            Direction::Backward => (15_000..20_000).for_each(|it| _ = bench.delete(&key(it))),
        }
        for _ in 0..4 {
            bench.dead_before_first(direction);
            look(&bench, 1);
        }
        let steps = bench.dead_before_first(direction);
        assert!(steps <= 512, "{direction:?}: {steps} dead entries before the first pair");
        assert_eq!(bench.pairs().len(), 15_000);
    }
}

/// Of a key that only memory has had, a merge leaves nothing; it keeps what a table or a snapshot
/// needs.
#[test]
fn a_merge_drops_tombstones_over_nothing() {
    let bench = open(device::memory());
    bench.put(&key(1), b"in a table");
    bench.run_background();
    let flushes = bench.detail("flushes");
    bench.put(&key(2), b"seen");
    let view = bench.view();
    bench.delete(&key(1));
    bench.delete(&key(2));
    for number in 10..500 {
        bench.put(&key(number), b"unseen");
        bench.delete(&key(number));
    }
    bench.store.shared.seal(&bench.store.shared.state.load_full().actives);
    bench.crank.run_all();
    assert_eq!(bench.detail("flushes"), flushes, "nothing is written");
    assert_eq!(bench.detail("memtable_entries"), 3, "one for the table, two for the snapshot");
    let seen = scan(&view, KeyRange::all(), Direction::Forward);
    assert_eq!(seen.len(), 2);
    assert_eq!(bench.pairs(), []);
}
