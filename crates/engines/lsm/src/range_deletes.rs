//! Range deletes: which versions are hidden because all of a range was deleted after they were
//! written.
//!
//! A range delete hides every version of a key in its range that has a lower number. It is neither
//! in a memtable nor in a table: the store has one set of them, as part of its state, which each
//! read asks for the newest one that covers its key. The manifest has them too, by then *durable*;
//! those that it does not have yet are *pending*, and the journal has them.
//!
//! Flushes and compactions leave out what durable ones hide ([`Sweep`]), and each table says up to
//! which number it was swept. Once nothing is left that a range delete may hide, it goes.
//!
//! # Invariants
//! - G1. A state has each range delete that was applied before the state was made, unless no table
//!   of it, and no memtable that may have a lower number, has anything that it hides.
//! - G2. No version that a range delete hides is left out before the manifest has the range delete,
//!   durably. With it comes what it hides, or does not come: both look the same.
//! - G3. A table has nothing that is hidden by a range delete with a number up to
//!   `Properties::swept`. No number up to there is given out again after a crash.
//!
//! A set never changes; adding to one makes another. It is cut into tiers, each at least twice as
//! long as the next one or as long as it may be, and each a list of fragments that do not overlap:
//! so a look-up is a binary search for each tier, and an addition copies a few short lists.

mod set;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use codec::{Corruption, Reader, SeqNo, Writer};
use engine::{MemoryBudget, Op};

use crate::table::Properties;
pub(crate) use set::RangeDeletes;

/// Bytes of the shortest one as it is encoded.
pub(crate) const ENCODED_BYTES_MIN: usize = 3;

/// Part of the budget that range deletes may take.
pub(crate) const PARTS: u64 = 16;
/// Range deletes from which on more are refused: each 256 cost a read a search.
pub(crate) const COUNT_MAX: usize = 1 << 14;
/// Those that the manifest does not have yet before it gets them for their own sake.
const PENDING_MAX: usize = 64;
/// The same in bytes, as a part of what all may take.
const PENDING_PARTS: u64 = 8;

/// Every version from `start` on, before `end` if there is one, with a number below its own is
/// hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeDelete {
    pub(crate) seqno: SeqNo,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl RangeDelete {
    /// What a step of write `seqno` is, if that is one.
    pub(crate) fn of(op: &Op<'_>, seqno: SeqNo) -> Option<Self> {
        let Op::DeleteRange { start, end } = op else { return None };
        let is_empty = end.is_some_and(|end| end <= *start);
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        (!is_empty).then_some(Self { seqno, start, end })
    }

    /// Whether `key` lies in its range.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.is_before_end(key)
    }

    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether a table that overlaps with its range may have something that it hides.
    pub(crate) fn may_hide_in(&self, properties: &Properties) -> bool {
        properties.oldest < self.seqno && properties.swept < self.seqno
    }

    /// Whether it hides all of a table.
    pub(crate) fn hides_all_of(&self, properties: &Properties) -> bool {
        properties.newest < self.seqno
            && self.covers(&properties.smallest)
            && self.covers(&properties.largest)
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.put_varint(self.seqno.get());
        out.put_prefixed(&self.start);
        out.put_u8(u8::from(self.end.is_some()));
        if let Some(end) = &self.end {
            out.put_prefixed(end);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        let seqno = SeqNo::new(reader.take_varint_u64()?);
        let start = reader.take_prefixed()?.to_vec();
        let end = match reader.take_u8()? {
            0 => None,
            1 => Some(reader.take_prefixed()?.to_vec()),
            other => {
                let what = format!("a range delete has an end of an unknown kind ({other})");
                return Err(reader.corruption(what));
            }
        };
        if end.as_ref().is_some_and(|end| *end <= start) {
            return Err(reader.corruption("a range delete ends before it begins"));
        }
        Ok(Self { seqno, start, end })
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.start.capacity() + self.end.as_ref().map_or(0, Vec::capacity)
    }
}

/// The range deletes of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletes {
    /// All of them: what reads ask.
    pub(crate) all: RangeDeletes,
    /// Those that the manifest has: what flushes and compactions apply.
    pub(crate) durable: RangeDeletes,
    /// The others, in the order in which they came.
    pub(crate) pending: Vec<Arc<RangeDelete>>,
    /// How many have come since the store was opened, those that are over by now included: what
    /// changes whenever one comes, and never is again what it was.
    pub(crate) came: u64,
}

impl Deletes {
    /// What a manifest has.
    pub(crate) fn found(durable: &[Arc<RangeDelete>], budget: &Arc<MemoryBudget>) -> Self {
        let durable = RangeDeletes::of(durable, budget);
        Self { all: durable.clone(), durable, pending: Vec::new(), came: 0 }
    }

    /// With these too, unless they are there (replay).
    pub(crate) fn with(&self, new: Vec<RangeDelete>, budget: &Arc<MemoryBudget>) -> Self {
        let mut next = self.clone();
        for delete in new {
            if !next.all.has(&delete) {
                let delete = Arc::new(delete);
                next.all = next.all.with(Arc::clone(&delete), budget);
                next.pending.push(delete);
                next.came += 1;
            }
        }
        next
    }

    /// Once the manifest has `settled` too; of those that it has, the ones that hide nothing go.
    pub(crate) fn settled(
        &self,
        settled: &[Arc<RangeDelete>],
        hides_something: &dyn Fn(&RangeDelete) -> bool,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let mut next = self.clone();
        let is_settled = |one: &Arc<RangeDelete>| settled.iter().any(|all| Arc::ptr_eq(all, one));
        next.pending.retain(|delete| !is_settled(delete));
        for delete in settled {
            next.durable = next.durable.with(Arc::clone(delete), budget);
        }
        let over = next.durable.iter().filter(|delete| !hides_something(delete));
        let over: HashSet<*const RangeDelete> = over.map(Arc::as_ptr).collect();
        if !over.is_empty() {
            next.all = next.all.without(&over, budget);
            next.durable = next.durable.without(&over, budget);
        }
        next
    }

    /// Whether those of `ops` are not taken beside these, with this budget. Beside none one is, whatever its length.
    pub(crate) fn are_too_many_with(&self, ops: &[Op<'_>], limit: u64) -> bool {
        let new = ops.iter().filter_map(|op| RangeDelete::of(op, SeqNo::MAX));
        // Each begins a fragment, and ends one.
        let (new, bytes) =
            new.fold((0, 0), |(count, bytes), new| (count + 1, bytes + 3 * new.memory() as u64));
        let count = self.all.len() + new;
        new > 0 && count > 1 && (count > COUNT_MAX || self.all.memory() + bytes > limit / PARTS)
    }

    /// Whether they are more than half as many: by then they are helped to their end.
    pub(crate) fn are_many(&self, limit: u64) -> bool {
        self.all.len() > COUNT_MAX / 2 || self.all.memory() > limit / PARTS / 2
    }

    /// Whether the manifest is to get the pending ones for their own sake.
    pub(crate) fn is_settling_due(&self, limit: u64) -> bool {
        let bytes: u64 = self.pending.iter().map(|delete| delete.memory() as u64).sum();
        self.pending.len() >= PENDING_MAX || bytes > limit / PARTS / PENDING_PARTS
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The range deletes that are applied to what is written to tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) deletes: RangeDeletes,
    /// There are no others up to this number.
    pub(crate) upto: SeqNo,
}

impl Sweep {
    /// The least number of a range delete that hides this version, if any does.
    pub(crate) fn hider(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        self.deletes.next_above(key, seqno)
    }
}
