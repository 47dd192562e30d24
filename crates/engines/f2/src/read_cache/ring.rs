//! The ring of pages: room at its tail, and the turn to the next page.
//!
//! A page is filled, turned, *sealed* once no thread that may write or link a record of it is still
//! protected, and evicted (`evict`). It is *free* once no thread that may read it is protected.
//! Then its memory is released, or goes to a later page. Page numbers grow without end, so no
//! address is used twice. The number of pages that may have memory can change at any time.

use std::sync::Arc;

use memory_budget::MemoryBudget;
use sync::CachePadded;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::epoch::Epochs;

use crate::address::LogAddress;
use crate::hash_index::Slot;
use crate::page_ring::PageRing;
use crate::record::Live;

/// Bits of the tail word's offset in a page.
const OFFSET_BITS: u32 = 24;
/// Fewest pages of a ring: one filled, one evicted, and two that are read.
pub(super) const PAGES_MIN: u64 = 4;
/// Pages that a ring should have.
const PAGES: u64 = 16;
const PAGE_BYTES_MIN: u64 = 4 << 10;
const PAGE_BYTES_MAX: u64 = 1 << 20;
/// The share of a page that one record may take.
const RECORD_SHARE: u64 = 4;

const _: () = assert!(PAGE_BYTES_MAX < 1 << OFFSET_BITS);

pub(super) struct Ring {
    page_shift: u32,
    pages_max: u64,
    /// The page that is filled, and how far.
    tail: CachePadded<AtomicU64>,
    pub(super) borders: Arc<Borders>,
    /// Whether a thread turns a page or evicts: only one does so at a time, and the others continue
    /// without waiting.
    is_tended: AtomicBool,
    /// Ends of the pages in memory; changed by the thread that tends the ring.
    ends: Box<[AtomicU64]>,
    /// The page that is evicted, and how far; changed by the thread that tends the ring.
    evicted: AtomicU64,
    /// How often the number of pages was changed.
    resizes: AtomicU64,
    pub(super) epochs: Epochs,
}

/// State that changes when an epoch is over.
pub(super) struct Borders {
    /// Pages below are sealed.
    sealed: AtomicU64,
    /// Pages below are free.
    free: AtomicU64,
    /// Pages that may have memory.
    allowed: AtomicU64,
    /// The number of changes of `allowed` that all threads which turn pages know of.
    known_resizes: AtomicU64,
    pages: PageRing,
}

impl Borders {
    fn allowed(&self) -> u64 {
        self.allowed.load(Ordering::Acquire)
    }

    /// Frees the pages below `page`, which no thread reads any more. [R4]
    pub(super) fn free_below(&self, page: u64) {
        if self.allowed() < self.pages.slots() {
            let from = self.free.load(Ordering::Acquire);
            (from..page).for_each(|page| self.pages.release(page));
        }
        self.free.fetch_max(page, Ordering::AcqRel);
    }
}

/// The right to turn pages and to evict.
pub(super) struct Tending<'a>(&'a Ring);

impl Drop for Tending<'_> {
    fn drop(&mut self) {
        self.0.is_tended.store(false, Ordering::Release);
    }
}

const fn word(page: u64, offset: u64) -> u64 {
    page << OFFSET_BITS | offset
}

const fn parts(word: u64) -> (u64, u64) {
    (word >> OFFSET_BITS, word & ((1 << OFFSET_BITS) - 1))
}

impl Ring {
    /// Bytes of a page and number of pages, for a ring of `bytes` whose pages have `page_bytes_max`
    /// at most; nothing if that is too little.
    pub(super) fn shape(bytes: u64, page_bytes_max: u64) -> Option<(u64, u64)> {
        let wanted = 1 << (bytes / PAGES).max(1).ilog2();
        let page_bytes = u64::clamp(wanted, PAGE_BYTES_MIN, PAGE_BYTES_MAX).min(page_bytes_max);
        let pages = bytes / page_bytes;
        (pages >= PAGES_MIN).then_some((page_bytes, pages))
    }

