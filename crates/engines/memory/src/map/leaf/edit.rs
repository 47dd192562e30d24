//! Changes of single keys in a leaf.
//!
//! Each edit states what it does to one key. The caller decides which one is right (overwrite, keep
//! the old version, remove), since that depends on the readers that may still look.

use std::sync::Arc;

use super::super::order::{head, tail};
use super::super::slot::{History, SMALL_VALUE_BYTES_MAX, Slot, Version};
use super::Leaf;

/// Slots by which the two arrays grow: a leaf is small, so memory counts more than copies.
const SLOTS_STEP: usize = 8;
/// The heap grows by at least this many bytes, and by an eighth of itself.
const HEAP_STEP: usize = 64;

/// A value on its way into a leaf. A large one is copied to memory of its own before the leaf is
/// locked.
#[derive(Clone, Debug)]
pub(crate) enum NewValue<'a> {
    /// Goes into the heap.
    Small(&'a [u8]),
    /// Stays on its own.
    Large(Arc<[u8]>),
}

impl<'a> NewValue<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        if bytes.len() > SMALL_VALUE_BYTES_MAX {
            Self::Large(bytes.into())
        } else {
            Self::Small(bytes)
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(bytes) => bytes.len(),
            Self::Large(bytes) => bytes.len(),
        }
    }

    fn shared(self) -> Arc<[u8]> {
        match self {
            Self::Small(bytes) => bytes.into(),
            Self::Large(bytes) => bytes,
        }
    }
}

impl Leaf {
    /// Adds `key` at `index`, where [`Leaf::find`] did not find it; `None` adds a tombstone.
    pub(crate) fn insert(
        &mut self,
        index: usize,
        key: &[u8],
        value: Option<NewValue<'_>>,
        seqno: u64,
    ) {
        let suffix = &key[self.prefix.len()..];
        let key_len = u16::try_from(key.len()).expect("the length was checked at the door");
        let slot = match value {
            Some(NewValue::Small(value)) => {
                let at = self.push_record(tail(suffix), value);
                Slot::Plain { seqno, at, value_len: value.len() as u32, key_len }
            }
            other => {
                let value = other.map(NewValue::shared);
                let history = Box::new(History::of(Version { seqno, value }));
                self.history_bytes += history.memory();
                Slot::Rich { history, at: self.push_record(tail(suffix), &[]), key_len }
            }
        };
        self.unpruned += u16::from(slot.is_prunable());
        self.appended = if index == self.slots.len() { self.appended.saturating_add(1) } else { 0 };
        reserve(&mut self.heads, SLOTS_STEP);
        reserve(&mut self.slots, SLOTS_STEP);
        self.heads.insert(index, head(suffix));
        self.slots.insert(index, slot);
    }

    /// Replaces the newest version of key `index`, which no reader can see any more, by this value.
    pub(crate) fn replace(&mut self, index: usize, value: NewValue<'_>, seqno: u64) {
        if let NewValue::Small(bytes) = value
            && let Slot::Plain { seqno: stored, .. } = &mut self.slots[index]
        {
            *stored = seqno;
            return self.set_plain_value(index, bytes);
        }
        let is_only_version = match &self.slots[index] {
            Slot::Plain { .. } => true,
            Slot::Rich { history, .. } => history.len() == 1,
        };
        if is_only_version {
            self.set_only_version(index, value, seqno);
        } else {
            let version = Version { seqno, value: Some(value.shared()) };
            self.edit_history(index, |history| *history.newest_mut() = version);
        }
    }

    /// A new newest version of key `index`; `None` is a tombstone. The older ones stay.
    pub(crate) fn push(&mut self, index: usize, value: Option<NewValue<'_>>, seqno: u64) {
        self.make_rich(index);
        let version = Version { seqno, value: value.map(NewValue::shared) };
        self.edit_history(index, |history| history.push(version));
    }

    /// Removes key `index` and all its versions.
    pub(crate) fn remove(&mut self, index: usize) {
        self.heads.remove(index);
        let slot = self.slots.remove(index);
        self.unpruned -= u16::from(slot.is_prunable());
        if let Slot::Rich { history, .. } = &slot {
            self.history_bytes -= history.memory();
        }
        self.garbage += (self.tail_len(&slot) + slot.heap_value_len()) as u32;
        self.appended = 0;
        self.shrink();
    }

    /// Drops the versions of key `index` that no reader can see; a history of one small value
    /// becomes a plain slot again.
    pub(crate) fn prune(&mut self, index: usize, is_seen: &dyn Fn(u64, u64) -> bool) {
        if !self.slots[index].is_prunable() {
            return;
        }
        self.edit_history(index, |history| history.prune(is_seen));
        let Slot::Rich { history, .. } = &self.slots[index] else { return };
        let newest = history.newest().clone();
        if let Some(value) = &newest.value
            && history.len() == 1
            && value.len() <= SMALL_VALUE_BYTES_MAX
        {
            self.set_only_version(index, NewValue::Small(value), newest.seqno);
        }
    }

    /// Drops all versions that no reader can see, tombstones at or below `horizon` included.
    pub(crate) fn prune_all(&mut self, is_seen: &dyn Fn(u64, u64) -> bool, horizon: u64) {
        for index in (0..self.slots.len()).rev() {
            if self.unpruned == 0 {
                return;
            }
            self.prune(index, is_seen);
            let slot = &self.slots[index];
            if let Slot::Rich { history, .. } = slot
                && history.len() == 1
                && !slot.is_live()
                && slot.newest_seqno() <= horizon
            {
                self.remove(index);
            }
        }
    }

