//! The tail: room for a record, and the turn to the next page.
//!
//! The tail word holds a page and an offset in it. Allocating adds to the offset. The first thread
//! to pass the page's end makes the rest of the page a filler. All threads that passed it turn to
//! the next page, which one of them does by a compare-and-swap.
//!
//! The offset has far more bits than a page, because every thread that comes too late adds to it
//! once.
//!
//! A log's addresses are never used twice, and end at [`LogAddress::END`]: after that nothing more
//! is written.

use std::sync::Arc;

use engine::{Error, Reservation, Result};
use sync::atomic::Ordering;
use sync::thread::yield_now;

use super::{BLOCK_BYTES, Geometry, HybridLog};
use crate::address::LogAddress;
use crate::planted::{Planted, mutant};

/// Bits of the tail's offset in addition to those of a page: two thousand threads may each be late
/// by the longest record.
const LATE_BITS: u32 = 11;

/// The page at the tail has no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFull(u64);

impl Geometry {
    /// The tail word of an offset in a page.
    pub(super) const fn tail_word(&self, page: u64, offset: u64) -> u64 {
        page << self.tail_offset_bits() | offset
    }

    /// The page and the offset of a tail word.
    const fn tail_parts(&self, word: u64) -> (u64, u64) {
        let bits = self.tail_offset_bits();
        (word >> bits, word & ((1 << bits) - 1))
    }

    const fn tail_offset_bits(&self) -> u32 {
        self.page_bytes().trailing_zeros() + LATE_BITS
    }

    /// Pages that a log has room for in all its life. Two segments fewer than there are: a log that
    /// is opened again continues at a segment's beginning, which has to be an address of the log,
    /// too.
    const fn pages_max(&self) -> u64 {
        self.page(LogAddress::END) - 2 * (self.segment_bytes() / self.page_bytes())
    }

    /// Whether nothing may come behind a page.
    pub(super) const fn is_last(&self, page: u64) -> bool {
        page + 1 >= self.pages_max()
    }
}

// A word has the bits for all pages, however long a page is.
const _: () = assert!(LATE_BITS + LogAddress::END.get().trailing_zeros() < u64::BITS);

impl HybridLog {
    /// The address of the next record, or the beginning of the next page if this one is full.
    pub(crate) fn tail(&self) -> LogAddress {
        let (page, offset) = self.geometry.tail_parts(self.tail.load(Ordering::Acquire));
        self.geometry.page_begin(page).plus(offset.min(self.geometry.page_bytes()))
    }

    /// The page at the tail, and the offset of the tail in it.
    pub(super) fn tail_page_and_offset(&self) -> (u64, u64) {
        self.geometry.tail_parts(self.tail.load(Ordering::SeqCst))
    }

    /// Allocates room for a record of `bytes`. The caller is protected, and writes a record or a
    /// filler there before it no longer is [H5].
    pub(crate) fn try_allocate(&self, bytes: u64) -> std::result::Result<LogAddress, PageFull> {
        let page_bytes = self.geometry.page_bytes();
        let (page, offset) = self.geometry.tail_parts(self.tail.load(Ordering::Relaxed));
        if offset > page_bytes {
            return Err(PageFull(page));
        }
        // Acquire: a thread that allocates in a page that another turned to finds its memory free.
        let (page, offset) = self.geometry.tail_parts(self.tail.fetch_add(bytes, Ordering::AcqRel));
        let at = self.geometry.page_begin(page).plus(offset);
        if offset + bytes <= page_bytes {
            return Ok(at);
        }
        if offset < page_bytes {
            mutant!(Planted::EndUnfilled, self.live(at).write_filler(page_bytes - offset), ());
        }
        Err(PageFull(page))
    }

