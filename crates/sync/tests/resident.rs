//! What an arena takes of memory, as the system counts it. One test, in a process of its own, so that
//! nothing else is in the resident set.
#![cfg(not(any(loom, shuttle)))]

use std::sync::atomic::Ordering::Relaxed;

use thermocline_sync::Arena;

/// Words of a page of the system.
const PAGE: usize = 512;

/// Bytes of the process that are in memory, of addresses like ours.
fn resident_bytes() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/statm").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.expect("the second number is the resident set")
}

#[test]
fn memory_is_taken_when_touched_and_given_back() {
    const BYTES: u64 = 256 << 20;
    let before = resident_bytes();
    let arena = Arena::new((16 * BYTES) as usize / 8);
    assert!(resident_bytes() < before + BYTES / 4, "addresses take no memory");
    let words = BYTES as usize / 8;
    arena.words()[..words].iter().step_by(PAGE).for_each(|word| word.store(1, Relaxed));
    assert!(resident_bytes() > before + BYTES / 4 * 3, "what was touched is there");
    arena.give_back(0..words);
    assert!(resident_bytes() < before + BYTES / 4, "what was given back is not");
}
