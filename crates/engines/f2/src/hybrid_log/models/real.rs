//! Models of a real log of tiny pages.
//!
//! Records that several threads append are on the device once they are written out, whole and
//! without holes, and a read in memory returns the requested record.

use std::sync::Arc;

use device::Device;
use engine::{DeviceReads, Health, Reservation};
use environment::Environment;
use memory_budget::MemoryBudget;
use sync::epoch::Epochs;
use sync::thread::yield_now;
use telemetry::Registry;
use workers::{HandCranked, Order as Tasks, Pool};

use super::super::{Geometry, HybridLog, Place, RecordReads, Segments, StoreParts, stretches};
use crate::address::LogAddress;
use crate::checkers::{self, Order, together};
use crate::planted::Planted;

/// A page has room for two records of a key of a byte and no value; the first one, for one.
const PAGE_BYTES: u64 = 64;
pub(super) const RECORD_BYTES: u64 = 32;
const FRAMES: usize = Geometry::FRAMES_MIN;

#[cfg_attr(loom, expect(dead_code, reason = "models under shuttle use all of it"))]
pub(super) struct Log {
    pub(super) log: Arc<HybridLog>,
    device: Arc<dyn Device>,
    pool: (Pool, HandCranked),
}

/// Opens the segments of a log that ends at `end`.
fn segments_until(end: LogAddress, device: &Arc<dyn Device>, geometry: Geometry) -> Segments {
    let salts = Environment::simulated(1).0.random("log");
    let opened = Segments::open(Arc::clone(device), "log", geometry, LogAddress::NONE, end, salts);
    opened.expect("opens")
}

impl Log {
    fn new() -> Arc<Self> {
        Self::of(PAGE_BYTES, FRAMES)
    }

    /// Returns an empty log of these pages.
    pub(super) fn of(page_bytes: u64, frames: usize) -> Arc<Self> {
        let (environment, _clock) = Environment::simulated(1);
        let pool = Pool::hand_cranked(&environment, &Registry::default(), Tasks::InOrder);
        let geometry = Geometry::new(page_bytes, 16 * page_bytes, frames, 0.5);
        let (device, none) = (device::memory(), LogAddress::NONE);
        let segments = segments_until(none, &device, geometry);
        let parts = StoreParts {
            epochs: Epochs::new(),
            health: Arc::new(Health::default()),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
            workers: Arc::new(pool.0.group("log")),
            record_reads: Arc::new(RecordReads::new(Arc::new(DeviceReads(device::memory())), 1)),
            ballast: Arc::new(
                device::Ballast::found(device::memory(), "ballast").expect("it is made"),
            ),
        };
        let log = HybridLog::new(geometry, segments, none, none, &parts);
        Arc::new(Self { log, device, pool })
    }

    /// Runs all tasks, such as flushes of read-only pages.
    #[cfg(shuttle)]
    pub(super) fn run_tasks(&self) {
        self.pool.1.run_all();
    }

    /// Appends a record of `key`, as every operation does.
    pub(super) fn append(&self, key: u8) -> (LogAddress, u8) {
        let at = self.log.with_room(&Reservation::uncounted(), || {
            let at = self.log.try_allocate(RECORD_BYTES)?;
            self.log.live(at).write(LogAddress::NONE, &[key], None);
            Ok(at)
        });
        (at.expect("there is room"), key)
    }

    fn append_two(&self, key: u8) -> [(LogAddress, u8); 2] {
        [self.append(key), self.append(key + 1)]
    }

    /// Writes everything out, as a checkpoint does.
    pub(super) fn write_out(&self) -> LogAddress {
        let guard = self.log.epochs.protect();
        let cut = self.log.cut();
        drop(guard);
        while self.log.safe_read_only() < cut {
            yield_now();
        }
        self.log.flush_until(cut).expect("it is written");
        cut
    }

    /// The device has below `cut` the records that were appended there, in their order.
    fn must_hold(&self, cut: LogAddress, appended: &[(LogAddress, u8)]) {
        let mut wanted: Vec<_> = appended.iter().filter(|(at, _)| *at < cut).copied().collect();
        wanted.sort_unstable();
        let mut found = Vec::new();
        let HybridLog { segments, geometry, .. } = &*self.log;
        let read = stretches(segments, geometry, LogAddress::NONE, cut, &mut |stretch| {
            stretch.records(&mut |at, stored| {
                found.push((at, stored.key[0]));
                Ok(())
            })
        });
        assert_eq!(read, Ok(()), "{DAMAGED}");
        assert_eq!(found, wanted, "{DAMAGED}");
    }

