//! An entry that was found: where it is and what it said.

use std::fmt;

use sync::atomic::AtomicU64;
use sync::thread::yield_now;

use super::entry::Entry;
use crate::address::LogAddress;

/// Where a chain begins, as it was when it was looked up.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    place: &'a AtomicU64,
    seen: Entry,
}

/// The entry is not what it was: another record is the newest of the chain, or the entry was freed
/// or moved. The caller looks the chain up anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed;

impl<'a> Slot<'a> {
    #[inline]
    pub(super) const fn new(place: &'a AtomicU64, seen: Entry) -> Self {
        Self { place, seen }
    }

    /// The newest record of the chain; [`LogAddress::NONE`] if it has none. What was written to the
    /// record before it was linked is visible.
    #[inline]
    pub(crate) const fn address(&self) -> LogAddress {
        self.seen.address()
    }

    /// Makes `new` the newest record of the chain, if the entry is still what was found. Release:
    /// who finds `new` sees what was written before. It does not wait, but gives up the processor
    /// once where a split has the entry in hand.
    ///
    /// An address is linked once in a log's life, so an entry that has the same address has not
    /// changed meanwhile. An entry *without* an address may have: linked, and freed, and made again.
    /// The caller that has found nothing must know by other means that nothing came and went.
    #[inline]
    pub(crate) fn compare_exchange(&self, new: LogAddress) -> Result<(), Changed> {
        self.exchange(self.seen.with_address(new))
    }

    /// Frees the slot, if the entry is still what was found.
    pub(super) fn free(&self) -> Result<(), Changed> {
        self.exchange(Entry::FREE)
    }

    #[inline]
    fn exchange(&self, new: Entry) -> Result<(), Changed> {
        if self.seen.is_moved() {
            yield_now();
            return Err(Changed);
        }
        if self.seen.replace(new, self.place) { Ok(()) } else { Err(Changed) }
    }
}

impl fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.address()).finish()
    }
}
