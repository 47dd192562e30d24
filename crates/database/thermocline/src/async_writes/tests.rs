//! Polls while another thread has all keys locked, or waits in an engine.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::{Change, Progress};
use journal::Durability;
use sync::locks::Mutex;

use crate::database::Db;
use crate::drivers::EngineKind;
use crate::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, Options};
use crate::stand_in::{NoQueue, OneRead, StandIn, stand_in};
use crate::{AsyncBatch, AsyncSwap, AsyncUpdate, AsyncWrite, Batch, Error};

/// A wait that takes longer than this is taken to be endless.
const LONG: Duration = Duration::from_secs(20);

fn open() -> Db {
    let options = Options {
        memory_bytes: 64 << 20,
        sync_interval: None,
        balance_memory: false,
        durability: Durability::Buffered,
        ..Options::default()
    };
    Db::open_on(device::memory(), "memory", options).unwrap()
}

/// Runs `work` on another thread. If the test fails, it does not wait for that thread.
fn beside<T: Send + 'static>(db: &Db, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    let environment = db.inner.options.environment.clone();
    drop(environment.spawn("beside", move || drop(tell.send(work()))).unwrap());
    told
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn wait<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll(&mut future) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// One of each.
struct Each {
    put: AsyncWrite,
    delete: AsyncWrite,
    update: AsyncUpdate,
    swap: AsyncSwap,
    batch: AsyncBatch,
}

impl Each {
    /// Returns futures that all have something to write.
    fn of(db: &Db, space: &Keyspace) -> Self {
        let mut batch = Batch::new();
        batch.put(space, b"k", b"v").delete(space, b"other");
        Self {
            put: space.futures().put(b"k", b"v"),
            delete: space.futures().delete(b"other"),
            update: space.futures().rmw(b"k", |_| Change::Put(b"v".to_vec())),
            swap: space.futures().compare_and_swap(b"none", None, Some(b"v")),
            batch: db.write_async(batch),
        }
    }

    /// Polls each on another thread, and checks that all are pending.
    fn polled(mut self, db: &Db) -> Self {
        let polled = beside(db, move || {
            let are_pending = [
                poll(&mut self.put).is_pending(),
                poll(&mut self.delete).is_pending(),
                poll(&mut self.update).is_pending(),
                poll(&mut self.swap).is_pending(),
                poll(&mut self.batch).is_pending(),
            ];
            (are_pending, self)
        });
        let (are_pending, each) = polled.recv_timeout(LONG).expect("no poll waits");
        assert_eq!(are_pending, [true; 5]);
        each
    }

    fn must_be_done(self) {
        assert!(wait(self.put).is_ok() && wait(self.delete).is_ok() && wait(self.batch).is_ok());
        assert!(matches!(wait(self.update), Ok(Some(_))));
        assert!(matches!(wait(self.swap), Ok(swap) if swap.is_done()));
    }
}

/// All keys are locked, as by a thread that clears a keyspace and waits for a sync meanwhile.
#[test]
fn no_poll_waits_for_the_lock_of_its_key() {
    for (engine, journaled) in
        [(EngineKind::Memory, true), (EngineKind::F2, true), (EngineKind::F2, false)]
    {
        let db = open();
        let options = KeyspaceOptions { engine, journaled, ..Default::default() };
        let space = db.keyspace("s", options).unwrap();
        let held = db.inner.locks.all();
        let each = Each::of(&db, &space).polled(&db);
        drop(held);
        each.must_be_done();
    }
}

#[test]
fn no_poll_waits_in_an_engine_that_slows_writers_down() {
    for journaled in [false, true] {
        let db = open();
        let (go, going) = channel::<()>();
        let going = Mutex::new(going);
        let within_reserve = Box::new(move || {
            let _once_all_may_go = going.lock().recv_timeout(LONG);
        });
        let has_room = Box::new(|| false);
        let engine = StandIn { within_reserve, has_room, ..StandIn::default() };
        let space = stand_in(&db, "slow", journaled, engine);
        let each = Each::of(&db, &space).polled(&db);
        drop(go);
        assert!(wait(each.put).is_ok() && wait(each.delete).is_ok() && wait(each.batch).is_ok());
        wait(each.update).unwrap();
        wait(each.swap).unwrap();
    }
}

