//! The hash index: the beginnings of the chains of records.
//!
//! A *bucket* is a cache line of seven entries and a control word; a full one continues in
//! *overflow buckets*. An entry is the address of a chain's newest record and a tag, which
//! distinguishes the chains of a bucket. Keys that share bucket and tag share a chain. All
//! operations run concurrently with each other and with growth. To follow a lookup, start at
//! [`HashIndex::find`]; an insert, at `insert.rs`; growth, at `split.rs`; how overflow buckets
//! become free again, at `trim.rs`.
//!
//! # Growth
//! The tag *lends its low bits to the bucket number*. At level `g`, after `g` doublings, a chain is
//! in bucket `base | (low g bits of its tag) << base_bits`. Whether an entry moves when its bucket
//! is split is one bit of the entry: no record is read, and a chain is never in two places. A
//! chain's name, its base bucket and its tag, never changes. The price: after `g` doublings a
//! bucket distinguishes only `1 << (14 - g)` chains. An index of `1 << b` base buckets has at most
//! `1 << (b + 14)` chains, and with many more keys than a quarter of that, chains get longer
//! instead of more. Choose the base buckets so that four to six doublings are enough.
//!
//! # Invariants
//! - I1: a tag has at most one occupied entry in a bucket. An inserter puts a tentative entry,
//!   fences (F1), and looks at all other entries. Of two inserters of one tag at least one sees the
//!   other, whatever slots they took. An inserter withdraws in favour of an occupied entry, and of
//!   a tentative one before its own. For a tentative one behind its own it waits: that inserter
//!   withdraws, unless it did not see this one, and then becomes occupied. Waits point backwards
//!   only, so there is no circle, and the inserter in front does not withdraw for one behind. So
//!   one of them always succeeds.
//! - I2: when the index's level is `g`, every bucket that there was before is at `g - 1` or `g`. A
//!   doubling begins only after the last split of the one before (`unsplit` is zero).
//! - I3: an operation at level `g` uses a bucket only if the bucket's own level is `g`. If it is
//!   less, the operation splits the parent first. If it is more, it has read an old level, and
//!   reads it again.
//! - I4: a moved entry does not change until the splitter that froze it frees it, and no other
//!   thread frees it. A compare-and-swap on its value before the freeze fails.
//! - I5: while a bucket's split lock is held, no entry of the moving half becomes occupied in it
//!   but one that the splitter waits for. An inserter reads the control word again after F1; the
//!   splitter fences (F2) between taking the lock and reading the entries. Either the inserter sees
//!   the lock and withdraws, or the splitter sees the tentative entry and waits for it. The
//!   inserter never waits for a splitter while it has a tentative entry.
//! - I6: an entry that was not found in a bucket is absent if the bucket's level is still the same
//!   afterwards. Entries leave a bucket only after its new level is published, other than by being
//!   retired.
//! - I7: a moved entry may be read. Its address is the chain's newest until the new bucket is
//!   published. An operation that finds it has read the index's old level, or the new bucket's
//!   control word, before that, so the moment is within the operation. It may not be changed (I4).
//! - I8: a thread that uses the index is protected by the store's epochs, and holds no slot beyond
//!   that. The exception is one thread that has the index for itself. Segments are never moved. An
//!   overflow bucket that was taken out of its chain becomes part of another one only later. All
//!   threads that were protected when it was taken out have left protection then.
//! - I9: a bucket that is taken out of a chain is empty and stays empty. An inserter that put a
//!   tentative entry there too late for the trimmer to see it (F1, F2) sees the lock, or that the
//!   bucket was trimmed, and withdraws. An appender that reaches such a bucket finds it locked.
//!
//! # Memory order, pair by pair
//! - F1 with F1, F1 with F2, sequentially consistent fences: see I1, I5 and I9. Acquire and release
//!   alone let both miss each other.
//! - P1, release of the compare-and-swap that links a record, with the acquire load of the entry: a
//!   thread that finds a record sees its content. The splitter acquires it when it freezes. It
//!   passes it on by P2.
//! - P2, release store of a new bucket's level with the acquire load of its control word: a thread
//!   that works on it sees its entries.
//! - P3, release store that frees a moved entry with the acquire load of the free slot: a thread
//!   that misses an entry for that reason reads the new level (I6).
//! - P4, release store of the index's level with the acquire load: a thread that knows a level
//!   finds its segment, and knows that every bucket has reached the level before (I2).
//! - P5, acquire also of a compare-and-swap that fails: a thread that lost against a freeze knows
//!   of the new level. Without it a scrub could end before it reached the bucket the entry moved
//!   to.
//!
//! Each of these has a model that fails when it is weakened; see `loom.rs`.
//!
//! # What waits
//! Finding an entry waits for no other thread. Making one, and finding that there is none, wait for
//! a thread that splits that bucket or makes the same entry: some tens of instructions, unless that
//! thread loses its processor.

