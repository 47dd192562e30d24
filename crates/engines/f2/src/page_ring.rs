//! Pages in memory of a log that only grows: a ring of addresses, of which some pages have memory.
//!
//! Page `p` is in slot `p % slots`, and the number of slots is a power of two, so a place in memory
//! is a mask away from its address. The number of pages that have memory is independent of it: the
//! user of the ring takes a page before it is written and releases it when no thread reads it any
//! more.
//!
//! ```text
//!  slots:   | - | - | 5 | 6 | 7 | 8 | 9 | - |      pages 5 to 9 have memory, and are charged
//! ```
//!
//! # Invariants
//! - P1. A page has memory, and is charged to the budget, from the step that takes it until it is
//!   released, or until another page takes its slot, together with its memory.
//! - P2. A thread that takes a page knows that no thread reads the page that had its slot before,
//!   and a thread that releases a page knows that no thread reads it.
//! - P3. Released memory is taken off the budget before any thread can take the slot.

use std::sync::Arc;

use arena::Arena;
use memory_budget::MemoryBudget;
use sync::atomic::{AtomicU64, Ordering};

use crate::record::WORD_BYTES;
use crate::spin_wait::SpinWait;

/// Bytes of a page from which on it is released whole if the system's pages are huge.
const HUGE_BYTES: u64 = 2 << 20;

/// A slot without memory.
const EMPTY: u64 = 0;
/// A slot whose memory is being released.
const LEAVING: u64 = u64::MAX;

/// The ring. See the module's documentation.
pub(crate) struct PageRing {
    arena: Arena,
    /// The bits of an address that give its place in the arena, in bytes.
    mask: u64,
    page_shift: u32,
    /// The page that has the slot's memory, plus one.
    slots: Box<[AtomicU64]>,
    /// Slots with memory. The checkers do not see it: it orders nothing.
    held: std::sync::atomic::AtomicU64,
    memory: Arc<MemoryBudget>,
}

impl Drop for PageRing {
    fn drop(&mut self) {
        self.memory.release(self.bytes());
    }
}

impl PageRing {
    /// A ring of pages of `page_bytes`, a power of two, of which at most `pages_max` have memory.
    /// None has at first.
    pub(crate) fn new(page_bytes: u64, pages_max: u64, memory: Arc<MemoryBudget>) -> Self {
        assert!(page_bytes.is_power_of_two() && page_bytes >= WORD_BYTES as u64);
        let slots = pages_max.next_power_of_two();
        let arena = Arena::new((slots * page_bytes) as usize / WORD_BYTES);
        // Otherwise the system would take more than a page at a time.
        if page_bytes >= HUGE_BYTES {
            arena.advise_huge()
        } else {
            arena.advise_small()
        }
        Self {
            arena,
            mask: slots * page_bytes - 1,
            page_shift: page_bytes.trailing_zeros(),
            slots: (0..slots).map(|_| AtomicU64::new(EMPTY)).collect(),
            held: std::sync::atomic::AtomicU64::new(0),
            memory,
        }
    }

    /// The words from an address on; its page has memory.
    #[inline]
    pub(crate) fn words(&self, address: u64) -> &[AtomicU64] {
        &self.arena.words()[(address & self.mask) as usize / WORD_BYTES..]
    }

    /// Returns the most pages that may have memory at the same time.
    pub(crate) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Pages that have memory.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.held() << self.page_shift
    }

    fn slot(&self, page: u64) -> &AtomicU64 {
        &self.slots[(page & (self.slots() - 1)) as usize]
    }

    /// Takes memory for `page`, charged, unless it has memory; `false` if the slot's memory is
    /// being released just now. It is not done twice for one page [P2].
    pub(crate) fn take(&self, page: u64) -> bool {
        let slot = self.slot(page);
        let mut seen = slot.load(Ordering::Acquire);
        loop {
            if seen == LEAVING {
                return false;
            }
            if seen > page {
                return true;
            }
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match slot.compare_exchange(seen, page + 1, order.0, order.1) {
                Ok(EMPTY) => {
                    self.memory.charge_anyway(1 << self.page_shift);
                    self.held.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    return true;
                }
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Releases the memory of `page`, if it has any. When this returns the memory is released, by
    /// this thread or another one.
    pub(crate) fn release(&self, page: u64) {
        let slot = self.slot(page);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match slot.compare_exchange(page + 1, LEAVING, order.0, order.1) {
            Ok(_) => {
                let words = 1 << self.page_shift >> WORD_BYTES.trailing_zeros();
                let first = (page & (self.slots() - 1)) as usize * words;
                self.arena.release(first..first + words);
                // [P3]
                self.memory.release(1 << self.page_shift);
                self.held.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                slot.store(EMPTY, Ordering::Release);
            }
            Err(LEAVING) => {
                let mut spin_wait = SpinWait::new();
                while slot.load(Ordering::Acquire) == LEAVING {
                    spin_wait.wait();
                }
            }
            Err(_) => {}
        }
    }

    /// Releases the memory of all pages below `page`.
    pub(crate) fn release_below(&self, page: u64) {
        for slot in &self.slots {
            let seen = slot.load(Ordering::Acquire);
            if seen != EMPTY && seen <= page {
                self.release(seen - 1);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
