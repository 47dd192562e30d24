//! The debt of writers, and their queue.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use engine::{Error, Result};
use environment::{Environment, LongWaits, WaitCounts};
use sync::{Condvar, Mutex, MutexGuard};
use workers::{Group, WaitError};

/// The largest debt. More would be paid long after the work has caught up.
const DEBT_NANOS_MAX: u64 = 1_000_000_000;
/// The longest wait before another look at the work.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of which a write owes a number of nanoseconds each.
const UNIT_BYTES: u64 = 1024;

/// How an engine has its debt paid.
#[derive(Clone, Copy, Debug)]
pub struct DebtPolicy {
    /// A smaller debt is not paid yet: shorter waits cost more than they slow down.
    pub debt_min: Duration,
    /// The most that one write pays. Later writes pay the rest.
    pub payment_max: Duration,
    /// If one writer pays at a time: how long another one waits for its turn. If that ends, it does
    /// not pay.
    pub turn_max: Option<Duration>,
}

impl DebtPolicy {
    /// No write pays: its engine slows writers down by other means.
    pub const NONE: Self =
        Self { debt_min: Duration::MAX, payment_max: Duration::ZERO, turn_max: None };

    /// Each writer pays its own debt: from a millisecond on, up to a second in one write.
    pub const EACH_WRITER: Self = Self {
        debt_min: Duration::from_millis(1),
        payment_max: Duration::from_secs(1),
        turn_max: None,
    };
}

/// The waits of the writers of one store.
pub struct WriteController {
    pace: DebtPolicy,
    debt_nanos: AtomicU64,
    /// Held by the writer that pays, if one pays at a time.
    turn: Mutex<()>,
    waiting: Mutex<()>,
    woken: Condvar,
    /// Held by the first of the writers that wait for room.
    queue: Mutex<()>,
    /// Writers that wait for room. A writer is counted before it looks for room, and a thread that
    /// returns room looks at this afterwards, all sequentially consistent: so either the writer
    /// finds the room, or the thread finds the writer.
    queued: AtomicU64,
    stalls: AtomicU64,
    slowed_nanos: AtomicU64,
    environment: Environment,
    room_waits: LongWaits,
    slow_waits: LongWaits,
}

impl WriteController {
    /// Returns a controller without debt.
    pub fn new(pace: DebtPolicy, environment: &Environment) -> Self {
        Self {
            environment: environment.clone(),
            room_waits: LongWaits::default(),
            slow_waits: LongWaits::default(),
            pace,
            debt_nanos: AtomicU64::new(0),
            turn: Mutex::new(()),
            waiting: Mutex::new(()),
            woken: Condvar::new(),
            queue: Mutex::new(()),
            queued: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            slowed_nanos: AtomicU64::new(0),
        }
    }

    /// Returns the long waits of writers, with the engine's names for their causes: for `room`, and
    /// for work that is `behind`.
    pub fn long_waits(
        &self,
        room: &'static str,
        behind: &'static str,
    ) -> [(&'static str, WaitCounts); 2] {
        [(room, self.room_waits.counts()), (behind, self.slow_waits.counts())]
    }

    /// Does `wait`, a wait of a writer for room, and counts it if it takes long.
    pub fn time_room<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.room_waits.time(&self.environment, wait)
    }

    /// Returns how many writes have waited for room.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    /// Returns the time in nanoseconds for which writes were slowed down.
    pub fn slowed_nanos(&self) -> u64 {
        self.slowed_nanos.load(Relaxed)
    }

    /// Returns the debt that was not paid yet, in nanoseconds.
    pub fn debt_nanos(&self) -> u64 {
        self.debt_nanos.load(Relaxed)
    }

    /// Adds the debt of a write of `bytes` at `delay` nanoseconds for each KiB, and pays a part of
    /// the whole debt by a wait. It ends early once `delay` returns 0.
    pub fn delay(&self, bytes: u64, delay: impl Fn() -> u64) {
        let now = delay();
        if now == 0 {
            return;
        }
        let nanos = (u128::from(bytes) * u128::from(now)).div_ceil(u128::from(UNIT_BYTES));
        let nanos = nanos.min(u128::from(DEBT_NANOS_MAX)) as u64;
        let more = |debt: u64| (debt + nanos).min(DEBT_NANOS_MAX);
        if more(self.change_debt(more)) < self.pace.debt_min.as_nanos() as u64 {
            return;
        }
        self.slow_waits.time(&self.environment, || self.pay_in_turn(delay));
    }

    /// Pays a part of the debt, one writer at a time if the policy says so.
    fn pay_in_turn(&self, delay: impl Fn() -> u64) {
        let Some(most) = self.pace.turn_max else { return self.pay(delay) };
        let Some(turn) = self.turn.try_lock_for(most) else { return };
        self.pay(delay);
        // This writer runs, so without a hand-over it would take each turn before the writers that
        // sleep.
        MutexGuard::unlock_fair(turn);
    }

    /// Pays a part of the debt.
    fn pay(&self, delay: impl Fn() -> u64) {
        let most = self.pace.payment_max.as_nanos() as u64;
        let payment = self.change_debt(|debt| debt.saturating_sub(most)).min(most);
        let mut left = Duration::from_nanos(payment);
        let mut waiting = self.waiting.lock();
        while !left.is_zero() && delay() > 0 {
            let part = left.min(LOOK);
            self.slowed_nanos.fetch_add(part.as_nanos() as u64, Relaxed);
            self.woken.wait_for(&mut waiting, part);
            left -= part;
        }
    }

