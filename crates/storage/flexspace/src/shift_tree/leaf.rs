//! A leaf: neighbouring entries, each with its partial offset.
//!
//! # Invariants
//! - L1: the first partial offset is 0, they ascend strictly, and all are below the span. Entries
//!   are contiguous, so an entry's length is the difference between its offset and the next.
//! - L2: unused slots have the largest offset and the default entry.
//! - L3: the span fits 32 bits, and so does each partial offset.

use super::entry::Entry;
use super::node::{Ledger, Node, NodeId, Total, Weight};
use super::search::last_at_most;

/// The offset in unused slots; no byte of a leaf has it (L1, L3).
const NOTHING: u32 = u32::MAX;

/// Neighbouring entries with partial offsets, at most `C`.
///
/// The fields that a search reads first are first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Leaf<E, const C: usize> {
    id: NodeId,
    count: u32,
    span: u32,
    starts: [u32; C],
    entries: [E; C],
    weight: Weight,
}

impl<E: Entry, const C: usize> Leaf<E, C> {
    /// Two neighbours with no more entries than this are merged. The smaller of both bounds matters
    /// in tests, whose leaves are tiny: nodes that were just split must not be merged.
    pub(super) const MERGED_COUNT_MAX: usize = if C - 2 < C / 4 * 3 { C - 2 } else { C / 4 * 3 };

    pub(super) fn empty(id: NodeId, total: &Total) -> Self {
        const { assert!(C >= 4, "a leaf is split at C - 1 and must have room for two then") }
        Self {
            id,
            count: 0,
            span: 0,
            starts: [NOTHING; C],
            entries: std::array::from_fn(|_| E::default()),
            weight: total.weigh::<Self>(),
        }
    }

    /// Returns how many entries it has.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns how many bytes its entries cover.
    pub fn span(&self) -> u32 {
        self.span
    }

    /// Returns the index of the entry with the byte at `offset`, which is below the span.
    pub fn find(&self, offset: u32) -> usize {
        last_at_most(&self.starts, offset)
    }

    /// Returns the offset at which entry `index` begins in this leaf; the span for the index behind
    /// the last.
    pub fn start(&self, index: usize) -> u32 {
        if index < self.count() { self.starts[index] } else { self.span }
    }

    /// Returns the length of entry `index`.
    pub fn length(&self, index: usize) -> u32 {
        self.start(index + 1) - self.start(index)
    }

    /// Returns the content of entry `index`.
    pub fn entry(&self, index: usize) -> &E {
        &self.entries[index]
    }

    /// Returns the content of entry `index`, to be changed; its pivot stays the same.
    pub fn entry_mut(&mut self, index: usize) -> &mut E {
        &mut self.entries[index]
    }

    /// Returns the contents of all entries, in order.
    pub fn entries(&self) -> &[E] {
        &self.entries[..self.count()]
    }

    /// Replaces the entries from index `from` to before `to` by `with`, lengths and contents, and
    /// shifts the entries behind by the change of the span. All shifting within leaves is here.
    ///
    /// # Panics
    /// If there are no such entries, a length is 0, there is no room, or the span would not fit 32
    /// bits.
    #[inline]
    pub fn splice<const N: usize>(&mut self, from: usize, to: usize, with: [(u32, E); N]) {
        let count = self.count();
        assert!(from <= to && to <= count, "entries that are there");
        assert!(with.iter().all(|(length, _)| *length > 0), "entries have bytes (L1)");
        let tail = from + N;
        let new_count = count - to + tail;
        let (begin, end) = (self.start(from), self.start(to));
        let added: u64 = with.iter().map(|(length, _)| u64::from(*length)).sum();
        let span = u64::from(self.span - (end - begin)) + added;
        assert!(new_count <= C, "a caller that adds entries has asked for room");
        let span = u32::try_from(span).expect("a caller that adds bytes has asked for room");

        if tail > to {
            self.entries[to..new_count].rotate_right(tail - to);
        } else if tail < to {
            self.entries[tail..count].rotate_left(to - tail);
            self.entries[new_count..count].fill_with(E::default);
        }
        if tail != to {
            self.starts.copy_within(to..count, tail);
        }
        if new_count < count {
            self.starts[new_count..count].fill(NOTHING);
        }
        let shift = span.wrapping_sub(self.span);
        for start in &mut self.starts[tail..new_count] {
            *start = start.wrapping_add(shift);
        }
        let mut start = begin;
        for (index, (length, entry)) in (from..).zip(with) {
            self.starts[index] = start;
            self.entries[index] = entry;
            start += length;
        }
        self.span = span;
        self.count = new_count as u32;
    }

