//! Background work of the database, while writers wait for it.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::channel;

use codec::SeqNo;
use environment::Environment;
use sync::locks::Mutex;

use super::*;
use crate::database::Db;
use crate::options::KeyspaceOptions;
use crate::stand_in::{StandIn, stand_in};

/// Work that takes longer than this never ends.
const LONG: Duration = Duration::from_secs(20);

/// A writer waits for room, and room for a flush by the only thread there is. This thread is
/// searching for keyspaces that hold the journal back, and an idle keyspace in memory does. The
/// writer has no number yet, so the thread waits for nothing of it.
#[test]
fn the_only_thread_does_not_wait_for_a_writer_that_waits_for_it() {
    let (environment, clock) = Environment::simulated(7);
    let options = Options {
        environment: environment.clone(),
        background_threads: 1,
        journal_bytes: 1,
        sync_interval: None,
        balance_memory: false,
        ..Options::default()
    };
    let db = Db::open_on(device::memory(), "one thread", options).unwrap();
    let idle = db.keyspace("idle", KeyspaceOptions::default()).unwrap();
    idle.put(b"k", b"v").unwrap();
    idle.flush().unwrap();
    let before = idle.entry.last_instance().engine.persisted();

    let (begin, begun) = channel();
    let (go, going) = channel();
    let (flush, flushed) = channel();
    let group = db.inner.background.pool().group("writer's engine");
    let (going, flushed) = (Mutex::new(going), Mutex::new(flushed));
    let within_reserve = Box::new(move || {
        let _if_nobody_listens = begin.send(());
        let _once_it_may = going.lock().recv();
        let flush = flush.clone();
        let task = move |_: &StopToken| assert_eq!(flush.send(()), Ok(()));
        group.submit(Class::Flush, "flush", task).unwrap();
        let _until_the_test_has_failed = flushed.lock().recv_timeout(2 * LONG);
    });
    // It is flushed before the one in memory.
    let within_flush = Box::new(move || {
        let _if_nobody_listens = go.send(());
    });
    let engine = StandIn { within_reserve, within_flush, ..StandIn::default() };
    let space = stand_in(&db, "waits", true, engine);
    let (tell, told) = channel();
    let write = move || drop(tell.send(space.put(b"k", b"v").map(drop)));
    drop(environment.spawn("writer", write).unwrap());
    begun.recv_timeout(LONG).unwrap();
    clock.advance(TRIM_INTERVAL);
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(())), "it waits for the flush, and the flush for it");
    // The idle keyspace is flushed in the end.
    drop(db.inner.keyspaces.entries.write().remove("waits"));
    let instance = idle.entry.last_instance();
    let until = Environment::real().now() + LONG;
    while instance.engine.persisted() == before {
        assert!(Environment::real().now() < until, "it is put off for ever");
        clock.advance(TRIM_INTERVAL);
        std::thread::yield_now();
    }
}

/// A writer waits for a shorter journal. The first of two flushes of one task makes it short
/// enough, and the second one does not end.
#[test]
fn a_writer_goes_on_after_a_trim_although_the_next_flush_has_not_ended() {
    const KIB: u64 = 1 << 10;
    /// Writes before the task begins. Their records take more of the journal than writers may fill.
    const WRITES: u64 = 620;
    /// Writes up to which the other keyspace reports that its files are complete.
    const PERSISTED: u64 = 350;
    const LEFT_ALONE_LOOKS: u32 = 40;
    let (environment, _clock) = Environment::simulated(7);
    let options = Options {
        environment: environment.clone(),
        // No other task runs, whose end would wake the writer.
        background_threads: 1,
        journal_bytes: 256 * KIB,
        sync_interval: None,
        balance_memory: false,
        ..Options::default()
    };
    let db = Db::open_on(device::memory(), "two flushes", options).unwrap();
    let (write, may_write) = channel();
    let (tell, told) = channel();
    let is_written = Arc::new(AtomicBool::new(false));
    let persisted = Arc::new(AtomicU64::new(0));
    let (seen, flushed) = (Arc::clone(&is_written), Arc::clone(&persisted));
    let first = StandIn {
        within_flush: Box::new(move || {
            let _if_nobody_listens = write.send(());
            for _ in 0..LEFT_ALONE_LOOKS {
                Environment::real().sleep(Duration::from_millis(5));
                assert!(!seen.load(SeqCst), "the journal is too long for a write");
            }
            flushed.store(u64::MAX, SeqCst);
        }),
        persisted: Box::new(move || SeqNo::new(persisted.load(SeqCst))),
        ..StandIn::default()
    };
    let (begin, begun) = channel();
    let (end, ending) = channel::<()>();
    let ending = Mutex::new(ending);
    let second = StandIn {
        within_flush: Box::new(move || {
            let _if_nobody_listens = begin.send(());
            let _until_the_test_has_ended = ending.lock().recv_timeout(2 * LONG);
        }),
        persisted: Box::new(|| SeqNo::new(PERSISTED)),
        ..StandIn::default()
    };
    let space = stand_in(&db, "first", true, first);
    stand_in(&db, "second", true, second);

    let (go, going) = channel::<()>();
    let busy = move |_: &StopToken| {
        let _until_it_may_end = going.recv_timeout(LONG);
    };
    db.inner.background.group.submit(Class::Flush, "busy", busy).unwrap();
    let value = [7; KIB as usize];
    (0..WRITES).for_each(|_| assert!(space.put(b"key", &value).is_ok()));
    let writer = move || {
        if may_write.recv_timeout(LONG).is_ok() {
            space.put(b"key", &value).unwrap();
            is_written.store(true, SeqCst);
            let _if_nobody_listens = tell.send(());
        }
    };
    drop(environment.spawn("writer", writer).unwrap());
    drop(go);
    assert_eq!(begun.recv_timeout(LONG), Ok(()), "the second flush begins");
    assert_eq!(told.recv_timeout(LONG), Ok(()), "the writer waits for the second flush");
    drop(end);
}
