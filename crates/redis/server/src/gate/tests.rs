//! A thread that has reserved the gate is alone, no loop waits for it, and each loop executes
//! between two threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use thermocline::environment::Environment;
use thermocline::sync::locks::Mutex;

use super::Gate;

/// Longer than a test takes. Only a test that fails waits for it.
const LATE: Duration = Duration::from_secs(20);

impl Gate {
    /// Has threads wait longer than a test takes until loops have caught up, so that no result
    /// depends on the speed of a loop.
    pub(crate) fn wait_long(&self) {
        self.others_turn_ms.store(2 * LATE.as_millis() as u64, Relaxed);
    }

    /// Returns how often a thread has begun to wait for the turns of all loops.
    pub(crate) fn turn_waits(&self) -> u64 {
        self.turn_waits.load(SeqCst)
    }

    /// Returns the number of loops that have left commands for later since the gate was opened.
    pub(crate) fn left_count(&self) -> usize {
        self.slots.iter().filter(|slot| *slot.lock()).count()
    }
}

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
    assert!(gate.reserve().open().is_empty());
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

/// Something wakes the thread before all loops have caught up. It must wait again.
#[test]
fn a_thread_waits_for_each_loop_that_was_held_up_and_for_no_other() {
    const WAKES: usize = 3;
    let gate = Arc::new(Gate::new(4, Default::default()));
    gate.wait_long();
    let reservation = gate.reserve();
    let behind = [0, 1, 3];
    behind.iter().for_each(|&slot| gate.enter(slot).note_left());
    assert_eq!(reservation.open(), behind);
    let is_reserved = Arc::new(AtomicBool::new(false));
    let (end, ended) = channel();
    let next = {
        let (gate, is_reserved) = (gate.clone(), is_reserved.clone());
        move || {
            let reservation = gate.reserve();
            is_reserved.store(true, SeqCst);
            drop(end.send(reservation.open()));
        }
    };
    let thread = Environment::real().spawn("next", next).expect("a thread");
    for slot in behind {
        let mut woken = 0;
        while woken < WAKES && !is_reserved.load(SeqCst) {
            woken += usize::from(gate.caught_up.notify_one());
            std::thread::yield_now();
        }
        assert_eq!(woken, WAKES, "the thread does not wait for loop {slot}");
        gate.note_caught_up();
    }
    assert_eq!(ended.recv_timeout(LATE), Ok(vec![]), "no wake-up is lost");
    thread.join().expect("ends");
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    RanAlone,
    Wrote(usize),
}

/// The thread reserves the gate again and again. In each round it holds up a write of every loop,
/// and each loop is informed by a letter that the gate is open, as an event loop is.
#[test]
fn each_loop_writes_between_two_commands_that_are_alone() {
    const LOOPS: usize = 3;
    const ROUNDS: usize = 300;
    let gate = Arc::new(Gate::new(LOOPS, Default::default()));
    gate.wait_long();
    let log = Arc::new(Mutex::new(Vec::new()));
    let held_up = Arc::new(AtomicUsize::new(0));
    let (letters, mailboxes): (Vec<_>, Vec<_>) = (0..LOOPS).map(|_| channel::<bool>()).unzip();
    let real = Environment::real();
    let loops: Vec<_> = mailboxes
        .into_iter()
        .enumerate()
        .map(|(slot, mailbox)| {
            let (gate, log, held_up) = (gate.clone(), log.clone(), held_up.clone());
            let turns = move || {
                // A letter says whether the gate was opened, or a client sends a write.
                while let Ok(is_opened) = mailbox.recv() {
                    let mut pass = gate.enter(slot);
                    if gate.is_open() {
                        log.lock().push(Did::Wrote(slot));
                    } else {
                        pass.note_left();
                        held_up.fetch_add(usize::from(!is_opened), SeqCst);
                    }
                    drop(pass);
                    if is_opened {
                        gate.note_caught_up();
                    }
                }
            };
            real.spawn("loop", turns).expect("a thread")
        })
        .collect();
    let (end, ended) = channel();
    let alone = {
        let (gate, log) = (gate.clone(), log.clone());
        move || {
            for _ in 0..ROUNDS {
                let reservation = gate.reserve();
                log.lock().push(Did::RanAlone);
                held_up.store(0, SeqCst);
                letters.iter().for_each(|letter| letter.send(false).expect("a loop"));
                while held_up.load(SeqCst) < LOOPS {
                    std::thread::yield_now();
                }
                let left = reservation.open();
                left.into_iter().for_each(|slot| letters[slot].send(true).expect("a loop"));
            }
            let _if_nobody_listens = end.send(());
        }
    };
    let thread = real.spawn("alone", alone).expect("a thread");
    assert_eq!(ended.recv_timeout(LATE), Ok(()), "a wake-up is lost");
    thread.join().expect("ends");
    loops.into_iter().for_each(|turns| turns.join().expect("ends"));
    let log = log.lock();
    let rounds: Vec<_> = log.split(|did| *did == Did::RanAlone).skip(1).collect();
    assert_eq!(rounds.len(), ROUNDS);
    for (round, writes) in rounds.into_iter().enumerate() {
        for slot in 0..LOOPS {
            let count = writes.iter().filter(|did| **did == Did::Wrote(slot)).count();
            assert_eq!(count, 1, "round {round}: loop {slot}, {writes:?}");
        }
    }
}