    /// Marks it as waiting to be pruned; `false` if it was already.
    pub(crate) fn enqueue(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// It waits no longer.
    pub(crate) fn dequeue(&mut self) {
        self.queued = false;
    }

    fn set_plain_value(&mut self, index: usize, value: &[u8]) {
        let tail_len = self.tail_len(&self.slots[index]);
        let Slot::Plain { at, value_len, .. } = &mut self.slots[index] else {
            unreachable!("the caller looked")
        };
        let old_len = *value_len as usize;
        if value.len() <= old_len {
            let start = *at as usize + tail_len;
            *value_len = value.len() as u32;
            self.heap[start..start + value.len()].copy_from_slice(value);
            self.garbage += (old_len - value.len()) as u32;
        } else {
            let seqno = self.slots[index].newest_seqno();
            self.set_only_version(index, NewValue::Small(value), seqno);
        }
    }

    /// Makes this the one version of key `index`, in a record of its own.
    fn set_only_version(&mut self, index: usize, value: NewValue<'_>, seqno: u64) {
        let suffix_tail = self.tail(&self.slots[index]).to_vec();
        let old = &self.slots[index];
        let key_len = old.key_len() as u16;
        self.garbage += (suffix_tail.len() + old.heap_value_len()) as u32;
        self.unpruned -= u16::from(old.is_prunable());
        if let Slot::Rich { history, .. } = old {
            self.history_bytes -= history.memory();
        }
        // The slot must refer to nothing while the record is written: the heap may be packed.
        self.slots[index] =
            Slot::Plain { seqno, at: 0, value_len: 0, key_len: self.bare_key_len() };
        self.slots[index] = match value {
            NewValue::Small(value) => {
                let at = self.push_record(&suffix_tail, value);
                Slot::Plain { seqno, at, value_len: value.len() as u32, key_len }
            }
            NewValue::Large(value) => {
                let history = Box::new(History::of(Version { seqno, value: Some(value) }));
                self.history_bytes += history.memory();
                Slot::Rich { history, at: self.push_record(&suffix_tail, &[]), key_len }
            }
        };
    }

    /// Returns the key length that means "no tail".
    pub(super) fn bare_key_len(&self) -> u16 {
        self.prefix.len() as u16
    }

    /// Moves a plain value out of the heap into a history.
    fn make_rich(&mut self, index: usize) {
        let slot = &self.slots[index];
        let Slot::Plain { seqno, at, value_len, key_len } = *slot else { return };
        let value = Some(self.heap_value(slot).into());
        let history = Box::new(History::of(Version { seqno, value }));
        self.history_bytes += history.memory();
        self.garbage += value_len;
        self.slots[index] = Slot::Rich { history, at, key_len };
    }

    pub(super) fn edit_history(&mut self, index: usize, edit: impl FnOnce(&mut History)) {
        let Slot::Rich { history, .. } = &mut self.slots[index] else {
            unreachable!("only rich slots have a history")
        };
        let before = (history.memory(), history.is_prunable());
        edit(history);
        let after = (history.memory(), history.is_prunable());
        self.history_bytes = self.history_bytes + after.0 - before.0;
        self.unpruned = self.unpruned + u16::from(after.1) - u16::from(before.1);
    }

    /// Appends a record to the heap and gives its offset.
    fn push_record(&mut self, tail: &[u8], value: &[u8]) -> u32 {
        let bytes = tail.len() + value.len();
        let room = self.heap.capacity() - self.heap.len();
        if bytes > room {
            if self.garbage as usize + room >= bytes && self.garbage as usize > self.heap.len() / 8
            {
                self.pack(bytes);
            } else {
                let step = (self.heap.capacity() / 8 + HEAP_STEP).max(bytes - room);
                self.heap.reserve_exact(room + step);
            }
        }
        let at = u32::try_from(self.heap.len()).expect("a leaf splits long before 4 GiB");
        self.heap.extend_from_slice(tail);
        self.heap.extend_from_slice(value);
        at
    }

    /// Rewrites the heap without its garbage, with room for `more` bytes.
    pub(super) fn pack(&mut self, more: usize) {
        let mut packed = Vec::with_capacity(self.live_heap_bytes() + more);
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let record = slot.at()..slot.at() + self.tail_len(slot) + slot.heap_value_len();
            let at = packed.len() as u32;
            packed.extend_from_slice(&self.heap[record]);
            self.slots[index].set_at(at);
        }
        self.heap = packed;
        self.garbage = 0;
    }

    /// Frees memory once much of it is unused, so that deletes free memory.
    fn shrink(&mut self) {
        if self.garbage as usize > self.heap.len() / 2 {
            self.pack(0);
        }
        if self.slots.capacity() > 2 * self.slots.len() + SLOTS_STEP {
            self.heads.shrink_to_fit();
            self.slots.shrink_to_fit();
        }
    }
}

/// Makes room for one more, `step` at a time.
fn reserve<T>(array: &mut Vec<T>, step: usize) {
    if array.len() == array.capacity() {
        array.reserve_exact(step);
    }
}
