//! Range deletes: they hide versions that were written before all of a range was deleted.
//!
//! A range delete hides every version of a key in its range that has a lower number. It is neither
//! in a memtable nor in a table. The store has one set of them, as part of its state, and each read
//! searches it for the newest one that covers its key. Range deletes that the manifest has are
//! *durable*; the others are *pending*, and the journal has them.
//!
//! Flushes and compactions leave out the versions that durable ones hide ([`Sweep`]), and each
//! table records the number up to which it was swept. A range delete is dropped once there is
//! nothing left that it may hide.
//!
//! # Invariants
//! - G1. A state has each range delete that was applied before the state was made, unless no table
//!   of it, and no memtable that may have a lower number, has anything that it hides.
//! - G2. No version that a range delete hides is left out before the manifest has the range delete,
//!   durably. Once it does, the versions that it hides may be there or not: both look the same.
//! - G3. A table has nothing that is hidden by a range delete with a number up to
//!   `Properties::swept`. No number up to there is given out again after a crash.
//!
//! A set never changes; adding to one makes another. It is cut into tiers, each at least twice as
//! long as the next one or of the maximum length. Each tier is a list of fragments that do not
//! overlap. So a lookup is a binary search for each tier, and an addition copies a few short
//! lists.

mod set;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use codec::{Corruption, Reader, SeqNo, Writer};
use engine::Op;
use memory_budget::MemoryBudget;

use crate::table::Properties;
pub use set::RangeDeletes;

/// Bytes of the shortest encoded range delete.
pub const ENCODED_BYTES_MIN: usize = 3;

/// Part of the budget that range deletes may take.
pub const PARTS: u64 = 16;
/// Range deletes from which on more are refused: each 256 cost a read a search.
pub const COUNT_MAX: usize = 1 << 14;
/// Number of pending range deletes from which on the manifest gets them for their own sake.
const PENDING_MAX: usize = 64;
/// The same limit in bytes, as a part of the bytes that all range deletes may take.
const PENDING_PARTS: u64 = 8;

/// Every version from `start` on, before `end` if there is one, with a number below its own is
/// hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDelete {
    /// The number of the write.
    pub seqno: SeqNo,
    /// The first key of the range.
    pub start: Vec<u8>,
    /// The key behind the range, if it ends.
    pub end: Option<Vec<u8>>,
}

impl RangeDelete {
    /// Returns the range delete that a step of write `seqno` is, if it is one.
    pub fn of(op: &Op<'_>, seqno: SeqNo) -> Option<Self> {
        let Op::DeleteRange { start, end } = op else { return None };
        let is_empty = end.is_some_and(|end| end <= *start);
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        (!is_empty).then_some(Self { seqno, start, end })
    }

    /// Returns whether `key` is in its range.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.is_before_end(key)
    }

    /// Returns whether `key` is before the end of its range.
    pub fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Returns whether a table that overlaps with its range may have something that it hides.
    pub fn may_hide_in(&self, properties: &Properties) -> bool {
        properties.oldest < self.seqno && properties.swept < self.seqno
    }

    /// Returns whether it hides all of a table.
    pub fn hides_all_of(&self, properties: &Properties) -> bool {
        properties.newest < self.seqno
            && self.covers(&properties.smallest)
            && self.covers(&properties.largest)
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.put_varint(self.seqno.get());
        out.put_prefixed(&self.start);
        out.put_u8(u8::from(self.end.is_some()));
        if let Some(end) = &self.end {
            out.put_prefixed(end);
        }
    }

    /// Reads its bytes.
    ///
    /// # Errors
    /// Bytes that no range delete has.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
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

    /// Returns the bytes of memory.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.start.capacity() + self.end.as_ref().map_or(0, Vec::capacity)
    }
}

/// The range deletes of a state.
#[derive(Clone, Debug, Default)]
pub struct Deletes {
    /// All of them, for reads.
    pub all: RangeDeletes,
    /// The range deletes that the manifest has, for flushes and compactions.
    pub durable: RangeDeletes,
    /// The pending ones, in the order in which they were applied.
    pub pending: Vec<Arc<RangeDelete>>,
    /// Count of the range deletes applied since the store was opened, ended ones included. It
    /// changes with each one, and never takes an earlier value again.
    pub came: u64,
}

impl Deletes {
    /// Makes the set of the range deletes that a manifest has.
    pub fn found(durable: &[Arc<RangeDelete>], budget: &Arc<MemoryBudget>) -> Self {
        let durable = RangeDeletes::of(durable, budget);
        Self { all: durable.clone(), durable, pending: Vec::new(), came: 0 }
    }

    /// Returns the set with these too, unless they are there (replay).
    pub fn with(&self, new: Vec<RangeDelete>, budget: &Arc<MemoryBudget>) -> Self {
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

    /// Makes the set after the manifest has `persisted` too; durable ones that hide nothing are
    /// dropped.
    pub fn with_persisted(
        &self,
        persisted: &[Arc<RangeDelete>],
        hides_something: &dyn Fn(&RangeDelete) -> bool,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let mut next = self.clone();
        let is_persisted =
            |one: &Arc<RangeDelete>| persisted.iter().any(|all| Arc::ptr_eq(all, one));
        next.pending.retain(|delete| !is_persisted(delete));
        for delete in persisted {
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

    /// Returns whether the range deletes of `ops` are refused next to these, with this budget. If
    /// there are no others, one is never refused, whatever its length.
    pub fn are_too_many_with(&self, ops: &[Op<'_>], limit: u64) -> bool {
        let new = ops.iter().filter_map(|op| RangeDelete::of(op, SeqNo::MAX));
        // Each begins a fragment, and ends one.
        let (new, bytes) =
            new.fold((0, 0), |(count, bytes), new| (count + 1, bytes + 3 * new.memory() as u64));
        let count = self.all.len() + new;
        new > 0 && count > 1 && (count > COUNT_MAX || self.all.memory() + bytes > limit / PARTS)
    }

    /// Returns whether they are over half of a limit: then background work helps them to end.
    pub fn are_many(&self, limit: u64) -> bool {
        self.all.len() > COUNT_MAX / 2 || self.all.memory() > limit / PARTS / 2
    }

    /// Returns whether the manifest is to get the pending ones for their own sake.
    pub fn is_persist_due(&self, limit: u64) -> bool {
        let bytes: u64 = self.pending.iter().map(|delete| delete.memory() as u64).sum();
        self.pending.len() >= PENDING_MAX || bytes > limit / PARTS / PENDING_PARTS
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The range deletes that are applied to versions that are written to tables.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The range deletes.
    pub deletes: RangeDeletes,
    /// There are no others up to this number.
    pub upto: SeqNo,
}

impl Sweep {
    /// Returns the greatest number of its range deletes.
    pub fn newest(&self) -> SeqNo {
        self.deletes.iter().map(|delete| delete.seqno).fold(SeqNo::ZERO, SeqNo::max)
    }

    /// Returns the least number of a range delete that hides this version, if any does.
    pub fn hider(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        self.deletes.next_above(key, seqno)
    }
}
