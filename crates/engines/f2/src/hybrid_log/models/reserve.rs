//! Models of reservations in a real log of tiny pages. No page is flushed, unless a thread flushes.
//!
//! A writer with a reservation finds memory for its records without a wait, whatever others with
//! reservations do, and though it loses the race to link a record and writes it again. [R1 to R3]

use std::sync::Arc;

use engine::{Error, Reservation};

use super::real::{DAMAGED, Log, RECORD_BYTES};
use crate::checkers::{self, Order, together};
use crate::hybrid_log::Geometry;
use crate::planted::Planted;

/// A record of [`RECORD_BYTES`] is the longest that takes credit.
const PAGE_BYTES: u64 = 16 * RECORD_BYTES;
/// One page has records from the beginning.
const FRAMES: usize = Geometry::FRAMES_MIN_TO_RESERVE + 1;
/// Records of a page, but for the first one, which follows the page's header.
const RECORDS: u64 = PAGE_BYTES / RECORD_BYTES;
/// Bytes of a record that takes more than half a page.
const LONG_BYTES: u64 = PAGE_BYTES / 2 + RECORD_BYTES;
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

    /// Writes `records` of `bytes`, if there is room for them without a wait.
    fn write_if_there_is_room(&self, records: u64, bytes: u64) {
        if let Some(room) = self.log.try_reserve(records * bytes) {
            self.write(&room, records, bytes);
        }
    }

    /// Writes them once there is room, as a writer of a store waits for it.
    fn write_once_there_is_room(&self, records: u64, bytes: u64) {
        let room = self.log.try_reserve(records * bytes);
        let room = room.unwrap_or_else(|| self.log.reserve(records * bytes).expect("it is open"));
        self.write(&room, records, bytes);
    }

    /// Writes `records` of `bytes`. Each loses one race.
    fn write(&self, room: &Reservation<'_>, records: u64, bytes: u64) {
        for _ in 0..2 * records {
            let guard = self.log.epochs.protect();
            let at = loop {
                match self.log.try_allocate(bytes) {
                    Ok(at) => break Some(at),
                    Err(full) if self.log.turn(full, room) => {}
                    Err(_) => break None,
                }
            };
            if let Some(at) = at {
                self.log.live(at).write_filler(bytes);
            }
            // A panic under protection would run actions of a model that has ended.
            drop(guard);
            assert!(at.is_some(), "{WAITS}");
        }
    }

    /// Does two short writes.
    fn write_short(&self) {
        self.write_if_there_is_room(1, RECORD_BYTES);
        self.write_if_there_is_room(1, RECORD_BYTES);
    }

    /// Writes a batch, of which each record takes more than half a page.
    fn write_long(&self) {
        self.write_if_there_is_room(2, LONG_BYTES);
    }

    /// Does two short writes, and waits for room before each.
    fn wait_and_write_short(&self) {
        self.write_once_there_is_room(1, RECORD_BYTES);
        self.write_once_there_is_room(1, RECORD_BYTES);
    }

    /// Writes a batch once there is room for it.
    fn wait_and_write_long(&self) {
        self.write_once_there_is_room(2, LONG_BYTES);
    }

    /// Waits for room, and ends without it if the log is closed.
    fn wait_beside_close(&self, bytes: u64) {
        match self.log.reserve(bytes) {
            Ok(_) | Err(Error::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Closes the log as a store does.
    fn close(&self) {
        self.log.health.close();
        assert!(self.log.flushes.workers.stop().is_empty(), "no task panics");
        self.log.close();
    }

    /// Checks that all reservations have returned.
    fn must_have_no_reservation(&self) {
        assert_eq!(self.log.reserved(), 0, "a reservation is outstanding");
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

/// Two writers wait for credit, and a thread flushes.
fn credit_beside_flush(order: Order) {
    let log = Log::with_room_left(0, RECORDS - 5);
    let other = checkers::run(&log, Log::wait_and_write_short);
    together(order, &log, Log::wait_and_write_short, Log::write_out);
    other.join().expect("ends");
    log.must_have_no_reservation();
}

/// Two writers wait for pages, one takes credit, and a thread flushes.
fn pages_beside_flush(order: Order) {
    let log = Log::with_room_left(1, RECORDS - 7);
    let others = [Log::wait_and_write_long, Log::wait_and_write_short];
    let others = others.map(|work: fn(&Log)| checkers::run(&log, work));
    together(order, &log, Log::wait_and_write_long, Log::write_out);
    others.into_iter().for_each(|other| other.join().expect("ends"));
    log.must_have_no_reservation();
}

/// One writer waits for pages and another one for credit, and a thread closes the log.
fn close_beside_waits(order: Order) {
    let log = Log::with_room_left(0, RECORDS - 5);
    log.run_tasks();
    let flushed = log.log.flushed();
    assert!(flushed > log.log.begin(), "read-only pages are flushed");
    let other = checkers::run(&log, |log| log.wait_beside_close(LONG_BYTES));
    together(order, &log, |log| log.wait_beside_close(RECORD_BYTES), Log::close);
    other.join().expect("ends");
    log.must_have_no_reservation();
    log.must_be_whole_until(flushed);
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
fn credit_has_room_beside_a_flush() {
    check("credit_has_room_beside_a_flush", credit_beside_flush);
}

#[test]
fn reserved_pages_have_memory_beside_a_flush() {
    check("reserved_pages_have_memory_beside_a_flush", pages_beside_flush);
}

#[test]
fn a_close_beside_waits_keeps_flushed_pages() {
    check("a_close_beside_waits_keeps_flushed_pages", close_beside_waits);
}

#[test]
fn a_close_under_a_flush_is_found() {
    let explored = || check("a_close_under_a_flush_is_found", close_beside_waits);
    checkers::must_be_found(Planted::ClosedUnderFlush, DAMAGED, explored);
}

#[test]
fn credit_for_one_attempt_is_found() {
    must_be_found(Planted::CreditForOneAttempt, credit_in_too_little_room);
    must_be_found(Planted::CreditForOneAttempt, credit_beside_flush);
}

#[test]
fn pages_that_are_counted_late_are_found() {
    must_be_found(Planted::PagesCountedLate, pages_beside_pages);
}

#[test]
fn room_that_is_believed_is_found() {
    must_be_found(Planted::RoomBelieved, pages_beside_flush);
}
