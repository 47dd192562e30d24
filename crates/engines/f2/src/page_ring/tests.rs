//! A ring of pages, alone: the bytes that it charges and keeps, and that contents move with the
//! memory.

use std::sync::Arc;
use std::thread::scope;

use memory_budget::MemoryBudget;
use sync::atomic::Ordering::Relaxed;

use super::PageRing;

const PAGE_BYTES: u64 = 4096;

fn ring(pages_max: u64) -> (PageRing, Arc<MemoryBudget>) {
    let memory = Arc::new(MemoryBudget::new(u64::MAX));
    (PageRing::new(PAGE_BYTES, pages_max, Arc::clone(&memory)), memory)
}

#[test]
fn pages_are_charged_when_taken_and_released_when_given_back() {
    let (ring, memory) = ring(5);
    assert_eq!((ring.slots(), ring.held(), memory.used()), (8, 0, 0));
    for page in 100..105 {
        assert!(ring.take(page) && ring.take(page));
    }
    assert_eq!((ring.held(), memory.used()), (5, 5 * PAGE_BYTES));
    ring.words(100 * PAGE_BYTES)[0].store(7, Relaxed);
    assert_eq!(ring.words(100 * PAGE_BYTES)[0].load(Relaxed), 7);
    ring.release(100);
    ring.release(100);
    assert_eq!((ring.held(), memory.used()), (4, 4 * PAGE_BYTES));
    assert!(ring.take(108));
    assert_eq!(ring.words(108 * PAGE_BYTES)[0].load(Relaxed), 0, "contents go with the memory");
    drop(ring);
    assert_eq!(memory.used(), 0);
}

#[test]
fn a_slot_that_was_kept_goes_on_with_its_memory() {
    let (ring, memory) = ring(4);
    for page in 0..12 {
        assert!(ring.take(page));
    }
    assert_eq!((ring.held(), memory.used()), (4, 4 * PAGE_BYTES));
    ring.release(7);
    assert_eq!(ring.held(), 4, "page 7 has given its slot to page 11");
    assert!(ring.take(7), "and does not get it again");
    ring.release_below(10);
    assert_eq!((ring.held(), memory.used()), (2, 2 * PAGE_BYTES));
}

/// One thread takes pages, two give the same ones back: nothing is charged or released twice.
#[test]
fn what_is_charged_is_what_is_held() {
    const PAGES: u64 = 20_000;
    let (ring, memory) = ring(4);
    let taken = std::sync::atomic::AtomicU64::new(0);
    scope(|scope| {
        let ring = &ring;
        let taken = &taken;
        for _ in 0..2 {
            scope.spawn(move || {
                for page in 0..PAGES {
                    while taken.load(Relaxed) <= page {
                        std::thread::yield_now();
                    }
                    ring.release(page);
                }
            });
        }
        for page in 0..PAGES {
            while !ring.take(page) {
                std::thread::yield_now();
            }
            taken.store(page + 1, Relaxed);
        }
    });
    assert_eq!(memory.used(), ring.bytes());
    ring.release_below(PAGES);
    assert_eq!((ring.held(), memory.used()), (0, 0));
}
