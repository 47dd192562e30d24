//! Writing: each step goes into the memtable of its Drange, under the number that the host gave the
//! write.
//!
//! 1. A write reserves memory before the host journals it (`admission.rs`). `apply` waits for
//!    nothing, and does not refuse a write that was journaled.
//! 2. The writer enters the memtable that the state names. If that is full it is sealed first, and
//!    another one takes its place.
//! 3. Each step adds a version. If several steps have one key, the last one counts, and is the only
//!    one added, since they share a number. A range delete comes behind all of them, and only adds
//!    to the set of the state: it hides versions of lower numbers.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, Op, Reservation, Result, last_of_each_key};

use crate::contract::Store;
use crate::memtable::Memtable;
use crate::state::State;
use crate::store::Shared;
use lsm_tree::range_deletes::RangeDelete;
use lsm_tree::table::hash;

impl Shared {
    /// Applies the steps of one write.
    pub(crate) fn apply(
        self: &Arc<Self>,
        ops: &[Op<'_>],
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<()> {
        self.health.check_writable()?;
        ops.iter().try_for_each(Op::check)?;
        if ops.is_empty() || self.was_applied(seqno)? {
            return Ok(());
        }
        for op in last_of_each_key(ops) {
            self.insert(op, seqno, room)?;
        }
        // After the write's puts: otherwise a key that it deletes and puts would look absent
        // meanwhile.
        self.delete_ranges(ops, seqno)?;
        self.memtables.note_applied(seqno);
        self.wake_looks();
        Ok(())
    }

    /// Adds the range deletes among the steps of a write to the state.
    fn delete_ranges(self: &Arc<Self>, ops: &[Op<'_>], seqno: SeqNo) -> Result<()> {
        let new: Vec<_> = ops.iter().filter_map(|op| RangeDelete::of(op, seqno)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let frees_tables = new.iter().any(|delete| self.state.load().version.has_hidden(delete));
        let install = self.state.install.lock();
        let state = self.state.load_full();
        self.health.check_open()?;
        let next = state.with_deletes(new, &self.host.memory);
        let is_due = next.deletes.is_persist_due(self.host.memory.limit());
        self.state.store(Arc::new(next));
        drop(install);
        if frees_tables || is_due {
            self.schedule_range_deletes();
        }
        Ok(())
    }

    /// Queues the work that lets range deletes end. If only range deletes are written, no memtable
    /// is flushed in which one of them hides an entry: so these are flushed too. The memtables that
    /// take their places have no entries that an older range delete hides.
    pub(crate) fn end_range_deletes(self: &Arc<Self>) {
        let last = self.state.load().deletes.all.last();
        self.seal_where(&|active| !active.is_empty() && active.floor() < last);
        self.schedule_range_deletes();
    }

    /// Whether a write comes a second time.
    fn was_applied(&self, seqno: SeqNo) -> Result<bool> {
        let has_memtables = !self.open_state()?.actives.is_empty();
        let visible = self.host.sequence.visible();
        let persisted = self.manifest.persisted();
        Ok(seqno <= persisted
            || has_memtables && self.memtables.was_applied(seqno, persisted, visible))
    }

    /// Adds a version to the memtable that the state names for its key.
    fn insert(
        self: &Arc<Self>,
        op: &Op<'_>,
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<()> {
        loop {
            let state = self.open_state()?;
            let (active, trange) = state.active(op.key(), seqno).ok_or(Error::Closed)?;
            if active.bytes() >= self.memory_split().memtable_bytes {
                let full = Arc::clone(active);
                drop(state);
                self.seal(&[full]);
                continue;
            }
            // If it was sealed meanwhile, the state has another one now.
            if let Some(entered) = active.enter() {
                // U1 of the lookup index: before any reader can find the version.
                self.lookups.index.load().put(hash(op.key()), seqno, active.id());
                entered.insert(op, seqno, room);
                drop(entered);
                state.dranges.count(trange);
                return Ok(());
            }
        }
    }

    /// Puts empty memtables in the places of those of `full` that are written to, and has these
    /// flushed.
    pub(crate) fn seal(self: &Arc<Self>, full: &[Arc<Memtable>]) {
        self.seal_where(&|active| full.iter().any(|full| full.id() == active.id()));
    }

    /// Replaces all wanted memtables among the ones that are written to with empty ones, in one
    /// step, and has the old ones flushed. Returns the state that this step has made, or has found.
    pub(crate) fn seal_where(
        self: &Arc<Self>,
        is_wanted: &dyn Fn(&Memtable) -> bool,
    ) -> Arc<State> {
        let install = self.state.install.lock();
        let state = self.state.load_full();
        // Read before the new memtables are named: a writer to one of them holds a number above
        // this.
        let visible = self.host.sequence.visible();
        let wanted = state.actives.iter().filter(|active| is_wanted(active));
        let replaced: Vec<Arc<Memtable>> = wanted.cloned().collect();
        if replaced.is_empty() {
            return state;
        }
        let ids: Vec<u64> = replaced.iter().map(|active| active.id()).collect();
        let new: Vec<_> = replaced.iter().map(|active| active.successor(visible)).collect();
        let next = Arc::new(state.with_actives(&ids, &new));
        self.state.store(Arc::clone(&next));
        drop(install);
        replaced.iter().for_each(|active| active.seal());
        self.schedule_flush();
        next
    }
}

impl Store {
    /// Returns whether a write with this number would change nothing: it was applied before, and
    /// comes a second time from a journal.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn was_applied(&self, seqno: SeqNo) -> Result<bool> {
        self.shared.was_applied(seqno)
    }
}
