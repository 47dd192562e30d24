//! The locks on threads of the system.
//!
//! Scripted words show step by step that a lock serves a thread that waits in vain.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use thermocline_sync::locks::{
    Condvar, Mutex, MutexGuard, RawCondvar, RawMutex, RawRwLock, RwLock, Wake, Word,
};

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(600);

/// A word whose waits and wakes a test acts out.
#[derive(Default)]
struct Scripted {
    value: Cell<u32>,
    waits: RefCell<Vec<Box<dyn FnOnce() -> Wake>>>,
    wakes: Cell<u32>,
}

impl Word for &Scripted {
    fn load(&self, _order: Ordering) -> u32 {
        self.value.get()
    }

    fn store(&self, value: u32, _order: Ordering) {
        self.value.set(value);
    }

    fn exchange(&self, current: u32, new: u32, _order: Ordering) -> Result<u32, u32> {
        if self.value.get() == current {
            Ok(self.value.replace(new))
        } else {
            Err(self.value.get())
        }
    }

    fn fetch_add(&self, value: u32, _order: Ordering) -> u32 {
        self.value.replace(self.value.get() + value)
    }

    fn fetch_sub(&self, value: u32, _order: Ordering) -> u32 {
        self.value.replace(self.value.get() - value)
    }

    fn fetch_and(&self, mask: u32, _order: Ordering) -> u32 {
        self.value.replace(self.value.get() & mask)
    }

    fn wait(&self, expected: u32, _deadline: Option<Instant>) -> Wake {
        assert_eq!(self.value.get(), expected, "nothing has changed the word");
        let wait = self.waits.borrow_mut().pop().expect("the test has a step for each wait");
        wait()
    }

    fn wake(&self, count: u32) -> u32 {
        self.wakes.set(self.wakes.get() + 1);
        count.min(1)
    }
}

/// Keeps a value until the process ends. The list has its address, so that no check for leaks
/// reports it.
fn keep<T>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let kept = Box::leak(Box::new(value));
    KEPT.lock().push(std::ptr::from_ref(kept).expose_provenance());
    kept
}

fn kept() -> &'static Scripted {
    keep(Scripted::default())
}

#[test]
fn a_fair_unlock_keeps_the_mutex_for_a_sleeper() {
    let word = kept();
    let mutex: &RawMutex<&Scripted> = keep(RawMutex::new(word));
    assert!(mutex.try_lock());
    word.waits.borrow_mut().push(Box::new(move || {
        mutex.unlock_fair();
        assert!(mutex.is_locked(), "it is kept for the sleeper");
        assert!(!mutex.try_lock(), "another thread takes it from the sleeper");
        Wake::Woken
    }));
    assert!(mutex.lock(None), "the sleeper gets it");
    assert_eq!(word.wakes.get(), 1);
    mutex.unlock();
    assert!(mutex.try_lock(), "it is free");
}

/// How many wakes a thread needs to get a lock that other threads take again and again, as fast as
/// they can.
fn wakes_until_it_is_served(
    word: &'static Scripted,
    lock: impl FnOnce() -> bool,
    retake: impl Fn() -> bool + Copy + 'static,
) -> usize {
    const MOST: usize = 100;
    for _ in 0..MOST {
        word.waits.borrow_mut().push(Box::new(move || {
            retake();
            Wake::Woken
        }));
    }
    assert!(lock());
    MOST - word.waits.borrow().len()
}

#[test]
fn a_thread_that_is_woken_in_vain_is_served() {
    let word = kept();
    let mutex: &RawMutex<&Scripted> = keep(RawMutex::new(word));
    assert!(mutex.try_lock());
    let retake = || {
        mutex.unlock();
        mutex.try_lock()
    };
    let wakes = wakes_until_it_is_served(word, || mutex.lock(None), retake);
    assert!((2..10).contains(&wakes), "it was served after {wakes} wakes");
}

#[test]
fn readers_and_writers_that_are_woken_in_vain_are_served() {
    type Lock = RawRwLock<&'static Scripted>;
    for who in ["reader", "writer"] {
        let word = kept();
        let lock: &Lock = keep(RawRwLock::new(word, kept()));
        assert!(lock.try_write());
        let retake = || {
            lock.unlock_write();
            lock.try_write()
        };
        let wait = || if who == "reader" { lock.read(None) } else { lock.write(None) };
        let wakes = wakes_until_it_is_served(word, wait, retake);
        assert!((2..10).contains(&wakes), "a {who} was served after {wakes} wakes");
    }
}

#[test]
fn a_writer_that_waits_keeps_new_readers_out() {
    let word = kept();
    let lock: &RawRwLock<&Scripted> = keep(RawRwLock::new(word, kept()));
    assert!(lock.try_read());
    word.waits.borrow_mut().push(Box::new(move || {
        assert!(!lock.try_read(), "a new reader came before the writer");
        lock.unlock_read();
        Wake::Woken
    }));
    assert!(lock.write(None));
    lock.unlock_write();
    assert!(lock.try_read(), "the lock is open again");
}

