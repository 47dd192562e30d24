//! Waiting for another thread that is in the middle of a few instructions.

use sync::thread::{spin_loop, yield_now};

/// Looks after which the other thread has probably lost its processor.
const SPINS_MAX: u32 = 64;

/// The length of one wait so far.
pub(crate) struct SpinWait(u32);

impl SpinWait {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    /// Lets some time pass.
    pub(crate) fn wait(&mut self) {
        if self.0 < SPINS_MAX && cfg!(not(any(loom, shuttle))) {
            self.0 += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }
}
