//! The epoch framework on real threads: no page taken away under a reader, no action lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use thermocline_sync::epoch::Epochs;

/// An action that counts its runs.
fn count(in_: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let runs = in_.clone();
    move || {
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn pages_outlive_their_readers() {
    const PAGES: usize = 20_000;
    const WRITERS: usize = 2;
    let epochs = &Epochs::new();
    let alive: Arc<Vec<AtomicBool>> =
        Arc::new((0..=PAGES).map(|_| AtomicBool::new(true)).collect());
    let (current, next, taken) = (AtomicUsize::new(0), AtomicUsize::new(1), Arc::default());
    let done = AtomicUsize::new(0);
    let look = || {
        let page = current.load(Ordering::Relaxed);
        (0..20).all(|_| alive[page].load(Ordering::Relaxed))
    };
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                loop {
                    let page = next.fetch_add(1, Ordering::Relaxed);
                    if page > PAGES {
                        break;
                    }
                    let old = current.swap(page, Ordering::Relaxed);
                    let (alive, counted) = (alive.clone(), count(&taken));
                    epochs.bump_with(move || {
                        alive[old].store(false, Ordering::Relaxed);
                        counted();
                    });
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let running = || done.load(Ordering::Relaxed) < WRITERS;
        scope.spawn(move || {
            let participant = epochs.join();
            while running() {
                let mut guard = participant.protect();
                for _ in 0..50 {
                    assert!(look(), "a page was taken away under a reader with a participant");
                    guard.refresh();
                }
            }
        });
        scope.spawn(move || {
            while running() {
                let _guard = epochs.protect();
                assert!(look(), "a page was taken away under a reader without a participant");
            }
        });
    });
    assert_eq!(taken.load(Ordering::SeqCst), PAGES, "every page but the last is taken away");
}

#[test]
fn more_threads_than_slots_are_no_failure() {
    let epochs = Epochs::new();
    let runs = Arc::default();
    let mut guards: Vec<_> = (0..200).map(|_| epochs.protect()).collect();
    epochs.bump_with(count(&runs));
    while let Some(guard) = guards.pop() {
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        drop(guard);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn only_older_epochs_hold_an_action_back() {
    let epochs = Epochs::new();
    let (older, newer) = (epochs.join(), epochs.join());
    let runs = Arc::default();
    let held = older.protect();
    epochs.bump_with(count(&runs));
    let _later = newer.protect();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    drop(held);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_nested_guard_moves_only_when_it_is_alone() {
    let epochs = Epochs::new();
    let participant = epochs.join();
    let runs = Arc::default();
    let mut outer = participant.protect();
    let mut inner = participant.protect();
    epochs.bump_with(count(&runs));
    inner.refresh();
    drop(inner);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the outer guard still protects");
    outer.refresh();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // Guards need not be dropped in the order they were made in.
    let last = participant.protect();
    epochs.bump_with(count(&runs));
    drop(outer);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    drop(last);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_full_drain_list_delays_nothing() {
    const BUMPS: usize = 1_000;
    let epochs = Epochs::new();
    let runs = Arc::default();
    let guard = epochs.protect();
    (0..BUMPS).for_each(|_| epochs.bump_with(count(&runs)));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    drop(guard);
    assert_eq!(runs.load(Ordering::SeqCst), BUMPS);
    epochs.bump_with(count(&runs));
    assert_eq!(runs.load(Ordering::SeqCst), BUMPS + 1);
}

#[test]
fn a_panicking_action_holds_no_other_back() {
    let epochs = Epochs::new();
    let runs = Arc::default();
    let guard = epochs.protect();
    epochs.bump_with(count(&runs));
    epochs.bump_with(|| panic!("an action's own fault"));
    epochs.bump_with(count(&runs));
    let payload = catch_unwind(AssertUnwindSafe(|| drop(guard))).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"an action's own fault"));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    epochs.bump_with(count(&runs));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn an_action_may_use_the_framework() {
    let epochs = Epochs::new();
    let runs = Arc::default();
    let (inner, counts) = (epochs.clone(), Arc::clone(&runs));
    let guard = epochs.protect();
    epochs.bump_with(move || {
        let _guard = inner.protect();
        inner.bump_with(count(&counts));
    });
    drop(guard);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_leaked_guard_ends_with_its_participant() {
    let epochs = Epochs::new();
    let participant = epochs.join();
    let runs = Arc::default();
    std::mem::forget(participant.protect());
    epochs.bump_with(count(&runs));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    drop(participant);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn participants_are_used_again_by_threads_that_come_and_go() {
    let epochs = Epochs::new();
    let runs = Arc::default();
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let participant = epochs.join();
                    for _ in 0..50 {
                        let mut guard = participant.protect();
                        epochs.bump_with(count(&runs));
                        guard.refresh();
                    }
                });
            }
        });
    }
    assert_eq!(runs.load(Ordering::SeqCst), 20 * 8 * 50);
}
