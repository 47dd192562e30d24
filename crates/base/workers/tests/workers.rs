//! The pool's laws, with threads: nothing lost, order by class, stop, panics, periods.
#![expect(clippy::disallowed_methods, reason = "tests wait with the standard library's channels")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use environment::Environment;
use telemetry::Registry;
use thermocline_workers::{Class, Pool, Stopped, WaitError};

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

fn pool(threads: usize) -> (Pool, Registry) {
    let registry = Registry::default();
    (Pool::start(&Environment::real(), threads, &registry).expect("threads start"), registry)
}

fn receive<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("it happens in time")
}

#[test]
fn every_accepted_task_runs_exactly_once_also_across_stop() {
    const SUBMITTERS: usize = 3;
    let (pool, registry) = pool(2);
    let group = Arc::new(pool.group("keyspace"));
    let ran = Arc::new(AtomicUsize::new(0));
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|_| {
            let (group, ran) = (group.clone(), ran.clone());
            thread::spawn(move || {
                let mut accepted = 0;
                loop {
                    let ran = ran.clone();
                    let class = [Class::Flush, Class::Compact, Class::Collect][accepted % 3];
                    let count = move |_: &_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    };
                    match group.submit(class, "count", count) {
                        Ok(()) => accepted += 1,
                        Err(Stopped) => return accepted,
                    }
                }
            })
        })
        .collect();
    group.wait_until(|| ran.load(Ordering::Relaxed) > 1_000).unwrap();
    assert!(group.stop().is_empty());
    let at_stop = ran.load(Ordering::Relaxed);
    let accepted: usize = submitters.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(at_stop, accepted);
    assert!(pool.stop().is_empty());
    assert_eq!(ran.load(Ordering::Relaxed), accepted);
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.counter("worker_tasks_total"), accepted as u64);
    assert_eq!(snapshot.gauge("worker_tasks_queued"), 0);
}

#[test]
fn one_group_stops_without_the_others() {
    let (pool, _) = pool(2);
    let (stopped, alive) = (pool.group("stopped"), pool.group("alive"));
    let (started, starts) = mpsc::channel();
    stopped
        .submit(Class::Compact, "long", move |stop| {
            started.send(()).unwrap();
            while !stop.is_stopping() {
                thread::yield_now();
            }
        })
        .unwrap();
    receive(&starts);
    assert!(stopped.stop().is_empty());
    assert_eq!(stopped.submit(Class::Flush, "late", |_| {}), Err(Stopped));
    assert_eq!(stopped.every(Class::Flush, "late", Duration::ZERO, |_| {}), Err(Stopped));

    let (done, dones) = mpsc::channel();
    alive
        .submit(Class::Flush, "later", move |stop| done.send(stop.is_stopping()).unwrap())
        .unwrap();
    assert!(!receive(&dones));
}

#[test]
fn queued_tasks_see_that_the_pool_is_stopping() {
    let (pool, _) = pool(1);
    let group = pool.group("keyspace");
    let (started, starts) = mpsc::channel();
    let (seen, sights) = mpsc::channel();
    group
        .submit(Class::Flush, "first", move |stop| {
            started.send(()).unwrap();
            while !stop.is_stopping() {
                thread::yield_now();
            }
        })
        .unwrap();
    receive(&starts);
    group
        .submit(Class::Collect, "second", move |stop| seen.send(stop.is_stopping()).unwrap())
        .unwrap();
    assert!(pool.stop().is_empty());
    assert_eq!(sights.try_recv(), Ok(true), "it ran before stop returned");
    assert_eq!(group.submit(Class::Flush, "late", |_| {}), Err(Stopped));
    assert_eq!(pool.group("late").submit(Class::Flush, "late", |_| {}), Err(Stopped));
}

