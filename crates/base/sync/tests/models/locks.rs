//! Models of the locks, over a word that the checkers see. Each lock protects a cell. Loom reports
//! a race on the cell, and it reports a deadlock if a thread sleeps forever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use thermocline_sync::atomic::{AtomicU32, Ordering};
use thermocline_sync::cell::UnsafeCell;
use thermocline_sync::locks::{RawCondvar, RawMutex, RawRwLock, Wake, Word};
use thermocline_sync::planted::{is_planted, relaxed_if};
use thermocline_sync::thread::{at_device, spawn, yield_now};
use thermocline_sync::{Condvar, Mutex};

/// A way to break the word, and with it the protocols' assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Taking a lock orders nothing.
    RelaxedTake,
    /// An unlock orders nothing.
    RelaxedUnlock,
    /// A thread sleeps even if the value has changed.
    ValueNotCompared,
    /// A thread sleeps on a mutex that it has not marked (M1, M3).
    NotMarked,
    /// A mutex that was handed over to no thread stays so (M4).
    NotTakenBack,
    /// No second wake for threads that went to sleep on a mutex that was handed over (M4).
    NoSecondWake,
    /// An unlock leaves the bit that says that the turn's thread sleeps, and wakes it only if it
    /// leaves no bit (R2).
    NotWoken,
    /// A thread that times out leaves the lock closed (R1).
    LeftClosed,
    /// Nothing is added: a thread that waits is not counted, and a notification has no number (C1).
    NotAdded,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
const GIVEN: u32 = 4;
const WRITER: u32 = 1 << 31;
const WAITER: u32 = 1 << 29;

/// The threads that sleep on a word, and those of them that were woken.
#[derive(Default)]
struct Sleepers {
    next: u64,
    asleep: VecDeque<u64>,
    woken: Vec<u64>,
}

/// A word and its sleepers, as the kernel keeps them.
#[derive(Default)]
pub struct Modelled {
    value: AtomicU32,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
    /// The wakes that counted no thread. Not modelled.
    idle_wakes: std::sync::atomic::AtomicU32,
}

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u32 {
        self.value.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.value.store(value, order);
    }

    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        let order = match order {
            Ordering::Acquire => relaxed_if(Broken::RelaxedTake, order),
            _ => relaxed_if(Broken::RelaxedUnlock, order),
        };
        if (current, new) == (GIVEN, FREE) && is_planted(Broken::NotTakenBack) {
            return Err(current);
        }
        if (current, new) == (HELD, AWAITED) && is_planted(Broken::NotMarked) {
            return Ok(current);
        }
        self.value.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        if is_planted(Broken::NotAdded) {
            return self.value.load(order);
        }
        self.value.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.value.fetch_sub(value, relaxed_if(Broken::RelaxedUnlock, order))
    }

    fn fetch_and(&self, mask: u32, order: Ordering) -> u32 {
        let is_unlock = mask & WRITER == 0;
        if !is_unlock && is_planted(Broken::LeftClosed) {
            return self.value.load(order);
        }
        let before = self.value.fetch_and(mask, relaxed_if(Broken::RelaxedUnlock, order));
        if is_unlock && is_planted(Broken::NotWoken) { before & !WAITER } else { before }
    }

    fn wait(&self, expected: u32, deadline: Option<Instant>) -> Wake {
        let mut sleepers = self.sleepers.lock();
        let value = self.value.load(Ordering::Relaxed);
        let is_slept = is_planted(Broken::ValueNotCompared)
            || is_planted(Broken::NotMarked) && (value, expected) == (HELD, AWAITED);
        if value != expected && !is_slept {
            return Wake::Changed;
        }
        sleepers.next += 1;
        let me = sleepers.next;
        sleepers.asleep.push_back(me);
        loop {
            if deadline.is_some() {
                // The time passes while others run.
                drop(sleepers);
                yield_now();
                sleepers = self.sleepers.lock();
            } else {
                self.changed.wait(&mut sleepers);
            }
            if let Some(at) = sleepers.woken.iter().position(|woken| *woken == me) {
                sleepers.woken.swap_remove(at);
                return Wake::Woken;
            }
            if deadline.is_some() {
                sleepers.asleep.retain(|asleep| *asleep != me);
                return Wake::TimedOut;
            }
        }
    }

    fn wake(&self, count: u32) -> u32 {
        let mut sleepers = self.sleepers.lock();
        let second = self.idle_wakes.load(std::sync::atomic::Ordering::Relaxed) > 0;
        if second && is_planted(Broken::NoSecondWake) {
            return 0;
        }
        let count = sleepers.asleep.len().min(count as usize);
        let woken: Vec<u64> = sleepers.asleep.drain(..count).collect();
        sleepers.woken.extend(woken);
        self.changed.notify_all();
        if count == 0 {
            self.idle_wakes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        count as u32
    }
}

fn word() -> Modelled {
    Modelled::default()
}

/// A count that only a lock protects.
struct Counted<L> {
    lock: L,
    count: UnsafeCell<u32>,
}

// SAFETY: the lock under test keeps the accesses apart; loom checks that.
unsafe impl<L: Sync> Sync for Counted<L> {}

impl<L> Counted<L> {
    fn new(lock: L) -> Arc<Self> {
        Arc::new(Self { lock, count: UnsafeCell::new(0) })
    }

    fn add(&self) {
        // SAFETY: the caller holds the lock.
        let before = self.count.with(|count| unsafe { *count });
        at_device();
        // SAFETY: as above.
        self.count.with_mut(|count| unsafe { *count = before + 1 });
    }

    fn count(&self) -> u32 {
        // SAFETY: the caller holds the lock, or all other threads have ended.
        self.count.with(|count| unsafe { *count })
    }
}

