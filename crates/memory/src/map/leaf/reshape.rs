//! Leaves cut in two, put together, and built from sorted pairs.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::super::order::{HEAD_BYTES, common_len, separator};
use super::super::slot::{SMALL_VALUE_BYTES_MAX, Slot};
use super::{LEAF_HEAP_BYTES_MAX, LEAF_KEYS_MAX, Leaf, NewValue};

/// Keys in a leaf that is built from sorted pairs: room for a few more before it splits.
const LEAF_KEYS_BUILT: usize = LEAF_KEYS_MAX * 7 / 8;

/// The prefix that all keys from `low` on and below `high` share.
pub(in super::super) fn shared_prefix<'a>(low: &'a [u8], high: Option<&[u8]>) -> &'a [u8] {
    high.map_or(&[], |high| &low[..common_len(low, high)])
}

impl Leaf {
    /// An empty leaf for keys that begin with `prefix`.
    fn with_prefix(prefix: &[u8], keys: usize, heap_bytes: usize) -> Self {
        Self {
            prefix: prefix.into(),
            heads: Vec::with_capacity(keys),
            slots: Vec::with_capacity(keys),
            heap: Vec::with_capacity(heap_bytes),
            ..Self::default()
        }
    }

    /// Cuts the leaf of `low..high` in two: it keeps the lower keys; the upper ones come back with
    /// the separator at which they begin.
    pub(crate) fn split(&mut self, low: &[u8], high: Option<&[u8]>) -> (Vec<u8>, Leaf) {
        let at = self.split_point();
        let cut = separator(&self.key(at - 1), &self.key(at)).to_vec();
        let upper = self.take_part(at..self.len(), shared_prefix(&cut, high));
        let mut lower = self.take_part(0..at, shared_prefix(low, Some(&cut)));
        lower.revision = self.revision;
        lower.queued = self.queued;
        *self = lower;
        (cut, upper)
    }

    /// Where to cut: in the middle, or near the end if keys come in order, since the lower part
    /// will not grow again then.
    fn split_point(&self) -> usize {
        let keys = self.len();
        let in_order = usize::from(self.appended) >= keys / 2;
        let at = if in_order { keys - keys / 16 - 1 } else { keys / 2 };
        at.clamp(1, keys - 1)
    }

    /// Whether this leaf and `right` make a leaf that will not split at once.
    pub(crate) fn can_take(&self, right: &Leaf) -> bool {
        self.len() + right.len() <= LEAF_KEYS_MAX * 3 / 4
            && self.live_heap_bytes() + right.live_heap_bytes() <= LEAF_HEAP_BYTES_MAX / 2
    }

    /// Takes over the keys of `right`, its upper neighbour; the range is `low..high` then.
    pub(crate) fn merge(&mut self, right: &mut Leaf, low: &[u8], high: Option<&[u8]>) {
        let prefix = shared_prefix(low, high);
        let mut merged = self.take_part(0..self.len(), prefix);
        let mut rest = right.take_part(0..right.len(), prefix);
        let base = merged.heap.len() as u32;
        for slot in &mut rest.slots {
            let at = slot.at() as u32;
            slot.set_at(base + at);
        }
        merged.heads.append(&mut rest.heads);
        merged.slots.append(&mut rest.slots);
        merged.heap.append(&mut rest.heap);
        merged.history_bytes += rest.history_bytes;
        merged.unsettled += rest.unsettled;
        merged.applied = merged.applied.max(rest.applied);
        merged.revision = self.revision;
        merged.queued = self.queued;
        *self = merged;
    }

