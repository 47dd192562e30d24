//! A skip list: entries in order, in memory of their own.
//!
//! Threads add to it and read it concurrently, without a lock. Entries are removed only with the
//! whole list.
//!
//! Entries are ordered by key, and entries of one key by number, the largest first. Each has a
//! value or none. One that was [put](SkipList::put), rather than inserted, may be replaced by a
//! newer one of its key (`replacing`).
//!
//! 1. An insertion finds, on each level, the last node before the place and the first one after it.
//!    If that one has this key and number, nothing is done.
//! 2. The node is written to words that no other thread has (`chunks`, `node`): they hold its key
//!    and a short value. A longer value has words in chunks of values. Only a new chunk allocates
//!    memory, and no memory is freed before the list is.
//! 3. Level by level, from the bottom, its link is set to the one behind it, and the link of the
//!    one before it is exchanged. If another node was linked in between, the two are searched again
//!    from there.
//! 4. A search moves from the top to the right as long as nodes are before the place, and then one
//!    level down.
//!
//! # Invariants
//! - S1. Except for its links, and for changes by `replacing`, a node is written before it is
//!   linked, and never after that. The exchange that links it releases, and a thread that follows a
//!   link acquires: it finds all of the node, its value, and the chunks of both.
//! - S2. A node is linked on a level after it was linked on all levels below: a thread that reaches
//!   it on one level finds its lower links set.
//! - S3. On each level nodes are in order. A node is put between two neighbours, the first before
//!   it and the second after it; the next node of a node only comes nearer.
//! - S4. No two nodes have the same key and number: an insertion that finds a new node in between
//!   checks whether it is the same before it tries again.
//!
//! # Concurrency
//! A thread that sees that an insertion has returned finds its entry. The bottom level has it, and
//! a search follows that level to the entry's place, wherever it reaches that level.

mod chunks;
mod node;
mod replacing;

use std::cmp::Ordering as Order;
use std::fmt;
use std::sync::Arc;

use crate::arena::Arena;
use sync::atomic::{AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed};
use sync::planted::relaxed_if;

use crate::planted::Planted;
use chunks::Chunks;
pub use node::Entry;
use node::{Content, words_without_links};

/// Levels: a list of four times the nodes has one more, so these are for millions.
const HEIGHT_MAX: usize = if cfg!(any(loom, shuttle)) { 2 } else { 12 };
/// Of the nodes of a level, one in two to the power of this is on the next one too. Models have few
/// nodes.
const LEVEL_BITS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 2 };
/// Bytes that links take on average: eight, and a quarter of that for each further level.
const LINK_BYTES: u64 = 11;
/// The position before the first node, and after the last one.
const NONE: u64 = 0;

/// A skip list; see the file's head.
///
/// ```
/// let list = thermocline_arena::skip_list::SkipList::new();
/// assert!(list.insert(b"key", 1, Some(b"old")));
/// assert!(list.insert(b"key", 2, Some(b"new")));
/// assert!(!list.insert(b"key", 2, None), "it is there");
/// let mut value = Vec::new();
/// let newest = list.seek(b"key", u64::MAX).expect("there is one");
/// assert!(newest.read_value(&mut value));
/// assert_eq!((newest.number(), value.as_slice()), (2, b"new".as_slice()));
/// ```
pub struct SkipList {
    /// The first node of each level.
    first: [AtomicU64; HEIGHT_MAX],
    /// Levels that have nodes, or will have soon; at least one.
    height: AtomicUsize,
    len: AtomicUsize,
    nodes: Chunks,
    /// Values that are apart from their nodes.
    values: Chunks,
}

/// A store of chunks of words: a list takes chunks that another list has left, and leaves its own.
/// Chunks are of powers of two of words, a page of the system at least.
pub trait Reuse: Send + Sync + fmt::Debug {
    /// Takes a chunk of `words` words, and returns it with the number of its first words that are
    /// in memory; anything may be in them. If there is none, the list takes one from the system,
    /// and its words are zero.
    fn take(&self, words: usize) -> Option<(Arena, usize)>;

    /// Notes that `words` more words in memory of chunks that were taken are filled, or that their
    /// list is dropped. It is called for all of a chunk before the chunk is given.
    fn note_filled(&self, words: usize);

