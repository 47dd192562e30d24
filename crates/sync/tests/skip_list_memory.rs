//! What a skip list takes of memory: of the allocator next to nothing, of the system what its entries are
//! said to take. One test, in a process of its own, so that nobody else allocates.
#![cfg(not(any(loom, shuttle)))]
#![expect(unsafe_code, reason = "an allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thermocline_sync::skip_list::SkipList;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: what the system's allocator does, and a number is added to.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the process that are in memory, of addresses like ours.
fn resident_bytes() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/statm").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.expect("the second number is the resident set")
}

#[test]
fn entries_take_what_is_said_and_no_allocation() {
    const ENTRIES: u64 = 400_000;
    let value = [1; 100];
    let said = ENTRIES * SkipList::entry_bytes(8, value.len());
    let (before, list) = (resident_bytes(), SkipList::new());
    let allocated = ALLOCATIONS.load(Relaxed);
    for nth in 0..ENTRIES {
        list.insert(&nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), nth, Some(&value));
    }
    let allocated = ALLOCATIONS.load(Relaxed) - allocated;
    assert!(allocated < 64, "{allocated} allocations, one a chunk");
    let taken = resident_bytes() - before;
    println!("{taken} bytes taken of {said} that are said");
    assert!(taken.abs_diff(said) < said / 50, "{taken} bytes of {said}");
    drop(list);
    let kept = resident_bytes().saturating_sub(before);
    assert!(kept < said / 50, "{kept} bytes are kept");
}
