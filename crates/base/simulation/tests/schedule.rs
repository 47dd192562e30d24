//! One seed gives one schedule, and the schedules of many seeds find what depends on the order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::{Environment, JoinHandle};
use sync::locks::{Condvar, Mutex, RwLock};
use thermocline_simulation::{Simulation, World};

const MINUTE: Duration = Duration::from_secs(60);

/// Starts threads that all run `work` with their number.
fn threads(
    environment: &Environment,
    count: u64,
    work: impl Fn(u64) + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let thread = |number| {
        let work = work.clone();
        environment.spawn(&format!("thread-{number}"), move || work(number)).unwrap()
    };
    (0..count).map(thread).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Three threads push their numbers; returns the order.
fn orders(world: &World) -> Vec<u64> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let pushes = Arc::clone(&order);
    join(threads(&world.environment(), 3, move |number| {
        for _ in 0..4 {
            pushes.lock().push(number);
        }
    }));
    let order = order.lock();
    order.clone()
}

#[test]
fn one_seed_gives_one_schedule_and_others_differ() {
    let outcomes: Vec<_> = (0..20).map(|seed| Simulation::new(seed).run(orders)).collect();
    for (seed, outcome) in outcomes.iter().enumerate() {
        assert_eq!(Simulation::new(seed as u64).run(orders), *outcome, "seed {seed}");
    }
    let mut traces: Vec<u64> = outcomes.iter().map(|outcome| outcome.trace).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), outcomes.len());
    let first = &outcomes[0].value;
    assert!(outcomes.iter().any(|outcome| outcome.value != *first), "all orders are the same");
}

#[test]
fn time_jumps_to_the_next_deadline_and_sleepers_wake_in_their_order() {
    let outcome = Simulation::new(1).run(|world| {
        let environment = world.environment();
        let began = environment.now();
        let woken = Arc::new(Mutex::new(Vec::new()));
        let (pushes, sleeps) = (Arc::clone(&woken), environment.clone());
        join(threads(&environment, 4, move |number| {
            sleeps.sleep(MINUTE * (4 - number as u32));
            pushes.lock().push(number);
        }));
        assert!(environment.now() - began >= MINUTE * 4);
        let woken = woken.lock();
        woken.clone()
    });
    assert_eq!(outcome.value, [3, 2, 1, 0]);
    assert!(outcome.time >= MINUTE * 4 && outcome.time < MINUTE * 5, "{:?}", outcome.time);
}

#[test]
fn a_wait_with_a_deadline_ends_by_the_notification_or_by_the_time() {
    for seed in 0..50 {
        let outcome = Simulation::new(seed).run(|world| {
            let environment = world.environment();
            let shared = Arc::new((Mutex::new(false), Condvar::new()));
            let (sets, sleeps) = (Arc::clone(&shared), environment.clone());
            let setter = environment.spawn("setter", move || {
                sleeps.sleep(MINUTE);
                *sets.0.lock() = true;
                sets.1.notify_one();
            });
            let mut set = shared.0.lock();
            let early = shared.1.wait_while_for(&mut set, |set| !*set, MINUTE / 2).timed_out();
            let late = shared.1.wait_while_for(&mut set, |set| !*set, MINUTE * 2).timed_out();
            drop(set);
            setter.unwrap().join().unwrap();
            (early, late)
        });
        assert_eq!(outcome.value, (true, false), "seed {seed}");
        assert!(outcome.time < MINUTE * 2, "the wait has ended by its time");
    }
}

#[test]
fn locks_exclude_each_other_under_all_seeds() {
    for seed in 0..200 {
        Simulation::new(seed).run(|world| {
            let number = Arc::new(RwLock::new(0_u64));
            let adds = Arc::clone(&number);
            join(threads(&world.environment(), 4, move |thread| {
                for _ in 0..5 {
                    match thread {
                        0 => assert!(*adds.read() <= 15),
                        _ => *adds.write() += 1,
                    }
                }
            }));
            assert_eq!(*number.read(), 15);
        });
    }
}

/// Returns whether an update is lost between two locks of one value.
fn loses_an_update(seed: u64) -> bool {
    let simulation = Simulation::new(seed).switches_ppm(200_000);
    let outcome = simulation.run(|world| {
        let number = Arc::new(Mutex::new(0_u64));
        let adds = Arc::clone(&number);
        join(threads(&world.environment(), 2, move |_| {
            let before = *adds.lock();
            *adds.lock() = before + 1;
        }));
        let number = number.lock();
        *number
    });
    outcome.value == 1
}

#[test]
fn a_check_that_is_apart_from_its_update_is_found() {
    let found = (0..100).filter(|seed| loses_an_update(*seed)).count();
    assert!((5..=95).contains(&found), "{found} of 100 seeds lose an update");
}

#[test]
fn a_thread_that_spins_lets_the_time_pass() {
    let outcome = Simulation::new(3).run(|world| {
        let environment = world.environment();
        let flag = Arc::new(AtomicU64::new(0));
        let (sets, sleeps) = (Arc::clone(&flag), environment.clone());
        let setter = environment.spawn("setter", move || {
            sleeps.sleep(MINUTE);
            sets.store(1, Ordering::SeqCst);
        });
        while flag.load(Ordering::SeqCst) == 0 {
            sync::thread::spin_loop();
        }
        setter.unwrap().join().unwrap();
    });
    assert!(outcome.time >= MINUTE);
    assert!(outcome.turns < 100, "the time has jumped");
}

#[test]
fn the_destructors_of_thread_local_values_are_part_of_the_schedule() {
    struct Adds(Arc<Mutex<Vec<u64>>>, u64);
    impl Drop for Adds {
        fn drop(&mut self) {
            self.0.lock().push(self.1);
        }
    }
    thread_local! {
        static VALUE: std::cell::RefCell<Option<Adds>> = const { std::cell::RefCell::new(None) };
    }
    let run = |seed| {
        Simulation::new(seed).run(|world| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let keeps = Arc::clone(&order);
            join(threads(&world.environment(), 3, move |number| {
                VALUE.set(Some(Adds(Arc::clone(&keeps), number)));
            }));
            // A join has waited for the destructors.
            let order = order.lock();
            assert_eq!(order.len(), 3);
            order.clone()
        })
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