    /// A list that goes leaves a chunk, of which the first `touched` words are in memory.
    fn give(&self, chunk: Arena, touched: usize);
}

/// The place of a node: the positions of its neighbours on each level.
struct Place {
    before: [u64; HEIGHT_MAX],
    behind: [u64; HEIGHT_MAX],
}

impl SkipList {
    /// An empty list, which takes no memory but its own.
    pub fn new() -> Self {
        Self {
            first: std::array::from_fn(|_| AtomicU64::new(NONE)),
            height: AtomicUsize::new(1),
            len: AtomicUsize::new(0),
            nodes: Chunks::new(None),
            values: Chunks::new(None),
        }
    }

    /// An empty list that takes chunks which others have left, and leaves its own.
    pub fn reusing(reuse: Arc<dyn Reuse>) -> Self {
        let nodes = Chunks::new(Some(Arc::clone(&reuse)));
        Self { nodes, values: Chunks::new(Some(reuse)), ..Self::new() }
    }

    /// Bytes that an entry takes, on average: how many links it has is drawn by lot.
    pub fn entry_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
        (words_without_links(key_bytes, value_bytes) * size_of::<u64>()) as u64 + LINK_BYTES
    }

    /// Adds an entry; `false`, and nothing is changed, if there is one of this key and number.
    ///
    /// # Panics
    /// If the key is longer than 65,535 bytes, or the value than a terabyte.
    pub fn insert(&self, key: &[u8], number: u64, value: Option<&[u8]>) -> bool {
        assert!(value.is_none_or(|value| value.len() < (1 << 40) - 1), "a value of a terabyte");
        let mut place = self.place_of(key, number);
        self.add(&mut place, &Content { key, number, value, kept_words: None })
    }

    /// Step 1.
    fn place_of(&self, key: &[u8], number: u64) -> Place {
        assert!(key.len() <= usize::from(u16::MAX), "a key of {} bytes", key.len());
        let mut place = Place { before: [NONE; HEIGHT_MAX], behind: [NONE; HEIGHT_MAX] };
        let is_before = |entry: Entry<'_>| entry.compare(key, number) == Order::Less;
        self.search(&is_before, &mut |level, before, behind| {
            place.before[level] = before;
            place.behind[level] = behind;
        });
        place
    }

    /// Steps 2 and 3, unless there is one of this key and number: `false`.
    fn add(&self, place: &mut Place, content: &Content<'_>) -> bool {
        let Content { key, number, .. } = *content;
        let is_before = |entry: Entry<'_>| entry.compare(key, number) == Order::Less;
        let is_it = |at: u64| at != NONE && self.entry(at).compare(key, number) == Order::Equal;
        if is_it(place.behind[0]) {
            return false;
        }
        let height = height_of(self.len.fetch_add(1, Relaxed));
        if height > self.height.load(Relaxed) {
            self.height.fetch_max(height, Relaxed);
        }
        let apart = content.words_apart().map(|words| self.values.allocate(words));
        let (at, words) = self.nodes.allocate(content.words(height));
        content.write(height, words, apart);
        let links = Entry::at(words, &self.values).links();
        for level in levels(height) {
            links[level].store(place.behind[level], Relaxed);
            while !self.link(place, level, at) {
                self.find_again(place, level, &is_before);
                let is_same = level == 0 && is_it(place.behind[0]);
                if sync::mutant!(Planted::SameNotSeen, is_same, false) {
                    self.len.fetch_sub(1, Relaxed);
                    return false;
                }
                let next = place.behind[level];
                sync::mutant!(Planted::LinkNotSetAgain, links[level].store(next, Relaxed), ());
            }
        }
        true
    }

    /// Step 3: puts the node `at` into its place on one level, if the two are still neighbours.
    fn link(&self, place: &Place, level: usize, at: u64) -> bool {
        let link = &self.links(place.before[level])[level];
        let order = relaxed_if(Planted::RelaxedLink, Ordering::Release);
        let is_linked = || link.compare_exchange(place.behind[level], at, order, Relaxed).is_ok();
        sync::mutant!(Planted::LinkStored, is_linked(), link.swap(at, order) != at)
    }

    /// Moves the place past nodes that other threads have linked before it on this level.
    fn find_again(&self, place: &mut Place, level: usize, is_before: &impl Fn(Entry<'_>) -> bool) {
        loop {
            let next = self.links(place.before[level])[level].load(Ordering::Acquire);
            if next == NONE || !is_before(self.entry(next)) {
                place.behind[level] = next;
                return;
            }
            place.before[level] = next;
        }
    }

    /// Step 4: reports, for each level from the top, the last position before the place, and the
    /// next one.
    #[inline]
    fn search(
        &self,
        is_before: &impl Fn(Entry<'_>) -> bool,
        tell: &mut impl FnMut(usize, u64, u64),
    ) {
        let (mut before, mut links) = (NONE, self.first.as_slice());
        let mut behind = NONE;
        for level in (0..self.height.load(Relaxed)).rev() {
            loop {
                let next = links[level].load(Ordering::Acquire);
                // The level above found it to be after the place.
                if next == NONE || next == behind {
                    break;
                }
                let entry = self.entry(next);
                if !is_before(entry) {
                    behind = next;
                    break;
                }
                (before, links) = (next, entry.links());
            }
            tell(level, before, behind);
        }
    }

    /// The neighbours of a place.
    fn neighbours(&self, is_before: &impl Fn(Entry<'_>) -> bool) -> (u64, u64) {
        let mut found = (NONE, NONE);
        self.search(is_before, &mut |_, before, behind| found = (before, behind));
        found
    }

    /// The first entry at or behind that of this key and number.
    pub fn seek(&self, key: &[u8], number: u64) -> Option<Entry<'_>> {
        let is_before = |entry: Entry<'_>| entry.compare(key, number) == Order::Less;
        self.entry_at(self.neighbours(&is_before).1)
    }

    /// The first entry behind that of this key and number.
    pub fn seek_after(&self, key: &[u8], number: u64) -> Option<Entry<'_>> {
        let is_before = |entry: Entry<'_>| entry.compare(key, number) != Order::Greater;
        self.entry_at(self.neighbours(&is_before).1)
    }

    /// The last entry before that of this key and number.
    pub fn seek_before(&self, key: &[u8], number: u64) -> Option<Entry<'_>> {
        let is_before = |entry: Entry<'_>| entry.compare(key, number) == Order::Less;
        self.entry_at(self.neighbours(&is_before).0)
    }

    /// The first entry of all.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.entry_at(self.first[0].load(Ordering::Acquire))
    }

    /// The last entry of all.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.entry_at(self.neighbours(&|_| true).0)
    }

    /// The one behind `entry`, which is one of this list's.
    #[inline]
    pub fn next<'a>(&'a self, entry: Entry<'a>) -> Option<Entry<'a>> {
        self.entry_at(entry.links()[0].load(Ordering::Acquire))
    }

    /// Returns all entries in order, and entries that are added meanwhile after its position.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        std::iter::successors(self.first(), |entry| self.next(*entry))
    }

    /// Returns the number of entries, including entries that are just being added.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether no entry is in it, nor just coming.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn links(&self, at: u64) -> &[AtomicU64] {
        if at == NONE { &self.first } else { self.entry(at).links() }
    }

    #[inline]
    fn entry(&self, at: u64) -> Entry<'_> {
        Entry::at(self.nodes.from(at), &self.values)
    }

    fn entry_at(&self, at: u64) -> Option<Entry<'_>> {
        (at != NONE).then(|| self.entry(at))
    }
}

/// The levels of a node, in the order in which it is linked.
fn levels(height: usize) -> impl Iterator<Item = usize> {
    (0..height).map(move |level| sync::mutant!(Planted::TopLinkedFirst, level, height - 1 - level))
}

/// On how many levels the node is that comes after so many others.
fn height_of(nth: usize) -> usize {
    // The finalizer of SplitMix64: neighbours have nothing in common.
    let mut bits = (nth as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    HEIGHT_MAX.min(1 + (bits.trailing_zeros() / LEVEL_BITS) as usize)
}

impl Default for SkipList {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SkipList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipList").field("len", &self.len).finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("number", &self.number()).finish_non_exhaustive()
    }
}
