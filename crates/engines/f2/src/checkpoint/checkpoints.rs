//! The state of a store's checkpoints.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use engine::SeqNo;
use sync::Mutex;
use sync::locks::RwLock;

use super::{Checkpoint, CheckpointGate, Checkpointer, Committed, Marks, OwedRelease};
use crate::store::Recovery;

/// The checkpoints of a store: the newest one, and the state that makes the next one.
pub(crate) struct Checkpoints {
    /// One checkpoint at a time.
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) gate: CheckpointGate,
    pub(crate) marks: Marks,
    pub(crate) owed_release: OwedRelease,
    /// Everything up to this is in the checkpoint that the superblock names.
    persisted: AtomicU64,
    /// The checkpoint that was committed last.
    newest: RwLock<Checkpoint>,
    pub(crate) recovery: Recovery,
}

impl Checkpoints {
    /// Returns the checkpoints of a store that is opened with `committed`, which `checkpointer` has
    /// too.
    pub(crate) fn new(
        checkpointer: Checkpointer,
        committed: &Committed,
        recovery: Recovery,
    ) -> Self {
        Self {
            checkpointer: Mutex::new(checkpointer),
            gate: CheckpointGate::default(),
            marks: Marks::default(),
            owed_release: OwedRelease::default(),
            persisted: AtomicU64::new(committed.persisted.get()),
            newest: RwLock::new(committed.checkpoint()),
            recovery,
        }
    }

    /// Returns the number up to which every write is in the newest checkpoint.
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// Returns the checkpoint that was committed last.
    pub(crate) fn newest(&self) -> Checkpoint {
        *self.newest.read()
    }

    /// Notes that the superblock names `committed`.
    pub(super) fn note_committed(&self, committed: &Committed) {
        self.persisted.store(committed.persisted.get(), Release);
        *self.newest.write() = committed.checkpoint();
    }
}
