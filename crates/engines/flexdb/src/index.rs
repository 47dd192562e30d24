//! The sparse index: an entry for each interval, in a tree whose offsets shift (Flex 5.1).
//!
//! It is FlexTree's own tree, with keys as pivots. Offsets in it are those in the space less the
//! header's bytes.
//!
//! # Invariants
//! - X1. Intervals are disjoint, in the order of their keys: an interval has the keys from its
//!   bound to before the next one's; the first also has all smaller keys.
//! - X2. The first pair in an interval's bytes has the least key of all pairs there. Its extent is
//!   tagged, so an opening finds the interval again, and then has this key as its bound. If other
//!   extents are tagged, too, the same holds from each of them to the next.
//! - X3. A [`Head`] represents one version of its interval and never changes, except for its cache.
//!   So the cached block is right for every snapshot that knows this head.
//! - X4. A part of an interval is cached only with the key that it was looked up for. An update is
//!   cached alone if it has this key and no other update is like it, and a tombstone only with the
//!   main part.

mod key;
mod tail;

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use flexspace::{Entry, Found, Room, ShiftTree, Side, Snapshot};

use crate::allocated::allocated_bytes;
use crate::block::Block;
pub(crate) use key::Key;
use memory_budget::Account;
pub(crate) use tail::{Part, Parts, Tail};

/// The tag of the extent that an interval begins with.
pub(crate) const START: u16 = 1;

/// The counts of references before a head. Its place in the tree is counted with the tree's nodes.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// The tree that a commit changes.
pub(crate) type Index = ShiftTree<Interval>;

/// A state of it.
pub(crate) type IndexSnapshot = Snapshot<Interval>;

/// A version of an interval.
#[derive(Debug)]
pub(crate) struct Head {
    bound: Key,
    /// The key of its first pair, if that is not the bound.
    first: Option<Box<Key>>,
    cached: ArcSwapOption<Block>,
    account: Arc<Account>,
    pub(crate) lie: Lie,
    /// The places of the updates of its tail, once they are known.
    tail: OnceLock<Tail>,
    /// Whether the cache's hand is to pass it by once.
    is_used: AtomicBool,
    /// The moment, by the cache's count, when its block was evicted; 0 if that is of no account.
    given_up: AtomicU32,
}

/// The layout of an interval in the space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lie {
    /// Its extents, at most.
    pub(crate) fragments: u16,
    /// Updates that were appended without looking.
    pub(crate) tail: u16,
    /// The number of its live pairs, at most; or [`Lie::UNKNOWN`].
    pub(crate) pairs: u16,
    /// Whether other extents than the first may be tagged: several intervals were taken as one.
    pub(crate) has_inner_tags: bool,
    /// Whether it is damaged as a whole: its keys are known not to be in order, or it is a part of
    /// a range that was found damaged.
    pub(crate) is_out_of_order: bool,
}

impl Lie {
    /// The pairs were not counted.
    pub(crate) const UNKNOWN: u16 = u16::MAX;

    /// Returns the layout of this interval and the one behind it, as one.
    pub(crate) fn with(&self, next: &Self) -> Self {
        Self {
            fragments: self.fragments.saturating_add(next.fragments),
            tail: 0,
            pairs: Self::UNKNOWN,
            has_inner_tags: true,
            is_out_of_order: self.is_out_of_order || next.is_out_of_order,
        }
    }

    /// Returns the number of its pairs that live, at most; `usual` if they were not counted.
    pub(crate) fn pairs_or(&self, usual: usize) -> usize {
        match self.pairs {
            Self::UNKNOWN => usual,
            pairs => usize::from(pairs).max(1),
        }
    }

    /// Returns the number of its pairs that were not appended, at most; none if they were not
    /// counted.
    pub(crate) fn main_pairs(&self) -> u16 {
        if self.pairs == Self::UNKNOWN { 0 } else { self.pairs.saturating_sub(self.tail) }
    }
}

impl Head {
    /// A version with a bound, whose first pair has the key `first`. If it has a tail, or may have
    /// one, as after opening, the places of the tail's updates are not known.
    pub(crate) fn new(bound: &[u8], first: &[u8], lie: Lie, account: &Arc<Account>) -> Arc<Self> {
        let is_known = lie.tail == 0 && (lie.fragments <= 1 || lie.pairs != Lie::UNKNOWN);
        let tail = is_known.then(Tail::default);
        Self::with_tail(bound, first, (lie, tail), account)
    }

