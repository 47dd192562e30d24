//! Space and scans of a store in which much was deleted.
//!
//! Deletes are committed by the bytes that they free, segments are collected, and scans do not step
//! over the same deletes again and again.

use std::sync::Arc;

use conformance::deletes::{VALUE_BYTES, VALUES};
use device::Device;
use engine::{Direction, Engine, KeyRange, NoJournal, Ranges, ResizableMemory};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::Options;

fn options() -> Options {
    Options { memtable_bytes_max: 512 << 10, segment_bytes_max: 128 << 10, ..small() }
}

fn open(device: Arc<dyn Device>) -> Bench {
    Bench::with(device, Arc::new(NoJournal), 8 << 20, options()).expect("it opens")
}

/// A store of 4 MB, committed.
fn loaded() -> Bench {
    let bench = open(device::memory());
    bench.fill_with_values();
    bench
}

/// Passes seconds, with all that the store does in them.
fn look(bench: &Bench, seconds: u32) {
    for _ in 0..seconds {
        bench.clock.advance(std::time::Duration::from_secs(1));
        bench.crank.run_all();
    }
}

#[test]
fn deleted_values_leave_the_device_without_a_flush_by_the_user() {
    for is_reopened in [false, true] {
        let mut bench = loaded();
        let full = bench.disk_bytes();
        bench.delete_values();
        if is_reopened {
            bench.store.close().expect("closes");
            bench = open(Arc::clone(&bench.device));
            bench.delete_values();
        }
        look(&bench, 6);
        let left = bench.disk_bytes();
        assert!(left < full / 4, "{left} bytes of {full} stay");
        assert_eq!(bench.store.persisted(), bench.sequence.visible(), "the journal may be trimmed");
        assert_eq!(bench.pairs(), []);
    }
}

#[test]
fn deletes_free_space_in_a_store_that_is_always_written_to() {
    let bench = loaded();
    let full = bench.disk_bytes();
    bench.delete_values();
    for round in 0..16 {
        look(&bench, 1);
        bench.put(b"zz", &[round; 10]);
    }
    assert!(bench.disk_bytes() < full / 4, "{} bytes of {full} stay", bench.disk_bytes());
}

#[test]
fn few_deletes_are_not_worth_a_commit() {
    let bench = loaded();
    let commits = bench.detail("commits");
    (0..VALUES).step_by(20).for_each(|number| _ = bench.delete(&key(number)));
    look(&bench, 20);
    assert_eq!(bench.detail("commits"), commits, "a 20th of the store is a small gain");
    (0..VALUES).step_by(4).for_each(|number| _ = bench.delete(&key(number)));
    look(&bench, 4);
    assert_eq!(bench.detail("commits"), commits + 1, "they are committed once");
    let written = bench.detail("bytes_appended") + bench.detail("bytes_rewritten");
    look(&bench, 10);
    let after = bench.detail("bytes_appended") + bench.detail("bytes_rewritten");
    assert_eq!((bench.detail("commits"), after), (commits + 1, written), "and no more");
}

#[test]
fn the_head_of_a_queue_is_found_in_few_steps() {
    for is_scanned in [true, false] {
        let bench = open(device::memory());
        for round in 0..20 {
            bench.queue(round * 1_000..(round + 1) * 1_000);
            if is_scanned {
                bench.dead_before_first(Direction::Forward);
                bench.crank.run_all();
                let steps = bench.dead_before_first(Direction::Forward);
                assert!(steps <= 512, "round {round}: {steps} deleted keys before the first pair");
                look(&bench, 1);
            }
        }
        look(&bench, 4);
        let steps = bench.dead_before_first(Direction::Forward);
        assert!(steps <= 128, "{steps} deleted keys before the first pair");
        assert_eq!(bench.pairs().len(), 100);
    }
}

#[test]
fn the_end_of_a_stack_is_found_in_few_steps() {
    let bench = open(device::memory());
    (0..5_000).for_each(|number| _ = bench.put(&key(number), &[1; 100]));
    bench.flush();
    (1_000..5_000).for_each(|number| _ = bench.delete(&key(number)));
    assert!(bench.dead_before_first(Direction::Backward) >= 4_000);
    bench.crank.run_all();
    assert!(bench.dead_before_first(Direction::Backward) <= 128);
    assert_eq!(bench.pairs().len(), 1_000);
}

/// Overwritten values are also gone, and the size of a part is its share.
#[test]
fn a_compaction_collects_what_is_dead_though_it_is_little() {
    let bench = loaded();
    for number in (0..VALUES).step_by(10) {
        bench.put(&key(number), b"short");
    }
    bench.flush();
    look(&bench, 4);
    let before = bench.disk_bytes();
    assert!(before >= VALUES * VALUE_BYTES as u64, "a tenth is not worth a collection");
    let pairs = bench.pairs();
    bench.store.compact(&KeyRange::all()).expect("it compacts");
    let left = bench.disk_bytes();
    let dead = VALUES / 10 * VALUE_BYTES as u64;
    assert!(left <= before - dead / 2, "{left} of {before}, of which {dead} were dead");
    bench.check();
    assert_eq!(bench.pairs(), pairs);
    let size = |range: &KeyRange| bench.store.approximate_bytes(range).expect("it is open");
    let upper = KeyRange::of(key(VALUES / 2)..);
    assert!(size(&upper) * 10 > size(&KeyRange::all()) * 4);
}

/// Tasks that run while a second passes.
fn tasks_in_a_second(bench: &Bench) -> usize {
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.crank.run_all()
}

/// Passes seconds until the store does nothing any more.
fn sleeps(bench: &Bench) -> bool {
    (0..60).any(|_| (0..3).all(|_| tasks_in_a_second(bench) == 0))
}

#[test]
fn an_idle_store_runs_no_task_until_something_wakes_it() {
    let bench = loaded();
    assert!(sleeps(&bench), "a task runs each second");
    assert!((0..60).all(|_| tasks_in_a_second(&bench) == 0));
    let view = bench.store.view(bench.sequence.pin());
    bench.put(&key(1), &[2; 100]);
    assert!(!sleeps(&bench), "the snapshot holds the old value");
    drop(view);
    assert!(sleeps(&bench));
    let wakes: [(&str, &dyn Fn()); 5] = [
        ("a put", &|| _ = bench.put(&key(1), &[3; 100])),
        ("a flush", &|| bench.flush()),
        ("a compaction", &|| bench.store.compact(&KeyRange::all()).expect("compacts")),
        ("another limit of the memory", &|| {
            bench.store.resize(7 << 20).expect("it is enough");
        }),
        ("a long run of dead entries", &|| bench.store.shared.note_dead_run(1_000)),
    ];
    for (what, wake) in wakes {
        wake();
        assert!(tasks_in_a_second(&bench) > 0, "{what} wakes it");
        assert!(sleeps(&bench), "after {what}");
    }
    let before = bench.disk_bytes();
    bench.delete_values();
    assert!(sleeps(&bench) && bench.disk_bytes() < before / 2, "{} bytes", bench.disk_bytes());
}