    /// Turns from a full page to the next, unless another thread has, if there is memory for it.
    /// The caller is protected. Returns `false` if there is none yet, see
    /// [`HybridLog::wait_for_page`].
    pub(crate) fn turn(self: &Arc<Self>, PageFull(page): PageFull, held: &Reservation<'_>) -> bool {
        let next = page + 1;
        if self.geometry.is_last(page) || !self.may_turn(page, held) {
            return false;
        }
        if !self.frames.ring.take(next) {
            return false;
        }
        loop {
            let word = self.tail.load(Ordering::Relaxed);
            if mutant!(Planted::TurnedTwice, self.geometry.tail_parts(word).0 != page, false) {
                return true;
            }
            let turned = self.geometry.tail_word(next, 0);
            // Release, for the threads that allocate in the new page.
            let exchanged =
                self.tail.compare_exchange(word, turned, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                self.after_turn(next);
                return true;
            }
        }
    }

    /// Whether a caller may turn from `page` to the next. A caller without a reservation leaves the
    /// reserved pages to others. If the log got fewer pages since its room was granted, a caller
    /// with a reservation may use all slots of the log.
    fn may_turn(&self, page: u64, held: &Reservation<'_>) -> bool {
        if held.bytes() == 0 {
            return self.has_room_after(page + self.granted.pages.load(Ordering::SeqCst));
        }
        let slots = self.frames.ring.slots().min(self.frames_max());
        self.has_room_after(page) || self.has_frames_after(page, slots)
    }

    /// Whether there may be one more page in memory behind `page`. [H9]
    pub(super) fn has_room_after(&self, page: u64) -> bool {
        self.has_frames_after(page, self.frames())
    }

    /// The same if `frames` pages may be in memory.
    fn has_frames_after(&self, page: u64, frames: u64) -> bool {
        let evicted = (page + 2).saturating_sub(frames);
        self.safe_head() >= self.geometry.page_begin(evicted)
    }

    /// Runs `attempt`, protected, until the log has room for its record. The caller is not
    /// protected [H4].
    ///
    /// # Errors
    /// The store is closed, or a flush failed.
    pub(crate) fn with_room<T>(
        self: &std::sync::Arc<Self>,
        held: &Reservation<'_>,
        mut attempt: impl FnMut() -> std::result::Result<T, PageFull>,
    ) -> Result<T> {
        loop {
            let guard = self.epochs.protect();
            let full = match attempt() {
                Ok(done) => return Ok(done),
                Err(full) => full,
            };
            let turned = self.turn(full, held);
            drop(guard);
            if !turned {
                self.wait_for_page(full, held)?;
            }
        }
    }

    /// Blocks until there is memory for the page behind a full one, and helps to make one free. The
    /// caller is not protected [H4].
    ///
    /// # Errors
    /// The store is closed, a flush failed, or the log's addresses are used up.
    pub(crate) fn wait_for_page(
        self: &Arc<Self>,
        PageFull(page): PageFull,
        held: &Reservation<'_>,
    ) -> Result<()> {
        if self.geometry.is_last(page) {
            self.health.fail(&Error::LogEnded);
        }
        loop {
            self.check_writable()?;
            let has_turned = self.geometry.tail_parts(self.tail.load(Ordering::Acquire)).0 != page;
            if has_turned || self.may_turn(page, held) {
                return Ok(());
            }
            if !self.flush_some()? {
                // Only threads that are protected are left to wait for.
                self.advance_head();
                yield_now();
            }
        }
    }

    /// The tail word that follows when its block is ended, and the address of that end.
    pub(super) fn end_of_block(&self, tail: u64) -> (u64, LogAddress) {
        let (page, offset) = self.geometry.tail_parts(tail);
        let end = offset.min(self.geometry.page_bytes()).next_multiple_of(BLOCK_BYTES);
        (tail + end.saturating_sub(offset), self.geometry.page_begin(page).plus(end))
    }

    /// Writes the filler at the end of a block that was ended when the tail was `tail`, so that all
    /// earlier allocations can be flushed. The caller is protected since before [H5].
    pub(super) fn fill_block(&self, tail: u64) {
        let (page, offset) = self.geometry.tail_parts(tail);
        let missing = self.end_of_block(tail).0 - tail;
        if missing > 0 {
            let at = self.geometry.page_begin(page).plus(offset);
            mutant!(Planted::BlockUnfilled, self.live(at).write_filler(missing), ());
        }
    }
}
