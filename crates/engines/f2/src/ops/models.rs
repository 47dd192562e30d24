//! Models of concurrent operations and compactions on a whole store, for both checkers.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/loom ops
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/shuttle ops
//! ```
//!
//! The sum is checked: an update that is lost is missing in it, and so is one that begins with
//! nothing because it did not find the old value. Loom has two threads each time, of which one does
//! sequentially the work that several would do.

use crate::address::LogAddress;
use crate::checkers::small_store::SmallStore;
use crate::checkers::{self, Order, together};
use crate::planted::Planted;

/// Two threads insert the same key.
fn insert_beside_insert(order: Order) {
    let store = SmallStore::of_two_logs();
    together(order, &store, SmallStore::count_up, SmallStore::count_up);
    must_be(&store, 2);
}

/// A thread inserts a key, while another does, and then moves the key to the cold log.
fn insert_beside_a_move(order: Order) {
    let store = SmallStore::of_two_logs();
    let come_and_go = |store: &SmallStore| {
        store.count_up();
        store.move_to_cold();
    };
    together(order, &store, SmallStore::count_up, come_and_go);
    must_be(&store, 2);
}

/// The same, and the key is inserted again: the entry is freed, and made again without an address.
fn insert_beside_a_move_and_an_insert(order: Order) {
    let store = SmallStore::of_two_logs();
    let come_go_and_come = |store: &SmallStore| {
        store.count_up();
        store.move_to_cold();
        store.count_up();
    };
    together(order, &store, SmallStore::count_up, come_go_and_come);
    must_be(&store, 3);
}

/// The same where the key is in the cold log from the beginning.
fn update_of_a_cold_key_beside_a_move(order: Order) {
    let store = SmallStore::of_two_logs();
    store.count_up();
    store.move_to_cold();
    let come_and_go = |store: &SmallStore| {
        store.count_up();
        store.move_to_cold();
    };
    together(order, &store, SmallStore::count_up, come_and_go);
    must_be(&store, 3);
}

/// Three threads for it.
#[cfg(shuttle)]
fn two_inserts_beside_a_move(_order: Order) {
    let store = SmallStore::of_two_logs();
    let others = [SmallStore::count_up, SmallStore::move_to_cold]
        .map(|work: fn(&SmallStore)| checkers::run(&store, work));
    store.count_up();
    others.into_iter().for_each(|other| other.join().expect("ends"));
    must_be(&store, 2);
}

/// A thread reads a record on disk, while it is copied to the tail and the log begins behind it.
fn read_beside_a_copy(order: Order) {
    let store = SmallStore::of_one_log();
    store.count_and_evict();
    let (read, ()) = together(order, &store, SmallStore::count, SmallStore::compact_single);
    assert_eq!(read, Some(1), "it was there all the while");
    must_be(&store, 1);
}

/// A thread reads a record on disk, while it is moved to the cold log.
fn read_beside_a_move(order: Order) {
    let store = SmallStore::of_two_logs();
    store.count_and_evict();
    let (read, ()) = together(order, &store, SmallStore::count, SmallStore::move_to_cold);
    assert_eq!(read, Some(1), "it was there all the while");
    must_be(&store, 1);
}

/// A thread changes a record in place, while another turns a page, so that the record becomes
/// read-only, and changes it then.
fn update_beside_a_turn(order: Order) {
    let store = SmallStore::of_one_log();
    store.count_up();
    (0..4).for_each(|filler| store.put(&[filler], &[0; 8]));
    assert_eq!(store.shared().hot.log.mutable_from(), LogAddress::NONE, "it is mutable");
    let turn_and_count = |store: &SmallStore| {
        store.put(&[4], &[0; 8]);
        store.count_up();
    };
    together(order, &store, SmallStore::count_up, turn_and_count);
    must_be(&store, 3);
}

fn must_be(store: &SmallStore, sum: u64) {
    assert_eq!(store.count(), Some(sum), "a lost update");
}

fn check(name: &str, interruptions: usize, model: fn(Order)) {
    checkers::explore_store(name, interruptions, model);
}

fn must_be_found(bug: Planted, how: &str, interruptions: usize, model: fn(Order)) {
    let explored = || check(&format!("{bug:?}"), interruptions, model);
    checkers::must_be_found(bug, how, explored);
}

const LOST: &str = "a lost update";
const ABSENT: &str = "it was there all the while";

#[test]
fn one_of_two_inserts_comes_first() {
    check("one_of_two_inserts_comes_first", 2, insert_beside_insert);
}

#[test]
fn an_insert_knows_of_what_came_and_went() {
    let name = "an_insert_knows_of_what_came_and_went";
    check(name, 1, insert_beside_a_move);
    // The other order takes loom minutes.
    checkers::explore_store_as_written(name, 1, insert_beside_a_move_and_an_insert);
}

#[test]
fn an_update_of_a_cold_key_knows_of_what_came_and_went() {
    let name = "an_update_of_a_cold_key_knows_of_what_came_and_went";
    check(name, 1, update_of_a_cold_key_beside_a_move);
}

#[cfg(shuttle)]
#[test]
fn two_inserts_and_a_move_count_two() {
    check("two_inserts_and_a_move_count_two", 0, two_inserts_beside_a_move);
}

#[test]
fn what_is_copied_is_found() {
    check("what_is_copied_is_found", 2, read_beside_a_copy);
}

#[test]
fn what_is_moved_is_found() {
    check("what_is_moved_is_found", 1, read_beside_a_move);
}

#[test]
fn a_record_that_becomes_read_only_loses_no_update() {
    check("a_record_that_becomes_read_only_loses_no_update", 2, update_beside_a_turn);
}

#[test]
fn an_insert_that_searches_nothing_is_found() {
    must_be_found(Planted::NewPartUnsearched, LOST, 2, insert_beside_insert);
}

#[test]
fn an_insert_that_forgets_the_beginning_is_found() {
    must_be_found(Planted::BeginUnlookedAt, LOST, 1, insert_beside_a_move);
    must_be_found(Planted::BeginUnlookedAt, LOST, 1, update_of_a_cold_key_beside_a_move);
}

#[test]
fn a_beginning_that_moves_uncounted_is_found() {
    must_be_found(Planted::BegunUncounted, ABSENT, 2, read_beside_a_copy);
}

/// Only a weaker memory than shuttle's shows it.
#[cfg(loom)]
#[test]
fn a_beginning_without_release_is_found() {
    must_be_found(Planted::RelaxedBegin, ABSENT, 2, read_beside_a_copy);
}

#[test]
fn a_count_that_is_read_late_is_found() {
    must_be_found(Planted::CountedLate, ABSENT, 1, read_beside_a_copy);
}

#[test]
fn an_update_that_seals_nothing_is_found() {
    must_be_found(Planted::NoSeal, LOST, 2, update_beside_a_turn);
}

#[test]
fn a_border_that_is_safe_at_once_is_found() {
    must_be_found(Planted::CutWithoutEpoch, LOST, 2, update_beside_a_turn);
}
