//! The hand-cranked pool: a task runs only on request, and a seed replays the schedule.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use environment::Environment;
use telemetry::Registry;
use thermocline_workers::{Class, Group, Next, Order, Pool, Ran};

/// Returns the events, task by task, when a pool with tasks that submit tasks is cranked to its
/// end.
fn schedule(seed: u64, order: Order) -> Vec<Ran> {
    let (env, clock) = Environment::simulated(seed);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), order);
    let groups = Arc::new(Mutex::new(["a", "b"].map(|name| Some(pool.group(name)))));
    let submit = |group: usize, class, name, then: Option<&'static str>| {
        let again = groups.clone();
        let group_ref = groups.lock().expect("unpoisoned");
        let owner: &Group = group_ref[group].as_ref().expect("accepted");
        owner
            .submit(class, name, move |_| {
                if let (Some(name), Some(owner)) =
                    (then, &again.lock().expect("unpoisoned")[1 - group])
                {
                    owner.submit(class, name, |_| {}).expect("accepted");
                }
            })
            .expect("accepted");
    };
    for name in ["one", "two", "three"] {
        submit(0, Class::Compact, name, Some("follow-up"));
        submit(1, Class::Flush, name, None);
    }
    let tick = |_: &_| {};
    let period = Duration::from_secs(1);
    groups.lock().expect("unpoisoned")[0]
        .as_ref()
        .expect("accepted")
        .every(Class::Collect, "tick", period, tick)
        .expect("accepted");
    let mut ran = Vec::new();
    while let Some(one) = crank.run_one() {
        ran.push(one);
        clock.advance(Duration::from_millis(300));
    }
    let last = groups.lock().expect("unpoisoned").each_mut().map(Option::take);
    assert!(last.into_iter().flatten().all(|group| group.stop().is_empty()));
    ran
}

#[test]
fn a_seed_is_a_schedule() {
    let ordered = schedule(1, Order::InOrder);
    assert_eq!(ordered, schedule(2, Order::InOrder));
    let firsts: Vec<&str> = ordered.iter().take(3).map(|ran| ran.group.as_str()).collect();
    assert_eq!(firsts, ["b", "b", "b"], "flushes come first");
    assert!(ordered.iter().any(|ran| ran.task == "tick"));

    let random: Vec<_> = (0..20).map(|seed| schedule(seed, Order::Random)).collect();
    for (seed, first) in random.iter().enumerate() {
        assert_eq!(*first, schedule(seed as u64, Order::Random), "seed {seed}");
    }
    let different = random.iter().filter(|schedule| **schedule != random[0]).count();
    assert!(different > 15, "only {different} of 19 seeds gave another schedule");
}

