//! Sessions of several threads concurrent with compactions and flushes: nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use conformance::session::{Completed, Session, Until, Update};
use engine::Engine;

use super::super::stores::{Add, Bench, count, key, value};
use super::super::two_logs::small_cold;

/// Counts one key up, waiting for another operation if the session is full. Returns the number of
/// operations that were reported meanwhile.
fn add(session: &mut Session<'_>, number: u64) -> u64 {
    let mut operator: Box<dyn engine::Operator + Send> = Box::new(Add);
    let mut told = 0;
    loop {
        match session.rmw(&key(number), operator).expect("it begins") {
            Update::Done => return told + 1,
            Update::Pending(_) => return told,
            Update::Full(back) => {
                operator = back;
                told += complete(session, Until::One);
            }
        }
    }
}

fn complete(session: &mut Session<'_>, wait: Until) -> u64 {
    let told = session.complete_pending(wait, &mut |_, outcome| {
        assert_eq!(outcome, Ok(Completed::Updated));
    });
    told as u64
}

/// Pushes older records towards the cold log, and through its compaction.
fn push_some(bench: &Bench, round: u64) {
    for number in round..round + 50 {
        bench.put(format!("filler-{}", number % 3000).as_bytes(), &value(number, 0, 8));
    }
}

/// Whether both logs have been compacted several times.
fn has_compacted(bench: &Bench) -> bool {
    bench.figure("compactions") > 3 && bench.figure("cold_compactions") > 0
}

fn sum(bench: &Bench, keys: u64) -> u64 {
    (0..keys).map(|number| count(bench.get(&key(number)))).sum()
}

#[test]
fn pending_counters_are_exact_beside_both_compactions() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 8_000;
    const COUNTERS: u64 = 1_200;
    let options = small_cold();
    let bench = Bench::open(options.clone());
    let (pended, updates, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let counters: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (bench, pended, updates) = (&bench, &pended, &updates);
                scope.spawn(move || {
                    let mut session = bench.session(32);
                    let (mut round, mut told) = (0, 0);
                    while round < ROUNDS || !has_compacted(bench) {
                        for _ in 0..50 {
                            let before = session.pending();
                            let number = (round * (2 * thread + 1) + thread) % COUNTERS;
                            told += add(&mut session, number);
                            pended.fetch_add(u64::from(session.pending() > before), Relaxed);
                            round += 1;
                        }
                        told += complete(&mut session, Until::Now);
                        push_some(bench, round);
                    }
                    told += complete(&mut session, Until::All);
                    assert_eq!(told, round, "every one of them was told");
                    updates.fetch_add(told, Relaxed);
                })
            })
            .collect();
        let flusher = scope.spawn(|| {
            while !done.load(Relaxed) {
                bench.store.flush().expect("flushes");
            }
        });
        for counter in counters {
            counter.join().expect("a counter ends");
        }
        done.store(true, Relaxed);
        flusher.join().expect("the flusher ends");
    });
    let (pended, updates) = (pended.into_inner(), updates.into_inner());
    println!("{pended} of {updates} were pending");
    assert!(pended > ROUNDS / 10);
    assert_eq!(sum(&bench, COUNTERS), updates);
    let bench = bench.reopen(options);
    assert_eq!(sum(&bench, COUNTERS), updates, "after opening again");
}

/// D8: in the reference a session cannot begin while a checkpoint runs, and one that ends or idles
/// holds up the others.
#[test]
fn d8_sessions_start_and_end_at_any_time() {
    const THREADS: u64 = 4;
    const SESSIONS: u64 = 25;
    const COUNTERS: u64 = 600;
    let bench = Bench::open(small_cold());
    let idle = bench.session(128);
    let (updates, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (bench, updates) = (&bench, &updates);
                scope.spawn(move || {
                    let mut round = 0;
                    while round < SESSIONS || !has_compacted(bench) {
                        round += 1;
                        let mut session = bench.session(16);
                        let mut told = 0;
                        for step in 0..40 {
                            told += add(&mut session, (round * 37 + step * 11 + thread) % COUNTERS);
                        }
                        // Some end with operations pending, which are abandoned.
                        if round % 2 == 0 {
                            told += complete(&mut session, Until::All);
                            assert_eq!(told, 40);
                        }
                        updates.fetch_add(told, Relaxed);
                        push_some(bench, 50 * round);
                    }
                })
            })
            .collect();
        let flusher = scope.spawn(|| {
            while !done.load(Relaxed) {
                bench.store.flush().expect("flushes");
            }
        });
        for thread in threads {
            thread.join().expect("a thread ends");
        }
        done.store(true, Relaxed);
        flusher.join().expect("the flusher ends");
    });
    assert_eq!(sum(&bench, COUNTERS), updates.into_inner());
    drop(idle);
    bench.store.close().expect("closes");
}
