//! Snapshots of deleted values are replaced without a flush by the user, and scans walk over no
//! empty leaves.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use engine::{Direction, Engine, KeyRange, NoJournal};

use super::stores::{Bench, key};

const VALUES: u64 = 400;
const BYTES: u64 = VALUES * 10_000;

fn loaded(device: &Arc<dyn Device>) -> Bench {
    let bench = Bench::on(Arc::clone(device)).expect("it opens");
    (0..VALUES).for_each(|number| _ = bench.put(&key(number), &[1; 10_000]));
    bench.store.flush().expect("memory takes it");
    assert!(disk_bytes(&bench) >= BYTES);
    bench
}

fn disk_bytes(bench: &Bench) -> u64 {
    bench.store.stats().disk_bytes
}

fn look(bench: &Bench, seconds: u32) {
    for _ in 0..seconds {
        bench.clock.advance(Duration::from_secs(1));
        bench.crank.run_all();
    }
}

fn delete(bench: &Bench, count: u64) {
    (0..count).for_each(|number| _ = bench.delete(&key(number)));
}

#[test]
fn a_snapshot_of_deleted_values_goes_by_itself() {
    for is_reopened in [false, true] {
        let device = device::memory();
        let mut bench = loaded(&device);
        delete(&bench, VALUES);
        if is_reopened {
            bench.store.close().expect("closes");
            bench = Bench::with(device, Arc::new(NoJournal), u64::MAX).expect("it opens");
            delete(&bench, VALUES);
        }
        look(&bench, 4);
        assert!(disk_bytes(&bench) < 64 << 10, "{} bytes stay", disk_bytes(&bench));
        assert_eq!(bench.store.persisted(), bench.sequence.visible());
    }
}

#[test]
fn a_snapshot_is_not_rewritten_for_a_small_gain() {
    let bench = loaded(&device::memory());
    delete(&bench, VALUES / 3);
    look(&bench, 20);
    assert_eq!(bench.detail("snapshots_written"), 1);
    (0..VALUES).for_each(|number| _ = bench.put(&key(number), &[1; 100]));
    look(&bench, 4);
    assert_eq!(bench.detail("snapshots_written"), 2, "what is overwritten is dead, too");
    assert!(disk_bytes(&bench) < BYTES / 2);
}

#[test]
fn the_head_of_a_queue_is_found_in_few_steps() {
    let bench = Bench::new();
    (0..100).for_each(|number| _ = bench.put(&key(number), &[1; 100]));
    let dead = |direction: Direction| {
        let before = bench.detail("scanned_dead_entries");
        let view = bench.view();
        let mut cursor = view.scan(KeyRange::all(), direction).expect("it is open");
        assert!(cursor.next().expect("memory reads").is_some());
        bench.detail("scanned_dead_entries") - before
    };
    for number in 0..20_000 {
        bench.put(&key(number + 100), &[1; 100]);
        bench.delete(&key(number));
    }
    let steps = dead(Direction::Forward);
    assert!(steps <= 256, "{steps} dead keys and leaves before the first pair");
    look(&bench, 2);
    assert!(dead(Direction::Forward) <= 8, "what no snapshot needs goes while nobody writes");
    (0..90).for_each(|number| _ = bench.delete(&key(20_099 - number)));
    look(&bench, 2);
    assert!(dead(Direction::Backward) <= 8);
}

/// Tasks that run while a second passes.
fn tasks_in_a_second(bench: &Bench) -> usize {
    bench.clock.advance(Duration::from_secs(1));
    bench.crank.run_all()
}

#[test]
fn an_idle_store_runs_no_task_until_a_write_wakes_it() {
    let bench = loaded(&device::memory());
    look(&bench, 6);
    assert!((0..60).all(|_| tasks_in_a_second(&bench) == 0), "nothing is left to do");
    let view = bench.view();
    // The old value is pruned after the view.
    bench.put(&key(1), &[2; 10]);
    assert!((0..10).all(|_| tasks_in_a_second(&bench) > 0));
    drop(view);
    look(&bench, 4);
    assert!((0..60).all(|_| tasks_in_a_second(&bench) == 0), "the old value is gone");
    delete(&bench, VALUES);
    look(&bench, 6);
    assert!(disk_bytes(&bench) < 64 << 10, "the deletes have woken it");
    assert_eq!(tasks_in_a_second(&bench), 0);
}
