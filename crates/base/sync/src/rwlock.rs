//! The reader-writer lock that a model sees. In an ordinary build it is that of [`crate::locks`].

#[cfg(not(any(loom, shuttle)))]
pub use crate::locks::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(any(loom, shuttle))]
pub use modelled::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(any(loom, shuttle))]
mod modelled {
    use std::fmt;

    #[cfg(loom)]
    use loom::sync as checker;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle::sync as checker;

    pub use checker::{RwLockReadGuard, RwLockWriteGuard};

    const UNPOISONED: &str = "a model that panicked has ended";

    /// The checker's reader-writer lock.
    #[derive(Default)]
    pub struct RwLock<T>(checker::RwLock<T>);

    impl<T> RwLock<T> {
        /// A lock around `value`.
        pub fn new(value: T) -> Self {
            Self(checker::RwLock::new(value))
        }

        /// Blocks until no thread has it exclusively, and shares it.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(UNPOISONED)
        }

        /// Blocks until no thread has it, and takes it exclusively.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(UNPOISONED)
        }
    }

    impl<T> fmt::Debug for RwLock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("RwLock")
        }
    }
}
