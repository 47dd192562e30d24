//! Replays from a seed, the moves of clocks, and the result of a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rand::Rng;
use thermocline_environment::{Environment, ManualClock, Monotonic, Seed, Wake};

fn numbers(env: &Environment, purpose: &str) -> Vec<u64> {
    let mut random = env.random(purpose);
    (0..4).map(|_| random.next_u64()).collect()
}

#[test]
fn a_seed_replays_whatever_was_asked_before() {
    let first = Environment::simulated(7).0;
    let second = Environment::seeded(7);
    let expected = numbers(&first, "compact");
    numbers(&second, "flush");
    assert_eq!(numbers(&second, "compact"), expected);
    assert_ne!(numbers(&second, "flush"), expected);
    assert_ne!(numbers(&Environment::seeded(8), "compact"), expected);
    assert_eq!(first.seed(), Seed::from(7));
}

#[test]
fn an_old_seed_still_means_the_same() {
    // A failing seed that was written down years ago has to replay: these never change.
    assert_eq!(Seed::from(7).stream("workers").next_u64(), FIRST_OF_WORKERS);
    assert_eq!(Seed::from(7).child(3).get(), CHILD_3);
}

const FIRST_OF_WORKERS: u64 = 3_500_800_038_545_308_429;
const CHILD_3: u64 = 11_789_235_428_803_148_034;

#[test]
fn children_differ_from_each_other_and_from_their_parent() {
    let parent = Seed::from(1);
    let mut seeds: Vec<u64> = (0..1_000).map(|index| parent.child(index).get()).collect();
    seeds.push(parent.get());
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 1_001);
}

#[test]
fn entropy_differs() {
    assert_ne!(Seed::from_entropy(), Seed::from_entropy());
}

#[test]
fn a_manual_clock_moves_only_when_told() {
    let (env, clock) = Environment::simulated(1);
    let (now, wall) = (env.now(), env.wall());
    assert_eq!((env.now(), env.wall()), (now, wall));
    clock.advance(Duration::from_millis(1_500));
    assert_eq!(env.now() - now, Duration::from_millis(1_500));
    assert_eq!(env.wall() - wall, Duration::from_millis(1_500));
    // A year back: the date jumps, the monotonic clock does not.
    let before = env.now();
    clock.set_wall(wall - Duration::from_secs(365 * 86_400));
    assert_eq!(env.now(), before);
    assert_eq!(env.wall_ms(), 1_767_225_600_000 - 365 * 86_400_000);
}

#[test]
fn a_sleeper_wakes_when_its_time_has_come_and_not_before() {
    let (env, clock) = Environment::simulated(1);
    let (woke, wakes) = mpsc::channel();
    let sleeps = env.clone();
    let sleeper = env.spawn("sleeper", move || {
        let began = sleeps.now();
        sleeps.sleep(Duration::from_secs(10));
        woke.send(sleeps.now() - began).expect("the test listens");
    });
    clock.advance(Duration::from_secs(4));
    assert!(wakes.recv_timeout(Duration::from_millis(10)).is_err());
    // On a busy machine the sleeper may not even have begun, so the clock advances until it wakes.
    let slept = (0..1000).find_map(|_| {
        clock.advance(Duration::from_secs(3));
        wakes.recv_timeout(Duration::from_millis(20)).ok()
    });
    assert!(slept.unwrap() >= Duration::from_secs(10));
    sleeper.unwrap().join().unwrap();
}

/// Notes the time whenever the clock is moved, through the clock itself.
struct Notes {
    clock: Arc<ManualClock>,
    seen_nanos: AtomicU64,
}

impl Wake for Notes {
    fn wake(&self) {
        use thermocline_environment::Clock;
        self.seen_nanos.store(self.clock.monotonic().as_nanos(), Ordering::SeqCst);
    }
}

#[test]
fn who_waits_for_a_time_is_told_of_every_move_while_it_lives() {
    let (env, clock) = Environment::simulated(1);
    let notes = Arc::new(Notes { clock: clock.clone(), seen_nanos: AtomicU64::new(0) });
    let weak = Arc::downgrade(&notes);
    env.on_clock_move(weak);
    clock.advance(Duration::from_nanos(5));
    assert_eq!(notes.seen_nanos.load(Ordering::SeqCst), 5);
    clock.advance(Duration::from_nanos(2));
    assert_eq!(notes.seen_nanos.load(Ordering::SeqCst), 7);
    drop(notes);
    clock.advance(Duration::from_nanos(1));
}

#[test]
fn the_real_clock_runs_forward() {
    let env = Environment::real();
    let start = env.now();
    env.sleep(Duration::from_millis(2));
    assert!(env.now() - start >= Duration::from_millis(2));
    assert!(env.wall() > Duration::from_secs(1_700_000_000));
}

#[test]
fn times_never_wrap() {
    let end = Monotonic::from_nanos(u64::MAX);
    assert_eq!(end + Duration::MAX, end);
    assert_eq!(Monotonic::from_nanos(1) - end, Duration::ZERO);
}

#[test]
fn a_thread_has_its_name_and_gives_back_its_result() {
    let env = Environment::real();
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(env.spawn("flusher", name).unwrap().join().unwrap().as_deref(), Some("flusher"));
    assert!(env.spawn("unlucky", || panic!("told")).unwrap().join().is_err());
}
