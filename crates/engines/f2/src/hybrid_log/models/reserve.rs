//! Models of reservations in a real log of tiny pages, of which none is flushed.
//!
//! A writer with a reservation finds memory for its records without a wait, whatever others with
//! reservations do, and though it loses the race to link a record and writes it again. [R1 to R3]

use std::sync::Arc;

use super::real::{Log, RECORD_BYTES};
use crate::checkers::{self, Order, together};
use crate::hybrid_log::Geometry;
use crate::planted::Planted;

/// A record of [`RECORD_BYTES`] is the longest that takes credit.
const PAGE_BYTES: u64 = 16 * RECORD_BYTES;
/// One page has records from the beginning.
const FRAMES: usize = Geometry::FRAMES_MIN_TO_RESERVE + 1;
/// Records of a page, but for the first one, which follows the page's header.
const RECORDS: u64 = PAGE_BYTES / RECORD_BYTES;
const WAITS: &str = "a writer with a reservation waits";

impl Log {
    /// Returns a log of which the page at the tail and `pages` behind it have room for records, and
    /// the first of them has `records` already.
    fn with_room_left(pages: u64, records: u64) -> Arc<Self> {
        let log = Self::of(PAGE_BYTES, FRAMES);
        while log.log.geometry.page(log.log.tail()) + pages + 1 < FRAMES as u64 {
            log.append(0);
        }
        for _ in 1..records {
            log.append(0);
        }
        log
    }

    /// Writes `records` of `bytes`, if there is room for them without a wait. Each loses one race.
    fn write_if_there_is_room(&self, records: u64, bytes: u64) {
        let Some(room) = self.log.try_reserve(records * bytes) else { return };
        for _ in 0..2 * records {
            let _guard = self.log.epochs.protect();
            let at = loop {
                match self.log.try_allocate(bytes) {
                    Ok(at) => break at,
                    Err(full) => assert!(self.log.turn(full, &room), "{WAITS}"),
                }
            };
            self.log.live(at).write_filler(bytes);
        }
    }

    /// Does two short writes.
    fn write_short(&self) {
        self.write_if_there_is_room(1, RECORD_BYTES);
        self.write_if_there_is_room(1, RECORD_BYTES);
    }

    /// Writes a batch, of which each record takes more than half a page.
    fn write_long(&self) {
        self.write_if_there_is_room(2, PAGE_BYTES / 2 + RECORD_BYTES);
    }
}

/// Two writers take the last credit.
fn credit_beside_credit(order: Order) {
    let log = Log::with_room_left(0, RECORDS - 7);
    together(order, &log, Log::write_short, Log::write_short);
}

/// The same with room for five records: no credit is granted.
fn credit_in_too_little_room(order: Order) {
    let log = Log::with_room_left(0, RECORDS - 5);
    together(order, &log, Log::write_short, Log::write_short);
}

/// One writer takes the last pages, and one takes credit.
fn credit_beside_pages(order: Order) {
    let log = Log::with_room_left(5, RECORDS - 7);
    together(order, &log, Log::write_short, Log::write_long);
}

/// Two writers want the last pages.
fn pages_beside_pages(order: Order) {
    let log = Log::with_room_left(5, RECORDS - 7);
    together(order, &log, Log::write_long, Log::write_long);
}

fn check(name: &str, model: fn(Order)) {
    checkers::explore_store(name, 2, model);
}

fn must_be_found(bug: Planted, model: fn(Order)) {
    checkers::must_be_found(bug, WAITS, || check(&format!("{bug:?}"), model));
}

#[test]
fn credit_has_room_beside_other_credit() {
    check("credit_has_room_beside_other_credit", credit_beside_credit);
}

#[test]
fn credit_has_room_beside_reserved_pages() {
    check("credit_has_room_beside_reserved_pages", credit_beside_pages);
}

#[test]
fn reserved_pages_have_memory_beside_others() {
    check("reserved_pages_have_memory_beside_others", pages_beside_pages);
}

#[test]
fn credit_for_one_attempt_is_found() {
    must_be_found(Planted::CreditForOneAttempt, credit_in_too_little_room);
}

#[test]
fn pages_that_are_counted_late_are_found() {
    must_be_found(Planted::PagesCountedLate, pages_beside_pages);
}
