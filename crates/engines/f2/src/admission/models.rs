//! Models of reservations in a whole store: writers that wait for room, concurrently with flushes,
//! a section, a caller that does not wait, and a close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use conformance::Cranked;
use conformance::waiting_writers::WaitingWriters;
use device::Device;
use engine::{NoJournal, Reservation};
use sync::schedules::{Schedules, finds};
use sync::thread::JoinHandle;

use crate::planted::Planted;
use crate::{Options, Store};

const SCHEDULES: Schedules = Schedules::new(1_000);

/// Bytes of a page. A sixteenth of it is the longest write that takes credit.
const PAGE_BYTES: u64 = 1024;
/// Fewest pages of a log whose writers reserve room.
const PAGES: u64 = 5;
/// A value that leaves no room for credit in its page.
const FILLER: [u8; 960] = [0; 960];
/// How often a section has found no room, in all schedules of a model so far.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static REFUSED_BESIDE_CLOSE: AtomicU64 = AtomicU64::new(0);

fn open(device: Arc<dyn Device>) -> Cranked<Store> {
    let options = Options {
        single_log: true,
        log_memory_bytes: Some(PAGES * PAGE_BYTES),
        page_bytes: Some(PAGE_BYTES),
        segment_bytes: 4 * PAGE_BYTES,
        index_bits: Some(1),
        compaction_threads: 1,
        ..Options::default()
    };
    let open = |host| Store::open(host, options);
    Cranked::open(device, Arc::new(NoJournal), u64::MAX, open).expect("opens")
}

/// Returns the bytes of a value. The first two writes of a key take credit, and so does the first
/// write of a section. The others take pages. No value is replaced in place.
fn value_bytes(number: u64) -> usize {
    [8, 24, 900][number as usize - 1]
}

/// Returns a store whose memory is full. The first write of each key is flushed, and no later page
/// is: a writer has to flush before it gets any room.
fn writers() -> Arc<WaitingWriters<Store>> {
    let writers = WaitingWriters::new(open(device::memory()), value_bytes);
    writers.write_and_flush();
    let shared = &writers.bench.store.shared;
    let flushed = shared.hot.log.flushed();
    for page in 1..PAGES as u8 {
        let filled = shared.upsert(&[page], &FILLER, &Reservation::uncounted());
        filled.expect("there is room");
    }
    assert_eq!(shared.hot.log.flushed(), flushed, "no filler is flushed");
    writers
}

fn join(writers: &WaitingWriters<Store>, threads: Vec<JoinHandle<()>>, refused: &AtomicU64) {
    refused.fetch_add(writers.join(threads), SeqCst);
    assert_eq!(writers.bench.store.shared.hot.log.reserved(), 0, "a reservation is outstanding");
}

fn reserve_beside_flush_and_section() {
    let writers = writers();
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.taster(), writers.reader()]);
    join(&writers, threads, &REFUSED);
    writers.must_have_all();
}

fn reserve_beside_close() {
    let writers = writers();
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.closer()]);
    join(&writers, threads, &REFUSED_BESIDE_CLOSE);
    assert_eq!(writers.bench.crank.ready(), 0, "tasks of a closed store");
    writers.must_be_in(&open(Arc::clone(&writers.bench.device)).store);
}

#[test]
fn writers_that_wait_for_room_continue() {
    SCHEDULES.check("reserve_beside_flush_and_section", reserve_beside_flush_and_section);
    assert!(REFUSED.load(SeqCst) > 0, "no section has found the log full");
}

#[test]
fn writers_that_wait_for_room_end_with_a_close() {
    SCHEDULES.check("reserve_beside_close", reserve_beside_close);
    assert!(REFUSED_BESIDE_CLOSE.load(SeqCst) > 0, "no section has found the log full");
}

#[test]
fn a_section_that_waits_for_room_is_found() {
    finds(Planted::WaitedAnyway, "", reserve_beside_flush_and_section);
}

#[test]
fn a_close_that_refuses_nothing_is_found() {
    finds(Planted::ClosedUnsaid, "", reserve_beside_close);
}
