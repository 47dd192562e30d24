//! Writing: each step goes into the memtable, under the number that the host gave the write.
//!
//! 1. A write reserves memory before the host journals it (`admission.rs`). `apply` waits for
//!    nothing, and does not refuse a write that was journaled.
//! 2. The writer enters the memtable that the state names. If that is full it is sealed first, and
//!    another one takes its place.
//! 3. Each step adds a version, all of a write to one memtable, so that no commit has a part of it.
//!    If several steps have one key, the last one counts, and is the only one added, since they
//!    share a number.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, Op, Reservation, Result, last_of_each_key};

use crate::memtable::Memtable;
use crate::store::Shared;

impl Shared {
    /// Applies the steps of one write.
    pub(crate) fn apply(
        self: &Arc<Self>,
        ops: &[Op<'_>],
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<()> {
        self.health.check_writable()?;
        check_ranges(ops)?;
        ops.iter().try_for_each(Op::check)?;
        if ops.is_empty() || self.was_applied(seqno) {
            return Ok(());
        }
        self.insert(last_of_each_key(ops), seqno, room)?;
        self.writes.memtables.note_applied(seqno);
        self.wake_looks();
        Ok(())
    }

    /// Whether a write comes a second time.
    fn was_applied(&self, seqno: SeqNo) -> bool {
        let (writes, sequence) = (&self.writes, &self.host.sequence);
        writes.memtables.was_applied(seqno, writes.persisted(), sequence.visible())
    }

    /// Adds versions to the memtable that the state names: all of them to one, so that a commit has
    /// the whole of a write.
    fn insert<'a, 'b: 'a>(
        self: &Arc<Self>,
        ops: impl Iterator<Item = &'a Op<'b>>,
        seqno: SeqNo,
        room: &mut Reservation<'_>,
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
                ops.for_each(|op| entered.put(op, seqno, &is_seen, room));
                return Ok(());
            }
        }
    }

    /// Puts an empty memtable in the place of `full`, if that is written to, and has it committed.
    pub(crate) fn seal(self: &Arc<Self>, full: &Arc<Memtable>) {
        let install = self.state.lock();
        let state = self.state.load_full();
        // Read before the new memtable is named: a writer to it holds a number above this.
        let visible = self.host.sequence.visible();
        if let Some(state) = state.filter(|state| state.active.id() == full.id()) {
            let next = state.with_active(full.successor(visible));
            self.state.replace(next);
        }
        drop(install);
        full.seal();
        self.schedule_commit(u64::MAX);
    }
}

/// Refuses to delete ranges.
pub(crate) fn check_ranges(ops: &[Op<'_>]) -> Result<()> {
    match ops.iter().any(Op::is_range) {
        true => Err(Error::NoRangeDeletes { engine: "flexdb" }),
        false => Ok(()),
    }
}