    /// Moves a part of the keys to a leaf whose keys all begin with `prefix`.
    fn take_part(&mut self, part: Range<usize>, prefix: &[u8]) -> Leaf {
        let tail_len =
            |slot: &Slot| slot.key_len().saturating_sub(prefix.len()).saturating_sub(HEAD_BYTES);
        let slots = &self.slots[part.clone()];
        let bytes = slots.iter().map(|slot| tail_len(slot) + slot.heap_value_len()).sum();
        let mut taken = Leaf::with_prefix(prefix, part.len(), bytes);
        let mut key = Vec::new();
        for index in part {
            key.clear();
            self.push_key(index, &mut key);
            let gone = Slot::Plain { seqno: 0, at: 0, value_len: 0, key_len: self.bare_key_len() };
            let value = match &self.slots[index] {
                slot @ Slot::Plain { .. } => Some(self.heap_value(slot)),
                Slot::Rich { .. } => None,
            };
            match value {
                Some(value) => {
                    let seqno = self.slots[index].newest_seqno();
                    taken.insert(taken.len(), &key, Some(NewValue::Small(value)), seqno);
                }
                None => taken.adopt(&key, mem::replace(&mut self.slots[index], gone)),
            }
        }
        taken.appended = 0;
        taken.applied = self.applied;
        taken
    }

    /// Adds a key above all others together with its history.
    fn adopt(&mut self, key: &[u8], slot: Slot) {
        let Slot::Rich { history, .. } = slot else { unreachable!("plain slots are copied") };
        let index = self.len();
        self.insert(index, key, None, 0);
        self.edit_history(index, |empty| *empty = *history);
    }
}

/// Builds leaves from pairs in ascending order, each version numbered zero: all snapshots to come
/// show them.
#[derive(Debug, Default)]
pub(crate) struct LeafBuilder {
    done: Vec<(Vec<u8>, Leaf)>,
    low: Vec<u8>,
    /// The keys and small values of the leaf to come: its prefix is known only at its end.
    staged: Vec<u8>,
    pairs: Vec<Staged>,
}

#[derive(Debug)]
struct Staged {
    key_len: usize,
    value: StagedValue,
}

#[derive(Debug)]
enum StagedValue {
    Behind(usize),
    Large(Arc<[u8]>),
}

impl LeafBuilder {
    /// Adds a pair above all that were added.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.pairs.len() >= LEAF_KEYS_BUILT || self.staged.len() > LEAF_HEAP_BYTES_MAX * 3 / 4 {
            self.cut(Some(key));
        }
        self.staged.extend_from_slice(key);
        let value = if value.len() <= SMALL_VALUE_BYTES_MAX {
            self.staged.extend_from_slice(value);
            StagedValue::Behind(value.len())
        } else {
            StagedValue::Large(value.into())
        };
        self.pairs.push(Staged { key_len: key.len(), value });
    }

    /// The leaves, each with the lower end of its range; at least one.
    pub(crate) fn finish(mut self) -> Vec<(Vec<u8>, Leaf)> {
        self.cut(None);
        self.done
    }

    /// Ends the leaf; the next one begins with the key `next`.
    fn cut(&mut self, next: Option<&[u8]>) {
        let high = next.map(|next| separator(self.last_key(), next).to_vec());
        let prefix = shared_prefix(&self.low, high.as_deref());
        let mut leaf = Leaf::with_prefix(prefix, self.pairs.len(), self.staged.len());
        let mut rest = self.staged.as_slice();
        for Staged { key_len, value } in self.pairs.drain(..) {
            let (key, behind) = rest.split_at(key_len);
            let (value, behind) = match value {
                StagedValue::Behind(len) => {
                    let (value, behind) = behind.split_at(len);
                    (NewValue::Small(value), behind)
                }
                StagedValue::Large(value) => (NewValue::Large(value), behind),
            };
            leaf.insert(leaf.len(), key, Some(value), 0);
            rest = behind;
        }
        leaf.heap.shrink_to_fit();
        leaf.appended = 0;
        self.staged.clear();
        let low = mem::replace(&mut self.low, high.unwrap_or_default());
        self.done.push((low, leaf));
    }

    fn last_key(&self) -> &[u8] {
        let Some(last) = self.pairs.last() else { return &[] };
        let value_len = match last.value {
            StagedValue::Behind(len) => len,
            StagedValue::Large(_) => 0,
        };
        let end = self.staged.len() - value_len;
        &self.staged[end - last.key_len..end]
    }
}
