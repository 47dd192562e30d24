//! The steps in which the power is cut. Each names the events that it has to meet.
//!
//! So no step is cut short without a test failure.

use engine::{Direction, Engine, KeyRange, ResizableMemory};

use super::{Run, Scenario};
use crate::Options;
use crate::tests::fragmented_queue::pass_a_second;
use crate::tests::stores::{key, scan, small};

const MEMORY_BYTES: u64 = 1 << 20;
const PAIRS: u64 = 48;

fn scenario(options: Options, step: fn(&mut Run)) -> Scenario {
    Scenario { options, memory_bytes: MEMORY_BYTES, prepare: filled, step }
}

/// Pairs of every tenth key, in intervals of a few, none of which is cached.
fn filled(run: &mut Run) {
    for number in 0..PAIRS {
        run.put(key(10 * number), vec![1; 30]);
    }
    run.flush();
    run.forget();
}

/// Does `work`, in which figures of these names have to grow.
fn coming_by(run: &mut Run, names: &[&str], work: impl FnOnce(&mut Run)) {
    let before: Vec<u64> = names.iter().map(|name| run.detail(name)).collect();
    work(run);
    for (name, before) in names.iter().zip(before) {
        assert!(run.detail(name) > before, "{name} stays at {before}");
    }
}

/// Updates of the same size, shorter and longer ones, keys before the first and behind the last,
/// and deletes of keys that exist and of keys that do not.
fn write_all_kinds(run: &mut Run) {
    run.put(key(100), vec![2; 30]);
    run.put(key(150), vec![3; 5]);
    run.put(key(200), vec![4; 90]);
    run.put(key(255), vec![5; 30]);
    run.put(key(10 * PAIRS), vec![6; 30]);
    run.put(b"a".to_vec(), vec![7; 30]);
    run.delete(key(0));
    run.delete(key(300));
    run.delete(key(301));
    run.delete(key(310));
}

#[test]
fn a_commit_in_place() {
    let step = |run: &mut Run| {
        coming_by(run, &["intervals_in_place"], |run| {
            write_all_kinds(run);
            run.flush();
        });
    };
    scenario(Options { tail_pairs_max: 0, ..small() }, step).crash();
}

/// Updates and tombstones are appended, and a second commit rewrites intervals.
#[test]
fn a_commit_that_appends() {
    let step = |run: &mut Run| {
        coming_by(run, &["intervals_appended"], |run| {
            write_all_kinds(run);
            run.flush();
            run.forget();
        });
        coming_by(run, &["intervals_rewritten"], |run| {
            run.put(key(300), vec![8; 10]);
            (0..4).for_each(|number| run.put(key(201 + number), vec![9; 30]));
            run.flush();
        });
    };
    scenario(small(), step).crash();
}

/// An interval becomes several, of pairs and of bytes; the last one, and one in the middle.
#[test]
fn a_split() {
    let step = |run: &mut Run| {
        let before = run.bench.intervals();
        (0..12).for_each(|number| run.put(key(101 + number), vec![2; 20]));
        (0..3).for_each(|number| run.put(key(301 + number), vec![3; 900]));
        (0..9).for_each(|number| run.put(key(10 * PAIRS + number), vec![4; 20]));
        run.flush();
        let after = run.bench.intervals();
        assert!(after >= before + 6, "{after} intervals, of {before}");
    };
    scenario(small(), step).crash();
}

/// Deletes leave intervals small, and neighbours become one; some disappear. The joined one is
/// written to.
#[test]
fn a_join() {
    let step = |run: &mut Run| {
        let before = run.bench.intervals();
        coming_by(run, &["intervals_joined"], |run| {
            let numbers = (0..60).filter(|number| number % 10 > 0);
            numbers.for_each(|number| run.delete(key(10 * number)));
            run.flush();
            (70..90).for_each(|number| run.delete(key(10 * number)));
            run.flush();
        });
        let after = run.bench.intervals();
        assert!(after + 3 <= before, "{after} intervals, of {before}");
        run.put(key(101), vec![2; 40]);
        run.put(key(301), vec![2; 40]);
        run.flush();
        run.forget();
        run.put(key(1), vec![3; 40]);
        run.flush();
    };
    let prepare = |run: &mut Run| {
        (0..120).for_each(|number| run.put(key(10 * number), vec![1; 30]));
        run.flush();
    };
    let options = Options { interval_pairs: 8, fragments_max: 24, ..small() };
    // Enough that all updates of an interval are planned together.
    Scenario { prepare, memory_bytes: 8 * MEMORY_BYTES, ..scenario(options, step) }.crash();
}

