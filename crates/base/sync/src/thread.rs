//! Yielding to other threads; and, under a checker, starting them.
//!
//! Outside the checkers threads come from the `environment` crate alone.

#[cfg(not(any(loom, shuttle)))]
pub use std::thread::yield_now;

/// Declares values that each thread has of its own; under shuttle, each thread of the model.
#[cfg(any(loom, not(shuttle)))]
pub use std::thread_local;

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::thread_local;

#[cfg(loom)]
pub use loom::thread::{JoinHandle, yield_now};

/// Starts a thread of the model.
#[cfg(loom)]
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    crate::atomic::prepare_fences();
    let thread = loom::thread::Builder::new().stack_size(STACK_WORDS);
    thread.spawn(work).expect("the checker has a thread left")
}

/// Room on the stack for whole operations of a store, in words.
#[cfg(loom)]
const STACK_WORDS: usize = 64 << 10;

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::thread::{JoinHandle, spawn, yield_now};

/// Says that a device is at work, which takes its time: under shuttle others may run meanwhile, of
/// which it would not think by itself. Unlike [`yield_now`] it does not put the caller behind all
/// others.
#[inline]
pub fn at_device() {
    #[cfg(all(shuttle, not(loom)))]
    crate::atomic::AtomicBool::new(false).load(crate::atomic::Ordering::SeqCst);
}

/// Hints to the processor that the caller spins; under a checker, lets another thread run, because
/// a checker explores no schedule in which a spinning thread waits for luck.
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(any(loom, shuttle))]
    yield_now();
}
