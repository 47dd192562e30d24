//! A hint to the processor that a word is about to be read.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(loom, shuttle))),
    expect(unsafe_code, reason = "the hint is an instruction of the processor")
)]

use crate::atomic::AtomicU64;

/// Has the cache line of `word` brought near. It reads nothing and orders nothing.
#[inline]
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
pub fn prefetch(word: &AtomicU64) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; it faults for no address, and every processor of this architecture has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast_const().cast()) }
}

/// Does nothing here.
#[inline]
#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
pub fn prefetch(_word: &AtomicU64) {}
