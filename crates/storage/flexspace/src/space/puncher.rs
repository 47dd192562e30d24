//! The turn of the thread that releases the room of freed segments.

use sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::{Mutex, MutexGuard};

/// The turn: one thread releases room for all.
#[derive(Debug)]
pub(super) struct Puncher {
    /// Held by the one thread that releases room.
    turn: Mutex<()>,
    is_punching: AtomicBool,
}

impl Puncher {
    pub(super) fn new() -> Self {
        Self { turn: Mutex::new(()), is_punching: AtomicBool::new(false) }
    }

    /// Waits for the thread that has the turn.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Does `work` unless another thread does such work; then returns `None`.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if self.is_punching.swap(true, Relaxed) {
            return None;
        }
        let done = work();
        self.is_punching.store(false, Relaxed);
        Some(done)
    }
}