/// The tree of the space is stored, with commits before it and behind it, twice.
#[test]
fn a_checkpoint() {
    let step = |run: &mut Run| {
        let space = run.bench.store.shared.space.clone();
        let before = space.stats();
        assert!(before.used_slots > 2, "a tree of several nodes: {before:?}");
        for round in 0..2 {
            write_all_kinds(run);
            run.put(key(400 + round), vec![round as u8; 30]);
            run.flush();
            space.checkpoint().expect("an honest disk");
            run.note();
        }
        run.put(key(7), vec![2; 30]);
        run.flush();
        assert_eq!(space.stats().checkpoints, before.checkpoints + 2);
    };
    let prepare = |run: &mut Run| {
        (0..300).for_each(|number| run.put(key(10 * number), vec![1; 20]));
        run.flush();
        run.bench.store.shared.space.checkpoint().expect("an honest disk");
        run.forget();
    };
    Scenario { prepare, ..scenario(small(), step) }.crash();
}

#[test]
fn a_close_that_stores_the_index() {
    let step = |run: &mut Run| {
        write_all_kinds(run);
        run.flush();
        run.bench.store.close().expect("an honest disk");
        assert!(run.bench.device.exists(crate::stored_index::FILE).expect("looks"));
    };
    let options = Options { stored_intervals_min: 1, ..small() };
    let met = scenario(options, step).crash();
    let found = (met.stored, met.images - met.stored);
    assert!(found.0 > 0 && found.1 > 0, "{found:?} with a stored index, and without");
}

/// The collector empties segments, a commit follows it, and the emptied segments are free and
/// filled again.
#[test]
fn a_collection() {
    let step = |run: &mut Run| {
        coming_by(run, &["collected_segments", "collected_bytes"], |run| {
            run.bench.store.shared.collect(false).expect("an honest disk");
            run.note();
            write_all_kinds(run);
            run.flush();
            run.bench.store.shared.collect(false).expect("an honest disk");
            (0..20).for_each(|number| run.put(key(10 * number), vec![9; 900]));
            run.flush();
        });
    };
    let prepare = |run: &mut Run| {
        for round in 0..3 {
            let numbers = (0..60).filter(|number| round == 0 || number % 3 != round);
            numbers.for_each(|number| run.put(key(10 * number), vec![round as u8; 900]));
            run.flush();
        }
        run.forget();
    };
    let options = Options { capacity_bytes: 140 * (16 << 10), ..small() };
    Scenario { prepare, ..scenario(options, step) }.crash();
}

/// Intervals that a scan has found in pieces are written as one, and that is made durable.
#[test]
fn intervals_in_pieces_that_are_written_as_one() {
    let step = |run: &mut Run| {
        coming_by(run, &["intervals_rewritten_for_scans"], |run| {
            pass_a_second(&run.bench);
            scan(&run.bench.view(), KeyRange::all(), Direction::Forward);
            let shared = std::sync::Arc::clone(&run.bench.store.shared);
            shared.rewrite_fragmented().expect("there is room");
            shared.sync_rewritten().expect("an honest disk");
            run.note();
            write_all_kinds(run);
            run.flush();
        });
    };
    let prepare = |run: &mut Run| {
        filled(run);
        for round in 1..4 {
            let numbers = (0..PAIRS).filter(|number| number % 5 == round);
            numbers.for_each(|number| run.put(key(10 * number), vec![round as u8; 20]));
            run.flush();
            run.forget();
        }
    };
    let options = Options { interval_pairs: 16, tail_pairs_max: 15, ..small() };
    Scenario { prepare, ..scenario(options, step) }.crash();
}

/// With a smaller budget the memtable is committed in the background, and with far too little the
/// index joins neighbours; then there is more again.
#[test]
fn another_budget() {
    let step = |run: &mut Run| {
        coming_by(run, &["commits"], |run| {
            (0..550).for_each(|number| run.put(key(10_000 + number), vec![2; 100]));
            let store = &run.bench.store;
            let limit = store.resize(MEMORY_BYTES).expect("it is open");
            assert_eq!(limit, MEMORY_BYTES, "as little as was asked for");
            run.bench.crank.run_all();
            run.note();
        });
        coming_by(run, &["intervals_coarsened"], |run| {
            run.bench.budget.set_limit(16 << 10);
            run.put(key(5), vec![3; 30]);
            run.flush();
        });
        run.bench.store.resize(8 * MEMORY_BYTES).expect("it is open");
        write_all_kinds(run);
        run.flush();
    };
    let prepare = |run: &mut Run| {
        (0..300).for_each(|number| run.put(key(10 * number), vec![1; 20]));
        run.flush();
        run.forget();
    };
    let options = Options { memtable_bytes_max: 256 << 10, ..small() };
    Scenario { memory_bytes: 8 * MEMORY_BYTES, prepare, ..scenario(options, step) }.crash();
}