#[test]
fn a_panic_is_counted_reported_and_contained() {
    let (pool, registry) = pool(1);
    let group = pool.group("keyspace");
    let (told, tells) = mpsc::channel();
    group.on_panic(move |panic| {
        told.send(panic.clone()).unwrap();
        panic!("nor does this harm anybody");
    });
    group.submit(Class::Flush, "bad", |_| panic!("disk {} is odd", 3)).unwrap();
    let error = group.wait_until(|| false).unwrap_err();
    let WaitError::Panicked(panic) = error else { panic!("{error}") };
    assert_eq!(panic.to_string(), "background task bad of keyspace panicked: disk 3 is odd");
    assert_eq!(group.first_panic(), Some(panic.clone()));

    // The thread lives on.
    let (done, dones) = mpsc::channel();
    group.submit(Class::Flush, "good", move |_| done.send(()).unwrap()).unwrap();
    receive(&dones);
    assert_eq!(receive(&tells), panic);
    assert_eq!(group.stop(), [panic]);
    assert_eq!(group.stop(), []);
    assert!(tells.try_recv().is_err(), "it was told once");
    assert_eq!(registry.snapshot().counter("worker_task_panics_total"), 1);

    // Without an owner left, the pool's owner receives the panic.
    let dropped = pool.group("dropped");
    dropped.submit(Class::Flush, "bad", |_| panic!("nobody looks")).unwrap();
    drop(dropped);
    let reported = pool.stop();
    assert_eq!(reported.len(), 1);
    assert_eq!((reported[0].group.as_str(), reported[0].task), ("dropped", "bad"));
}

#[test]
fn a_periodic_task_runs_until_its_group_stops() {
    let (pool, _) = pool(2);
    let group = pool.group("keyspace");
    let held = Arc::new(AtomicUsize::new(0));
    let (running, count) = (AtomicBool::new(false), held.clone());
    group
        .every(Class::Flush, "tick", Duration::from_millis(1), move |_| {
            assert!(!running.swap(true, Ordering::SeqCst), "it runs beside itself");
            count.fetch_add(1, Ordering::SeqCst);
            running.store(false, Ordering::SeqCst);
        })
        .unwrap();
    group.wait_until(|| held.load(Ordering::SeqCst) >= 5).unwrap();
    assert!(group.stop().is_empty());
    assert_eq!(Arc::strong_count(&held), 1, "what the task captured is gone");
    let at_stop = held.load(Ordering::SeqCst);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(held.load(Ordering::SeqCst), at_stop);
}

#[test]
fn a_periodic_task_that_panics_never_runs_again() {
    let (pool, _) = pool(1);
    let group = pool.group("keyspace");
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    group
        .every(Class::Flush, "tick", Duration::from_millis(1), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            panic!("once");
        })
        .unwrap();
    assert!(matches!(group.wait_until(|| false), Err(WaitError::Panicked(_))));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(group.stop().len(), 1);
}

#[test]
fn periods_follow_the_environments_clock() {
    let (env, clock) = Environment::simulated(1);
    let pool = Pool::start(&env, 2, &Registry::default()).unwrap();
    let group = pool.group("keyspace");
    let (tick, ticks) = mpsc::channel();
    let hour = Duration::from_secs(3600);
    group.every(Class::Collect, "tick", hour, move |_| tick.send(()).unwrap()).unwrap();
    for _ in 0..3 {
        clock.advance(hour - Duration::from_nanos(1));
        assert!(ticks.recv_timeout(Duration::from_millis(5)).is_err(), "it is not due yet");
        clock.advance(Duration::from_nanos(1));
        receive(&ticks);
        group.wait_until(|| group.unfinished() == 0).unwrap();
    }
}

#[test]
fn a_flush_does_not_wait_for_compactions() {
    let (pool, _) = pool(2);
    let group = pool.group("keyspace");
    for _ in 0..4 {
        let long = |stop: &thermocline_workers::StopToken| {
            while !stop.is_stopping() {
                thread::yield_now();
            }
        };
        group.submit(Class::Compact, "long", long).unwrap();
    }
    let (done, dones) = mpsc::channel();
    group.submit(Class::Flush, "flush", move |_| done.send(()).unwrap()).unwrap();
    receive(&dones);
}

