//! Memory that a skip list takes.
//!
//! It takes next to none of the allocator, and of the system the bytes that its entries are said to
//! take. One test, in a process of its own, so that no other code allocates.
#![cfg(not(any(loom, shuttle)))]

mod system;

use system::resident_bytes;
use thermocline_arena::skip_list::SkipList;

const ENTRIES: u64 = 400_000;
const PUT: u64 = 100_000;
const VALUE: [u8; 100] = [1; 100];
const LONG: [u8; 300] = [2; 300];

fn key(nth: u64) -> [u8; 8] {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn entries_take_what_is_said_and_no_allocation() {
    takes(ENTRIES * SkipList::entry_bytes(8, VALUE.len()), |list| {
        for nth in 0..ENTRIES {
            list.insert(&key(nth), nth, Some(&VALUE));
        }
    });
    // Values that are apart from their nodes.
    takes(PUT * SkipList::entry_bytes(8, LONG.len()), |list| {
        for nth in 0..PUT {
            list.insert(&key(nth), nth, Some(&LONG));
        }
    });
    takes(PUT * SkipList::put_bytes(8, LONG.len()), |list| {
        for nth in 0..2 * PUT {
            list.put(&key(nth % PUT), nth + 1, Some(&LONG), |_| true);
        }
    });
    // Entries that are put, and replaced.
    takes(PUT * SkipList::put_bytes(8, VALUE.len()), |list| {
        for nth in 0..2 * PUT {
            list.put(&key(nth % PUT), nth + 1, Some(&VALUE), |_| true);
        }
    });
}

fn takes(said: u64, fill: impl FnOnce(&SkipList)) {
    let (before, list) = (resident_bytes(), SkipList::new());
    let allocated = allocation_counter::measure(|| fill(&list));
    let allocated = allocated.count_total;
    assert!(allocated < 64, "{allocated} allocations, one a chunk");
    let taken = resident_bytes() - before;
    println!("{taken} bytes taken of {said} that are said");
    assert!(taken.abs_diff(said) < said / 50, "{taken} bytes of {said}");
    drop(list);
    let kept = resident_bytes().saturating_sub(before);
    assert!(kept < said / 50, "{kept} bytes are kept");
}
