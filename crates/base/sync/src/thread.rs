//! Yielding to other threads; and, under a checker, starting them.
//!
//! Outside the checkers threads come from the `environment` crate alone.

/// Lets other threads run: of the calling thread's simulation, or of the processor.
#[cfg(not(any(loom, shuttle)))]
pub fn yield_now() {
    if !crate::scheduler::yield_now() {
        std::thread::yield_now();
    }
}

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

/// Hints to the processor that the caller spins. Under a checker and in a simulation it lets
/// another thread run: both run one thread at a time, so a spinning thread would spin forever.
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    {
        if !crate::scheduler::yield_now() {
            std::hint::spin_loop();
        }
    }
    #[cfg(any(loom, shuttle))]
    yield_now();
}
