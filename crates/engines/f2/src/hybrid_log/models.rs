//! Models of a cut concurrent with changes in place and appended records, for both checkers.
//!
//! The border and the epochs are real, the log is numbers. Models with a real log are in `real`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/loom hybrid_log
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/shuttle hybrid_log
//! ```
//!
//! An address is a slot that holds the value that was written there. Key `a` has the first slot,
//! and is changed in place there; a change that cannot be in place, and every write of `b`, takes
//! the next slot.

mod real;
#[cfg(all(shuttle, not(loom)))]
mod reserve;

use std::sync::Arc;

use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::epoch::Epochs;
use sync::thread::yield_now;

use super::read_only::{ReadOnly, when_nobody_changes};
use crate::address::LogAddress;
use crate::checkers::{self, Order, together};
use crate::planted::Planted;

const SLOTS: usize = 5;
/// The address of `a`.
const A: LogAddress = LogAddress::new(1);

struct Log {
    border: ReadOnly,
    epochs: Epochs,
    tail: AtomicU64,
    slots: [AtomicU64; SLOTS],
    /// The address of `b`; 0 if there is none.
    entry_of_b: AtomicU64,
}

impl Log {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            border: ReadOnly::new(A),
            epochs: Epochs::new(),
            tail: AtomicU64::new(A.get() + 1),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            entry_of_b: AtomicU64::new(0),
        })
    }

    fn append(&self, value: u64) -> u64 {
        let at = self.tail.fetch_add(1, Ordering::AcqRel);
        self.slots[at as usize].store(value, Ordering::Relaxed);
        at
    }

    /// The write `value` of `a`.
    fn put_a(&self, value: u64) {
        let _guard = self.epochs.protect();
        if self.border.mutable_from() <= A {
            self.slots[A.get() as usize].store(value, Ordering::Relaxed);
        } else {
            self.append(value);
        }
    }

    /// The write `value` of `b`.
    fn put_b(&self, value: u64) {
        let _guard = self.epochs.protect();
        let at = self.append(value);
        self.entry_of_b.store(at, Ordering::Release);
    }

    /// Returns the values that a checkpoint writes out.
    fn checkpoint(&self) -> Vec<u64> {
        let guard = self.epochs.protect();
        let cut = self.border.cut(&self.tail, |tail| (tail, LogAddress::new(tail))).at;
        let is_safe = Arc::new(AtomicBool::new(false));
        let safe = Arc::clone(&is_safe);
        when_nobody_changes(&self.epochs, move || safe.store(true, Ordering::Release));
        drop(guard);
        while !is_safe.load(Ordering::Acquire) {
            yield_now();
        }
        self.below(cut)
    }

    fn below(&self, cut: LogAddress) -> Vec<u64> {
        let slots = &self.slots[A.get() as usize..cut.get() as usize];
        slots.iter().map(|slot| slot.load(Ordering::Relaxed)).collect()
    }

    /// The log has the values that were written out, and they are a prefix of the writes 1, 2, ...
    fn must_be_prefix(&self, written: &[u64]) {
        let end = A.plus(written.len() as u64);
        assert_eq!(self.below(end), written, "changed after it was written out");
        let last = written.iter().copied().max().unwrap_or(0);
        for earlier in 1..last {
            assert!(written.contains(&earlier), "{last} without {earlier}: {written:?}");
        }
    }
}

/// A checkpoint while a thread writes both keys.
fn cut_beside_two_writes(order: Order) {
    let log = Log::new();
    let write = |log: &Log| {
        log.put_b(1);
        log.put_a(2);
    };
    let (_, written) = together(order, &log, write, Log::checkpoint);
    log.must_be_prefix(&written);
}

/// The same with a write before that is in place.
fn cut_beside_three_writes(order: Order) {
    let log = Log::new();
    let write = |log: &Log| {
        log.put_a(1);
        log.put_b(2);
        log.put_b(3);
    };
    let (_, written) = together(order, &log, write, Log::checkpoint);
    let last = written.iter().copied().max().unwrap_or(0);
    assert!(last < 3 || written.contains(&2), "3 without 2: {written:?}");
    assert!(last < 2 || written.contains(&1), "{last} without 1: {written:?}");
}

/// A checkpoint while one thread writes `b` and another writes `a` after it has seen `b`.
fn cut_beside_a_write_that_knows_of_another(order: Order) {
    let log = Log::new();
    let first = checkers::run(&log, |log| log.put_b(1));
    let write = |log: &Log| {
        if log.entry_of_b.load(Ordering::Acquire) != 0 {
            log.put_a(2);
        }
    };
    let (_, written) = together(order, &log, write, Log::checkpoint);
    first.join().expect("ends");
    log.must_be_prefix(&written);
}

fn check(name: &str, model: fn(Order)) {
    checkers::explore_orders(name, 3, model);
}

/// Loom takes far too long for a model with a third thread.
fn check_three(name: &str, model: fn(Order)) {
    checkers::explore_orders(name, 2, model);
}

fn must_be_found(bug: Planted, how: &str, model: fn(Order)) {
    checkers::must_be_found(bug, how, || check(&format!("{bug:?}"), model));
}

#[test]
fn a_cut_has_a_prefix_of_a_threads_writes() {
    check("a_cut_has_a_prefix_of_a_threads_writes", cut_beside_two_writes);
    check("a_cut_has_a_prefix_of_a_threads_writes", cut_beside_three_writes);
}

#[test]
fn a_cut_has_what_its_writes_knew_of() {
    check_three("a_cut_has_what_its_writes_knew_of", cut_beside_a_write_that_knows_of_another);
}

#[test]
fn a_cut_without_a_hold_is_found() {
    must_be_found(Planted::CutWithoutHold, "2 without 1", cut_beside_two_writes);
}

#[test]
fn a_cut_that_waits_for_nobody_is_found() {
    let how = "changed after it was written out";
    must_be_found(Planted::CutWithoutEpoch, how, cut_beside_two_writes);
}

/// Only a weaker memory than shuttle's shows it.
#[cfg(loom)]
#[test]
fn a_cut_that_only_looks_at_the_tail_is_found() {
    must_be_found(Planted::CutByLooking, "2 without 1", cut_beside_two_writes);
}
