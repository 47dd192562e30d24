//! Writing: each step edits one key in one leaf, under that leaf's lock.
//!
//! A range delete edits the leaves of its range one by one.
//!
//! 1. `reserve` asks the budget, before the host journals the write; `apply` does not refuse a
//!    write that was journaled. The reservation returns to the budget after the write, whose pairs
//!    the map counts. If only the difference to the present pairs fits, a delete of these may come
//!    first, and others may take its room. Then the write exceeds the budget by its pairs.
//! 2. A value that is long is copied to its own memory; then the leaf is locked.
//! 3. A number that was applied before changes nothing (W2).
//! 4. If no snapshot can see the newest version, it is overwritten in place. Otherwise a newer
//!    version is added, and older versions that no reader sees any more are dropped.
//! 5. Unlocked, the writer splits or merges the leaf if that is due. One write in [`PRUNE_EVERY`]
//!    also prunes some of the leaves that wait for it.
//!
//! # Invariants
//! - W1. A version that a pin at or above it and below its successor shows is never overwritten
//!   ([`engine::Sequence::is_seen`]).
//! - W2. A number that is finished (at or below `visible`) and below one that the key's leaf has
//!   seen was applied before: replay comes in order.
//! - W3. If a write has several steps on one key, only the last one is applied. Range deletes are
//!   applied after all of them and skip keys that have the write's own number. So no reader sees a
//!   key without the value that it has before and after.

use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;

use engine::{
    Demand, Error, KeyRange, Op, Reservation, Result, Room, SeqNo, Wait, last_of_each_key,
};

use crate::map::{Delta, LeafContent, NewValue, Rules};
use crate::store::Shared;

/// Bytes that one more key takes besides its own bytes, about: head, slot, and its share of the
/// leaf.
const KEY_OVERHEAD_BYTES: u64 = 48;
/// Parts of the free bytes of the budget. A write that takes at most one part is not counted, so
/// writers share no counter. There are more parts than writers at a time.
const UNCOUNTED_PARTS: u64 = 4096;
/// One of this number of writes prunes leaves. It has to ask for the horizon first.
const PRUNE_EVERY: u64 = 8;
/// Leaves that such a write prunes: twice the number that other writes leave unpruned meanwhile, so
/// that the list drains.
const PRUNED_PER_TURN: usize = 16;

/// The index of a key in its leaf; `Err` is the index at which it would be inserted.
type Place = std::result::Result<usize, usize>;

