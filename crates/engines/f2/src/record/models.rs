//! Models of a record in memory that several threads read and change, for both checkers.

use std::sync::Arc;

use engine::{Change, Operator};
use sync::atomic::AtomicU64;

use super::{InPlace, Live, Read, Shape};
use crate::address::LogAddress;
use crate::checkers::{self, run};
use crate::planted::Planted;

/// A record whose value has two words, so that it can be torn.
struct Shared(Vec<AtomicU64>);

impl Shared {
    fn new(byte: u8) -> Arc<Self> {
        let shape = Shape { key_bytes: 1, value_bytes: 16 };
        let words: Vec<_> = (0..shape.bytes() / 8).map(|_| AtomicU64::new(0)).collect();
        Live::new(&words).write(LogAddress::NONE, b"k", Some(&[byte; 16]));
        Arc::new(Self(words))
    }

    fn live(&self) -> Live<'_> {
        Live::new(&self.0)
    }

    /// The byte that the whole value consists of; nothing if it is a tombstone.
    fn read(&self) -> Option<u8> {
        let mut value = Vec::new();
        if self.live().read(&mut value) == Read::Tombstone {
            return None;
        }
        assert!(value.iter().all(|byte| *byte == value[0]), "a torn value: {value:?}");
        Some(value[0])
    }
}

/// Adds one, in place or by a value of the same length.
struct Add {
    in_place: bool,
}

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        if self.in_place {
            value.iter_mut().for_each(|byte| *byte += 1);
        }
        self.in_place
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let value = value.expect("it is never a tombstone");
        Change::Put(value.iter().map(|byte| byte + 1).collect())
    }
}

/// A value that a reader copies while others replace it is never torn.
fn readers_beside(bytes: &[u8]) {
    let record = Shared::new(1);
    let write = |&byte: &u8| {
        run(&record, move |record| {
            assert_eq!(record.live().put_in_place(Some(&[byte; 16])), InPlace::Done);
        })
    };
    let writers: Vec<_> = bytes.iter().map(write).collect();
    let seen = record.read();
    assert!(matches!(seen, Some(1..=3)), "{seen:?}");
    writers.into_iter().for_each(|writer| writer.join().expect("ends"));
    assert!(matches!(record.read(), Some(2 | 3)));
}

fn readers_beside_two_writers() {
    readers_beside(&[2, 3]);
}

/// The part that is explored to the end: loom takes far too long over a third thread.
fn readers_beside_writers() {
    readers_beside(if cfg!(loom) { &[2] } else { &[2, 3] });
}

/// A tombstone appears whole, and disappears whole.
fn readers_beside_a_tombstone() {
    let record = Shared::new(1);
    let writer = run(&record, |record| {
        assert_eq!(record.live().put_in_place(None), InPlace::Done);
        assert_eq!(record.live().put_in_place(Some(&[2; 16])), InPlace::Done);
    });
    let seen = record.read();
    assert!(matches!(seen, None | Some(1 | 2)), "{seen:?}");
    writer.join().expect("ends");
    assert_eq!(record.read(), Some(2));
}

/// Two count up; nothing is lost.
fn counters() {
    let record = Shared::new(0);
    let other = run(&record, |record| {
        let mut add = Add { in_place: true };
        assert_eq!(record.live().rmw_in_place(&mut add, &mut Vec::new()), InPlace::Done);
    });
    let mut add = Add { in_place: false };
    assert_eq!(record.live().rmw_in_place(&mut add, &mut Vec::new()), InPlace::Done);
    other.join().expect("ends");
    assert_eq!(record.read(), Some(2), "a lost update");
}

/// A change in place concurrent with a thread that seals the record and computes from it: either
/// the change was first and is in the computed value, or it was declined.
fn seal_beside_change() {
    let record = Shared::new(1);
    let changer = run(&record, |record| record.live().put_in_place(Some(&[2; 16])));
    record.live().seal();
    let computed_from = record.read();
    let changed = changer.join().expect("ends");
    let wanted = if changed == InPlace::Done { 2 } else { 1 };
    assert_eq!(computed_from, Some(wanted), "a lost update: {changed:?}");
    assert_eq!(record.read(), computed_from, "it changed after it was sealed");
}

fn check(name: &str, model: fn()) {
    checkers::explore(name, 3, model);
}

fn must_be_found(bug: Planted, how: &str, model: fn()) {
    checkers::must_be_found(bug, how, || check(&format!("{bug:?}"), model));
}

#[test]
fn no_value_is_torn() {
    check("no_value_is_torn", readers_beside_writers);
}

#[test]
fn tombstones_are_whole() {
    check("tombstones_are_whole", readers_beside_a_tombstone);
}

#[test]
fn counters_are_exact() {
    check("counters_are_exact", counters);
}

#[test]
fn a_sealed_record_is_what_was_computed_from() {
    check("a_sealed_record_is_what_was_computed_from", seal_beside_change);
}

#[test]
fn a_reader_without_a_second_look_is_found() {
    must_be_found(Planted::NoSecondLookAtState, "torn", readers_beside_writers);
}

#[test]
fn an_update_that_is_not_sealed_out_is_found() {
    must_be_found(Planted::NoSeal, "", seal_beside_change);
}

#[cfg(loom)]
mod orders {
    //! Bugs that only a weaker memory than shuttle's shows.

    use super::{Planted, must_be_found, readers_beside_two_writers};

    #[test]
    fn a_lock_without_its_fence_is_found() {
        must_be_found(Planted::NoFenceInLock, "torn", readers_beside_two_writers);
    }

    #[test]
    fn a_read_without_its_fence_is_found() {
        must_be_found(Planted::NoFenceInRead, "torn", readers_beside_two_writers);
    }

    #[test]
    fn an_unlock_without_release_is_found() {
        must_be_found(Planted::RelaxedUnlock, "torn", readers_beside_two_writers);
    }
}
