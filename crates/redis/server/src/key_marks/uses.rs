//! One thread's table of the seconds in which keys were last used.
//!
//! Every command on a key notes a use, so a note must not miss the processor's cache: a write that
//! misses holds up all later ones. A note sets one bit of 2 KiB. The first note of a new second
//! moves the bits of the second before to the table.
//!
//! # Invariants
//! - U1. A set bit says that its slot was used in `second` or before. A use is in the bits or in
//!   the table at every time: the move fills the table before it clears bits.
//! - U2. A thread notes a use of the second `s` only while `second` is at least `s`.
//!
//! # Concurrency
//! Threads may share a table. One of them at a time moves bits. A thread that sees a new `second`
//! sees the cleared bits, too (release and acquire), so that it does not take an old bit for its
//! own.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use thermocline::sync::locks::Mutex;

/// Slots of the table.
pub(super) const SLOTS: usize = 1 << 14;
const WORD_BITS: usize = u64::BITS as usize;

/// The table.
#[derive(Debug)]
pub(super) struct Uses {
    /// The second of the bits, counted from the start of the server.
    second: AtomicU32,
    /// A bit for each slot that was used since `second` began.
    bits: Box<[AtomicU64]>,
    /// The second of the last use before, by slot.
    seconds: Box<[AtomicU32]>,
    moving: Mutex<()>,
}

impl Default for Uses {
    fn default() -> Self {
        Self {
            second: AtomicU32::new(0),
            bits: (0..SLOTS / WORD_BITS).map(|_| AtomicU64::new(0)).collect(),
            seconds: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            moving: Mutex::default(),
        }
    }
}

impl Uses {
    /// Notes that a key of this hash is used in `second`.
    #[inline]
    pub(super) fn note(&self, hash: u64, second: u32) {
        if second > self.second.load(Acquire) {
            self.begin_second(second);
        }
        let (word, bit) = self.bit(hash);
        if word.load(Relaxed) & bit == 0 {
            // A reader of the bit sees the second that it is of.
            word.fetch_or(bit, Release);
        }
    }

    /// Returns a second in which, or after which, no key of this hash was used.
    pub(super) fn last(&self, hash: u64) -> u32 {
        let (word, bit) = self.bit(hash);
        if word.load(Acquire) & bit != 0 {
            return self.second.load(Acquire);
        }
        self.seconds[hash as usize % SLOTS].load(Relaxed)
    }

    #[inline]
    fn bit(&self, hash: u64) -> (&AtomicU64, u64) {
        let slot = hash as usize % SLOTS;
        (&self.bits[slot / WORD_BITS], 1 << (slot % WORD_BITS))
    }

    /// Moves the bits to the table.
    #[cold]
    fn begin_second(&self, second: u32) {
        let _moving = self.moving.lock();
        let before = self.second.load(Relaxed);
        if second <= before {
            return;
        }
        for (word, slots) in self.bits.iter().zip(self.seconds.chunks(WORD_BITS)) {
            let bits = word.load(Relaxed);
            let is_used = |index: usize| bits >> index & 1 == 1;
            for (_, slot) in slots.iter().enumerate().filter(|(index, _)| is_used(*index)) {
                slot.store(before, Relaxed);
            }
            word.fetch_and(!bits, Release);
        }
        self.second.store(second, Release);
    }
}
