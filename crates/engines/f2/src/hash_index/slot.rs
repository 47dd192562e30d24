//! An entry that was found: its place and its value.

use std::fmt;

use sync::atomic::AtomicU64;
use sync::thread::yield_now;

use super::entry::Entry;
use crate::address::LogAddress;

/// The beginning of a chain, at the time of the lookup.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    place: &'a AtomicU64,
    seen: Entry,
}

/// The entry has changed since it was read: another record is the newest of the chain, or the entry
/// was freed or moved. The caller looks the chain up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed;

impl<'a> Slot<'a> {
    #[inline]
    pub(super) const fn new(place: &'a AtomicU64, seen: Entry) -> Self {
        Self { place, seen }
    }

    /// Returns the newest record of the chain; [`LogAddress::NONE`] if it has none. Data written to
    /// the record before it was linked is visible.
    #[inline]
    pub(crate) const fn address(&self) -> LogAddress {
        self.seen.address()
    }

    /// Makes `new` the newest record of the chain, if the entry is unchanged since it was found.
    /// Release: a thread that finds `new` sees all writes before. It does not wait, but yields the
    /// processor once if a split is moving the entry.
    ///
    /// An address is linked once in a log's life, so an entry that has the same address has not
    /// changed meanwhile. An entry *without* an address may have: linked, and freed, and made
    /// again. A caller that has found nothing must know by other means that nothing was linked and
    /// freed meanwhile.
    #[inline]
    pub(crate) fn compare_exchange(&self, new: LogAddress) -> Result<(), Changed> {
        self.exchange(self.seen.with_address(new))
    }

    /// Frees the slot, if the entry is unchanged since it was found.
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