    /// A ring of `pages`, that can become `pages_max`.
    pub(super) fn new(
        page_bytes: u64,
        pages: u64,
        pages_max: u64,
        epochs: Epochs,
        memory: Arc<MemoryBudget>,
    ) -> Self {
        assert!(page_bytes.is_power_of_two() && (2..=pages_max).contains(&pages));
        let ring = PageRing::new(page_bytes, pages_max, memory);
        ring.take(0);
        Self {
            page_shift: page_bytes.trailing_zeros(),
            pages_max,
            tail: CachePadded::new(AtomicU64::new(word(0, 0))),
            is_tended: AtomicBool::new(false),
            ends: (0..ring.slots()).map(|_| AtomicU64::new(0)).collect(),
            evicted: AtomicU64::new(word(0, 0)),
            resizes: AtomicU64::new(0),
            borders: Arc::new(Borders {
                sealed: AtomicU64::new(0),
                free: AtomicU64::new(0),
                allowed: AtomicU64::new(pages),
                known_resizes: AtomicU64::new(0),
                pages: ring,
            }),
            epochs,
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Pages that may have memory.
    pub(super) fn pages(&self) -> u64 {
        self.borders.allowed()
    }

    /// Most pages that there can ever be.
    pub(super) fn pages_max(&self) -> u64 {
        self.pages_max
    }

    fn end_of(&self, page: u64) -> &AtomicU64 {
        &self.ends[(page & (self.ends.len() as u64 - 1)) as usize]
    }

    pub(super) fn address(&self, page: u64, offset: u64) -> LogAddress {
        LogAddress::cached((page << self.page_shift) + offset)
    }

    /// The record at a cached address, whose page is not free.
    #[inline]
    pub(super) fn live(&self, address: LogAddress) -> Live<'_> {
        Live::new(self.borders.pages.words(address.in_cache()))
    }

    /// Whether there are pages that may have memory and were never filled.
    pub(super) fn has_room(&self) -> bool {
        let (page, _) = parts(self.evicted.load(Ordering::Relaxed));
        page + self.pages() > self.tail_page() + 2
    }

    pub(super) fn tail_page(&self) -> u64 {
        parts(self.tail.load(Ordering::Acquire)).0
    }

    /// Room for a record; nothing if there is none just now, or the record is too long. The caller
    /// is protected, and writes a record there before it no longer is.
    pub(super) fn allocate(&self, bytes: u64) -> Option<LogAddress> {
        if bytes > (self.page_bytes() / RECORD_SHARE).max(64) {
            return None;
        }
        match self.allocate_in_page(bytes) {
            Ok(at) => Some(at),
            Err(full) => self.tend()?.turn_and_allocate(full, bytes),
        }
    }

    fn allocate_in_page(&self, bytes: u64) -> Result<LogAddress, u64> {
        let page_bytes = self.page_bytes();
        loop {
            // Acquire: a thread that allocates in a page that another thread turned to finds its
            // memory free.
            let tail = self.tail.load(Ordering::Acquire);
            let (page, offset) = parts(tail);
            if offset + bytes > page_bytes {
                return Err(page);
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if self.tail.compare_exchange(tail, tail + bytes, order.0, order.1).is_ok() {
                return Ok(self.address(page, offset));
            }
        }
    }

    /// Writes a copy at `at`, which was allocated for it, and makes the entry lead to it, if the
    /// entry is still the same as when it was read.
    pub(super) fn link(
        &self,
        slot: Slot<'_>,
        at: LogAddress,
        log_head: LogAddress,
        (key, value): (&[u8], &[u8]),
    ) -> bool {
        let record = self.live(at);
        record.write(log_head, key, Some(value));
        // [R3]
        let linked = slot.compare_exchange(at).is_ok();
        if !linked {
            record.invalidate();
        }
        linked
    }

    /// Takes the right to turn and to evict pages. Returns none if another thread has it.
    pub(super) fn tend(&self) -> Option<Tending<'_>> {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self.is_tended.compare_exchange(false, true, order.0, order.1);
        taken.is_ok().then_some(Tending(self))
    }

    /// Turns from a full page to the next; `false` if there is no memory for it yet. The caller
    /// tends the ring.
    fn turn(&self, full: u64) -> bool {
        let next = full + 1;
        let has_room = next < self.borders.free.load(Ordering::Acquire) + self.pages();
        if !has_room || !self.borders.pages.take(next) {
            return false;
        }
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let (page, end) = parts(tail);
            if page != full {
                return true;
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if self.tail.compare_exchange(tail, word(next, 0), order.0, order.1).is_ok() {
                self.end_of(full).store(end, Ordering::Relaxed);
                break;
            }
        }
        let borders = Arc::clone(&self.borders);
        self.epochs.bump_with(move || {
            borders.sealed.fetch_max(next, Ordering::AcqRel);
        });
        true
    }

    /// Sets the number of pages that may have memory, at most the number that the ring was made
    /// for. A greater number is allowed immediately. A smaller one is reached once the oldest pages
    /// are evicted, by insertions and by callers of [`super::ReadCache::is_within_limit`]. One
    /// thread at a time.
    pub(super) fn resize(&self, pages: u64) {
        let pages = pages.clamp(PAGES_MIN.min(self.pages_max()), self.pages_max());
        if self.borders.allowed.swap(pages, Ordering::AcqRel) == pages {
            return;
        }
        let resizes = self.resizes.fetch_add(1, Ordering::AcqRel) + 1;
        let borders = Arc::clone(&self.borders);
        // A thread that turns a page just now may have read the earlier number.
        self.epochs.bump_with(move || {
            borders.known_resizes.fetch_max(resizes, Ordering::AcqRel);
        });
    }

    /// Returns whether the pages that have memory are within the limit, and stay within it.
    pub(super) fn is_within_limit(&self) -> bool {
        let (borders, pages) = (&self.borders, self.pages());
        let resizes = self.resizes.load(Ordering::Acquire);
        if borders.known_resizes.load(Ordering::Acquire) < resizes {
            return false;
        }
        if pages < borders.pages.slots() {
            // Also the memory that was left for the next pages, which get memory of their own now.
            borders.pages.release_below(borders.free.load(Ordering::Acquire));
        }
        borders.pages.held() <= pages
    }

    /// Bytes of memory in use.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.borders.pages.bytes()
    }
}

