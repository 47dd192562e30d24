//! Models of a whole store under shuttle: many random schedules of a few threads that write, read,
//! flush, collect, wait for memory or for space, and close.
//!
//! ```text
//! RUSTC_WORKSPACE_WRAPPER=crates/base/sync/checkers/shuttle cargo test -p thermocline-hashkv \
//!     --profile models --target-dir target/models --lib models
//! ```
//!
//! The threads and the oracle are those of [`conformance::waiting_writers`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use conformance::Journaled;
use conformance::waiting_writers::WaitingWriters;
use engine::{Barrier, Engine, Error, NoJournal, Result};
use sync::schedules::Schedules;
use sync::thread::JoinHandle;

use super::stores::{Bench, small};
use crate::{Options, Store};

const SCHEDULES: Schedules = Schedules::new(150);

/// The write buffers may take 32 KiB of it.
const MEMORY_BYTES: u64 = 512 << 10;
/// Bytes of a value of a writer: two of them do not fit the write buffers.
const VALUE_BYTES: usize = 20_000;
/// Puts of one key that nearly fill a bound of 16 segments.
const FILLED: usize = 26;
/// How often a writer has waited for memory, and for space, in all schedules so far.
static MEMORY_STALLS: AtomicU64 = AtomicU64::new(0);
static SPACE_STALLS: AtomicU64 = AtomicU64::new(0);
/// Segments that collections have removed, in all schedules so far.
static COLLECTED: AtomicU64 = AtomicU64::new(0);
/// Bytes of records that replaced others in write buffers, in all schedules so far.
static ABSORBED: AtomicU64 = AtomicU64::new(0);

type Writers = Arc<WaitingWriters<Store>>;

fn writers(options: Options) -> Writers {
    writers_with(options, Arc::new(NoJournal))
}

fn writers_with(options: Options, barrier: Arc<dyn Barrier>) -> Writers {
    let opened = Bench::with_memory(device::memory(), barrier, options, MEMORY_BYTES);
    WaitingWriters::new(opened.expect("opens").0, |_| VALUE_BYTES)
}

/// Allows that the store is closed.
fn or_closed(done: Result<()>) {
    assert!(matches!(done, Ok(()) | Err(Error::Closed)), "{done:?}");
}

/// Seals all segments, and collects all garbage, twice.
fn collector(writers: &Writers) -> JoinHandle<()> {
    writers.does(|writers| {
        let shared = &writers.bench.store.shared;
        for _ in 0..2 {
            for group in &shared.values.groups {
                shared.values.try_end_open(group);
            }
            or_closed(writers.bench.store.flush());
            or_closed(shared.collect_all());
        }
    })
}

/// Waits for all threads. No reservation is outstanding then.
fn join(writers: &Writers, threads: Vec<JoinHandle<()>>) {
    writers.join(threads);
    let shared = &writers.bench.store.shared;
    MEMORY_STALLS.fetch_add(shared.admission.writers.stalls(), SeqCst);
    SPACE_STALLS.fetch_add(shared.admission.space_writers.stalls(), SeqCst);
    COLLECTED.fetch_add(shared.values.counts().collected.load(SeqCst), SeqCst);
    ABSORBED.fetch_add(shared.values.counts().absorbed_bytes.load(SeqCst), SeqCst);
    assert!(!shared.values.accounts.buffers.has_reservations(), "memory is reserved");
    assert_eq!(shared.values.bound.promised(), 0, "space is reserved");
}

fn reserve_beside_flush_and_pin() {
    let writers = writers(small());
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.taster(), writers.pinner()]);
    join(&writers, threads);
    writers.must_have_all();
}

/// Gets, and views with the pairs of one moment, while jobs move records.
fn reads_beside_collections() {
    let writers = writers(Options { groups_max: 1, buffer_bytes_max: 256 << 10, ..small() });
    writers.write_and_flush();
    let mut threads = writers.start();
    threads.extend([collector(&writers), writers.reader(), writers.pinner()]);
    join(&writers, threads);
    writers.must_have_all();
}

/// Puts replace records in the buffer, while snapshots begin and end and the buffer is cut.
fn replacements_beside_pins() {
    let options = Options { groups_max: 1, buffer_bytes_max: 256 << 10, ..small() };
    let writers = writers_with(options, Arc::new(Journaled));
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.reader(), writers.pinner(), writers.pinner()]);
    join(&writers, threads);
    writers.must_have_all();
}

/// The bound has room for few segments, so writers wait for jobs.
fn space_beside_collections() {
    let disk_bytes_max = Some(16 * (64 << 10));
    let options = Options { groups_max: 1, disk_bytes_max, ..small() };
    let writers = writers(options);
    // A snapshot holds most of the space until the threads have begun.
    let view = writers.bench.view();
    (0..FILLED).for_each(|_| _ = writers.bench.put(b"filler", &[7; VALUE_BYTES]));
    drop(view);
    let mut threads = writers.start();
    threads.extend([collector(&writers), writers.reader()]);
    join(&writers, threads);
    writers.must_have_all();
}

fn collections_beside_close() {
    let writers = writers(Options { groups_max: 1, ..small() });
    writers.write_and_flush();
    let mut threads = writers.start();
    threads.extend([collector(&writers), writers.closer()]);
    join(&writers, threads);
}

#[test]
fn writers_that_wait_for_memory_continue() {
    SCHEDULES.check("reserve_beside_flush_and_pin", reserve_beside_flush_and_pin);
    assert!(MEMORY_STALLS.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn reads_find_records_that_jobs_move() {
    SCHEDULES.check("reads_beside_collections", reads_beside_collections);
    assert!(COLLECTED.load(SeqCst) > 0, "no segment was collected");
}

#[test]
fn a_replacement_is_seen_by_no_earlier_snapshot() {
    SCHEDULES.check("replacements_beside_pins", replacements_beside_pins);
    assert!(ABSORBED.load(SeqCst) > 0, "no put has replaced a record");
}

#[test]
fn writers_that_wait_for_space_continue() {
    SCHEDULES.check("space_beside_collections", space_beside_collections);
    assert!(SPACE_STALLS.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn a_close_ends_collections_and_writers() {
    SCHEDULES.check("collections_beside_close", collections_beside_close);
}