    /// The same, with the places of the tail's updates if they are known.
    pub(crate) fn with_tail(
        bound: &[u8],
        first: &[u8],
        (lie, tail): (Lie, Option<Tail>),
        account: &Arc<Account>,
    ) -> Arc<Self> {
        let head = Self {
            bound: Key::from(bound),
            first: (bound != first).then(|| Box::new(Key::from(first))),
            cached: ArcSwapOption::empty(),
            account: Arc::clone(account),
            lie,
            tail: tail.map(OnceLock::from).unwrap_or_default(),
            is_used: AtomicBool::new(false),
            given_up: AtomicU32::new(0),
        };
        account.add(head.memory_bytes());
        Arc::new(head)
    }

    /// Bytes of memory, without its cached block.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let boxed = |first: &Key| allocated_bytes(size_of::<Key>()) + first.heap_bytes();
        let first = self.first.as_deref().map_or(0, boxed);
        let own = allocated_bytes(size_of::<Self>() + COUNTS_BYTES);
        own + self.bound.heap_bytes() + self.tail.get().map_or(0, Tail::heap_bytes) + first
    }

    /// Its keys are not below this, unless it is the first interval.
    pub(crate) fn bound(&self) -> &Key {
        &self.bound
    }

    /// Returns the key of its first pair (X2).
    pub(crate) fn first_key(&self) -> &[u8] {
        self.first.as_deref().unwrap_or(&self.bound)
    }

    /// Returns the part of it that may have a key.
    pub(crate) fn part_of(&self, key: &[u8]) -> Part {
        // Without a tail all of it is the main part.
        let tail = self.tail.get().filter(|tail| tail.len() > 0);
        tail.map_or(Part::Whole, |tail| tail.part_of(key))
    }

    /// Returns the bytes of a part of it, if it has `length` bytes.
    pub(crate) fn range(&self, part: Part, length: u32) -> Range<u32> {
        self.tail.get().map_or(0..length, |tail| tail.range(part, length))
    }

    /// Whether the places of its tail's updates are not known.
    pub(crate) fn wants_tail(&self) -> bool {
        self.tail.get().is_none()
    }

    /// Returns the places of its tail's updates, if they are known.
    pub(crate) fn tail(&self) -> Option<&Tail> {
        self.tail.get()
    }

    /// Sets the places of its tail's updates, after it was read.
    pub(crate) fn learn_tail(&self, tail: Tail) {
        let bytes = tail.heap_bytes();
        if self.tail.set(tail).is_ok() {
            self.account.add(bytes);
        }
    }

    /// Returns its tail after `front` bytes were added before it and updates behind it, each with
    /// its place and its key.
    pub(crate) fn tail_after(&self, front: u32, updates: &[(u32, &[u8])]) -> Option<Tail> {
        self.tail.get()?.appended(front, updates)
    }

    /// Returns its cached block, if that is all of it, and marks it as used.
    pub(crate) fn whole(&self) -> Option<Arc<Block>> {
        self.cached().as_ref().filter(|block| block.is_whole()).cloned()
    }

    /// Returns its cached block, in place, which may have only some parts, and marks it as used.
    pub(crate) fn cached(&self) -> arc_swap::Guard<Option<Arc<Block>>> {
        let block = self.cached.load();
        if block.is_some() && !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
        block
    }

    /// Caches its block, and returns whether none was there.
    pub(crate) fn cache(&self, block: &Arc<Block>) -> bool {
        self.cached.swap(Some(Arc::clone(block))).is_none()
    }

    /// Takes its block out of the cache, at a moment as the cache counts.
    pub(crate) fn evict(&self, moment: u32) -> Option<Arc<Block>> {
        self.given_up.store(moment, Relaxed);
        self.cached.swap(None)
    }

    /// Returns the moment when its block was evicted, if it was and this was not asked since.
    pub(crate) fn take_ghost(&self) -> Option<NonZeroU32> {
        // Most heads had no block evicted: no line is written for them.
        NonZeroU32::new(self.given_up.load(Relaxed)).filter(|_| self.given_up.swap(0, Relaxed) > 0)
    }

    /// Whether anything of it is cached.
    pub(crate) fn is_cached(&self) -> bool {
        self.cached.load().is_some()
    }

    /// Whether all of it is.
    pub(crate) fn is_whole_cached(&self) -> bool {
        self.cached.load().as_ref().is_some_and(|block| block.is_whole())
    }

    /// Whether it was used since it was asked last.
    pub(crate) fn was_used(&self) -> bool {
        self.is_used.swap(false, Relaxed)
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.account.release(self.memory_bytes());
    }
}

