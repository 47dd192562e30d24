//! The first thread waits for every thread that has begun, and for no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use environment::Environment;
use telemetry::Registry;
use workers::{Class, Order, Pool};

use super::together;

/// Returns work of `count` parts, and the number of parts that were done.
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
        together(&group, "help", 3, &work);
        assert_eq!(done.load(SeqCst), 100, "somebody who had a part was not waited for");
    }
}

#[test]
fn a_panic_elsewhere_is_a_panic_here() {
    let pool = Pool::start(&Environment::seeded(1), 2, &Registry::default()).expect("starts");
    let group = pool.group("crew");
    let first = std::thread::current().id();
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let work: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        counted.fetch_add(1, SeqCst);
        if std::thread::current().id() != first {
            panic!("as it was planted");
        }
        // Until the other one has taken its part.
        while counted.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
    });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        together(&group, "help", 1, &work);
    }));
    assert!(result.is_err(), "a part is missing, and nobody knows");
    assert_eq!(begun.load(SeqCst), 2);
}

#[test]
fn nobody_waits_for_a_pool_that_is_busy() {
    let environment = Environment::seeded(1);
    // Nothing runs here until it is cranked.
    let (pool, crank) = Pool::hand_cranked(&environment, &Registry::default(), Order::Random);
    let group = pool.group("crew");
    group.submit(Class::Compact, "elsewhere", |_| {}).expect("accepts");
    let (work, done) = parts(10);
    together(&group, "help", 2, &work);
    assert_eq!(done.load(SeqCst), 10);
    assert_eq!(Arc::strong_count(&work), 1, "who has not begun holds the work");
    drop(work);
    crank.run_all();
    assert_eq!(done.load(SeqCst), 10, "who comes late does nothing");
}
