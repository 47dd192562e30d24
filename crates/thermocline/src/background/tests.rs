//! What the database does by itself, beside writers who wait for it.

use std::sync::mpsc::channel;

use environment::Environment;
use parking_lot::Mutex;

use super::*;
use crate::database::Db;
use crate::options::KeyspaceOptions;
use crate::stand_in::{StandIn, stand_in};

/// What takes longer than this never ends.
const LONG: Duration = Duration::from_secs(20);

/// A writer waits, with its number, for a flush by the only thread there is. That is looking for what
/// holds the journal back, and an idle keyspace in memory does.
#[test]
fn the_only_thread_waits_for_no_writer_who_waits_for_it() {
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
    let before = idle.slot.last_generation().engine.persisted();

    let (begin, begun) = channel();
    let (go, going) = channel();
    let (flush, flushed) = channel();
    let group = db.inner.background.pool().group("writer's engine");
    let (going, flushed) = (Mutex::new(going), Mutex::new(flushed));
    let within_apply = Box::new(move || {
        let _if_nobody_listens = begin.send(());
        let _once_it_may = going.lock().recv();
        let flush = flush.clone();
        let task = move |_: &StopToken| assert_eq!(flush.send(()), Ok(()));
        group.submit(Class::Flush, "flush", task).unwrap();
        let _until_the_test_has_failed = flushed.lock().recv_timeout(2 * LONG);
    });
    // Asked to flush before the one in memory.
    let within_flush = Box::new(move || {
        let _if_nobody_listens = go.send(());
    });
    let engine = StandIn { within_apply, within_flush, ..StandIn::default() };
    let space = stand_in(&db, "waits", true, engine);
    let (tell, told) = channel();
    let write = move || drop(tell.send(space.put(b"k", b"v").map(drop)));
    drop(environment.spawn("writer", write).unwrap());
    begun.recv_timeout(LONG).unwrap();
    clock.advance(TRIM_INTERVAL);
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(())), "it waits for the flush, and the flush for it");
    // What was put off is done the next time, if nobody else is asked first.
    drop(db.inner.slots.write().remove("waits"));
    let generation = idle.slot.last_generation();
    let until = Environment::real().now() + LONG;
    while generation.engine.persisted() == before {
        assert!(Environment::real().now() < until, "it is put off for ever");
        clock.advance(TRIM_INTERVAL);
        std::thread::yield_now();
    }
}
