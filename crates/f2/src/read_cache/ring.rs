//! The ring of pages: room at its tail, and the turn to the next page.
//!
//! A page is filled, turned, *sealed* once nobody who may write or link a record of it is still
//! protected, evicted (`evict`), *free* once nobody who may read it is, and filled again. Pages are
//! numbered without end, so no address is used twice.

use std::sync::Arc;

use engine::MemoryBudget;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::epoch::Epochs;
use sync::{CachePadded, SetOnce};

use crate::address::LogAddress;
use crate::record::{Live, WORD_BYTES};

/// Bits of the tail word's offset in a page.
const OFFSET_BITS: u32 = 24;
/// Fewest pages of a ring: one filled, one evicted, and as many that are read.
const PAGES_MIN: u64 = 4;
/// Pages that a ring should have.
const PAGES: u64 = 16;
const PAGE_BYTES_MIN: u64 = 4 << 10;
const PAGE_BYTES_MAX: u64 = 1 << 20;
/// The share of a page that one record may take.
const RECORD_SHARE: u64 = 4;

const _: () = assert!(PAGE_BYTES_MAX < 1 << OFFSET_BITS);

pub(super) struct Ring {
    page_shift: u32,
    frames: Box<[SetOnce<Box<[AtomicU64]>>]>,
    /// The page that is filled, and how far.
    tail: CachePadded<AtomicU64>,
    pub(super) borders: Arc<Borders>,
    /// Whether somebody turns a page or evicts: one at a time, and the others go on without.
    is_tended: AtomicBool,
    /// Where the pages in the frames end; changed by who tends.
    ends: Box<[AtomicU64]>,
    /// The page that is evicted, and how far; changed by who tends.
    evicted: AtomicU64,
    pub(super) epochs: Epochs,
    memory: Arc<MemoryBudget>,
}

/// Pages below these are sealed, and free.
#[derive(Default)]
pub(super) struct Borders {
    pub(super) sealed: AtomicU64,
    pub(super) free: AtomicU64,
}

/// The right to turn pages and to evict.
pub(super) struct Tending<'a>(&'a Ring);

impl Drop for Tending<'_> {
    fn drop(&mut self) {
        self.0.is_tended.store(false, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.memory.release(self.memory_bytes());
    }
}

const fn word(page: u64, offset: u64) -> u64 {
    page << OFFSET_BITS | offset
}

const fn parts(word: u64) -> (u64, u64) {
    (word >> OFFSET_BITS, word & ((1 << OFFSET_BITS) - 1))
}

impl Ring {
    /// Bytes of a page and number of pages, for a ring of `bytes`; nothing if that is too little.
    pub(super) fn shape(bytes: u64) -> Option<(u64, u64)> {
        let wanted = 1 << (bytes / PAGES).max(1).ilog2();
        let page_bytes = u64::clamp(wanted, PAGE_BYTES_MIN, PAGE_BYTES_MAX);
        let pages = bytes / page_bytes;
        (pages >= PAGES_MIN).then_some((page_bytes, pages))
    }

    pub(super) fn new(
        page_bytes: u64,
        pages: u64,
        epochs: Epochs,
        memory: Arc<MemoryBudget>,
    ) -> Self {
        assert!(page_bytes.is_power_of_two() && pages >= 2);
        let ring = Self {
            page_shift: page_bytes.trailing_zeros(),
            frames: (0..pages).map(|_| SetOnce::new()).collect(),
            tail: CachePadded::new(AtomicU64::new(word(0, 0))),
            borders: Arc::default(),
            is_tended: AtomicBool::new(false),
            ends: (0..pages).map(|_| AtomicU64::new(0)).collect(),
            evicted: AtomicU64::new(word(0, 0)),
            epochs,
            memory,
        };
        ring.make_frame(0);
        ring
    }

    fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    fn frame(&self, page: u64) -> usize {
        (page % self.pages()) as usize
    }

    pub(super) fn address(&self, page: u64, offset: u64) -> LogAddress {
        LogAddress::cached((page << self.page_shift) + offset)
    }

    /// The record at a cached address, whose page is not free.
    pub(super) fn live(&self, address: LogAddress) -> Live<'_> {
        let at = address.in_cache();
        let frame = self.frames[self.frame(at >> self.page_shift)].get();
        let words = frame.expect("a page that is in use has a frame");
        Live::new(&words[(at & (self.page_bytes() - 1)) as usize / WORD_BYTES..])
    }

    /// Whether the address lies in the older half of the ring.
    pub(super) fn is_older(&self, address: LogAddress) -> bool {
        let page = address.in_cache() >> self.page_shift;
        page + self.pages() / 2 <= self.tail_page()
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
            Err(full) if self.turn(full) => self.allocate_in_page(bytes).ok(),
            Err(_) => None,
        }
    }

    fn allocate_in_page(&self, bytes: u64) -> Result<LogAddress, u64> {
        let page_bytes = self.page_bytes();
        loop {
            // Acquire: who allocates in a page that another turned to finds its frame free.
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

    /// The right to turn and to evict, unless another has it.
    pub(super) fn tend(&self) -> Option<Tending<'_>> {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self.is_tended.compare_exchange(false, true, order.0, order.1);
        taken.is_ok().then_some(Tending(self))
    }

    /// Turns from a full page to the next; `false` if its frame is not free yet, or another tends
    /// the ring.
    fn turn(&self, full: u64) -> bool {
        let Some(_tending) = self.tend() else { return false };
        let next = full + 1;
        if next >= self.borders.free.load(Ordering::Acquire) + self.pages() {
            return false;
        }
        self.make_frame(next);
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let (page, end) = parts(tail);
            if page != full {
                return true;
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if self.tail.compare_exchange(tail, word(next, 0), order.0, order.1).is_ok() {
                self.ends[self.frame(full)].store(end, Ordering::Relaxed);
                break;
            }
        }
        let borders = Arc::clone(&self.borders);
        self.epochs.bump_with(move || {
            borders.sealed.fetch_max(next, Ordering::AcqRel);
        });
        true
    }

    fn make_frame(&self, page: u64) {
        let frame = &self.frames[self.frame(page)];
        if frame.get().is_none() {
            self.memory.charge_anyway(self.page_bytes());
            let words = self.page_bytes() as usize / WORD_BYTES;
            frame.get_or_set((0..words).map(|_| AtomicU64::new(0)).collect());
        }
    }

    /// Bytes of memory in use.
    pub(super) fn memory_bytes(&self) -> u64 {
        let made = self.frames.iter().filter(|frame| frame.get().is_some()).count();
        made as u64 * self.page_bytes()
    }
}

impl Tending<'_> {
    /// The page to be evicted next and how far it is, if there is one: the frame behind the tail's
    /// should be free when the tail's page is full.
    pub(super) fn to_evict(&self) -> Option<(u64, u64)> {
        let ring = self.0;
        let (page, offset) = parts(ring.evicted.load(Ordering::Relaxed));
        let is_due = page + ring.pages() < ring.tail_page() + 2;
        (is_due && page < ring.borders.sealed.load(Ordering::Acquire)).then_some((page, offset))
    }

    /// Where a page ends that was turned.
    pub(super) fn end(&self, page: u64) -> u64 {
        self.0.ends[self.0.frame(page)].load(Ordering::Relaxed)
    }

    pub(super) fn evicted_until(&self, page: u64, offset: u64) {
        self.0.evicted.store(word(page, offset), Ordering::Relaxed);
    }
}
