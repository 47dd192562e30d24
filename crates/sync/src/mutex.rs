//! Mutex and condition variable with `parking_lot`'s interface: a guard without poisoning.

#[cfg(not(any(loom, shuttle)))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};

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
    const HELD: &str = "only a wait takes the guard's lock away, and it brings it back";

    /// The checker's mutex.
    #[derive(Default)]
    pub struct Mutex<T>(checker::Mutex<T>);

    /// Holds a [`Mutex`] locked.
    pub struct MutexGuard<'a, T>(Option<checker::MutexGuard<'a, T>>);

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
            MutexGuard(Some(self.0.lock().expect(UNPOISONED)))
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Mutex")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect(HELD)
        }
    }

    impl Condvar {
        /// A condition variable.
        pub fn new() -> Self {
            Self(checker::Condvar::new())
        }

        /// Releases the mutex, waits to be notified, and takes it again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect(HELD);
            guard.0 = Some(self.0.wait(held).expect(UNPOISONED));
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
