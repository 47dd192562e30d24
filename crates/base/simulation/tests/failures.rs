//! The messages of simulations that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sync::locks::{Condvar, Mutex};
use thermocline_simulation::{Simulation, World};

/// Returns the message of a simulation that must fail.
fn failure(simulation: Simulation, test: impl FnOnce(&World) + Send + 'static) -> String {
    let run = AssertUnwindSafe(|| simulation.run(test));
    let panic = catch_unwind(run).expect_err("the simulation fails");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

#[inline(never)]
fn takes_both_locks(locks: &(Mutex<u64>, Mutex<u64>), is_second_first: bool) {
    let (first, second) = if is_second_first { (&locks.1, &locks.0) } else { (&locks.0, &locks.1) };
    let held = first.lock();
    *second.lock() += *held + 1;
}

#[test]
fn two_threads_that_wait_for_each_other_are_reported_with_their_stacks() {
    let deadlocks = (0..100).find_map(|seed| {
        let simulation = Simulation::new(seed).switches_ppm(200_000);
        let run = AssertUnwindSafe(|| {
            simulation.run(|world| {
                let locks = Arc::new((Mutex::new(0), Mutex::new(0)));
                let theirs = Arc::clone(&locks);
                let other = world.environment().spawn("other", move || {
                    takes_both_locks(&theirs, true);
                });
                takes_both_locks(&locks, false);
                other.unwrap().join().unwrap();
            })
        });
        catch_unwind(run).err()
    });
    let panic = deadlocks.expect("a seed has the fault");
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("all threads wait, and none has a deadline"), "{text}");
    assert!(text.contains("other of test: "), "{text}");
    assert_eq!(text.matches("takes_both_locks").count(), 2, "{text}");
}

#[test]
fn a_notification_that_is_left_out_is_found() {
    let text = failure(Simulation::new(1), |world| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let sets = Arc::clone(&shared);
        let setter = world.environment().spawn("setter", move || *sets.0.lock() = true);
        let mut set = shared.0.lock();
        shared.1.wait(&mut set);
        drop(set);
        setter.unwrap().join().unwrap();
    });
    assert!(text.contains("seed 1 failed: all threads wait"), "{text}");
}

#[inline(never)]
fn sleeps_for_ever(world: &World) {
    let environment = world.environment();
    loop {
        environment.sleep(Duration::from_secs(1));
    }
}

#[test]
fn the_time_has_an_end() {
    let text = failure(Simulation::new(1).limit(Duration::from_secs(10)), sleeps_for_ever);
    assert!(text.contains("its time is over (at 1"), "{text}");
    assert!(text.contains("sleeps_for_ever"), "{text}");
}

#[test]
fn a_thread_that_outlives_the_test_is_reported() {
    let text = failure(Simulation::new(1), |world| {
        let environment = world.environment();
        let sleeps = environment.clone();
        let thread = environment.spawn("forgotten", move || sleeps.sleep(Duration::from_secs(9)));
        drop(thread);
    });
    assert!(text.contains("the test has ended before these threads: forgotten of test"), "{text}");
}

#[test]
fn a_panic_of_the_test_stays_what_it_is() {
    assert_eq!(failure(Simulation::new(1), |_| panic!("as planned")), "as planned");
    let text = failure(Simulation::new(1), |world| {
        let environment = world.environment();
        let sleeps = environment.clone();
        let _thread = environment.spawn("slow", move || sleeps.sleep(Duration::from_secs(9)));
        panic!("as planned");
    });
    assert!(text.contains("slow of test\nthe test panicked: as planned"), "{text}");
}

#[test]
fn a_panic_of_a_thread_is_the_result_of_its_join() {
    let outcome = Simulation::new(1).run(|world| {
        let thread = world.environment().spawn("unlucky", || panic!("as planned"));
        thread.unwrap().join().is_err()
    });
    assert!(outcome.value);
}

#[test]
fn a_wait_outside_the_simulation_is_reported_with_the_thread() {
    let simulation = Simulation::new(1).still(Duration::from_millis(200));
    let text = failure(simulation, |world| {
        let thread = world.environment().spawn("blocked", || {
            let (_sender, receiver) = mpsc::channel::<()>();
            let _never = receiver.recv_timeout(Duration::from_secs(30));
        });
        thread.unwrap().join().unwrap();
    });
    assert!(text.contains("blocked has the turn, and blocks outside the simulation"), "{text}");
}

/// Takes a lock once more in every other run.
#[inline(never)]
fn takes_a_lock_too_many(lock: &Mutex<u64>, runs: &AtomicU64) {
    if runs.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
        drop(lock.lock());
    }
}

#[test]
fn runs_that_differ_are_reported_with_the_lock_that_only_one_takes() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = AssertUnwindSafe(|| {
        Simulation::new(1).run_twice(|world| {
            let environment = world.environment();
            let lock = Mutex::new(0);
            for _ in 0..3 {
                environment.sleep(Duration::from_secs(1));
                drop(lock.lock());
            }
            takes_a_lock_too_many(&lock, &RUNS);
            environment.sleep(Duration::from_secs(1));
        })
    });
    let panic = catch_unwind(run).expect_err("the runs differ");
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("the runs of seed 1 differ at turn 4"), "{text}");
    assert!(text.contains("lock 1 of the turn before\n"), "{text}");
    assert!(text.ends_with("takes_a_lock_too_many\n  none"), "{text}");
}