impl Tending<'_> {
    /// [`Ring::allocate`] for the thread that tends the ring. It has found room for this length
    /// before.
    pub(super) fn allocate(&self, bytes: u64) -> Option<LogAddress> {
        match self.0.allocate_in_page(bytes) {
            Ok(at) => Some(at),
            Err(full) => self.turn_and_allocate(full, bytes),
        }
    }

    fn turn_and_allocate(&self, full: u64, bytes: u64) -> Option<LogAddress> {
        let has_turned = self.0.turn(full);
        has_turned.then(|| self.0.allocate_in_page(bytes).ok()).flatten()
    }

    /// The page to be evicted next and how far it is, if there is one: there should be memory for
    /// a page when the tail's is full.
    pub(super) fn to_evict(&self) -> Option<(u64, u64)> {
        let ring = self.0;
        let (page, offset) = parts(ring.evicted.load(Ordering::Relaxed));
        let is_due = page + ring.pages() < ring.tail_page() + 2;
        (is_due && page < ring.borders.sealed.load(Ordering::Acquire)).then_some((page, offset))
    }

    /// Returns the end of a page that was turned.
    pub(super) fn end(&self, page: u64) -> u64 {
        self.0.end_of(page).load(Ordering::Relaxed)
    }

    pub(super) fn evicted_until(&self, page: u64, offset: u64) {
        self.0.evicted.store(word(page, offset), Ordering::Relaxed);
    }
}