mod bucket;
mod chain;
mod entry;
mod figures;
mod insert;
#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod overflow;
#[cfg(all(test, shuttle, not(loom)))]
mod shuttle;
mod slot;
mod split;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod trim;
mod upkeep;
mod walk;

use std::iter::successors;

use sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sync::{CachePadded, Mutex};

use crate::address::LogAddress;
use crate::key_hash::{KeyHash, TAG_BITS};
use crate::planted::{Planted, mutant};
use crate::position::Position;
use bucket::{Bucket, Control};
use chain::Chain;
use entry::Entry;
use figures::EntryCount;
use overflow::OverflowPool;
use table::Table;

pub(crate) use chain::ChainId;
pub(crate) use figures::Figures;
pub(crate) use slot::Slot;
pub(crate) use trim::Trimmed;

/// Greatest number of doublings of the table: each takes a bit from the tag, which distinguishes
/// the chains of a bucket.
pub(crate) const LEVEL_MAX: u32 = 10;
/// The largest number of base buckets, as a power of two.
pub(crate) const BASE_BITS_MAX: u32 = 30;

const _: () = assert!(LEVEL_MAX < TAG_BITS, "a tag keeps some bits to tell chains apart");

/// The beginnings of chains of records.
pub(crate) struct HashIndex {
    /// Every operation reads these first, and only a doubling writes them.
    level: AtomicU32,
    table: Table,
    overflow: OverflowPool,
    entries: EntryCount,
    /// Buckets that the doubling under way has not split.
    unsplit: CachePadded<AtomicUsize>,
    /// The level of the doubling in progress, and how far [`Self::split_some`] has advanced.
    sweep: CachePadded<AtomicU64>,
    growth: Mutex<()>,
    /// Overflow buckets in use after the last trim. Not modelled: it only says when the next is
    /// due.
    kept: std::sync::atomic::AtomicU32,
}

impl HashIndex {
    /// An index of `1 << base_bits` buckets of 64 bytes, of seven chains each, that can double
    /// [`LEVEL_MAX`] times.
    ///
    /// # Panics
    /// If `base_bits` is above [`BASE_BITS_MAX`].
    pub(crate) fn new(base_bits: u32) -> Self {
        assert!(base_bits <= BASE_BITS_MAX, "{base_bits} bits");
        Self {
            level: AtomicU32::new(0),
            table: Table::new(base_bits),
            overflow: OverflowPool::new(),
            entries: EntryCount::new(),
            unsplit: CachePadded::new(AtomicUsize::new(0)),
            sweep: CachePadded::new(AtomicU64::new(0)),
            growth: Mutex::new(()),
            kept: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// The entry of a key's chain, if there is one. Never waits for a thread that changes the
    /// chain; if there is no entry and its bucket is being split, waits for that.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash) -> Option<Slot<'_>> {
        let chain = self.chain(hash);
        loop {
            let level = self.level();
            let number = chain.number(self.table.base_bits(), level);
            let bucket = self.table.bucket(number);
            let control = bucket.control();
            if control.level() == level {
                let found = self.look(bucket, control, chain.tag);
                // I6
                let is_unchanged = || bucket.control().level() == level;
                if found.is_some() || mutant!(Planted::AbsenceUnchecked, is_unchanged(), true) {
                    return found;
                }
            } else if let Some(found) = self.find_beside_split(chain, number, level) {
                return Some(found);
            }
        }
    }

    /// Loads the bucket that a key's chain is in, for its own sake.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) -> u64 {
        let number = self.chain(hash).number(self.table.base_bits(), self.level());
        u64::from(self.table.bucket(number).control().level())
    }

