//! The mutex and the condition variable that a model sees.
//!
//! In an ordinary build they are those of [`crate::locks`].

#[cfg(not(any(loom, shuttle)))]
pub use crate::locks::{Condvar, Mutex, MutexGuard};

#[cfg(any(loom, shuttle))]
pub use modelled::{Condvar, Mutex, MutexGuard};

#[cfg(any(loom, shuttle))]
mod modelled {
    use std::fmt;
    use std::ops::{Deref, DerefMut};

    #[cfg(loom)]
    use loom::sync as checker;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle::sync as checker;

    const UNPOISONED: &str = "a model that panicked has ended";
    const HELD: &str = "only a wait or `unlocked` takes the lock away, and brings it back";

    /// The checker's mutex.
    #[derive(Default)]
    pub struct Mutex<T>(checker::Mutex<T>);

    /// Holds a [`Mutex`] locked.
    pub struct MutexGuard<'a, T> {
        mutex: &'a checker::Mutex<T>,
        held: Option<checker::MutexGuard<'a, T>>,
    }

    /// The checker's condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(checker::Condvar);

    impl<T> Mutex<T> {
        /// A mutex around `value`.
        pub fn new(value: T) -> Self {
            Self(checker::Mutex::new(value))
        }

        /// Blocks until the mutex is free, and takes it.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard { mutex: &self.0, held: Some(self.0.lock().expect(UNPOISONED)) }
        }

        /// Takes the mutex if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            Some(MutexGuard { mutex: &self.0, held: Some(self.0.try_lock().ok()?) })
        }

        /// The same. A checker has no time: it passes immediately.
        pub fn try_lock_for(&self, _time: std::time::Duration) -> Option<MutexGuard<'_, T>> {
            self.try_lock()
        }
    }

    impl<T> MutexGuard<'_, T> {
        /// Releases the mutex. A checker decides which thread has it next.
        pub fn unlock_fair(guard: Self) {
            drop(guard);
        }

        /// Releases the mutex, works, and takes it again.
        pub fn unlocked<U>(guard: &mut Self, work: impl FnOnce() -> U) -> U {
            guard.held = None;
            // `work` may do nothing that the checker sees; others must get to run before it.
            crate::thread::yield_now();
            let result = work();
            guard.held = Some(guard.mutex.lock().expect(UNPOISONED));
            result
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Mutex")
        }
    }

    impl<T> fmt::Debug for MutexGuard<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("MutexGuard")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.held.as_ref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect(HELD)
        }
    }

    impl Condvar {
        /// A condition variable.
        pub fn new() -> Self {
            Self(checker::Condvar::new())
        }

        /// Releases the mutex, waits to be notified, and takes it again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect(HELD);
            guard.held = Some(self.0.wait(held).expect(UNPOISONED));
        }

        /// Releases the mutex, waits to be notified or for a time to pass, and takes it again. A
        /// checker has no time: it passes immediately.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: std::time::Duration) {
            MutexGuard::unlocked(guard, || ());
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
