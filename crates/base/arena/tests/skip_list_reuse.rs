//! Memory of a skip list that another one has left.
//!
//! Pages that are there are not requested from the system again. One test, in a process of its own,
//! so that no other code takes any.
#![cfg(not(any(loom, shuttle)))]

mod kept;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kept::Kept;
use thermocline_arena::skip_list::SkipList;

const ENTRIES: u64 = 4_000;

/// Page faults of the process so far that no device was needed for.
fn page_faults() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/stat").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    // Behind the name, which ends with the last bracket: the state, and six numbers before.
    let (_, figures) = text.rsplit_once(')').expect("a name in brackets");
    let faults = figures.split_whitespace().nth(7).and_then(|faults| faults.parse().ok());
    faults.expect("the tenth figure of all is that of minor faults")
}

/// Page faults that entries of a page each take.
fn fill(kept: &Arc<Kept>, byte: u8) -> u64 {
    let list = SkipList::reusing(Arc::clone(kept) as _);
    let (value, before) = ([byte; 4096], page_faults());
    for nth in 0..ENTRIES {
        list.insert(&nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), nth, Some(&value));
    }
    let faults = page_faults() - before;
    let mut found = Vec::new();
    for entry in list.iter() {
        assert!(entry.read_value(&mut found) && found == value);
    }
    assert_eq!(list.iter().count() as u64, ENTRIES);
    faults
}

#[test]
fn memory_that_was_left_is_filled_without_page_faults() {
    let kept = Arc::new(Kept::default());
    let (new, again) = (fill(&kept, 1), fill(&kept, 2));
    println!("{new} page faults for {ENTRIES} entries of a page, {again} in memory that was left");
    assert!(new > ENTRIES, "{new}: this test sees nothing");
    assert!(again < ENTRIES / 20, "{again} page faults");
    assert_eq!(kept.found.load(Relaxed), kept.filled.load(Relaxed), "all of it was told of");
    assert!(kept.found.load(Relaxed) as u64 > ENTRIES * 512, "of each page");
}
