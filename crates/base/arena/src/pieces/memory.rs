//! The memory of a slab, in slots of one length, and the bytes of a slot for its owner.
//!
//! On the system it is an [`Arena`](crate::Arena), of which a slot's words are handed out as bytes.
//! Under the checkers each slot is a box, which its owner takes out and brings back: one that is
//! not there was handed out twice, or is released while its owner uses it.
#![expect(unsafe_code, reason = "words of an arena are read and written as bytes")]

#[cfg(any(loom, shuttle))]
pub(super) use boxed::{Memory, SlotBytes};
#[cfg(not(any(loom, shuttle)))]
pub(super) use mapped::{Memory, SlotBytes};

#[cfg(not(any(loom, shuttle)))]
mod mapped {
    use std::ops::Range;
    use std::slice;
    use std::sync::Arc;

    use crate::arena::Arena;
    use crate::pieces::marks::Marks;
    use crate::pieces::slots::PAGE_BYTES;

    /// Bytes of a word.
    const WORD: usize = size_of::<u64>();

    /// See the file's head.
    #[derive(Debug)]
    pub(in crate::pieces) struct Memory {
        arena: Arena,
        slot_words: usize,
        pub(in crate::pieces) marks: Marks,
    }

    impl Memory {
        /// Makes `slots` slots of `slot_bytes`, a multiple of a word. Takes addresses only.
        pub(in crate::pieces) fn new(slot_bytes: usize, slots: usize) -> Self {
            let slot_words = slot_bytes / WORD;
            let bytes = (slots * slot_bytes).next_multiple_of(PAGE_BYTES);
            let arena = Arena::new(bytes / WORD);
            // Or a part of the system's huge page would be resident that is not used.
            arena.advise_small();
            Self { arena, slot_words, marks: Marks::new(slots) }
        }

        /// Gives these pages back to the system.
        pub(in crate::pieces) fn release(&self, pages: Range<usize>) {
            let word = |page: usize| page * PAGE_BYTES / WORD;
            self.arena.release(word(pages.start)..word(pages.end));
        }
    }

    /// The first bytes of a slot, for its owner.
    #[derive(Debug)]
    pub(in crate::pieces) struct SlotBytes {
        memory: Arc<Memory>,
        slot: usize,
        len: usize,
    }

    impl SlotBytes {
        /// The first `len` bytes of a slot. Anything may be in them.
        ///
        /// # Safety
        /// While it exists there is no other of the same slot, and no page of the slot is released.
        ///
        /// # Panics
        /// If the slot is not so long.
        pub(in crate::pieces) unsafe fn new(memory: Arc<Memory>, slot: usize, len: usize) -> Self {
            let mut bytes = Self { memory, slot, len: 0 };
            bytes.set_len(len);
            bytes
        }

        pub(in crate::pieces) fn slot(&self) -> usize {
            self.slot
        }

        pub(in crate::pieces) fn marks(&self) -> &Marks {
            &self.memory.marks
        }

        pub(in crate::pieces) fn capacity(&self) -> usize {
            self.memory.slot_words * WORD
        }

        pub(in crate::pieces) fn set_len(&mut self, len: usize) {
            assert!(len <= self.capacity(), "a piece has a capacity");
            self.len = len;
        }

        /// Nothing has to be brought back.
        pub(in crate::pieces) fn leave(&mut self) {}

        /// Returns the beginning of the slot. Its words are atomics, so that they may be changed
        /// through it.
        #[inline]
        fn begin(&self) -> *const u8 {
            let words = self.memory.slot_words;
            self.memory.arena.words()[self.slot * words..][..words].as_ptr().cast()
        }

        #[inline]
        pub(in crate::pieces) fn as_slice(&self) -> &[u8] {
            // SAFETY: the slot has at least `len` bytes, each of which has a value; it is readable
            // as long as the memory is held here, and by `new` only the owner of this has it.
            unsafe { slice::from_raw_parts(self.begin(), self.len) }
        }

        #[inline]
        pub(in crate::pieces) fn as_mut_slice(&mut self) -> &mut [u8] {
            // SAFETY: as above; and this is borrowed exclusively, so no thread reads it meanwhile.
            unsafe { slice::from_raw_parts_mut(self.begin().cast_mut(), self.len) }
        }
    }
}

#[cfg(any(loom, shuttle))]
mod boxed {
    use std::ops::Range;
    use std::sync::Arc;

    use crate::pieces::marks::Marks;
    use crate::pieces::slots::PAGE_BYTES;
    use sync::Mutex;

    /// Message of the panic if a slot is handed out while another piece has it.
    const TWICE: &str = "handed out twice";

    /// See the file's head.
    #[derive(Debug)]
    pub(in crate::pieces) struct Memory {
        slots: Box<[Mutex<Option<Box<[u8]>>>]>,
        slot_bytes: usize,
        pub(in crate::pieces) marks: Marks,
    }

    impl Memory {
        pub(in crate::pieces) fn new(slot_bytes: usize, slots: usize) -> Self {
            let slot = || Mutex::new(Some(vec![0; slot_bytes].into_boxed_slice()));
            let marks = Marks::new(slots);
            Self { slots: (0..slots).map(|_| slot()).collect(), slot_bytes, marks }
        }

        pub(in crate::pieces) fn release(&self, pages: Range<usize>) {
            let end = (pages.end * PAGE_BYTES).div_ceil(self.slot_bytes).min(self.slots.len());
            for slot in &self.slots[pages.start * PAGE_BYTES / self.slot_bytes..end] {
                slot.lock().as_mut().expect("given back under its owner").fill(0);
            }
        }
    }

    /// The first bytes of a slot, for its owner.
    #[derive(Debug)]
    pub(in crate::pieces) struct SlotBytes {
        memory: Arc<Memory>,
        slot: usize,
        bytes: Box<[u8]>,
        len: usize,
    }

    impl SlotBytes {
        /// # Safety
        /// None is needed here, but where memory is mapped.
        pub(in crate::pieces) unsafe fn new(memory: Arc<Memory>, slot: usize, len: usize) -> Self {
            let bytes = memory.slots[slot].lock().take().expect(TWICE);
            Self { memory, slot, bytes, len }
        }

        pub(in crate::pieces) fn slot(&self) -> usize {
            self.slot
        }

        pub(in crate::pieces) fn marks(&self) -> &Marks {
            &self.memory.marks
        }

        pub(in crate::pieces) fn capacity(&self) -> usize {
            self.memory.slot_bytes
        }

        pub(in crate::pieces) fn set_len(&mut self, len: usize) {
            assert!(len <= self.capacity(), "a piece has a capacity");
            self.len = len;
        }

        /// Brings the box back.
        pub(in crate::pieces) fn leave(&mut self) {
            *self.memory.slots[self.slot].lock() = Some(std::mem::take(&mut self.bytes));
        }

        pub(in crate::pieces) fn as_slice(&self) -> &[u8] {
            &self.bytes[..self.len]
        }

        pub(in crate::pieces) fn as_mut_slice(&mut self) -> &mut [u8] {
            &mut self.bytes[..self.len]
        }
    }
}
