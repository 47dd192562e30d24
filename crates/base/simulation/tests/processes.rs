//! Processes are killed and paused at any moment, and have clocks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sync::locks::Mutex;
use thermocline_simulation::Simulation;

const SECOND: Duration = Duration::from_secs(1);

struct Counts(Arc<AtomicU64>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_killed_process_never_runs_again_and_drops_nothing() {
    let drops = Arc::new(AtomicU64::new(0));
    for seed in 0..20 {
        let dropped = Arc::clone(&drops);
        let outcome = Simulation::new(seed).run(move |world| {
            let environment = world.environment();
            let process = world.process("server");
            let steps = Arc::new(AtomicU64::new(0));
            let (counts, sleeps) = (Arc::clone(&steps), process.environment());
            let value = Counts(dropped);
            let started = process.spawn("first", move || {
                let _value = value;
                let again = sleeps.clone();
                let inner = Arc::clone(&counts);
                // A thread that a process starts belongs to it.
                let second = sleeps.spawn("second", move || {
                    loop {
                        again.sleep(SECOND);
                        inner.fetch_add(1, Ordering::SeqCst);
                    }
                });
                let _never = second.unwrap().join();
                counts.fetch_add(1000, Ordering::SeqCst);
            });
            environment.sleep(SECOND * 10 + SECOND / 2);
            process.kill();
            let at_kill = steps.load(Ordering::SeqCst);
            environment.sleep(SECOND * 10);
            drop(started);
            (at_kill, steps.load(Ordering::SeqCst))
        });
        assert_eq!(outcome.value, (10, 10), "seed {seed}");
    }
    assert_eq!(drops.load(Ordering::SeqCst), 0);
}

#[test]
fn a_killed_waiter_takes_no_wake_from_others() {
    for seed in 0..100 {
        let outcome = Simulation::new(seed).run(|world| {
            let environment = world.environment();
            let lock = Arc::new(Mutex::new(0_u64));
            let held = lock.lock();
            let process = world.process("killed");
            let waits = Arc::clone(&lock);
            let _killed = process.spawn("waiter", move || *waits.lock() += 1000);
            let waits = Arc::clone(&lock);
            let other = environment.spawn("other", move || *waits.lock() += 1);
            environment.sleep(SECOND);
            process.kill();
            drop(held);
            other.unwrap().join().unwrap();
            let number = lock.lock();
            *number
        });
        assert_eq!(outcome.value, 1, "seed {seed}");
    }
}

#[test]
fn a_process_may_kill_itself() {
    let outcome = Simulation::new(1).run(|world| {
        let process = world.process("server");
        let steps = Arc::new(AtomicU64::new(0));
        let (counts, kills) = (Arc::clone(&steps), process.clone());
        let _thread = process.spawn("first", move || {
            counts.fetch_add(1, Ordering::SeqCst);
            kills.kill();
            counts.fetch_add(1, Ordering::SeqCst);
        });
        world.environment().sleep(SECOND);
        steps.load(Ordering::SeqCst)
    });
    assert_eq!(outcome.value, 1);
}

#[test]
fn a_paused_process_continues_where_it_was() {
    for seed in 0..20 {
        let outcome = Simulation::new(seed).run(|world| {
            let environment = world.environment();
            let process = world.process("server");
            let sleeps = process.environment();
            let thread = process.spawn("first", move || {
                let began = sleeps.now();
                sleeps.sleep(SECOND);
                sleeps.now() - began
            });
            environment.sleep(SECOND / 2);
            process.pause();
            environment.sleep(SECOND * 10);
            process.resume();
            thread.unwrap().join().unwrap()
        });
        let slept = outcome.value;
        assert!(slept >= SECOND * 10 && slept < SECOND * 11, "seed {seed}: {slept:?}");
    }
}

#[test]
fn each_process_has_a_wall_clock_of_its_own() {
    Simulation::new(1).run(|world| {
        let (one, other) = (world.process("one"), world.process("other"));
        let before = (one.environment().wall_ms(), one.environment().now());
        assert_eq!(before.0, other.environment().wall_ms());
        one.move_wall_clock(-365 * 86_400_000);
        assert_eq!(one.environment().wall_ms(), before.0 - 365 * 86_400_000);
        assert_eq!(other.environment().wall_ms(), before.0);
        assert_eq!(one.environment().now(), before.1);
    });
}

#[test]
fn the_clocks_of_processes_run_at_their_rates() {
    Simulation::new(1).run(|world| {
        let (right, slow) = (world.process("right"), world.process("slow"));
        slow.set_clock_rate(500_000);
        let environment = slow.environment();
        let (begun, own) = (right.environment().now(), environment.now());
        let sleeps = slow.spawn("sleeper", move || environment.sleep(SECOND));
        sleeps.unwrap().join().unwrap();
        // Each turn takes some time, too.
        let about = |time: Duration, expected: Duration| {
            assert!((expected..expected + SECOND / 1000).contains(&time), "{time:?}");
        };
        about(slow.environment().now() - own, SECOND);
        about(right.environment().now() - begun, SECOND * 2);
        slow.set_clock_rate(2_000_000);
        let own = slow.environment().now();
        right.environment().sleep(SECOND);
        about(slow.environment().now() - own, SECOND * 2);
    });
}

#[test]
fn each_process_draws_numbers_of_its_own() {
    use rand::Rng;
    Simulation::new(1).run(|world| {
        let drawn = |name| world.process(name).environment().random("numbers").next_u64();
        assert_ne!(drawn("one"), drawn("two"));
    });
}
