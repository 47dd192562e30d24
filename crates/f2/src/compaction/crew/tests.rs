//! Everybody who has begun is waited for, and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use environment::Environment;
use telemetry::Registry;
use workers::{Class, Order, Pool};

use super::together;

/// Work of so many parts, and how many were done.
fn parts(count: usize) -> (Arc<dyn Fn() + Send + Sync>, Arc<AtomicUsize>) {
    let (taken, done) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&done);
    let work = move || {
        while taken.fetch_add(1, SeqCst) < count {
            std::thread::yield_now();
            counted.fetch_add(1, SeqCst);
        }
    };
    (Arc::new(work), done)
}

#[test]
fn all_parts_are_done_on_return() {
    let pool = Pool::start(&Environment::seeded(1), 4, &Registry::default()).expect("starts");
    let group = pool.group("crew");
    for _ in 0..200 {
        let (work, done) = parts(100);
        together(&group, 3, &work);
        assert_eq!(done.load(SeqCst), 100, "somebody who had a part was not waited for");
    }
}

#[test]
fn nobody_waits_for_a_pool_that_is_busy() {
    let environment = Environment::seeded(1);
    // Nothing runs here until it is cranked.
    let (pool, crank) = Pool::hand_cranked(&environment, &Registry::default(), Order::Random);
    let group = pool.group("crew");
    group.submit(Class::Compact, "elsewhere", |_| {}).expect("accepts");
    let (work, done) = parts(10);
    together(&group, 2, &work);
    assert_eq!(done.load(SeqCst), 10);
    drop(work);
    crank.run_all();
    assert_eq!(done.load(SeqCst), 10, "who comes late does nothing");
}
