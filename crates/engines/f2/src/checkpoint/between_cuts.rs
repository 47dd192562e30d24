//! The moment of a checkpoint between two cuts, in which a test does the work of other threads.

/// Called when the chunk log is cut and the cold log is not. Only tests do anything here.
#[cfg(any(loom, shuttle, not(test)))]
#[inline]
pub(super) const fn between_cuts() {}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use in_tests::{between_cuts, meanwhile_between_cuts};

#[cfg(all(test, not(any(loom, shuttle))))]
mod in_tests {
    use std::cell::Cell;

    /// Work that is done once.
    type Work = Option<Box<dyn FnOnce()>>;

    thread_local! {
        static WORK: Cell<Work> = const { Cell::new(None) };
    }

    /// Lets this thread do `work` once, between two cuts of a checkpoint.
    pub(crate) fn meanwhile_between_cuts(work: impl FnOnce() + 'static) {
        WORK.set(Some(Box::new(work)));
    }

    /// Does the work of this thread.
    pub(crate) fn between_cuts() {
        if let Some(work) = WORK.take() {
            work();
        }
    }
}
