//! Writes as futures have the same outcomes as blocking calls, over every engine.
//!
//! A poll never waits, and each future gets an outcome however it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod counters;
mod crashes;
mod depth;
mod ends;
mod failures;
mod model;
mod waits;
mod wakers;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::few_pages;
use crate::numbered::{add_one, key, number, value};
use device::{Device, FaultDevice, OperationKind};
use thermocline::{
    AsyncUpdate, Db, Durability, EngineKind, Environment, Keyspace, KeyspaceOptions, Options, f2,
};

/// Keys that do not fit into the memory of a keyspace of `f2`.
const KEYS: u64 = 3_000;

/// Only how long a test that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A few pages of memory for `f2`, which compacts nothing.
fn options() -> Options {
    Options {
        memory_bytes: 96 << 20,
        sync_interval: None,
        balance_memory: false,
        durability: Durability::Buffered,
        // Reads are counted: keys share no entries of the index.
        engines: f2::Options { index_bits: None, ..few_pages::f2() }.into(),
        ..Options::default()
    }
}

fn open_on(
    device: &Arc<dyn Device>,
    options: Options,
    engine: EngineKind,
    journaled: bool,
) -> (Db, Keyspace) {
    let db = Db::open_on(Arc::clone(device), "memory", options).unwrap();
    let memory_bytes = Some(16 << 20);
    let options = KeyspaceOptions { engine, journaled, memory_bytes, ..Default::default() };
    let space = db.keyspace("s", options).unwrap();
    (db, space)
}

/// A keyspace of `f2` with the keys, each with its number. Most are on disk alone, and only gets
/// and updates read them.
fn filled(device: &Arc<dyn Device>, journaled: bool) -> (Db, Keyspace) {
    let (db, space) = open_on(device, options(), EngineKind::F2, journaled);
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    db.flush().unwrap();
    (db, space)
}

/// Polls without a waker.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns futures that add one to `count` cold keys from `from` on. Each was polled and is
/// pending.
fn pending(space: &Keyspace, from: u64, count: usize) -> Vec<(u64, AsyncUpdate)> {
    let mut pending = Vec::new();
    for at in from..KEYS {
        let mut future = space.futures().rmw(&key(at), add_one);
        if poll(&mut future).is_pending() {
            pending.push((at, future));
        }
        if pending.len() == count {
            return pending;
        }
    }
    panic!("too few are on disk")
}

/// An operation of the device, the next one of its kind, that waits until this is dropped.
struct Held {
    _go: Sender<()>,
    has_come: Arc<AtomicBool>,
    has_gone: Arc<AtomicBool>,
}

impl Held {
    fn new(device: &FaultDevice, kind: OperationKind) -> Self {
        let (go, going) = channel::<()>();
        let [has_come, has_gone] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (come, gone) = (Arc::clone(&has_come), Arc::clone(&has_gone));
        device.interpose_anywhere(kind, move || {
            come.store(true, SeqCst);
            let _once_it_is_let = going.recv_timeout(PATIENCE);
            gone.store(true, SeqCst);
        });
        Self { _go: go, has_come, has_gone }
    }

    /// Returns once an operation is in it.
    fn wait(&self) {
        let environment = Environment::real();
        let start = environment.now();
        while !self.has_come.load(SeqCst) {
            assert!(environment.now() - start < PATIENCE, "nobody comes");
            thread::yield_now();
        }
    }

    /// Returns whether it was released, or its wait has timed out.
    fn has_gone(&self) -> bool {
        self.has_gone.load(SeqCst)
    }
}

fn read(space: &Keyspace, at: u64) -> u64 {
    number(space.get(&key(at)).unwrap().as_deref())
}