    /// The entry of a key's chain, made without an address if there is none. Waits while another
    /// thread makes the same entry or splits its bucket.
    pub(crate) fn find_or_create(&self, hash: KeyHash) -> Slot<'_> {
        self.find_or_create_chain(self.chain(hash))
    }

    /// Returns a key's position in the order of walks, which is that of the chains.
    pub(crate) fn position(&self, hash: KeyHash) -> Position {
        Position::of(hash, self.table.base_bits())
    }

    /// The chain in which keys of this position are.
    pub(crate) fn chain_at(&self, position: Position) -> ChainId {
        position.chain(self.table.base_bits())
    }

    /// Returns the first position behind the keys of `chain`, if there is one.
    pub(crate) fn position_behind(&self, chain: ChainId) -> Option<Position> {
        Position::behind(chain, self.table.base_bits())
    }

    /// How often the table was doubled; with the base bits, its size.
    pub(crate) fn level(&self) -> u32 {
        // [P4]
        self.level.load(Ordering::Acquire)
    }

    /// Buckets of the table, those of a doubling under way included.
    pub(crate) fn buckets(&self) -> usize {
        self.table.buckets(self.level())
    }

    /// Bytes of the table before it was ever doubled.
    pub(crate) fn base_table_bytes(&self) -> u64 {
        self.table.buckets(0) as u64 * bucket::BUCKET_BYTES
    }

    /// Returns the bytes of the table, without its overflow buckets.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// Returns the parts of the index.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            buckets: self.buckets() as u64,
            entries: self.entries.get(),
            overflow_buckets: self.overflow.used(),
            bytes: self.table.bytes() + self.overflow.bytes() + size_of::<Self>() as u64,
        }
    }

    #[inline]
    fn chain(&self, hash: KeyHash) -> Chain {
        Chain::of(hash, self.table.base_bits())
    }

    /// The present level, and the number of the chain's bucket, which has reached it.
    fn resolve(&self, chain: Chain) -> (u32, usize) {
        let level = self.level();
        let number = chain.number(self.table.base_bits(), level);
        self.catch_up(number, level);
        (level, number)
    }

    /// Looks for the chain's entry, occupied or moved.
    #[inline]
    fn look<'a>(&'a self, bucket: Bucket<'a>, control: Control, tag: u16) -> Option<Slot<'a>> {
        let mut line = bucket;
        let mut overflow = control.overflow();
        loop {
            for place in line.entries() {
                let entry = Entry::load(place);
                if entry.is_chain_of(tag) {
                    return Some(Slot::new(place, entry));
                }
            }
            line = self.overflow.get(overflow)?;
            overflow = line.control().overflow();
        }
    }

    /// Looks in the bucket that is being split to make the chain's bucket, or helps to split it.
    #[cold]
    fn find_beside_split(&self, chain: Chain, number: usize, level: u32) -> Option<Slot<'_>> {
        if self.table.bucket(number).control().level() < level {
            let parent = chain.number(self.table.base_bits(), level - 1);
            let bucket = self.table.bucket(parent);
            let control = bucket.control();
            // I7
            if control.level() < level && control.is_locked() {
                let found = self.look(bucket, control, chain.tag);
                if found.is_some() {
                    return found;
                }
            }
            self.split(parent, level - 1);
        }
        None
    }

    /// A bucket and the overflow buckets behind it, as of a control word of the bucket.
    #[inline]
    fn lines<'a>(
        &'a self,
        bucket: Bucket<'a>,
        control: Control,
    ) -> impl Iterator<Item = Bucket<'a>> {
        let mut first = Some(control);
        successors(Some(bucket), move |line| {
            let control = first.take().unwrap_or_else(|| line.control());
            self.overflow.get(control.overflow())
        })
    }
}
