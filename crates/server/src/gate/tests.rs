//! A thread that has reserved the gate is alone, and no loop waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use environment::Environment;

use super::Gate;

#[test]
fn a_reserved_gate_lets_loops_read_and_a_closed_one_does_not() {
    let gate = Gate::new(2, Default::default());
    let reservation = gate.reserve();
    let mut pass = gate.enter(0);
    assert!(!gate.is_open());
    assert!(gate.lets_read());
    assert_eq!(pass.alone(|| ()), None, "no command is alone next to another one");
    pass.note_left();
    drop(pass);
    reservation.close();
    assert!(!gate.lets_read());
    assert_eq!(reservation.open(), [0], "the other loop has left nothing");
    assert!(gate.is_open());
    gate.note_caught_up();
    assert_eq!(gate.reserve().open(), []);
    assert_eq!(gate.enter(1).alone(|| 7), Some(7));
}

#[test]
fn no_loop_writes_while_a_thread_is_alone() {
    const LOOPS: usize = 3;
    let gate = Arc::new(Gate::new(LOOPS, Default::default()));
    let (number, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let loops: Vec<_> = (0..LOOPS)
        .map(|slot| {
            let (gate, number, is_over) = (gate.clone(), number.clone(), is_over.clone());
            let turns = move || {
                let mut written = 0_u64;
                while !is_over.load(SeqCst) {
                    let mut pass = gate.enter(slot);
                    if gate.is_open() {
                        // Between the look and the write the thread must not begin.
                        std::thread::yield_now();
                        number.fetch_add(1, SeqCst);
                        written += 1;
                    }
                    written += u64::from(pass.alone(|| number.fetch_add(1, SeqCst)).is_some());
                }
                written
            };
            Environment::real().spawn("loop", turns).expect("a thread")
        })
        .collect();
    for _ in 0..200 {
        let reservation = gate.reserve();
        let before = number.load(SeqCst);
        for _ in 0..10 {
            std::thread::yield_now();
            assert_eq!(number.load(SeqCst), before);
        }
        drop(reservation);
    }
    is_over.store(true, SeqCst);
    let written: u64 = loops.into_iter().map(|turns| turns.join().expect("ends")).sum();
    assert_eq!(written, number.load(SeqCst));
}
