//! The checkpointer of a space, and the facts about it that need no lock.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::{Mutex, MutexGuard};

use super::checkpoint::Checkpointer;

/// The checkpointer: one checkpoint at a time.
#[derive(Debug)]
pub(super) struct Checkpoints {
    checkpointer: Mutex<Checkpointer>,
    /// Whether a checkpoint is under way.
    storing: AtomicBool,
    /// Bytes of memory of the places of nodes in the tree file.
    place_bytes: Arc<AtomicU64>,
}

impl Checkpoints {
    pub(super) fn new(checkpointer: Checkpointer) -> Self {
        let place_bytes = Arc::clone(checkpointer.nodes.memory_bytes());
        let storing = AtomicBool::new(false);
        Self { checkpointer: Mutex::new(checkpointer), storing, place_bytes }
    }

    /// Waits for the checkpoint that is under way.
    pub(super) fn lock(&self) -> MutexGuard<'_, Checkpointer> {
        self.checkpointer.lock()
    }

    /// Returns `None` if a thread has the checkpointer.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Checkpointer>> {
        self.checkpointer.try_lock()
    }

    /// Returns whether a checkpoint is under way.
    pub(super) fn is_storing(&self) -> bool {
        self.storing.load(Relaxed)
    }

    /// Does a checkpoint. The caller holds the lock.
    pub(super) fn store<T>(&self, checkpoint: impl FnOnce() -> T) -> T {
        self.storing.store(true, Relaxed);
        let stored = checkpoint();
        self.storing.store(false, Relaxed);
        stored
    }

    /// Returns the bytes of memory of the places of nodes in the tree file, without the lock.
    pub(super) fn place_bytes(&self) -> u64 {
        self.place_bytes.load(Relaxed)
    }
}
