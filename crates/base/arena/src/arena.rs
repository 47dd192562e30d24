//! Atomic words in memory of their own, which can be released in parts.
//!
//! The system provides the memory when it is touched. There it is an anonymous mapping without a
//! reserve: addresses cost nothing, a page of the system is taken at the first store to it, and
//! [`Arena::release`] returns pages. Under the checkers it is a boxed slice of their atomics.
//!
//! # Invariants
//! - A1. The mapping is made whole, readable and writable, and stays so at the same place until the
//!   arena is dropped. So every word can be read and written at any time, even after any release.
//! - A2. All access is by shared references to the words, and they are atomics. So every word is
//!   always a valid value, and a change by the system is like a store of zero by another thread.
//!   The exception is [`pieces`](crate::pieces): its arenas are used as bytes, each part by one
//!   owner alone, and no part that has an owner is released.
#![cfg_attr(not(any(loom, shuttle)), expect(unsafe_code, reason = "maps and unmaps memory"))]

#[cfg(any(loom, shuttle))]
pub use boxed::Arena;
#[cfg(not(any(loom, shuttle)))]
pub use mapped::Arena;

#[cfg(not(any(loom, shuttle)))]
mod mapped {
    use std::alloc::{Layout, handle_alloc_error};
    use std::fmt;
    use std::ops::Range;
    use std::ptr::{NonNull, null_mut};
    use std::slice;

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use sync::atomic::AtomicU64;

    /// The least unit in which memory is released: a page of the system here, or a multiple.
    const UNIT_BYTES: usize = 4096;
    /// A huge page of the system.
    const HUGE_BYTES: usize = 2 << 20;

    /// Atomic words, zero at first.
    ///
    /// ```
    /// use std::sync::atomic::Ordering::Relaxed;
    /// let arena = thermocline_arena::Arena::new(1 << 20);
    /// arena.words()[7].store(1, Relaxed);
    /// arena.release(0..512);
    /// assert_eq!(arena.words()[7].load(Relaxed), 0);
    /// ```
    pub struct Arena {
        /// Begins the mapping, or is a multiple of a huge page further on.
        begin: NonNull<AtomicU64>,
        words: usize,
        mapping: NonNull<u8>,
        mapped_bytes: usize,
    }

    // SAFETY: it is the only owner of its mapping, which any thread may use and unmap.
    unsafe impl Send for Arena {}
    // SAFETY: what it hands out of the mapping are shared references to atomics [A2].
    unsafe impl Sync for Arena {}

    impl Arena {
        /// Makes an arena of `words` words, which begins at a multiple of 4 KiB, and of 2 MiB if it
        /// is at least 2 MiB long. Takes addresses only. If the system has none left the process
        /// ends, as for every allocation.
        pub fn new(words: usize) -> Self {
            let layout = Layout::array::<AtomicU64>(words)
                .expect("an arena is smaller than the address space");
            let bytes = layout.size().max(1);
            // The system chooses where a mapping begins, so one that wants huge pages is longer.
            let alignment = if bytes >= HUGE_BYTES { HUGE_BYTES } else { UNIT_BYTES };
            let mapped_bytes = bytes.saturating_add(alignment - UNIT_BYTES);
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping at an address of the system's choice touches no other.
            let mapping = unsafe { mmap_anonymous(null_mut(), mapped_bytes, access, flags) };
            let mapping = mapping.ok().and_then(|at| NonNull::new(at.cast::<u8>()));
            let Some(mapping) = mapping else { handle_alloc_error(layout) };
            let skipped = mapping.align_offset(alignment);
            // SAFETY: at most `alignment - UNIT_BYTES` of the mapping's bytes are skipped, since it
            // begins at a multiple of `UNIT_BYTES`.
            let begin = unsafe { mapping.add(skipped) };
            Self { begin: begin.cast(), words, mapping, mapped_bytes }
        }

