//! Asks for memory to be brought to the processor's cache, before it is read.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction takes an address, and the intrinsic a pointer")
)]

/// Bytes that the processor's cache fetches in one step.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Asks for all of `value`, which is best no larger than a KiB, and does not wait for it.
///
/// Pays if more than one line is going to be read, and which ones is known only when the first is
/// there: then they arrive together. Does nothing on processors other than x86-64.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        let first = std::ptr::from_ref(value).cast::<i8>();
        let mut at = 0;
        while at < size_of::<T>() {
            let line = first.wrapping_add(at);
            // SAFETY: a prefetch reads nothing that the program sees, and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
            at += LINE_BYTES;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
