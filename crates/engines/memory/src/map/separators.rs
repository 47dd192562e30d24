//! A sorted, immutable list of byte strings, packed so that a search touches few cache lines.
//!
//! The first string represents everything below the second: a search never compares with it. Heads
//! are taken behind the prefix that all others share, since keys of one kind begin alike.

use std::cmp::Ordering;

use super::order::{common_len, head};

/// Sorted strings, the first of them the lower end of the range that the list covers.
#[derive(Debug)]
pub(super) struct Separators {
    /// The prefix that all but the first string share.
    shared: Box<[u8]>,
    /// The head of each string behind that prefix; the first is not looked at.
    heads: Box<[u64]>,
    /// The end of each string in `bytes`.
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Separators {
    /// Packs `strings`, which ascend strictly and are at least one.
    pub(super) fn new(strings: &[&[u8]]) -> Self {
        debug_assert!(!strings.is_empty() && strings.is_sorted());
        let shared = match (strings.get(1), strings.last()) {
            (Some(first), Some(last)) => &first[..common_len(first, last)],
            _ => &[],
        };
        let mut bytes = Vec::with_capacity(strings.iter().map(|string| string.len()).sum());
        let mut ends = Vec::with_capacity(strings.len());
        let mut heads = Vec::with_capacity(strings.len());
        for string in strings {
            bytes.extend_from_slice(string);
            ends.push(u32::try_from(bytes.len()).expect("a few hundred keys are below 4 GiB"));
            heads.push(string.get(shared.len()..).map_or(0, head));
        }
        Self { shared: shared.into(), heads: heads.into(), ends: ends.into(), bytes: bytes.into() }
    }

    /// How many strings there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// String `index`.
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// All strings, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The last string that is at or below `key`; the first if none is.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.count_below(key, Ordering::is_le)
    }

    /// The last string that is below `key`; the first if none is.
    pub(super) fn find_before(&self, key: &[u8]) -> usize {
        self.count_below(key, Ordering::is_lt)
    }

    /// The index of the last string, the first apart, whose comparison with `key` is `wanted`.
    fn count_below(&self, key: &[u8], wanted: fn(Ordering) -> bool) -> usize {
        let Some(suffix) = key.strip_prefix(&*self.shared) else {
            return if key < &*self.shared { 0 } else { self.len() - 1 };
        };
        let sought = head(suffix);
        let heads = &self.heads[1..];
        let below = heads.partition_point(|head| *head < sought);
        if heads.get(below) != Some(&sought) {
            return below;
        }
        let same = heads[below..].partition_point(|head| *head == sought);
        let (mut low, mut high) = (below, below + same);
        while low < high {
            let middle = low.midpoint(high);
            if wanted(self.get(middle + 1).cmp(key)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
