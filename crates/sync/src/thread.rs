//! Giving way to other threads; and, under a checker, starting them.
//!
//! Outside the checkers threads come from the `environment` crate alone.

#[cfg(not(any(loom, shuttle)))]
pub use std::thread::yield_now;

#[cfg(loom)]
pub use loom::thread::{JoinHandle, yield_now};

/// Starts a thread of the model.
#[cfg(loom)]
pub fn spawn<T: 'static>(work: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    crate::atomic::prepare_fences();
    loom::thread::spawn(work)
}

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::thread::{JoinHandle, spawn, yield_now};

/// Tells the processor that the caller spins; under a checker, lets another thread run, because a
/// checker explores no schedule in which a spinning thread waits for luck.
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(any(loom, shuttle))]
    yield_now();
}
