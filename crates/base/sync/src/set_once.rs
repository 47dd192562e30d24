//! A place for one value that is set at most once and then stays.
//!
//! The standard library's `OnceLock` does the same, but a checker cannot see into it.
//!
//! # Concurrency
//! Setting publishes the value with release; getting acquires it.
#![expect(unsafe_code, reason = "the value is reached through an atomic pointer")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::atomic::{AtomicPtr, Ordering};

/// Set by one thread, read by all, never waiting for anyone.
///
/// ```
/// let place = thermocline_sync::SetOnce::new();
/// assert_eq!(place.get(), None);
/// assert_eq!(place.get_or_set(1), &1);
/// assert_eq!(place.get_or_set(2), &1);
/// ```
pub struct SetOnce<T> {
    /// Null, or from `Box::into_raw` and owned by this.
    value: AtomicPtr<T>,
    owns: PhantomData<T>,
}

// SAFETY: threads that share it share `&T`, and any of them may bring the value or drop it.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// An empty place.
    pub fn new() -> Self {
        Self { value: AtomicPtr::new(null_mut()), owns: PhantomData }
    }

    /// The value, if it was set.
    pub fn get(&self) -> Option<&T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: null, or a value that was published with release, is not written any more, and
        // lives until `self` is dropped.
        unsafe { value.as_ref() }
    }

    /// Returns the value that another thread has set, or else sets `value` and returns it.
    pub fn get_or_set(&self, value: T) -> &T {
        let ours = Box::into_raw(Box::new(value));
        let order = (Ordering::Release, Ordering::Acquire);
        match self.value.compare_exchange(null_mut(), ours, order.0, order.1) {
            Ok(_) => {
                // SAFETY: just published, as in `get`.
                unsafe { &*ours }
            }
            Err(theirs) => {
                // SAFETY: from `Box::into_raw` above, and never published.
                drop(unsafe { Box::from_raw(ours) });
                // SAFETY: as in `get`; the failed exchange acquired it.
                unsafe { &*theirs }
            }
        }
    }

    /// Sets the value; gives it back if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let ours = Box::into_raw(Box::new(value));
        let order = (Ordering::Release, Ordering::Relaxed);
        match self.value.compare_exchange(null_mut(), ours, order.0, order.1) {
            Ok(_) => Ok(()),
            // SAFETY: from `Box::into_raw` above, and never published.
            Err(_) => Err(*unsafe { Box::from_raw(ours) }),
        }
    }

    /// Takes the value out, if it was set; the place is empty again.
    pub fn take(&mut self) -> Option<T> {
        // The thread that takes it has it alone, after everyone else's accesses.
        let value = self.value.swap(null_mut(), Ordering::Acquire);
        // SAFETY: from `Box::into_raw` unless it is null, and there is no borrow of `self`.
        (!value.is_null()).then(|| *unsafe { Box::from_raw(value) })
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}
