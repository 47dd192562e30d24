//! A cell whose accesses loom checks for races.

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

#[cfg(not(loom))]
pub use plain::UnsafeCell;

#[cfg(not(loom))]
mod plain {
    /// The standard library's `UnsafeCell`, with access by closure so that loom can see where it
    /// begins and ends.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `read` with a pointer to the value. The caller may dereference it only if no
        /// thread writes meanwhile.
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get().cast_const())
        }

        /// Calls `write` with a pointer to the value. The caller may dereference it only if no
        /// other thread reads or writes meanwhile.
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }

        /// The value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}