#[test]
fn nothing_runs_until_run() {
    let (env, clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let group = pool.group("keyspace");
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    group
        .submit(Class::Flush, "once", move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let count = runs.clone();
    let tick = move |_: &_| {
        count.fetch_add(10, Ordering::SeqCst);
    };
    group.every(Class::Flush, "tick", Duration::from_secs(1), tick).unwrap();
    assert_eq!((crank.ready(), runs.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(crank.run_all(), 1);
    clock.advance(crank.next_due().unwrap() - env.now());
    assert_eq!((crank.ready(), runs.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(crank.run_all(), 1);
    assert_eq!(runs.load(Ordering::SeqCst), 11);
    // Rounds that were missed are not made up for.
    clock.advance(Duration::from_secs(10));
    assert_eq!(crank.run_all(), 1);
}

#[test]
fn stopping_runs_what_is_queued() {
    let (env, _clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::Random);
    let (a, b) = (pool.group("a"), pool.group("b"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for group in [&a, &b] {
        for _ in 0..3 {
            let seen = seen.clone();
            let note = move |stop: &thermocline_workers::StopToken| {
                seen.lock().unwrap().push(stop.is_stopping());
            };
            group.submit(Class::Collect, "note", note).unwrap();
        }
    }
    assert!(a.stop().is_empty());
    assert_eq!(*seen.lock().unwrap(), [true; 3]);
    assert_eq!(crank.ready(), 3);
    assert!(pool.stop().is_empty());
    assert_eq!(*seen.lock().unwrap(), [true; 6]);
}

#[test]
fn a_wait_cranks_the_pool() {
    let (env, _clock) = Environment::simulated(1);
    let (pool, _crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let (group, other) = (pool.group("keyspace"), pool.group("other"));
    let done = Arc::new(AtomicUsize::new(0));
    for group in [&other, &group] {
        let done = done.clone();
        let work = move |_: &_| {
            done.fetch_add(1, Ordering::SeqCst);
        };
        group.submit(Class::Flush, "flush", work).unwrap();
    }
    group.wait_until(|| done.load(Ordering::SeqCst) == 2).unwrap();
}

#[test]
#[should_panic(expected = "a wait for which no task is left to run")]
fn a_wait_that_would_never_end_is_reported() {
    let (env, _clock) = Environment::simulated(1);
    let (pool, _crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let _ = pool.group("keyspace").wait_until(|| false);
}

#[test]
fn a_wait_for_what_another_thread_is_about_to_queue_is_no_deadlock() {
    let (env, _clock) = Environment::simulated(1);
    let (pool, _crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let group = pool.group("keyspace");
    let done = Arc::new(AtomicUsize::new(0));
    let (looked, looks) = mpsc::channel();
    thread::scope(|scope| {
        let (group, done) = (&group, &done);
        scope.spawn(move || {
            // The wait has found nothing to run, three times.
            (0..3).for_each(|_| looks.recv().unwrap());
            let sets = done.clone();
            let work = move |_: &_| sets.store(1, Ordering::SeqCst);
            group.submit(Class::Flush, "late", work).unwrap();
        });
        let met = move || {
            let _ = looked.send(());
            done.load(Ordering::SeqCst) == 1
        };
        group.wait_until(met).unwrap();
    });
}

#[test]
fn a_wait_for_what_another_thread_cranks_is_no_deadlock() {
    let (env, _clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let group = pool.group("keyspace");
    let (started, starts) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let done = Arc::new(AtomicUsize::new(0));
    let sets = done.clone();
    let long = move |_: &_| {
        started.send(()).expect("the test listens");
        gate.recv().expect("the test lets go");
        sets.store(1, Ordering::SeqCst);
    };
    group.submit(Class::Flush, "long", long).unwrap();
    thread::scope(|scope| {
        // Dropped if this fails, so that the task ends and the failure is seen.
        let go = go;
        scope.spawn(|| crank.run_one());
        starts.recv().unwrap();
        let waits = scope.spawn(|| group.wait_until(|| done.load(Ordering::SeqCst) == 1));
        let (stopped, stops) = mpsc::channel();
        scope.spawn({
            let pool = &pool;
            move || stopped.send(pool.stop()).expect("the test listens")
        });
        let early = stops.recv_timeout(Duration::from_millis(20));
        assert!(early.is_err(), "the pool stopped before its task ended");
        go.send(()).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert!(stops.recv().unwrap().is_empty());
    });
}

/// A task that finds nothing to do comes less often, until it says otherwise.
#[test]
fn a_round_may_change_the_interval() {
    let (env, clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let group = pool.group("keyspace");
    let seconds = Duration::from_secs;
    let mut intervals =
        [Next::After(seconds(4)), Next::AsBefore, Next::After(seconds(1))].into_iter();
    let work = move |_: &_| intervals.next().unwrap_or(Next::AsBefore);
    group.repeat(Class::Collect, "tick", seconds(1), work).expect("accepted");
    let mut runs = Vec::new();
    for second in 1..=12 {
        clock.advance(seconds(1));
        runs.extend(std::iter::repeat_n(second, crank.run_all()));
    }
    assert_eq!(runs, [1, 5, 9, 10, 11, 12]);
    assert!(group.stop().is_empty());
}

#[test]
fn a_periodic_task_can_end_by_itself() {
    let (env, clock) = Environment::simulated(7);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let group = pool.group("users");
    let (captured, mut rounds) = (Arc::new(()), 0);
    let held = Arc::clone(&captured);
    let work = move |_: &_| {
        let _held = &held;
        rounds += 1;
        if rounds < 3 { Next::AsBefore } else { Next::Never }
    };
    group.repeat(Class::Collect, "tick", Duration::from_secs(1), work).expect("accepted");
    let runs: Vec<usize> = (0..6)
        .map(|_| {
            clock.advance(Duration::from_secs(1));
            crank.run_all()
        })
        .collect();
    assert_eq!(runs, [1, 1, 1, 0, 0, 0]);
    assert_eq!(Arc::strong_count(&captured), 1, "what it had captured is gone");
    assert!(group.stop().is_empty());
}

/// A pool serves hundreds of stores, and each has tasks of its own.
#[test]
fn periodic_tasks_that_are_due_soon_after_each_other_run_together() {
    const TASKS: u64 = 100;
    let (env, clock) = Environment::simulated(7);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let groups: Vec<Group> = (0..TASKS)
        .map(|_| {
            clock.advance(Duration::from_millis(10));
            let group = pool.group("users");
            let tick = |_: &_| {};
            group.every(Class::Collect, "tick", Duration::from_secs(1), tick).expect("accepted");
            group
        })
        .collect();
    let mut ran = Vec::new();
    for _ in 0..10_000 {
        clock.advance(Duration::from_millis(1));
        ran.push(crank.run_all());
    }
    let wakes = ran.iter().filter(|tasks| **tasks > 0).count();
    assert!(wakes <= 10 * 10, "{wakes} in ten seconds");
    // None comes more often than eight times in seven seconds.
    let runs = ran.iter().sum::<usize>() as u64;
    assert!((9 * TASKS..12 * TASKS).contains(&runs), "{runs}");
    groups.into_iter().for_each(|group| assert!(group.stop().is_empty()));
}

#[test]
fn a_gate_holds_periodic_tasks_back_until_it_is_opened() {
    let (env, clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let (behind, gate) = pool.behind_gate();
    let (held, free) = (behind.group("held"), pool.group("free"));
    let period = Duration::from_secs(1);
    for group in [&held, &free] {
        group.every(Class::Collect, "tick", period, |_| {}).expect("accepted");
    }
    held.submit(Class::Flush, "once", |_| {}).expect("accepted");
    clock.advance(10 * period);
    let ran = |crank: &thermocline_workers::HandCranked| {
        let ran = std::iter::from_fn(|| crank.run_one());
        ran.map(|ran| format!("{} {}", ran.group, ran.task)).collect::<Vec<_>>()
    };
    assert_eq!(ran(&crank), ["held once", "free tick"]);
    gate.open();
    gate.open();
    assert_eq!(ran(&crank), ["held tick"], "it was due long ago, and once");
    held.every(Class::Collect, "late", period, |_| {}).expect("accepted");
    clock.advance(period);
    assert_eq!(ran(&crank).len(), 3);
    assert!(held.stop().is_empty() && free.stop().is_empty());
}

#[test]
fn tasks_behind_a_closed_gate_go_with_their_group_or_with_the_gate() {
    let (env, clock) = Environment::simulated(1);
    let (pool, crank) = Pool::hand_cranked(&env, &Registry::default(), Order::InOrder);
    let captured = Arc::new(());
    let (behind, gate) = pool.behind_gate();
    let groups = ["stopped", "left"].map(|name| behind.group(name));
    for group in &groups {
        let captured = Arc::clone(&captured);
        let work = move |_: &_| drop(Arc::clone(&captured));
        group.every(Class::Collect, "tick", Duration::from_secs(1), work).expect("accepted");
    }
    assert_eq!(Arc::strong_count(&captured), 3);
    assert!(groups[0].stop().is_empty());
    assert_eq!(Arc::strong_count(&captured), 2);
    drop(gate);
    assert_eq!(Arc::strong_count(&captured), 1);
    clock.advance(Duration::from_secs(2));
    assert_eq!(crank.run_all(), 0);
}