#[test]
fn classes_run_in_their_order() {
    let (pool, _) = pool(1);
    let group = pool.group("keyspace");
    let (go, gate) = mpsc::channel::<()>();
    group.submit(Class::Flush, "gate", move |_| receive(&gate)).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    for class in [Class::Collect, Class::Compact, Class::Flush, Class::Collect, Class::Flush] {
        let order = order.clone();
        group.submit(class, "note", move |_| order.lock().unwrap().push(class)).unwrap();
    }
    go.send(()).unwrap();
    group.wait_until(|| group.unfinished() == 0).unwrap();
    let order = order.lock().unwrap().clone();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.len(), 5);
}

#[test]
fn a_writer_waits_until_there_is_room_or_the_group_ends() {
    let (pool, _) = pool(2);
    let group = Arc::new(pool.group("keyspace"));
    let room = Arc::new(AtomicBool::new(false));
    let makes = room.clone();
    group.submit(Class::Flush, "flush", move |_| makes.store(true, Ordering::SeqCst)).unwrap();
    assert_eq!(group.wait_until(|| room.load(Ordering::SeqCst)), Ok(()));

    let waits = group.clone();
    let waiter = thread::spawn(move || waits.wait_until(|| false));
    thread::sleep(Duration::from_millis(5));
    assert!(group.stop().is_empty());
    assert_eq!(waiter.join().unwrap(), Err(WaitError::Stopped(Stopped)));
}

#[test]
fn a_task_that_notes_progress_wakes_those_who_wait_before_it_ends() {
    let (pool, _) = pool(1);
    let group = Arc::new(pool.group("journal"));
    let (part, whole) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let (asked, asks) = mpsc::channel();
    let (returned, returns) = mpsc::channel();
    let (noting, seen, until_the_end) = (group.clone(), part.clone(), whole.1);
    group
        .submit(Class::Collect, "long", move |_| {
            receive(&asks);
            seen.store(true, Ordering::SeqCst);
            noting.note_progress();
            receive(&until_the_end);
        })
        .unwrap();
    let waiting = group.clone();
    let waiter = thread::spawn(move || {
        let met = || {
            let is_met = part.load(Ordering::SeqCst);
            asked.send(()).unwrap();
            is_met
        };
        returned.send(waiting.wait_until(met)).unwrap();
    });
    assert_eq!(receive(&returns), Ok(()), "while the task runs");
    whole.0.send(()).unwrap();
    waiter.join().unwrap();
    assert!(pool.stop().is_empty());
}

#[test]
fn the_last_handle_stops_the_pool_even_from_its_own_thread() {
    let (pool, _) = pool(1);
    let group = pool.group("keyspace");
    let (done, dones) = mpsc::channel();
    group
        .submit(Class::Flush, "drops the pool", move |stop| {
            drop(pool);
            done.send(stop.is_stopping()).unwrap();
        })
        .unwrap();
    assert!(receive(&dones));
    assert_eq!(group.submit(Class::Flush, "late", |_| {}), Err(Stopped));
}

#[test]
fn a_task_that_stops_its_own_group_is_reported() {
    let (pool, _) = pool(1);
    let group = Arc::new(pool.group("keyspace"));
    let own = group.clone();
    group.submit(Class::Flush, "suicidal", move |_| drop(own.stop())).unwrap();
    let WaitError::Panicked(panic) = group.wait_until(|| false).unwrap_err() else {
        panic!("it was not told");
    };
    assert_eq!(panic.message, "a task cannot stop its own group");
}

#[test]
fn a_task_may_stop_another_group_on_the_only_thread() {
    let (pool, _) = pool(1);
    let (outer, inner) = (pool.group("outer"), pool.group("inner"));
    let (go, gate) = mpsc::channel::<()>();
    let (done, dones) = mpsc::channel();
    let ran = Arc::new(AtomicBool::new(false));
    let sets = ran.clone();
    outer.submit(Class::Flush, "gate", move |_| receive(&gate)).unwrap();
    inner.submit(Class::Collect, "queued", move |_| sets.store(true, Ordering::SeqCst)).unwrap();
    let stops = move |_: &_| done.send(inner.stop().len()).unwrap();
    outer.submit(Class::Flush, "stops inner", stops).unwrap();
    go.send(()).unwrap();
    assert_eq!(receive(&dones), 0);
    assert!(ran.load(Ordering::SeqCst));
}