#[test]
fn a_signal_ends_no_wait_for_a_notification() {
    let word = kept();
    let condvar = RawCondvar::new(word, kept());
    let mutex = RawMutex::new(kept());
    // The last one is the first.
    let outcomes = [Wake::Woken, Wake::Changed, Wake::Changed];
    word.waits.borrow_mut().extend(outcomes.map(|wake| Box::new(move || wake) as Box<_>));
    assert!(mutex.lock(None));
    assert_eq!(condvar.wait(&mutex, None), Wake::Woken);
    assert!(word.waits.borrow().is_empty() && mutex.is_locked());
}

/// Runs `work` on several threads.
fn on_threads(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        let work = &work;
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
}

#[test]
fn a_mutex_keeps_threads_apart() {
    let count = Mutex::new(0);
    on_threads(|thread| {
        for round in 0..ROUNDS {
            let mut held = match round % 3 {
                0 => count.lock(),
                1 => count.try_lock_for(LONG).expect("it becomes free"),
                _ => loop {
                    // A thread that times out must leave no other thread asleep.
                    if let Some(held) = count.try_lock_for(Duration::from_nanos(1)) {
                        break held;
                    }
                },
            };
            *held += 1;
            if thread == 0 {
                MutexGuard::unlock_fair(held);
            }
        }
    });
    assert_eq!(count.into_inner(), THREADS * ROUNDS);
}

#[test]
fn a_reader_writer_lock_keeps_threads_apart() {
    let pair = RwLock::new((0, 0));
    on_threads(|thread| {
        for round in 0..ROUNDS {
            if (round + thread) % 4 != 0 {
                let (one, two) = *pair.try_read_for(LONG).expect("it becomes free");
                assert_eq!(one, two, "a writer wrote during a read");
            } else if let Some(mut pair) = pair.try_write_for(Duration::from_nanos(1)) {
                pair.0 += 1;
                pair.1 += 1;
            } else {
                let mut pair = pair.write();
                pair.0 += 1;
                pair.1 += 1;
            }
        }
    });
    let writes = THREADS * ROUNDS / 4;
    assert_eq!(*pair.read(), (writes, writes));
}

#[test]
fn locks_that_are_held_time_out() {
    let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
    let (_held, writer) = (mutex.lock(), lock.write());
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(mutex.is_locked() && mutex.try_lock().is_none());
            assert!(mutex.try_lock_for(SHORT).is_none());
            assert!(lock.try_read_for(SHORT).is_none() && lock.try_write_for(SHORT).is_none());
        });
    });
    drop(writer);
    let _reader = lock.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.try_write_for(SHORT).is_none());
            assert!(lock.try_read().is_some(), "a writer that gave up leaves the lock open");
        });
    });
}

/// Numbers pass from thread to thread, each waiting for the one before.
#[test]
fn notifications_reach_threads_that_wait() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    on_threads(|thread| {
        let (next, changed) = &*shared;
        for round in 0..ROUNDS / 10 {
            let mine = round * THREADS + thread;
            let mut held = next.lock();
            match round % 3 {
                0 => changed.wait_while(&mut held, |next| *next != mine),
                1 => {
                    let timed = changed.wait_while_for(&mut held, |next| *next != mine, LONG);
                    assert!(!timed.timed_out());
                }
                _ => {
                    while *held != mine {
                        changed.wait_for(&mut held, SHORT);
                    }
                }
            }
            *held += 1;
            drop(held);
            changed.notify_all();
        }
    });
    assert_eq!(*shared.0.lock(), THREADS * (ROUNDS / 10));
}

#[test]
fn waits_time_out() {
    let (mutex, changed) = (Mutex::new(true), Condvar::new());
    assert!(!changed.notify_one(), "no thread waits");
    let mut held = mutex.lock();
    assert!(changed.wait_for(&mut held, SHORT).timed_out());
    assert!(changed.wait_while_for(&mut held, |holds| *holds, SHORT).timed_out());
    assert!(!changed.wait_while_for(&mut held, |holds| !*holds, SHORT).timed_out());
    assert!(mutex.is_locked(), "a wait locks the mutex again");
}

#[test]
fn a_time_beyond_all_clocks_is_no_deadline() {
    let (is_set, changed) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = is_set.lock();
            let result = changed.wait_while_for(&mut held, |is_set| !*is_set, Duration::MAX);
            assert!(!result.timed_out());
        });
        *is_set.try_lock_for(Duration::MAX).expect("it becomes free") = true;
        changed.notify_one();
    });
}

#[test]
fn a_panic_unlocks() {
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guards = (mutex.lock(), lock.write());
        panic!("with both held");
    }));
    assert!(result.is_err());
    assert_eq!((*mutex.lock(), *lock.read()), (1, 1));
}
