//! Reservations: writers that wait for memory, concurrently with flushes, pins, a section, a caller
//! that does not wait, and a close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use admission::planted::Planted;
use conformance::waiting_writers::WaitingWriters;
use engine::NoJournal;
use sync::schedules::finds;
use sync::thread::JoinHandle;

use super::super::stores::{Bench, small};
use super::SCHEDULES;
use crate::Store;

/// The memtables may take a quarter of it.
const MEMORY_BYTES: u64 = 64 << 10;
/// Bytes of a value of a writer: two of them do not fit.
const VALUE_BYTES: usize = 9_000;
/// How often a writer has waited for room, in all schedules of a model so far.
static STALLS: AtomicU64 = AtomicU64::new(0);
static STALLS_BESIDE_CLOSE: AtomicU64 = AtomicU64::new(0);

/// Returns a store whose memtables are small.
fn writers() -> Arc<WaitingWriters<Store>> {
    let opened = Bench::with_options(device::memory(), Arc::new(NoJournal), MEMORY_BYTES, small());
    WaitingWriters::new(opened.expect("opens").0, |_| VALUE_BYTES)
}

fn join(writers: &WaitingWriters<Store>, threads: Vec<JoinHandle<()>>, stalls: &AtomicU64) {
    writers.join(threads);
    let shared = &writers.bench.store.shared;
    stalls.fetch_add(shared.admission.writers.stalls(), SeqCst);
    assert!(!shared.memtables.memory().has_reservations(), "a reservation is outstanding");
}

fn reserve_beside_flush_and_pin() {
    let writers = writers();
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.taster(), writers.pinner()]);
    join(&writers, threads, &STALLS);
    writers.must_have_all();
}

fn reserve_beside_close() {
    let writers = writers();
    let mut threads = writers.start();
    threads.extend([writers.closer()]);
    join(&writers, threads, &STALLS_BESIDE_CLOSE);
    let memory = writers.bench.store.shared.memtables.memory();
    assert_eq!(memory.bytes(), 0, "a closed store has memory");
}

#[test]
fn writers_that_wait_for_room_continue() {
    SCHEDULES.check("reserve_beside_flush_and_pin", reserve_beside_flush_and_pin);
    assert!(STALLS.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn writers_that_wait_for_room_end_with_a_close() {
    SCHEDULES.check("reserve_beside_close", reserve_beside_close);
    assert!(STALLS_BESIDE_CLOSE.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn a_section_that_waits_for_room_is_found() {
    finds(Planted::WaitedAnyway, "", reserve_beside_flush_and_pin);
}

#[test]
fn room_that_returns_and_wakes_no_writer_is_found() {
    finds(Planted::ReturnedUnseen, "", reserve_beside_flush_and_pin);
}
