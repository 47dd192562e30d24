//! Taking a moment during a write that does not end, and during batches.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use journal::Durability;
use sync::locks::Mutex;
use tempfile::TempDir;

use super::*;
use crate::batch::Batch;
use crate::drivers::EngineKind;
use crate::options::{KeyspaceOptions, Options};
use crate::stand_in::{StandIn, stand_in};

/// Work that takes longer than this never ends.
const LONG: Duration = Duration::from_secs(20);

/// Takes a moment, and says whether a keyspace is in it that was made meanwhile.
type Way = fn(&Db, &Receiver<Keyspace>) -> Result<bool>;

#[test]
fn a_wait_for_a_moment_blocks_no_caller_of_the_keyspaces() {
    let ways: [(&str, Way); 2] = [
        ("a snapshot", |db, made| {
            let snapshot = db.snapshot()?;
            Ok(snapshot.get(&made.recv_timeout(LONG).unwrap(), b"k").is_ok())
        }),
        ("a transaction", |db, made| {
            let transaction = db.begin()?;
            Ok(transaction.get(&made.recv_timeout(LONG).unwrap(), b"k").is_ok())
        }),
    ];
    for (name, way) in ways {
        let options = Options { memory_bytes: 64 << 20, ..Options::default() };
        let environment = options.environment.clone();
        let db = Db::open_on(device::memory(), "moments", options).unwrap();
        let ((begin, begun), (end, ending)) = (channel(), channel::<()>());
        let ending = Mutex::new(ending);
        let within_apply = Box::new(move || {
            let _if_nobody_listens = begin.send(());
            let _once_it_may = ending.lock().recv();
        });
        let engine = StandIn { within_apply, ..StandIn::default() };
        let space = stand_in(&db, "waits", false, engine);
        let write = move || space.put(b"k", b"v").unwrap();
        let writer = environment.spawn("writer", move || assert!(write().get() > 0)).unwrap();
        begun.recv_timeout(LONG).unwrap();

        let ((tell, told), (hand, handed)) = (channel(), channel());
        let taker = db.clone();
        let take = move || drop(tell.send(way(&taker, &handed)));
        drop(environment.spawn("taker", take).unwrap());
        let sequence = &db.inner.order.sequence;
        while sequence.pins_below(sequence.last()).is_some() {
            std::thread::yield_now();
        }
        // Its own flush takes no pin, so nothing but the entries is wanted for it.
        let ((give, given), maker) = (channel(), db.clone());
        let lsm = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
        let make = move || drop(give.send(maker.keyspace("new", lsm)));
        drop(environment.spawn("maker", make).unwrap());
        let made = given.recv_timeout(LONG);
        drop(end);
        let made = made.unwrap_or_else(|_| panic!("{name} keeps a keyspace from being made"));
        hand.send(made.unwrap()).unwrap();
        assert_eq!(told.recv_timeout(LONG), Ok(Ok(true)), "{name}");
        writer.join().unwrap();
    }
}

/// Money moves between accounts in one keyspace and a total in another; every snapshot and every
/// recovered state must balance.
#[test]
fn snapshots_never_show_half_a_batch() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap().durability(Durability::Buffered);
    let left = db.keyspace("left", KeyspaceOptions::default()).unwrap();
    let right = db.keyspace("right", KeyspaceOptions::default()).unwrap();
    let environment = crate::Environment::real();
    let shown = Arc::new(AtomicU64::new(0));
    let writer = {
        let (db, left, right) = (db.clone(), left.clone(), right.clone());
        let shown = Arc::clone(&shown);
        let write = move || {
            for round in 0..5_000_u64 {
                // Some snapshots come in between, however busy the machine is.
                while round == 2_500 && shown.load(SeqCst) == 0 {
                    if Arc::strong_count(&shown) == 1 {
                        // The reader has found a fault and ended.
                        return;
                    }
                    std::thread::yield_now();
                }
                let mut batch = Batch::new();
                batch.put(&left, b"n", &round.to_le_bytes()).put(
                    &right,
                    b"n",
                    &round.to_le_bytes(),
                );
                db.write(&batch).unwrap();
            }
        };
        environment.spawn("writer", write).unwrap()
    };
    while !writer.is_finished() {
        let snapshot = db.snapshot().unwrap();
        let (one, two) = (snapshot.get(&left, b"n").unwrap(), snapshot.get(&right, b"n").unwrap());
        assert_eq!(one, two);
        shown.fetch_add(u64::from(one.is_some()), SeqCst);
    }
    writer.join().unwrap();
}
