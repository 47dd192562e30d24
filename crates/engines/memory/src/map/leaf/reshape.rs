//! Leaves cut in two, put together, and built from sorted pairs.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::super::order::{HEAD_BYTES, common_len, separator};
use super::super::slot::Slot;
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

    /// Returns the index to cut at: the middle, or near the end if keys come in order, since the
    /// lower part will not grow again then.
    fn split_point(&self) -> usize {
        let keys = self.len();
        let in_order = usize::from(self.appended) >= keys / 2;
        let at = if in_order { keys - keys / 16 - 1 } else { keys / 2 };
        at.clamp(1, keys - 1)
    }

    /// Whether this leaf and `right` make a leaf that the next write does not split. An empty leaf
    /// always goes to its neighbour, however full that is: or a queue would leave one for each of
    /// its leaves, and scans would walk over them.
    pub(crate) fn can_take(&self, right: &Leaf) -> bool {
        if self.len() == 0 || right.len() == 0 {
            return true;
        }
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
        merged.unpruned += rest.unpruned;
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
///
/// A builder for a *piece* knows neither the pairs before its own nor those after them. So the
/// pairs of its first leaf stay staged too, until it is joined to the piece before.
#[derive(Debug, Default)]
pub(crate) struct LeafBuilder {
    done: Vec<(Vec<u8>, Leaf)>,
    low: Vec<u8>,
    /// The pairs of the next leaf: its prefix is known only at its end.
    staged: Staging,
    /// Of a piece: what its first leaf will hold, once that is known.
    head: Option<Staging>,
    is_piece: bool,
}

/// The bytes of keys and small values, concatenated, and a description of each pair.
#[derive(Debug, Default)]
struct Staging {
    bytes: Vec<u8>,
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
    /// A builder that will be joined to another.
    pub(crate) fn for_piece() -> Self {
        Self { is_piece: true, ..Self::default() }
    }

    /// Adds a pair above all that were added.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_new(key, NewValue::of(value));
    }

    fn push_new(&mut self, key: &[u8], value: NewValue<'_>) {
        if self.staged.is_full() {
            let high = separator(self.staged.last_key(), key).to_vec();
            self.cut(Some(high));
        }
        self.staged.push(key, value);
    }

    /// Adds the pairs of a piece, all of them above the pairs that were added before.
    pub(crate) fn join(&mut self, mut piece: LeafBuilder) {
        let Some(mut head) = piece.head.take() else {
            return piece.staged.drain(|key, value| self.push_new(key, value));
        };
        head.drain(|key, value| self.push_new(key, value));
        // The key at which the piece's own leaves begin; from there on they are as this builder
        // would have made them.
        let high = piece.done.first().map_or(&piece.low, |(low, _)| low).clone();
        self.cut(Some(high));
        self.done.append(&mut piece.done);
        self.low = piece.low;
        self.staged = piece.staged;
    }

    /// The leaves, each with the lower end of its range; at least one.
    pub(crate) fn finish(mut self) -> Vec<(Vec<u8>, Leaf)> {
        debug_assert!(!self.is_piece, "a piece is joined to the leaf before it");
        self.cut(None);
        self.done
    }

    /// Ends the leaf; the next one begins at `high`.
    fn cut(&mut self, high: Option<Vec<u8>>) {
        if self.is_piece && self.head.is_none() {
            self.head = Some(mem::take(&mut self.staged));
        } else {
            let leaf = self.staged.build(shared_prefix(&self.low, high.as_deref()));
            self.done.push((mem::take(&mut self.low), leaf));
        }
        self.low = high.unwrap_or_default();
    }
}

impl Staging {
    fn is_full(&self) -> bool {
        self.pairs.len() >= LEAF_KEYS_BUILT || self.bytes.len() > LEAF_HEAP_BYTES_MAX * 3 / 4
    }

    fn push(&mut self, key: &[u8], value: NewValue<'_>) {
        self.bytes.extend_from_slice(key);
        let value = match value {
            NewValue::Small(value) => {
                self.bytes.extend_from_slice(value);
                StagedValue::Behind(value.len())
            }
            NewValue::Large(value) => StagedValue::Large(value),
        };
        self.pairs.push(Staged { key_len: key.len(), value });
    }

    /// Takes all pairs out, in order; the memory stays.
    fn drain(&mut self, mut each: impl FnMut(&[u8], NewValue<'_>)) {
        let mut rest = self.bytes.as_slice();
        for Staged { key_len, value } in self.pairs.drain(..) {
            let (key, behind) = rest.split_at(key_len);
            rest = match value {
                StagedValue::Behind(len) => {
                    let (value, behind) = behind.split_at(len);
                    each(key, NewValue::Small(value));
                    behind
                }
                StagedValue::Large(value) => {
                    each(key, NewValue::Large(value));
                    behind
                }
            };
        }
        self.bytes.clear();
    }

    /// Takes all pairs out, into a leaf whose keys begin with `prefix`.
    fn build(&mut self, prefix: &[u8]) -> Leaf {
        let in_heads = |pair: &Staged| pair.key_len.min(prefix.len() + HEAD_BYTES);
        let heap_bytes = self.bytes.len() - self.pairs.iter().map(in_heads).sum::<usize>();
        let mut leaf = Leaf::with_prefix(prefix, self.pairs.len(), heap_bytes);
        self.drain(|key, value| leaf.insert(leaf.len(), key, Some(value), 0));
        leaf.appended = 0;
        leaf
    }

    fn last_key(&self) -> &[u8] {
        let Some(last) = self.pairs.last() else { return &[] };
        let value_len = match last.value {
            StagedValue::Behind(len) => len,
            StagedValue::Large(_) => 0,
        };
        let end = self.bytes.len() - value_len;
        &self.bytes[end - last.key_len..end]
    }
}