    /// Gives entry `index` another length, and shifts those behind.
    ///
    /// # Panics
    /// If there is no such entry, the length is 0, or the span would not fit 32 bits.
    pub fn resize(&mut self, index: usize, length: u32) {
        let count = self.count();
        let entry = std::mem::take(&mut self.entries[..count][index]);
        self.splice(index, index + 1, [(length, entry)]);
    }

    /// Makes an entry begin at `offset`, if need be by splitting one, and gives its index. Needs
    /// room for one entry unless one begins there.
    ///
    /// # Panics
    /// If the offset is behind the span, or there is no room.
    pub fn divide(&mut self, offset: u32) -> usize {
        assert!(offset <= self.span, "an offset behind the leaf");
        if offset == self.span {
            return self.count();
        }
        let index = self.find(offset);
        let head = offset - self.starts[index];
        if head == 0 {
            return index;
        }
        let entry = self.entries[index].clone();
        let tail = entry.tail(head);
        let pieces = [(head, entry), (self.length(index) - head, tail)];
        self.splice(index, index + 1, pieces);
        index + 1
    }

    /// Checks L1 to L3, but not the content of unused slots: entries cannot be compared.
    pub(super) fn check(&self) -> Result<(), String> {
        let (used, free) = self.starts.split_at(self.count());
        let ascends = used.windows(2).all(|pair| pair[0] < pair[1]);
        let is_within = used.last().map_or(self.span == 0, |last| *last < self.span);
        let begins = used.first().is_none_or(|first| *first == 0);
        if !(ascends && is_within && begins) {
            return Err(format!("L1: offsets {used:?} in a span of {}", self.span));
        }
        if free.iter().any(|start| *start != NOTHING) {
            return Err(format!("L2: free slots with offsets {free:?}"));
        }
        Ok(())
    }

    /// Removes the bytes from `from` to before `to`, and shifts those behind. Needs room for one
    /// entry if both are strictly within the same one.
    ///
    /// # Panics
    /// If there are no such bytes, or there is no room.
    pub fn remove(&mut self, from: u32, to: u32) {
        assert!(from < to && to <= self.span, "bytes that are there");
        let (first, last) = (self.find(from), self.find(to - 1));
        let head = from - self.start(first);
        let rest = self.start(last + 1) - to;
        let before = (head, self.entries[first].clone());
        let after = (rest, self.entries[last].tail(to - self.start(last)));
        match (head > 0, rest > 0) {
            (true, true) => self.splice(first, last + 1, [before, after]),
            (true, false) => self.splice(first, last + 1, [before]),
            (false, true) => self.splice(first, last + 1, [after]),
            (false, false) => self.splice(first, last + 1, []),
        }
    }
}

impl<E: Entry, const C: usize> Node for Leaf<E, C> {
    type Pivot = E::Pivot;

    fn id(&self) -> NodeId {
        self.id
    }

    fn id_mut(&mut self) -> &mut NodeId {
        &mut self.id
    }

    fn split_off(&mut self, at: usize, id: NodeId) -> (u64, Self) {
        let mut right = Self::empty(id, self.weight.total());
        let (count, start) = (self.count(), self.start(at));
        for (new, old) in right.starts.iter_mut().zip(&mut self.starts[at..count]) {
            *new = *old - start;
            *old = NOTHING;
        }
        right.entries[..count - at].swap_with_slice(&mut self.entries[at..count]);
        right.count = (count - at) as u32;
        right.span = self.span - start;
        self.count = at as u32;
        self.span = start;
        (u64::from(start), right)
    }

    fn pivot(&self) -> E::Pivot {
        self.entries[0].pivot()
    }

    fn is_to_absorb(&self, right: &Self) -> bool {
        self.count() + right.count() <= Self::MERGED_COUNT_MAX
            && self.span.checked_add(right.span).is_some()
    }

    fn absorb(&mut self, mut right: Self, start: u64, _: E::Pivot, _: &mut Ledger) {
        debug_assert_eq!(start, u64::from(self.span), "leaves are contiguous (T1)");
        let (count, more) = (self.count(), right.count());
        for (new, old) in self.starts[count..].iter_mut().zip(&right.starts[..more]) {
            *new = self.span + old;
        }
        self.entries[count..count + more].swap_with_slice(&mut right.entries[..more]);
        self.count += right.count;
        self.span += right.span;
    }

    fn retire(&self, ledger: &mut Ledger) {
        ledger.retire(self.id);
    }
}
