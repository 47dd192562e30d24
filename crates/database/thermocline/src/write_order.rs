//! The one order of all writes: their numbers, and the state that readers of an earlier number
//! depend on.

use std::sync::Arc;
use std::time::Duration;

use codec::SeqNo;
use engine::{Op, RecentWrites, Sequence, Ticket, Watch};
use environment::{Environment, LongWaits, WaitCounts};

use crate::keyspace_entry::KeyspaceInstance;
use crate::snapshot_ages::SnapshotAges;
use crate::write::Part;

/// Part of the memory for keys that are written while transactions are open: one divided by this.
const RECENT_WRITES_PART: u64 = 64;

/// The numbers of writes, the numbers that snapshots pin, and notes for open transactions.
pub(crate) struct WriteOrder {
    pub(crate) sequence: Arc<Sequence>,
    /// Notes of recent writes, which open transactions check.
    pub(crate) recent: Arc<RecentWrites>,
    /// Long waits of writers for a number.
    number_waits: LongWaits,
    /// Long waits of writers until their writes are durable.
    pub(crate) durable_waits: LongWaits,
    snapshot_ages: SnapshotAges,
}

impl WriteOrder {
    pub(crate) fn new(sequence: Arc<Sequence>, memory_bytes: u64) -> Self {
        Self {
            sequence,
            recent: Arc::new(RecentWrites::new(memory_bytes / RECENT_WRITES_PART)),
            number_waits: LongWaits::default(),
            durable_waits: LongWaits::default(),
            snapshot_ages: SnapshotAges::default(),
        }
    }

    /// Takes the next number. Waits while too many writes have not ended.
    pub(crate) fn begin(&self, environment: &Environment) -> Ticket<'_> {
        let wait = || self.number_waits.time(environment, || self.sequence.begin());
        self.sequence.try_begin().unwrap_or_else(wait)
    }

    /// Waits until the number that is the next one now may be taken.
    pub(crate) fn wait_for_number(&self, environment: &Environment) {
        self.number_waits.time(environment, || self.sequence.wait_for_room());
    }

    /// Returns the long waits of writers: for a number, and until their writes were durable.
    pub(crate) fn long_waits(&self) -> (WaitCounts, WaitCounts) {
        (self.number_waits.counts(), self.durable_waits.counts())
    }

    /// Has writes noted from now on, for a transaction.
    pub(crate) fn watch(&self) -> Watch {
        self.recent.watch(&self.sequence)
    }

    /// Returns for how long the oldest snapshot or scan is held, at least.
    pub(crate) fn oldest_snapshot_age(&self, environment: &Environment) -> Option<Duration> {
        self.snapshot_ages.look(self.sequence.pins(), environment.now())
    }

    /// Notes for open transactions the keys that are about to be written under a number: nothing of
    /// the write may be applied yet.
    #[inline]
    pub(crate) fn note(&self, parts: &[Part<'_>], seqno: SeqNo) {
        if self.recent.is_watched() {
            parts.iter().for_each(|part| self.note_steps(part.instance, part.ops, seqno));
        }
    }

    /// The same for a write to one engine.
    #[inline]
    pub(crate) fn note_write(&self, instance: &KeyspaceInstance, ops: &[Op<'_>], seqno: SeqNo) {
        if self.recent.is_watched() {
            self.note_steps(instance, ops, seqno);
        }
    }

    #[cold]
    fn note_steps(&self, instance: &KeyspaceInstance, ops: &[Op<'_>], seqno: SeqNo) {
        let recent = &self.recent;
        for op in ops {
            match op {
                Op::DeleteRange { start, end } => {
                    recent.note_range(instance.id, start, *end, seqno);
                }
                op => recent.note(instance.id, op.key(), seqno),
            }
        }
    }
}
