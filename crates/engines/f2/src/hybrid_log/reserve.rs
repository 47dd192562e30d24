//! Room in memory for records that are about to be appended. It is granted before their write has a
//! number, so that no append waits for a flush.
//!
//! 1. *Credit.* A write of up to one part in [`CREDIT_PARTS`] of a page takes credit: its bytes, in
//!    one of the counters of the log. Threads share a counter with few others.
//! 2. *Pages.* A longer write reserves pages for twice its bytes: a record that loses the race to
//!    be linked is written again.
//! 3. A writer without a reservation leaves the reserved pages to the writers that have one. Only
//!    the appends of a replay and those of the cold logs have none.
//! 4. A batch whose pages never fit in memory is refused. The longest record always fits.
//!
//! # Invariants
//! - R1. The credit of all counters is at most one part in [`CREDITS_PARTS`] of a page.
//! - R2. When credit is granted, the log has room without a wait for twice the credit of R1, and
//!   for the longest record that takes credit, which may leave the end of a page unused. A cut is
//!   counted too, which may leave a block unused. The room is in the page at the tail if no pages
//!   are reserved, and otherwise in a page of its own.
//! - R3. When pages are reserved, the log has memory for all reserved pages and for one more page
//!   (R2). A writer raises the counters before it reads the borders of the log. So the room behind
//!   the tail suffices for all reservations together, whichever of them takes which page.
//! - R4. A log with many pages keeps [`SPARE_PAGES`] of them free when it grants room. A writer
//!   that loses the race twice takes these, and so does a record of most of a page that finds its
//!   pages begun by short records.
//! - R5. Of the writers that wait for pages, one waits with its pages counted. So writers that come
//!   later leave it the room, and short writes never keep a long one waiting forever.
//!
//! If the log gets fewer pages meanwhile, a writer with a reservation may still use all slots of
//! the log.

use std::sync::Arc;

use engine::{Error, Reservation, Result, Room};
use sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::SeqCst};
use sync::{CachePadded, Mutex};

use super::HybridLog;
use super::geometry::BLOCK_BYTES;
use crate::planted::{Planted, mutant};
use crate::spin_wait::SpinWait;

/// Counters for the credit of short writes. Threads share them.
const STRIPES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };
/// Parts of a page. The credit of all counters together is at most one of them.
const CREDITS_PARTS: u64 = 8;
/// Parts of a page. The credit of the counter for longer writes is at most one of them, and so is
/// the credit of all others together.
const CREDIT_PARTS: u64 = 16;
/// The fraction of a page that R2 asks for.
const ROOM_PARTS: (u64, u64) = (5, 16);
/// Pages that are kept free when room is granted, by a log with at least [`SPARE_FRAMES_MIN`].
const SPARE_PAGES: u64 = 1;
const SPARE_FRAMES_MIN: u64 = 16;
/// The slot of a reservation of pages: its bytes are a number of pages.
const PAGES: u32 = u32::MAX;
/// The slot of a reservation of pages for which room is held on the device.
const HELD_PAGES: u32 = PAGES - 1;
/// The slot of the counter for longer writes.
const COMMON: u32 = STRIPES as u32;

const _: () = assert!(2 * CREDITS_PARTS == CREDIT_PARTS, "two counters have all credit");

/// The counters of a log.
pub(super) struct Granted {
    /// Bytes: of the stripes, and behind them of longer writes.
    credit: [CachePadded<AtomicU64>; STRIPES + 1],
    pub(super) pages: AtomicU64,
    /// Pages of reservations for which room is held on the device, or is about to be.
    held_pages: AtomicU64,
    /// Held by the writer that waits with its pages counted. [R5]
    turn: Mutex<()>,
}

impl Default for Granted {
    fn default() -> Self {
        let counter = || CachePadded::new(AtomicU64::new(0));
        Self {
            credit: std::array::from_fn(|_| counter()),
            pages: AtomicU64::new(0),
            held_pages: AtomicU64::new(0),
            turn: Mutex::default(),
        }
    }
}

