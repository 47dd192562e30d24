//! Memory that an arena takes, as the system counts it.
//!
//! One test, in a process of its own, so that nothing else is in the resident set.
#![cfg(not(any(loom, shuttle)))]

mod system;

use std::sync::atomic::Ordering::Relaxed;

use system::resident_bytes;
use thermocline_arena::Arena;

/// Words of a page of the system.
const PAGE: usize = 512;

#[test]
fn memory_is_taken_when_touched_and_given_back() {
    const BYTES: u64 = 256 << 20;
    let before = resident_bytes();
    let arena = Arena::new((16 * BYTES) as usize / 8);
    assert!(resident_bytes() < before + BYTES / 4, "addresses take no memory");
    let words = BYTES as usize / 8;
    arena.words()[..words].iter().step_by(PAGE).for_each(|word| word.store(1, Relaxed));
    assert!(resident_bytes() > before + BYTES / 4 * 3, "what was touched is there");
    arena.release(0..words);
    assert!(resident_bytes() < before + BYTES / 4, "what was given back is not");
}
