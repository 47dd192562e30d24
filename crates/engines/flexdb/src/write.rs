//! Writing: each step goes into the memtable, under the number that the host gave the write.
//!
//! 1. `admit` asks for room before the host journals the write. `apply` does not refuse what
//!    was journaled.
//! 2. The writer enters the memtable that the state names. If that is full it is sealed first, and
//!    another one takes its place.
//! 3. Each step adds a version, all of a write to one memtable, so that no commit has a part of it.
//!    If several steps have one key, the last one counts, and is the only one added, since they
//!    share a number.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, Op, Result, last_of_each_key};

use crate::memtable::Memtable;
use crate::pressure::Before;
use crate::store::Shared;

impl Shared {
    /// Returns an error if `ops` may not be written. Waits for commits while memtables would take
    /// more than their share with them.
    pub(crate) fn admit(self: &Arc<Self>, ops: &[Op<'_>]) -> Result<()> {
        let before = self.check_admission(ops)?;
        self.keep_pace(before);
        self.wait_for_room(self.memtables_max(before), false)
    }

    /// The same without waiting: returns `false` if it would wait.
    pub(crate) fn admit_at_once(&self, ops: &[Op<'_>]) -> Result<bool> {
        let before = self.check_admission(ops)?;
        Ok(self.is_in_pace(before) && self.has_room(self.memtables_max(before)))
    }

    /// The same without waiting, also when they are applied.
    pub(crate) fn try_admit(&self, ops: &[Op<'_>]) -> Result<bool> {
        self.check_admission(ops)?;
        Ok(self.takes_at_once(ops.len(), ops.iter().map(|op| op.bytes() as u64).sum()))
    }

    /// Returns the bytes of a write, and the bytes that it may take more than others. Refuses a
    /// write that is never accepted.
    fn check_admission(&self, ops: &[Op<'_>]) -> Result<Before> {
        self.health.check_writable()?;
        check_ranges(ops)?;
        let limit = self.host.memory.limit();
        let bytes: u64 = ops.iter().map(bytes_of).sum();
        if bytes > limit {
            return Err(Error::WriteTooLarge { bytes, limit });
        }
        // If a commit was refused for lack of room, deletes may make some.
        let is_delete = ops.iter().all(|op| op.value().is_none());
        let more = if is_delete { self.memory_split().memtable_bytes } else { 0 };
        Ok(Before { bytes, more })
    }

    /// Returns the bytes that memtables may take before that is written.
    fn memtables_max(&self, Before { bytes, more }: Before) -> u64 {
        (self.memory_split().memtables_bytes + more).saturating_sub(bytes)
    }

    /// Applies the steps of one write.
    pub(crate) fn apply(self: &Arc<Self>, ops: &[Op<'_>], seqno: SeqNo) -> Result<()> {
        self.health.check_writable()?;
        check_ranges(ops)?;
        ops.iter().try_for_each(Op::check)?;
        if ops.is_empty() || self.was_applied(seqno) {
            return Ok(());
        }
        // Only so that memory does not grow forever: a journaled write is not refused because a
        // commit has failed, now or some time ago.
        let _ = self.wait_for_room(self.memory_split().memtables_bytes.saturating_mul(2), true);
        self.health.check_writable()?;
        self.insert(last_of_each_key(ops), seqno)?;
        self.family.note_applied(seqno);
        self.wake_looks();
        Ok(())
    }

    /// Whether a write comes a second time. A replay comes in order, and begins above what is
    /// persisted; so what is finished, and below a write that was applied, was applied before.
    fn was_applied(&self, seqno: SeqNo) -> bool {
        seqno <= self.persisted()
            || seqno <= self.host.sequence.visible() && seqno < self.family.applied()
    }

    /// Adds versions to the memtable that the state names: all of them to one, so that a commit has
    /// the whole of a write.
    fn insert<'a, 'b: 'a>(
        self: &Arc<Self>,
        ops: impl Iterator<Item = &'a Op<'b>>,
        seqno: SeqNo,
    ) -> Result<()> {
        let memtable_bytes = self.memory_split().memtable_bytes;
        loop {
            let state = self.state.load();
            self.health.check_open()?;
            let Some(state) = &*state else { return Err(Error::Closed) };
            if state.active.bytes() >= memtable_bytes {
                self.seal(&Arc::clone(&state.active));
                continue;
            }
            // If it was sealed meanwhile, the state has another one now.
            if let Some(entered) = state.active.enter() {
                let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
                ops.for_each(|op| entered.put(op, seqno, &is_seen));
                return Ok(());
            }
        }
    }

    /// Puts an empty memtable in the place of `full`, if that is written to, and has it committed.
    pub(crate) fn seal(self: &Arc<Self>, full: &Arc<Memtable>) {
        let install = self.install.lock();
        let state = self.state.load_full();
        // Read before the new memtable is named: a writer to it holds a number above this.
        let visible = self.host.sequence.visible();
        if let Some(state) = state.filter(|state| state.active.id() == full.id()) {
            let next = state.with_active(full.successor(visible));
            self.state.store(Some(Arc::new(next)));
        }
        drop(install);
        full.seal();
        self.schedule_commit(u64::MAX);
    }
}

/// Refuses to delete ranges.
fn check_ranges(ops: &[Op<'_>]) -> Result<()> {
    match ops.iter().any(Op::is_range) {
        true => Err(Error::NoRangeDeletes { engine: "flexdb" }),
        false => Ok(()),
    }
}

fn bytes_of(op: &Op<'_>) -> u64 {
    (op.key().len() + op.value().map_or(0, <[u8]>::len)) as u64
}
