//! One entry of a bucket: the beginning of a chain.
//!
//! # Format
//! ```text
//!  63 62 61          48 47                                     0
//! +-----+--------------+----------------------------------------+
//! |state| tag, 14 bits | address of the chain's newest record   |
//! +-----+--------------+----------------------------------------+
//! ```
//! | state | meaning |
//! |---|---|
//! | 00 | *free*: the whole word is zero |
//! | 01 | *occupied*: the chain of this tag begins at the address, or is empty if that is none |
//! | 10 | *tentative*: a thread wants this slot for the tag and looks for a twin; no address yet |
//! | 11 | *moved*: copied to the bucket that the split makes; the address no longer changes |

use sync::atomic::{AtomicU64, Ordering};

use crate::address::LogAddress;
use crate::key_hash::TAG_BITS;

use crate::planted::{Planted, relaxed_if};

/// The word of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

const OCCUPIED: u64 = 1 << 62;
const TENTATIVE: u64 = 1 << 63;
const MOVED: u64 = OCCUPIED | TENTATIVE;
const STATE: u64 = MOVED;
const TAG_SHIFT: u32 = LogAddress::BITS;
const TAG_MASK: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;

const _: () = assert!(TAG_SHIFT + TAG_BITS == 62, "an entry is an address, a tag and a state");

impl Entry {
    /// A slot that no thread uses.
    pub(super) const FREE: Self = Self(0);

    /// The chain of `tag` begins at `address`.
    pub(super) const fn occupied(tag: u16, address: LogAddress) -> Self {
        Self(OCCUPIED | (tag as u64) << TAG_SHIFT | address.get())
    }

    /// A thread wants the slot for `tag`.
    pub(super) const fn tentative(tag: u16) -> Self {
        Self(TENTATIVE | (tag as u64) << TAG_SHIFT)
    }

    /// The occupied entry with another address.
    pub(super) const fn with_address(self, address: LogAddress) -> Self {
        Self(self.0 & !((1 << LogAddress::BITS) - 1) | address.get())
    }

    /// The occupied entry, frozen.
    pub(super) const fn frozen(self) -> Self {
        Self(self.0 | MOVED)
    }

    /// Returns the moved entry in the form that it has in its new bucket.
    pub(super) const fn thawed(self) -> Self {
        Self(self.0 & !TENTATIVE)
    }

    pub(super) const fn address(self) -> LogAddress {
        LogAddress::new(self.0)
    }

    pub(super) const fn tag(self) -> u16 {
        ((self.0 & TAG_MASK) >> TAG_SHIFT) as u16
    }

    pub(super) const fn is_occupied(self) -> bool {
        self.0 & STATE == OCCUPIED
    }

    pub(super) const fn is_tentative(self) -> bool {
        self.0 & STATE == TENTATIVE
    }

    pub(super) const fn is_moved(self) -> bool {
        self.0 & STATE == MOVED
    }

    /// A chain begins here: occupied or moved.
    pub(super) const fn begins_chain(self) -> bool {
        self.0 & OCCUPIED != 0
    }

    /// Returns whether a chain of this tag begins here. It is one shift and one comparison, because
    /// a lookup does it seven times.
    #[inline]
    pub(super) const fn is_chain_of(self, tag: u16) -> bool {
        (self.0 & !TENTATIVE) >> TAG_SHIFT == (OCCUPIED >> TAG_SHIFT) | tag as u64
    }

    /// The slot is used for this tag, in whatever state.
    pub(super) const fn is_for(self, tag: u16) -> bool {
        self.0 & STATE != 0 && self.tag() == tag
    }

    /// Returns the entry in `slot`. Acquire: pairs with the release of the thread that linked the
    /// record, and, for a word cleared by a split, with the level that the split published before.
    #[inline]
    pub(super) fn load(slot: &AtomicU64) -> Self {
        Self(slot.load(Ordering::Acquire))
    }

    /// Puts `self` into a slot that no other thread may change now.
    pub(super) fn store(self, slot: &AtomicU64) {
        // [P3]
        slot.store(self.0, relaxed_if(Planted::RelaxedFree, Ordering::Release));
    }

    /// Puts `new` in the place of `self`; returns whether `self` was still there. [P1]: release, so
    /// that a thread that loads `new` sees the record behind it; acquire, so that a splitter passes
    /// that on. [P5]: acquire also if it was not: a thread that fails because a split froze the
    /// entry knows of the new level.
    #[inline]
    pub(super) fn replace(self, new: Self, slot: &AtomicU64) -> bool {
        let order = relaxed_if(Planted::RelaxedLink, Ordering::AcqRel);
        let failure = relaxed_if(Planted::RelaxedFailure, Ordering::Acquire);
        slot.compare_exchange(self.0, new.0, order, failure).is_ok()
    }
}