/// An entry of the index. Slots that hold nothing have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interval(Option<Arc<Head>>);

/// The separator of two nodes of the index: the bound of the first interval of the right one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pivot(Key);

impl Interval {
    pub(crate) fn new(head: Arc<Head>) -> Self {
        Self(Some(head))
    }

    pub(crate) fn head(&self) -> Option<&Arc<Head>> {
        self.0.as_ref()
    }

    fn bound(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |head| &head.bound)
    }
}

impl Pivot {
    fn key(&self) -> &[u8] {
        &self.0
    }
}

impl Entry for Interval {
    type Pivot = Pivot;

    fn pivot(&self) -> Pivot {
        Pivot(self.0.as_ref().map(|head| head.bound.clone()).unwrap_or_default())
    }

    fn tail(&self, _: u32) -> Self {
        self.clone()
    }
}

/// Returns the interval that a key belongs to; none if there is no pair at all.
pub(crate) fn find<'a>(index: &'a IndexSnapshot, key: &[u8]) -> Option<Found<'a, Interval>> {
    index.get_by_key(key, Interval::bound, Pivot::key)
}

/// Returns the bound of the interval that begins at `offset`, where the one before it ends.
pub(crate) fn bound_at(index: &IndexSnapshot, offset: u64) -> Option<&Key> {
    index.get(offset)?.entry.head().map(|head| &head.bound)
}

/// Checks the tree and X1, for tests. O(N).
///
/// # Errors
/// A property does not hold. The text has the property and its place.
#[cfg(test)]
pub(crate) fn check(index: &Index) -> Result<(), String> {
    index.check()?;
    index.check_pivots(Interval::bound, Pivot::key)
}

/// Returns the bytes of one state: heads, and nodes. O(N).
pub(crate) fn memory_bytes(index: &IndexSnapshot) -> u64 {
    let heads = index.range(0..u64::MAX).filter_map(|found| found.entry.head());
    index.node_bytes() + heads.map(|head| head.memory_bytes()).sum::<u64>()
}

/// Puts an interval behind all others.
pub(crate) fn append(index: &mut Index, length: u32, interval: Interval) {
    let offset = index.now().len();
    put(index, offset, length, interval, Side::End);
}

/// Puts the intervals `pieces` in the place of the one at `offset`. The first has the bound that
/// this one had.
pub(crate) fn replace(index: &mut Index, offset: u64, old: u32, pieces: &[(u32, Interval)]) {
    let Some(((length, interval), others)) = pieces.split_first() else {
        index.remove(offset, offset + u64::from(old));
        return;
    };
    if *length != old {
        index.resize(offset, *length);
    }
    let room = Room { entries: 0, bytes: 0, side: Side::At };
    index.edit(offset, room, |leaf, spot| *leaf.entry_mut(spot.index) = interval.clone());
    let mut at = offset + u64::from(*length);
    for (length, interval) in others {
        put(index, at, *length, interval.clone(), Side::Before);
        at += u64::from(*length);
    }
}

/// Makes one of two neighbours, the left one of which begins at `offset`.
pub(crate) fn join(index: &mut Index, offset: u64, lengths: [u32; 2], interval: Interval) {
    let [left, right] = lengths;
    let middle = offset + u64::from(left);
    index.remove(middle, middle + u64::from(right));
    replace(index, offset, left, &[(left + right, interval)]);
}

/// Makes one of all intervals of a range, which begins and ends with them.
pub(crate) fn join_run(index: &mut Index, range: Range<u64>, interval: Interval) {
    let first = index.now().get(range.start).map_or(0, |first| first.length);
    let others = (range.end - range.start) as u32 - first;
    join(index, range.start, [first, others], interval);
}

fn put(index: &mut Index, offset: u64, length: u32, interval: Interval, side: Side) {
    let room = Room { entries: 1, bytes: length, side };
    index.edit(offset, room, |leaf, spot| {
        let at = if spot.inside == 0 { 0 } else { spot.index + 1 };
        leaf.splice(at, at, [(length, interval)]);
    });
}