    /// Checks that a log that is opened again has whole records up to `end`.
    #[cfg(shuttle)]
    pub(super) fn must_be_whole_until(&self, end: LogAddress) {
        let geometry = &self.log.geometry;
        let segments = segments_until(end, &self.device, *geometry);
        let read = stretches(&segments, geometry, LogAddress::NONE, end, &mut |stretch| {
            stretch.records(&mut |_, _| Ok(()))
        });
        assert_eq!(read, Ok(()), "{DAMAGED}");
    }
}

pub(super) const DAMAGED: &str = "what was appended is not what was written";

/// Two threads append concurrently with a cut: one of them meets the page's end, and the cut a
/// block's middle.
fn appends_beside_a_cut(order: Order) {
    let log = Log::new();
    let (appended, cut) = together(order, &log, |log| log.append_two(1), Log::write_out);
    log.must_hold(cut, &appended);
    log.must_hold(log.write_out(), &appended);
}

/// Two threads append more than a page has room for.
fn appends_beside_appends(order: Order) {
    let log = Log::new();
    let (first, second) = together(order, &log, |log| log.append_two(1), |log| log.append_two(3));
    log.must_hold(log.write_out(), &[first, second].concat());
}

/// Both.
#[cfg(shuttle)]
fn crowd(_order: Order) {
    let log = Log::new();
    let others = [1, 3]
        .map(|key| checkers::run(&log, move |log| [log.append_two(key), log.append_two(key)]));
    let cut = log.write_out();
    let appended = others.map(|other| other.join().expect("ends").concat()).concat();
    log.must_hold(cut, &appended);
    log.must_hold(log.write_out(), &appended);
}

/// A thread reads a record in memory, while others need the memory of its page.
fn read_beside_a_turn(order: Order) {
    let log = Log::new();
    let (at, _) = log.append(1);
    // The last page that there is memory for is full.
    let more = 2 * (FRAMES as u8 - 2);
    for key in 0..more {
        log.append(key + 2);
    }
    let read = move |log: &Log| {
        let _guard = log.log.epochs.protect();
        let mut key = Vec::new();
        match log.log.place(at) {
            Place::Memory(record) => record.read_key(&mut key),
            Place::Disk => key.push(1),
            Place::Truncated => {}
        }
        key
    };
    let append = |log: &Log| {
        for key in 0..6 {
            log.append(100 + key);
        }
    };
    let (key, ()) = together(order, &log, read, append);
    assert_eq!(key, [1], "a read returns the requested record");
    assert!(log.log.head() > at, "its page is gone");
}

fn check(name: &str, interruptions: usize, model: fn(Order)) {
    checkers::explore_store(name, interruptions, model);
}

fn must_be_found(bug: Planted, how: &str, model: fn(Order)) {
    checkers::must_be_found(bug, how, || check(&format!("{bug:?}"), 2, model));
}

#[test]
fn what_is_appended_beside_a_cut_is_whole() {
    check("what_is_appended_beside_a_cut_is_whole", 2, appends_beside_a_cut);
}

#[test]
fn what_is_appended_by_two_is_whole() {
    check("what_is_appended_by_two_is_whole", 2, appends_beside_appends);
}

#[cfg(shuttle)]
#[test]
fn what_is_appended_by_a_crowd_is_whole() {
    check("what_is_appended_by_a_crowd_is_whole", 0, crowd);
}

#[test]
fn what_is_read_keeps_its_memory() {
    check("what_is_read_keeps_its_memory", 2, read_beside_a_turn);
}

#[test]
fn a_pages_end_without_a_filler_is_found() {
    must_be_found(Planted::EndUnfilled, "", appends_beside_appends);
}

#[test]
fn a_blocks_end_without_a_filler_is_found() {
    must_be_found(Planted::BlockUnfilled, "", appends_beside_a_cut);
}

#[test]
fn a_cut_that_is_written_out_too_early_is_found() {
    // An allocation without a record, or a record before its last word: by the schedule.
    must_be_found(Planted::CutWithoutEpoch, "", appends_beside_a_cut);
}

#[test]
fn a_page_that_is_turned_twice_is_found() {
    must_be_found(Planted::TurnedTwice, "", appends_beside_appends);
}

#[test]
fn memory_that_is_given_up_early_is_found() {
    let how = "a read returns the requested record";
    must_be_found(Planted::GivenUpEarly, how, read_beside_a_turn);
}