/// A poll that finds room never asks for room in a way that may wait.
#[test]
fn a_write_in_a_poll_does_not_wait_for_room() {
    for journaled in [false, true] {
        let db = open();
        let within_reserve = Box::new(|| panic!("this might wait"));
        let engine = StandIn { within_reserve, ..StandIn::default() };
        let space = stand_in(&db, "quick", journaled, engine);
        assert!(matches!(poll(&mut space.futures().put(b"k", b"v")), Poll::Ready(Ok(_))));
        let update = |_: Option<&[u8]>| Change::Put(b"v".to_vec());
        assert!(matches!(poll(&mut space.futures().rmw(b"k", update)), Poll::Ready(Ok(Some(_)))));
        let swap = poll(&mut space.futures().compare_and_swap(b"k", None, Some(b"v")));
        assert!(matches!(swap, Poll::Ready(Ok(swap)) if swap.is_done()));
        let mut batch = Batch::new();
        batch.put(&space, b"k", b"v").delete(&space, b"other");
        assert!(matches!(poll(&mut db.write_async(batch)), Poll::Ready(Ok(_))));
    }
}

#[test]
fn every_update_gets_the_failure_of_the_queue_that_it_needs() {
    for journaled in [false, true] {
        let db = open();
        let lookups = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&lookups);
        let lookup = Box::new(move || {
            begun.fetch_add(1, Relaxed);
            OneRead::new(Arc::new(NoQueue), || Ok(Progress::Absent))
        });
        let engine = StandIn { knows_keys: false, lookup, ..StandIn::default() };
        let space = stand_in(&db, "broken", journaled, engine);
        for round in 1..3 {
            let mut updates: Vec<AsyncUpdate> = (0..20)
                .map(|_| space.futures().rmw(b"k", |_| Change::Put(b"v".to_vec())))
                .collect();
            // Several are handed in before the test waits for the first one.
            let polled: Vec<_> = updates.iter_mut().map(poll).collect();
            for (first, update) in polled.into_iter().zip(updates) {
                let outcome = match first {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => wait(update),
                };
                let failure = engine::Error::Device(NoQueue::failure());
                let failure = failure.in_dir("keyspaces/broken/999");
                assert_eq!(outcome, Err(failure.into()));
            }
            assert!(lookups.load(Relaxed) >= round * 20, "each update begins a lookup");
        }
        assert!(wait(space.futures().put(b"k", b"v")).is_ok(), "a put needs none");
        assert_eq!(db.failure(), None);
    }
}

/// The panic is a defect of the database. Each future that waits for the thread gets a result, and
/// another thread does later writes.
#[test]
fn a_caller_that_waits_for_a_thread_that_panics_gets_an_error() {
    let db = open();
    let ((go, going), calls) = (channel::<()>(), AtomicUsize::new(0));
    let going = Mutex::new(going);
    let within_reserve = Box::new(move || {
        if calls.fetch_add(1, Relaxed) == 0 {
            let _once_all_are_asked = going.lock().recv_timeout(LONG);
            panic!("as it was planted");
        }
    });
    let has_room = Box::new(|| false);
    let engine = StandIn { within_reserve, has_room, ..StandIn::default() };
    let space = stand_in(&db, "panics", true, engine);
    let mut puts: Vec<AsyncWrite> = (0..50).map(|_| space.futures().put(b"k", b"v")).collect();
    assert!(puts.iter_mut().all(|put| poll(put).is_pending()));
    drop(go);
    for put in puts {
        assert_eq!(wait(put), Err(Error::Closed));
    }
    // Until the first thread has ended, it may still take some requests with it.
    let put = || wait(space.futures().put(b"k", b"v"));
    let written = (0..1_000_000).map(|_| put()).find(|put| *put != Err(Error::Closed));
    assert!(matches!(written, Some(Ok(_))), "{written:?}");
}