        /// All of them.
        #[inline]
        pub fn words(&self) -> &[AtomicU64] {
            // SAFETY: the mapping has `words` words from there on, aligned; they are zero or the
            // values that were stored, readable and writable [A1], and only shared until the arena
            // is dropped [A2].
            unsafe { slice::from_raw_parts(self.begin.as_ptr(), self.words) }
        }

        /// Releases the memory of the words in `range` to the system; they are zero afterwards, or
        /// unchanged if the system keeps the memory (locked memory). A thread that uses the words
        /// during the call finds the old values or zero, and its stores may be lost.
        ///
        /// Words that share a page of the system with others outside the range are left alone.
        ///
        /// # Panics
        /// If the range is not one of the arena's.
        pub fn release(&self, range: Range<usize>) {
            let words = &self.words()[range];
            let begin = words.as_ptr().addr().next_multiple_of(UNIT_BYTES) - words.as_ptr().addr();
            let end = words.as_ptr_range().end.addr() / UNIT_BYTES * UNIT_BYTES;
            let Some(bytes) = end.checked_sub(words.as_ptr().addr() + begin) else { return };
            if bytes == 0 {
                return;
            }
            let words = &words[begin / size_of::<AtomicU64>()..];
            let begin = words.as_ptr().cast_mut().cast();
            // SAFETY: the range is in the mapping, which stays readable and writable [A1]; its
            // words become zero, which is a value that any atomic may take at any time [A2].
            let given = unsafe { madvise(begin, bytes, Advice::LinuxDontNeed) };
            // A system that is set to keep all memory of the process refuses.
            let _: rustix::io::Result<()> = given;
        }

        /// Whether it is long enough for huge pages.
        pub fn is_huge(&self) -> bool {
            size_of_val(self.words()) >= HUGE_BYTES
        }

        /// Asks for huge pages: fewer misses when addresses are translated, and memory that is
        /// taken 2 MiB at a time. Best effort.
        pub fn advise_huge(&self) {
            self.advise(Advice::LinuxHugepage);
        }

        /// Asks for no huge pages, against any default of the system: only touched memory is taken.
        /// Best effort.
        pub fn advise_small(&self) {
            self.advise(Advice::LinuxNoHugepage);
        }

        fn advise(&self, advice: Advice) {
            let bytes = self.words * size_of::<AtomicU64>();
            // SAFETY: the range is in the mapping, and such advice changes no contents.
            let advised = unsafe { madvise(self.begin.as_ptr().cast(), bytes, advice) };
            // A system without huge pages refuses, and works as well.
            let _: rustix::io::Result<()> = advised;
        }
    }

    impl Drop for Arena {
        fn drop(&mut self) {
            // SAFETY: this arena alone owns the mapping, and no borrow of it is left.
            let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
            debug_assert!(unmapped.is_ok(), "the mapping is ours: {unmapped:?}");
        }
    }

    impl fmt::Debug for Arena {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Arena").field("words", &self.words).finish_non_exhaustive()
        }
    }
}

#[cfg(any(loom, shuttle))]
mod boxed {
    use std::ops::Range;

    use sync::atomic::{AtomicU64, Ordering};

    /// Atomic words, zero at first.
    #[derive(Debug)]
    pub struct Arena(Box<[AtomicU64]>);

    impl Arena {
        /// Makes an arena of `words` words.
        pub fn new(words: usize) -> Self {
            Self((0..words).map(|_| AtomicU64::new(0)).collect())
        }

        /// All of them.
        pub fn words(&self) -> &[AtomicU64] {
            &self.0
        }

        /// The words in `range` are zero afterwards.
        pub fn release(&self, range: Range<usize>) {
            self.0[range].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }

        /// It is not.
        pub fn is_huge(&self) -> bool {
            false
        }

        /// Does nothing.
        pub fn advise_huge(&self) {}

        /// Does nothing.
        pub fn advise_small(&self) {}
    }
}