impl HybridLog {
    /// Reserves room for records of `bytes` in all, if there is any now. [R2, R3]
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        let page_bytes = self.geometry.page_bytes();
        let most = page_bytes / CREDIT_PARTS;
        let stripe = most / STRIPES as u64;
        if bytes <= stripe {
            let slot = telemetry::thread_number() % STRIPES;
            if let Some(room) = self.take_credit(bytes, slot as u32, stripe) {
                return Some(room);
            }
        }
        match bytes <= most {
            true => self.take_credit(bytes, COMMON, most),
            false => self.take_pages(bytes),
        }
    }

    fn take_credit(&self, bytes: u64, slot: u32, most: u64) -> Option<Reservation<'_>> {
        let counter = &self.granted.credit[slot as usize];
        let fits = |credit: u64| Some(credit + bytes).filter(|sum| *sum <= most);
        counter.fetch_update(SeqCst, SeqCst, fits).ok()?;
        // From here on a drop returns it.
        let room = Reservation::new(self, bytes, slot);
        self.has_credit_room().then_some(room)
    }

    /// R2.
    pub(crate) fn has_credit_room(&self) -> bool {
        let page_bytes = self.geometry.page_bytes();
        let wanted = page_bytes * ROOM_PARTS.0 / ROOM_PARTS.1 + BLOCK_BYTES;
        let wanted = mutant!(Planted::CreditForOneAttempt, wanted, page_bytes / CREDITS_PARTS);
        let reserved = self.granted.pages.load(SeqCst);
        let (page, offset) = self.tail_page_and_offset();
        reserved == 0 && offset + wanted <= page_bytes
            || self.has_room_after(page + reserved + self.spare_pages())
    }

    /// R3.
    fn take_pages(&self, bytes: u64) -> Option<Reservation<'_>> {
        let pages = self.pages_to_reserve(bytes);
        let counted = &self.granted.pages;
        let count = || counted.fetch_add(pages, SeqCst);
        let before = mutant!(Planted::PagesCountedLate, count(), counted.load(SeqCst).min(count()));
        // From here on a drop returns them.
        let room = Reservation::new(self, pages, PAGES);
        self.has_room_for_pages(before + pages).then_some(room)
    }

    fn has_room_for_pages(&self, reserved: u64) -> bool {
        let (page, _) = self.tail_page_and_offset();
        self.has_room_after(page + reserved + self.spare_pages())
    }

    /// Returns the bytes of all reservations.
    pub(crate) fn reserved(&self) -> u64 {
        let credit: u64 = self.granted.credit.iter().map(|one| one.load(Acquire)).sum();
        credit + self.granted.pages.load(Acquire) * self.geometry.page_bytes()
    }

    /// Has `hold` hold room on the device for a reservation, next to all those for which room is
    /// held.
    ///
    /// # Errors
    /// Those of `hold`. Then the reservation is released.
    pub(crate) fn hold_reserved<'l, E>(
        &'l self,
        mut room: Reservation<'l>,
        hold: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Reservation<'l>, E> {
        if room.slot() != PAGES {
            return hold().map(|()| room);
        }
        let pages = room.bytes();
        self.granted.held_pages.fetch_add(pages, SeqCst);
        if let Err(error) = hold() {
            self.granted.held_pages.fetch_sub(pages, SeqCst);
            return Err(error);
        }
        let spent = room.spend(pages);
        Ok(Reservation::new(self, spent, HELD_PAGES))
    }

    /// Returns how far all reservations with held room may move the tail, and a write of `more`
    /// bytes that has no reservation yet. Costs one load. [R1 to R3]
    pub(crate) fn reserved_reach(&self, more: u64) -> u64 {
        let page_bytes = self.geometry.page_bytes();
        let wanted = match more > page_bytes / CREDIT_PARTS {
            true => self.pages_to_reserve(more),
            false => 0,
        };
        let credit = page_bytes * ROOM_PARTS.0 / ROOM_PARTS.1 + BLOCK_BYTES;
        match self.granted.held_pages.load(SeqCst) + wanted {
            0 => credit,
            // The page at the tail may be left before it is full.
            pages => credit + (pages + 1) * page_bytes,
        }
    }

    fn pages_to_reserve(&self, bytes: u64) -> u64 {
        (2 * bytes).div_ceil(self.geometry.page_bytes()) + 1
    }

    fn spare_pages(&self) -> u64 {
        if self.frames() >= SPARE_FRAMES_MIN { SPARE_PAGES } else { 0 }
    }

    /// Returns whether a reservation suffices for a record of `bytes`. One of which nothing is
    /// counted suffices for all: the append may wait.
    pub(crate) fn covers(&self, room: &Reservation<'_>, bytes: u64) -> bool {
        match (room.slot(), room.bytes()) {
            (_, 0) => true,
            (PAGES | HELD_PAGES, pages) => self.pages_to_reserve(bytes) <= pages,
            (_, credit) => bytes <= credit,
        }
    }

    /// Returns the bytes of records for which a reservation is ever granted: the page at the tail,
    /// the page of R2 and the spare pages are not counted. [R3, R4]
    pub(crate) fn reservation_bytes_max(&self) -> u64 {
        // One page of a reservation is for the ends of the others.
        let pages = self.frames().saturating_sub(self.spare_pages() + 3);
        pages * self.geometry.page_bytes() / 2
    }

    /// Reserves room for records of `bytes` in all. Waits while there is none, and helps to make
    /// some. The caller is not protected [H4].
    ///
    /// # Errors
    /// The store is closed, or a flush failed. [`Error::WriteTooLarge`]. That the log's addresses
    /// are used up is no error here.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation<'_>> {
        let limit = self.reservation_bytes_max();
        if bytes > limit {
            return Err(Error::WriteTooLarge { bytes, limit });
        }
        match bytes <= self.geometry.page_bytes() / CREDIT_PARTS {
            true => self.wait_for_credit(bytes),
            false => self.wait_for_pages(bytes),
        }
    }

    fn wait_for_credit(self: &Arc<Self>, bytes: u64) -> Result<Reservation<'_>> {
        let mut spin_wait = SpinWait::new();
        loop {
            self.check_writable()?;
            if let Some(room) = self.try_reserve(bytes) {
                return Ok(room);
            }
            if self.is_used_up() {
                return Ok(Reservation::uncounted());
            }
            match self.has_credit_room() {
                // Other writers have the credit, and return it soon.
                true => spin_wait.wait(),
                false => self.make_room(self.pages_wanted(bytes))?,
            }
        }
    }

    /// R5.
    fn wait_for_pages(self: &Arc<Self>, bytes: u64) -> Result<Reservation<'_>> {
        let _turn = self.granted.turn.lock();
        let pages = self.pages_to_reserve(bytes);
        self.granted.pages.fetch_add(pages, SeqCst);
        // From here on a drop returns them.
        let room = Reservation::new(&**self, pages, PAGES);
        loop {
            self.check_writable()?;
            let reserved = self.granted.pages.load(SeqCst);
            if self.has_room_for_pages(reserved) {
                return Ok(room);
            }
            if self.is_used_up() {
                return Ok(Reservation::uncounted());
            }
            self.make_room(reserved + self.spare_pages() + 1)?;
            mutant!(Planted::RoomBelieved, (), return Ok(room));
        }
    }

    /// Returns whether the log has no addresses left.
    fn is_used_up(&self) -> bool {
        self.geometry.is_last(self.geometry.page(self.tail()))
    }

    /// Returns the pages behind the tail that there must be memory for, so that a reservation for
    /// `bytes` is granted.
    fn pages_wanted(&self, bytes: u64) -> u64 {
        let is_short = bytes <= self.geometry.page_bytes() / CREDIT_PARTS;
        let pages = if is_short { 1 } else { self.pages_to_reserve(bytes) + 1 };
        self.granted.pages.load(Acquire) + pages + self.spare_pages()
    }

    /// Has the background make room for a write of `bytes` that has found none, and does not wait.
    pub(crate) fn request_room(self: &Arc<Self>, bytes: u64) {
        let evicted = self.begin_eviction(self.pages_wanted(bytes));
        self.advance_head_to(evicted);
        self.flush_again();
    }

    /// Makes the pages read-only that leave memory so that there is room for `pages` behind the
    /// tail. Returns the first page that stays.
    fn begin_eviction(self: &Arc<Self>, pages: u64) -> u64 {
        // Pages count as evictable only once they are read-only.
        let tail_page = self.geometry.page(self.tail());
        let evicted = (tail_page + pages + 2).saturating_sub(self.frames());
        self.shift_read_only(self.geometry.page_begin(evicted.min(tail_page)));
        evicted
    }

    /// Does something so that there is memory for `pages` behind the tail.
    fn make_room(self: &Arc<Self>, pages: u64) -> Result<()> {
        let evicted = self.begin_eviction(pages);
        if !self.flush_some()? {
            self.advance_head_to(evicted);
            sync::thread::yield_now();
        }
        Ok(())
    }
}

impl Room for HybridLog {
    fn release(&self, bytes: u64, slot: u32) {
        match slot {
            PAGES => self.granted.pages.fetch_sub(bytes, SeqCst),
            HELD_PAGES => {
                self.granted.held_pages.fetch_sub(bytes, SeqCst);
                self.granted.pages.fetch_sub(bytes, SeqCst)
            }
            slot => self.granted.credit[slot as usize].fetch_sub(bytes, SeqCst),
        };
    }
}
