//! Counters to which many futures and blocking calls add at the same time.

use std::sync::Barrier;
use std::task::Poll;
use std::thread;

use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use thermocline::{Durability, EngineKind, Keyspace};

use super::{KEYS, add_one, key, open_on, options, poll, read, value};

/// Counters that all of them add to, while other keys push these out of memory.
const COUNTERS: u64 = 12;
const UPDATES: u64 = 600;
const UNDER_WAY: usize = 64;

/// Adds one to the counters in turn, with many futures at work, and waits at `begun` after the
/// first. Returns how many were pending.
fn count_by_futures(space: &Keyspace, from: u64, begun: &Barrier) -> usize {
    let (mut under_way, mut pended) = (FuturesUnordered::new(), 0);
    for at in from..from + UPDATES {
        let mut future = space.futures().rmw(&key(at % COUNTERS), add_one);
        let polled = poll(&mut future);
        if at == from {
            begun.wait();
        }
        match polled {
            Poll::Ready(done) => assert!(done.unwrap().is_some()),
            Poll::Pending => {
                pended += 1;
                under_way.push(future);
            }
        }
        while under_way.len() >= UNDER_WAY {
            assert!(block_on(under_way.next()).unwrap().unwrap().is_some());
        }
    }
    while let Some(done) = block_on(under_way.next()) {
        assert!(done.unwrap().is_some());
    }
    pended
}

/// Counts by futures and by blocking calls, each on two threads. Returns how many futures were
/// pending.
fn count_by_both(engine: EngineKind, journaled: bool) -> usize {
    let device = device::memory();
    let (db, space) = open_on(&device, options(), engine, journaled);
    for at in 0..KEYS {
        space.put(&key(at), &value(0)).unwrap();
    }
    space.flush().unwrap();
    db.close().unwrap();
    drop((db, space));
    let (_db, space) = open_on(&device, options(), engine, journaled);
    // Nothing is in memory yet. Blocking calls would read the values for which the futures are to
    // wait, so they begin behind the first of these.
    let begun = Barrier::new(4);
    let (space, begun) = (&space, &begun);
    let pended = thread::scope(|scope| {
        let by_futures = |from| scope.spawn(move || count_by_futures(space, from, begun));
        let by_calls = |from| {
            scope.spawn(move || {
                begun.wait();
                for at in from..from + UPDATES {
                    space.rmw(&key(at % COUNTERS), add_one).unwrap();
                    let other = COUNTERS + at % (KEYS - COUNTERS);
                    space.put(&key(other), &value(at)).unwrap();
                }
            })
        };
        let futures = [0, 1].map(by_futures);
        let blocking = [0, 1].map(by_calls);
        blocking.into_iter().for_each(|one| one.join().unwrap());
        futures.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let sum: u64 = (0..COUNTERS).map(|at| read(space, at)).sum();
    assert_eq!(sum, 4 * UPDATES, "{engine}, journaled {journaled}");
    pended
}

#[test]
fn no_update_is_lost_beside_others_and_blocking_ones() {
    for &engine in EngineKind::ALL {
        for journaled in [false, true] {
            // A read of the device may end before the future that waits for it is polled first.
            let never_waits = engine == EngineKind::Memory;
            let has_waited = (0..5).any(|_| count_by_both(engine, journaled) > 0 || never_waits);
            assert!(has_waited, "{engine}, journaled {journaled}: none has waited");
        }
    }
}

/// Puts of one task that are awaited one by one take place in that order.
#[test]
fn who_awaits_one_before_the_next_sees_them_in_that_order() {
    for &engine in EngineKind::ALL {
        let (_db, space) = open_on(&device::memory(), options(), engine, true);
        let synced = space.durability(Durability::Flushed);
        block_on(async {
            for at in 0..200_u64 {
                // Some by the thread, some in the first poll.
                let by = if at % 3 == 0 { &space } else { &synced };
                by.futures().put(b"k", &value(at)).await.unwrap();
                assert_eq!(space.futures().get(b"k").await.unwrap(), Some(value(at)), "{engine}");
            }
        });
    }
}