/// Any time. In models each deadline passes while others run.
fn soon() -> Option<Instant> {
    #[expect(clippy::disallowed_methods, reason = "no model looks at the time")]
    Some(Instant::now())
}

type Step = fn(&RawMutex<Modelled>);

/// Threads that lock a mutex once each, and unlock it as they say.
fn mutex(unlocks: &'static [Step]) {
    let counted = Counted::new(RawMutex::new(word()));
    let lock = move |counted: &Counted<RawMutex<Modelled>>, unlock: Step| {
        assert!(counted.lock.lock(None));
        counted.add();
        unlock(&counted.lock);
    };
    let (first, others) = unlocks.split_first().expect("a model has threads");
    let start = |unlock: &Step| {
        let (counted, unlock) = (Arc::clone(&counted), *unlock);
        spawn(move || lock(&counted, unlock))
    };
    let others: Vec<_> = others.iter().map(start).collect();
    lock(&counted, *first);
    others.into_iter().for_each(|other| other.join().expect("it does not panic"));
    assert_eq!(counted.count(), unlocks.len() as u32);
    assert!(counted.lock.try_lock(), "nobody holds it");
}

pub fn mutex_of_two() {
    mutex(&[RawMutex::unlock, RawMutex::unlock]);
}

pub fn mutex_of_three() {
    mutex(&[RawMutex::unlock, RawMutex::unlock, RawMutex::unlock]);
}

pub fn mutex_handed_over() {
    mutex(&[RawMutex::unlock_fair, RawMutex::unlock_fair]);
}

pub fn mutex_handed_over_of_three() {
    mutex(&[RawMutex::unlock_fair, RawMutex::unlock, RawMutex::unlock_fair]);
}

/// One thread waits for a time only, between two that wait until they have the mutex.
pub fn mutex_with_timeout() {
    let counted = Counted::new(RawMutex::new(word()));
    let timed = {
        let counted = Arc::clone(&counted);
        spawn(move || {
            let is_held = counted.lock.lock(soon());
            if is_held {
                counted.add();
                counted.lock.unlock();
            }
            u32::from(is_held)
        })
    };
    let other = {
        let counted = Arc::clone(&counted);
        spawn(move || {
            counted.lock.lock(None);
            counted.add();
            counted.lock.unlock_fair();
        })
    };
    counted.lock.lock(None);
    counted.add();
    counted.lock.unlock();
    let timed = timed.join().expect("it does not panic");
    other.join().expect("it does not panic");
    assert_eq!(counted.count(), 2 + timed);
}

/// Writers count, and readers see no count that changes under them.
fn rwlock(writers: u32, readers: u32, deadline: Option<Instant>) {
    let counted = Counted::new(RawRwLock::new(word(), word()));
    let write = {
        let counted = Arc::clone(&counted);
        move || {
            assert!(counted.lock.write(None));
            counted.add();
            counted.lock.unlock_write();
        }
    };
    let read = {
        let counted = Arc::clone(&counted);
        move || {
            if counted.lock.read(deadline) {
                let before = counted.count();
                at_device();
                assert_eq!(counted.count(), before, "a writer came in between");
                counted.lock.unlock_read();
            }
        }
    };
    let mut threads: Vec<_> = (1..writers).map(|_| spawn(write.clone())).collect();
    threads.extend((0..readers).map(|_| spawn(read.clone())));
    write();
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    assert_eq!(counted.count(), writers);
    assert!(counted.lock.try_write(), "nobody holds it");
}

pub fn rwlock_of_writers() {
    rwlock(2, 0, None);
}

pub fn rwlock_of_writer_and_reader() {
    rwlock(1, 1, None);
}

pub fn rwlock_of_three() {
    rwlock(1, 2, None);
}

pub fn rwlock_of_two_writers_and_reader() {
    rwlock(2, 1, None);
}

pub fn rwlock_with_timeout() {
    rwlock(1, 1, soon());
}

/// A writer waits for a time only. Readers must get in after the writer has timed out.
pub fn rwlock_writer_with_timeout() {
    let counted = Counted::new(RawRwLock::new(word(), word()));
    let writer = {
        let counted = Arc::clone(&counted);
        spawn(move || {
            if counted.lock.write(soon()) {
                counted.add();
                counted.lock.unlock_write();
            }
        })
    };
    for _ in 0..2 {
        assert!(counted.lock.read(None));
        counted.count();
        counted.lock.unlock_read();
    }
    writer.join().expect("it does not panic");
    assert!(counted.lock.try_write(), "nobody holds it");
}

/// One thread waits for a count, which others reach and notify it of.
fn condvar(adders: u32, is_under_lock: bool) {
    let shared = Arc::new((Counted::new(RawMutex::new(word())), RawCondvar::new(word(), word())));
    let add = move |shared: &(Arc<Counted<RawMutex<Modelled>>>, RawCondvar<Modelled>)| {
        let (counted, condvar) = shared;
        counted.lock.lock(None);
        counted.add();
        if is_under_lock {
            condvar.notify(1);
        }
        counted.lock.unlock();
        if !is_under_lock {
            condvar.notify(1);
        }
    };
    let start = |_| {
        let shared = Arc::clone(&shared);
        spawn(move || add(&shared))
    };
    let adders_run: Vec<_> = (0..adders).map(start).collect();
    let (counted, condvar) = &*shared;
    counted.lock.lock(None);
    while counted.count() < adders {
        condvar.wait(&counted.lock, None);
    }
    counted.lock.unlock();
    adders_run.into_iter().for_each(|adder| adder.join().expect("it does not panic"));
}

pub fn condvar_notified_under_lock() {
    condvar(1, true);
}

pub fn condvar_notified_after() {
    condvar(1, false);
}

pub fn condvar_of_three() {
    condvar(2, false);
}
