//! Reservations: writers that wait for a commit to make room, concurrently with flushes, a pin, a
//! section, and a caller that does not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use conformance::Journaled;
use conformance::waiting_writers::WaitingWriters;
use engine::{Demand, Engine, NoJournal, Wait};
use sync::schedules::finds;

use super::super::stores::{Bench, small};
use super::{MEMORY_BYTES, Model, SCHEDULES};
use crate::{Options, Store};

/// A write that is shorter than a sealed memtable.
const SHORT: Demand<'static> = Demand::Update { key: b"k", bytes_max: 1 };
/// How often a writer has waited for a commit, in all schedules so far.
static WAITED: AtomicU64 = AtomicU64::new(0);
/// The same of writers next to a section.
static WAITED_BESIDE_SECTION: AtomicU64 = AtomicU64::new(0);

/// Each write fills a memtable, and there is room for few of them: writers wait, and commits let
/// them continue.
fn writers_that_wait() {
    let options = Options { memtable_bytes_max: 4 << 10, ..small() };
    let model = Model::of(device::memory(), Arc::new(NoJournal), 64 << 10, options);
    let writer = |at: usize| {
        model.does(move |model: &Model| (0..4).for_each(|_| assert!(model.write(at, 5_000))))
    };
    let threads = vec![writer(0), writer(1), model.worker(), model.worker()];
    Model::join(threads);
    WAITED.fetch_add(model.bench.detail("stalls"), SeqCst);
    model.bench.crank.run_all();
    let state = model.bench.store.shared.state.load_full().expect("the store is open");
    assert!(state.sealed.is_empty(), "a memtable waits, and nobody commits it");
    drop(state);
    model.end(Vec::new());
}

/// The same, but the threads that flush commit, and tasks commit only memtables that a journal does
/// not keep back.
fn writers_that_wait_for_a_flush() {
    let options = Options { memtable_bytes_max: 4 << 10, ..small() };
    let model = Model::of(device::memory(), Arc::new(Journaled), 64 << 10, options);
    let writes = |model: &Model| (0..3).for_each(|_| assert!(model.write(0, 7_000)));
    let flush = |model: &Model| model.bench.store.flush().expect("memory takes it");
    let threads = vec![model.does(writes), model.does(flush)];
    Model::join(threads);
    WAITED.fetch_add(model.bench.detail("stalls"), SeqCst);
    model.end(Vec::new());
}

/// A writer waits for a sealed memtable, which a caller's thread commits. All of its versions were
/// replaced since, so nothing is planned, and no task ends.
fn a_wait_beside_a_commit() {
    let model = Model::of(device::memory(), Arc::new(Journaled), MEMORY_BYTES, small());
    assert!(model.write(0, 0));
    let shared = &model.bench.store.shared;
    let full = Arc::clone(&shared.state.load_full().expect("the store is open").active);
    shared.seal(&full);
    assert_eq!(model.bench.crank.ready(), 0, "a journal keeps it back");
    assert!(model.write(0, 0));
    let id = full.id();
    drop(full);
    // Another writer has the rest of the share, but for a part of a short write.
    let short = model.bench.store.reserve(&SHORT, Wait::No).expect("nothing fails");
    let short = short.expect("there is room").bytes();
    let memory = shared.writes.memtables.memory();
    let rest = shared.memory_split().memtables_bytes - memory.bytes() - short + 1;
    let others = memory.reserve_anyway(rest, &**shared);
    let wait = |model: &Model| {
        let room = model.bench.store.reserve(&SHORT, Wait::Yes).expect("nothing fails");
        assert!(room.is_some(), "it waits for room");
    };
    let commit = move |model: &Model| {
        let committed = model.bench.store.shared.commit_oldest(id);
        committed.expect("memory takes it");
    };
    Model::join(vec![model.does(wait), model.does(commit)]);
    drop(others);
    WAITED.fetch_add(model.bench.detail("stalls"), SeqCst);
    model.end(Vec::new());
}

/// A thread waits for the effect of a task, which another thread runs meanwhile.
fn a_wait_beside_a_task() {
    let model = Model::new();
    let is_done = Arc::new(AtomicBool::new(false));
    let does = Arc::clone(&is_done);
    let shared = &model.bench.store.shared;
    let task = move |_: &workers::StopToken| does.store(true, SeqCst);
    shared.background.group.submit(workers::Class::Flush, "flag", task).expect("the pool runs");
    let wait = move |model: &Model| {
        let waited = model.bench.store.shared.background.group.wait_until(|| is_done.load(SeqCst));
        waited.expect("no task panics");
    };
    Model::join(vec![model.does(wait), model.worker()]);
    model.end(Vec::new());
}

/// Writers wait for the room that a section has reserved, or for a commit. The section waits for
/// none with a key locked.
fn reserve_beside_section() {
    let options = Options { memtable_bytes_max: 4 << 10, ..small() };
    let bench = Bench::of(64 << 10, options);
    let writers: Arc<WaitingWriters<Store>> = WaitingWriters::new(bench.0, |_| 7_000);
    let mut threads = writers.start();
    threads.extend([writers.flusher(), writers.taster(), writers.pinner()]);
    writers.join(threads);
    WAITED_BESIDE_SECTION.fetch_add(writers.bench.detail("stalls"), SeqCst);
    let memory = writers.bench.store.shared.writes.memtables.memory();
    assert!(!memory.has_reservations(), "a reservation is outstanding");
    writers.must_have_all();
}

#[test]
fn writers_that_wait_go_on() {
    SCHEDULES.check("writers_that_wait_go_on", writers_that_wait);
    assert!(WAITED.load(SeqCst) > 0, "nobody has waited");
}

#[test]
fn writers_that_wait_for_a_flush_go_on() {
    SCHEDULES.check("writers_that_wait_for_a_flush_go_on", writers_that_wait_for_a_flush);
    assert!(WAITED.load(SeqCst) > 0, "nobody has waited");
}

#[test]
fn a_wait_beside_a_commit_ends() {
    SCHEDULES.check("a_wait_beside_a_commit_ends", a_wait_beside_a_commit);
    assert!(WAITED.load(SeqCst) > 0, "nobody has waited");
}

#[test]
fn writers_that_wait_beside_a_section_go_on() {
    SCHEDULES.check("writers_that_wait_beside_a_section_go_on", reserve_beside_section);
    assert!(WAITED_BESIDE_SECTION.load(SeqCst) > 0, "no writer has waited");
}

#[test]
fn a_task_whose_end_is_not_seen_is_found() {
    finds(workers::planted::Planted::EndedUnseen, "", a_wait_beside_a_task);
}

#[test]
fn a_section_that_waits_for_room_is_found() {
    finds(admission::planted::Planted::WaitedAnyway, "", reserve_beside_section);
}

#[test]
fn room_that_returns_and_wakes_no_writer_is_found() {
    finds(admission::planted::Planted::ReturnedUnseen, "", reserve_beside_section);
}