    /// Changes the debt, and returns what it was before.
    fn change_debt(&self, change: impl Fn(u64) -> u64) -> u64 {
        let changed = self.debt_nanos.fetch_update(Relaxed, Relaxed, |debt| Some(change(debt)));
        changed.unwrap_or_else(|debt| debt)
    }

    /// Has writers that pay look again at the work, of which a part is done.
    pub fn wake(&self) {
        // A writer that is about to wait looks under this lock.
        drop(self.waiting.lock());
        self.woken.notify_all();
    }

    /// Forgets the debt: the work is not behind any more.
    pub fn forgive(&self) {
        self.debt_nanos.store(0, Relaxed);
        self.wake();
    }

    /// Waits for a moment, whatever the debt is.
    pub fn pause(&self, moment: Duration) {
        self.woken.wait_for(&mut self.waiting.lock(), moment);
    }

    /// Returns whether a writer waits for room. Others must not take it first.
    fn has_queue(&self) -> bool {
        self.queued.load(SeqCst) > 0
    }

    /// Returns the result of `attempt`, which looks for room, unless a writer in the queue has to
    /// get it first. A failed attempt may have counted as a reservation for a moment, and kept a
    /// writer in the queue from its room: that one looks again.
    pub fn try_beside_queue<T>(
        &self,
        group: &Group,
        attempt: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        if self.has_queue() {
            return None;
        }
        let found = attempt();
        if found.is_none() {
            self.note_returned(group);
        }
        found
    }

    /// Returns the result of `attempt`, which may grant room that only one writer gets, unless
    /// another thread makes such an attempt.
    pub fn try_first<T>(&self, attempt: impl FnOnce() -> Option<T>) -> Option<T> {
        let turn = self.queue.try_lock()?;
        let found = attempt();
        drop(turn);
        found
    }

    /// Has the writer in the queue look again, if there is one: room has returned.
    pub fn note_returned(&self, group: &Group) {
        if self.has_queue() {
            group.note_progress();
        }
    }

    /// Waits for its turn in the queue, and then until `attempt` returns something. It is called
    /// immediately, and after each task of the pool and each [`Group::note_progress`].
    ///
    /// # Errors
    /// Those of `attempt`; [`Error::Closed`] once the group is stopped.
    ///
    /// # Panics
    /// If a task of the group has panicked: that is an error of the engine, which is reported with
    /// its text.
    pub fn wait_for_room<T>(
        &self,
        group: &Group,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.stalls.fetch_add(1, Relaxed);
        let _queued = Queued::new(&self.queued);
        let turn = self.queue.lock();
        let mut found = None;
        let waited = group.wait_until(|| {
            found = attempt().transpose();
            found.is_some()
        });
        MutexGuard::unlock_fair(turn);
        match (found, waited) {
            (Some(found), _) => found,
            (None, Err(WaitError::Panicked(panic))) => panic!("{panic}"),
            (None, Err(WaitError::Stopped(_)) | Ok(())) => Err(Error::Closed),
        }
    }
}

/// A writer in the queue. Dropping it takes the writer out.
struct Queued<'a>(&'a AtomicU64);

impl<'a> Queued<'a> {
    fn new(queued: &'a AtomicU64) -> Self {
        queued.fetch_add(1, SeqCst);
        Self(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for WriteController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteController").field("pace", &self.pace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PACE: DebtPolicy = DebtPolicy {
        debt_min: Duration::from_millis(1),
        payment_max: Duration::from_millis(2),
        turn_max: Some(Duration::from_millis(90)),
    };

    #[test]
    fn a_debt_is_paid_once_it_is_large_enough_and_in_parts() {
        let controller = WriteController::new(PACE, &Environment::real());
        let delay = || 100_000;
        controller.delay(9 * 1024, delay);
        assert_eq!((controller.debt_nanos(), controller.slowed_nanos()), (900_000, 0));
        // 4.1 ms in all, of which one write pays 2.
        controller.delay(32 * 1024, delay);
        assert_eq!((controller.debt_nanos(), controller.slowed_nanos()), (2_100_000, 2_000_000));
        controller.delay(1, || 0);
        assert_eq!(controller.slowed_nanos(), 2_000_000, "nothing is owed for nothing");
        controller.forgive();
        assert_eq!(controller.debt_nanos(), 0);
    }

    /// A debt that a writer does not pay stays, and does not grow without end.
    #[test]
    fn a_writer_that_does_not_get_its_turn_leaves_the_debt() {
        let pace = DebtPolicy { turn_max: Some(Duration::from_millis(1)), ..PACE };
        let controller = WriteController::new(pace, &Environment::real());
        let turn = controller.turn.lock();
        for _ in 0..3 {
            controller.delay(1024, || u64::MAX / 2);
            assert_eq!((controller.debt_nanos(), controller.slowed_nanos()), (DEBT_NANOS_MAX, 0));
        }
        drop(turn);
        controller.delay(0, || 1);
        assert_eq!(controller.debt_nanos(), DEBT_NANOS_MAX - 2_000_000, "a part is paid");
    }

    #[test]
    fn a_payment_ends_with_the_delay() {
        let pace = DebtPolicy { payment_max: Duration::from_secs(1), turn_max: None, ..PACE };
        let controller = WriteController::new(pace, &Environment::real());
        let looks = Cell::new(0);
        // The delay, the first look of the payment, and the one that ends it.
        let delay = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { DEBT_NANOS_MAX } else { 0 }
        };
        controller.delay(u64::MAX, delay);
        assert_eq!((looks.get(), controller.debt_nanos()), (3, 0));
        assert_eq!(controller.slowed_nanos(), LOOK.as_nanos() as u64);
    }
}