impl Shared {
    /// Reserves bytes of the budget for a write: the largest ones that it may take, or what it
    /// takes as the keys are now, if only that fits. Deletes need none. Never waits: only deletes
    /// make room, and so a write that finds none is refused.
    pub(crate) fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Reservation<'_>> {
        self.health.check_writable()?;
        let wanted = match demand {
            Demand::Ops(ops) => ops.iter().map(growth_at_most).sum(),
            Demand::Update { key, bytes_max } => key.len() as u64 + bytes_max + KEY_OVERHEAD_BYTES,
            Demand::Ingestion => 0,
        };
        let budget = &self.host.memory;
        let free = budget.limit().saturating_sub(budget.used());
        if wanted <= free / UNCOUNTED_PARTS || wait == Wait::Replay {
            return Ok(Reservation::uncounted());
        }
        if budget.charge(wanted).is_ok() {
            return Ok(self.reservation(wanted));
        }
        if let Demand::Ops(ops) = demand {
            let growth = ops.iter().map(|op| self.growth(op)).sum();
            if budget.charge(growth).is_ok() {
                return Ok(self.reservation(growth));
            }
        }
        Err(Error::OutOfMemory { limit: budget.limit() })
    }

    /// Returns a reservation of bytes that were charged.
    fn reservation(&self, bytes: u64) -> Reservation<'_> {
        self.reserved.fetch_add(bytes, Relaxed);
        Reservation::new(self, bytes, 0)
    }

    /// How much more memory `op` takes, about, now that it has been looked up.
    fn growth(&self, op: &Op<'_>) -> u64 {
        let Op::Put { key, value } = op else { return 0 };
        // A pin may hold the old value back, so that the new one takes its whole room.
        if self.host.sequence.oldest_pin().is_some() {
            return growth_at_most(op);
        }
        let old_len = self.map.read(key, |leaf| {
            leaf.find(key).ok().and_then(|index| leaf.newest(index)).map(|old| old.bytes().len())
        });
        match old_len {
            Some(old_len) => value.len().saturating_sub(old_len) as u64,
            None => growth_at_most(op),
        }
    }

    /// Applies the steps of one write.
    pub(crate) fn apply(&self, ops: &[Op<'_>], seqno: SeqNo) -> Result<()> {
        self.health.check_writable()?;
        ops.iter().try_for_each(Op::check)?;
        if seqno <= self.persisted() {
            return Ok(());
        }
        for op in last_of_each_key(ops) {
            match op {
                Op::Put { key, value } => {
                    let value = NewValue::of(value);
                    self.edit(key, seqno, |leaf| {
                        let found = leaf.find(key);
                        self.put(leaf, found, key, value, seqno)
                    });
                }
                _ => self.edit(op.key(), seqno, |leaf| {
                    let found = leaf.find(op.key());
                    self.delete(leaf, found, op.key(), seqno)
                }),
            }
        }
        // After the puts of the write (W3).
        for op in ops {
            if let Op::DeleteRange { start, end } = op {
                self.delete_range(start, *end, seqno);
            }
        }
        self.prune_some(seqno);
        Ok(())
    }

    fn edit(&self, key: &[u8], seqno: SeqNo, edit: impl FnOnce(&mut LeafContent) -> Delta) {
        self.map.write(key, seqno.get(), |leaf| {
            let delta = (!self.was_applied(leaf, seqno)).then(|| edit(leaf));
            ((), delta)
        });
    }

    /// W2.
    fn was_applied(&self, leaf: &LeafContent, seqno: SeqNo) -> bool {
        seqno.get() < leaf.applied() && seqno <= self.host.sequence.visible()
    }

    /// `found` is where the key is, or would be.
    fn put(
        &self,
        leaf: &mut LeafContent,
        found: Place,
        key: &[u8],
        value: NewValue<'_>,
        seqno: SeqNo,
    ) -> Delta {
        let seqno = seqno.get();
        leaf.note_applied(seqno);
        let (key_len, value_len) = (key.len() as i64, value.len() as i64);
        if let NewValue::Large(value) = &value {
            // A freed value of the same length may be in another heap.
            self.map.trim.note(value.len());
        }
        let index = match found {
            Ok(index) => index,
            Err(index) => {
                leaf.insert(index, key, Some(value), seqno);
                return Delta { keys: 1, bytes: key_len + value_len };
            }
        };
        let newest = leaf.newest_seqno(index);
        if newest > seqno {
            return Delta::default();
        }
        let old_len = leaf.newest(index).map(|old| old.bytes().len() as i64);
        if self.is_seen(newest, seqno) {
            leaf.push(index, Some(value), seqno);
        } else {
            leaf.replace(index, value, seqno);
        }
        leaf.prune(index, &|older, newer| self.is_seen(older, newer));
        match old_len {
            Some(old_len) => Delta { keys: 0, bytes: value_len - old_len },
            None => Delta { keys: 1, bytes: key_len + value_len },
        }
    }

    /// `found` is where the key is, or would be.
    fn delete(&self, leaf: &mut LeafContent, found: Place, key: &[u8], seqno: SeqNo) -> Delta {
        let seqno = seqno.get();
        leaf.note_applied(seqno);
        let Ok(index) = found else { return Delta::default() };
        let newest = leaf.newest_seqno(index);
        let Some(old) = leaf.newest(index) else { return Delta::default() };
        if newest > seqno {
            return Delta::default();
        }
        let delta = Delta { keys: -1, bytes: -(key.len() as i64 + old.bytes().len() as i64) };
        let is_seen = |older, newer| self.is_seen(older, newer);
        leaf.prune(index, &is_seen);
        if leaf.versions(index) == 1 && !is_seen(newest, seqno) {
            leaf.remove(index);
        } else {
            leaf.push(index, None, seqno);
            leaf.prune(index, &is_seen);
        }
        delta
    }

    /// Deletes the keys of a range, one leaf after the other.
    fn delete_range(&self, start: &[u8], end: Option<&[u8]>, seqno: SeqNo) {
        let range = KeyRange {
            start: Bound::Included(start.to_vec()),
            end: end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec())),
        };
        self.map.write_range(&range, seqno.get(), &mut |leaf, slots| {
            if self.was_applied(leaf, seqno) {
                return None;
            }
            let mut all = Delta::default();
            // From the last one on: a key that goes moves those behind it.
            for index in slots.rev() {
                if leaf.newest_seqno(index) == seqno.get() {
                    continue;
                }
                let key = leaf.key(index);
                let Delta { keys, bytes } = self.delete(leaf, Ok(index), &key, seqno);
                all = Delta { keys: all.keys + keys, bytes: all.bytes + bytes };
            }
            Some(all)
        });
    }

    fn is_seen(&self, older: u64, newer: u64) -> bool {
        self.host.sequence.is_seen(SeqNo::new(older), SeqNo::new(newer))
    }

    fn prune_some(&self, seqno: SeqNo) {
        if seqno.get().is_multiple_of(PRUNE_EVERY) && self.map.has_unpruned() {
            self.prune(PRUNED_PER_TURN);
        }
    }

    /// Prunes up to `count` leaves that are due; returns how many there were.
    pub(crate) fn prune(&self, count: usize) -> usize {
        let horizon = self.host.sequence.horizon().get();
        let is_seen = |older, newer| self.is_seen(older, newer);
        self.map.collect(count, &Rules { horizon, is_seen: &is_seen })
    }
}

impl Room for Shared {
    fn release(&self, bytes: u64, _slot: u32) {
        self.reserved.fetch_sub(bytes, Relaxed);
        self.host.memory.release(bytes);
    }
}

fn growth_at_most(op: &Op<'_>) -> u64 {
    match op {
        Op::Put { key, value } => (key.len() + value.len()) as u64 + KEY_OVERHEAD_BYTES,
        Op::Delete { .. } | Op::DeleteRange { .. } => 0,
    }
}
