//! The writes of a store, from their admission until they are in the space.

use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Release};

use admission::{Attempts, DebtPolicy, WriteController};
use codec::SeqNo;
use environment::Environment;
use memtable::MemtableSet;
use sync::atomic::{AtomicBool, AtomicU64};
use workers::Group;

use crate::commit_steps::{CommitSteps, Stepping};
use crate::memtable::Batch;

/// The memtables, the waits of writers for room in them, and the commits that writers wait for.
/// Nothing slows writers down but the steps of commits.
pub(crate) struct Writes {
    pub(crate) memtables: Arc<MemtableSet>,
    pub(crate) writers: WriteController,
    /// Commits in the background.
    pub(crate) commits: Attempts,
    pub(crate) steps: CommitSteps,
    pub(crate) is_commit_queued: AtomicBool,
    /// Everything up to this is in the space, durably.
    persisted: AtomicU64,
}

impl Writes {
    pub(crate) fn new(
        memtables: Arc<MemtableSet>,
        persisted: SeqNo,
        environment: &Environment,
    ) -> Self {
        Self {
            memtables,
            writers: WriteController::new(DebtPolicy::NONE, environment),
            commits: Attempts::default(),
            steps: CommitSteps::default(),
            is_commit_queued: AtomicBool::new(false),
            persisted: AtomicU64::new(persisted.get()),
        }
    }

    /// Bytes that memtables take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memtables.memory().bytes()
    }

    /// Begins the steps of a commit, with which writers may fill the memtables up to their share.
    pub(crate) fn begin_steps<'a>(
        &'a self,
        batch: &Batch,
        share_bytes: u64,
        group: &'a Group,
    ) -> Stepping<'a> {
        let versions = batch.memtables().iter().map(|memtable| memtable.len() as u64).sum();
        self.steps.begin(group, versions, self.memory_bytes(), share_bytes)
    }

    /// Everything up to this is in the space, durably.
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// Notes that everything up to `seqno` is in the space, durably.
    pub(crate) fn note_persisted(&self, seqno: SeqNo) {
        self.persisted.fetch_max(seqno.get(), Release);
    }
}
