//! The bytes of a segment that is being filled, read by others meanwhile.
//!
//! # Invariants
//! - B1. A byte is written once, before a tree that refers to it is shown to readers under the lock
//!   of the state. So every read of the byte returns the written value.
//!
//! # Concurrency
//! One writer, any number of readers, no lock: the bytes are in atomic words. A word on the border
//! between written and unwritten bytes holds the same written bytes before and after.

#[cfg(all(test, loom))]
mod models;

// Under shuttle, which schedules whole operations of a space, a word is no step of its own.
#[cfg(shuttle)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(not(shuttle))]
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::mutant;

use crate::planted::Planted;

const WORD: usize = size_of::<u64>();

/// Room for a segment's payload.
pub(crate) struct SegmentBuffer {
    words: Box<[AtomicU64]>,
}

impl std::fmt::Debug for SegmentBuffer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SegmentBuffer({} bytes)", self.words.len() * WORD)
    }
}

impl SegmentBuffer {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { words: (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Writes `bytes` at `offset`. By the one writer alone.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let (mut index, inside) = (offset / WORD, offset % WORD);
        let (head, rest) = bytes.split_at(bytes.len().min((WORD - inside) % WORD));
        if !head.is_empty() {
            self.write_within(index, inside, head);
            index += 1;
        }
        let (words, tail) = rest.as_chunks::<WORD>();
        for (word, bytes) in self.words[index..].iter().zip(words) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        if !tail.is_empty() {
            self.write_within(index + words.len(), 0, tail);
        }
    }

    fn write_within(&self, index: usize, inside: usize, bytes: &[u8]) {
        let word = &self.words[index];
        let mut whole = word.load(Relaxed).to_le_bytes();
        mutant!(Planted::WordInSteps, (), word.store(0, Relaxed));
        whole[inside..inside + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Relaxed);
    }

    /// Reads the bytes at `offset`.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        let (mut index, inside) = (offset / WORD, offset % WORD);
        let (head, rest) = into.split_at_mut(into.len().min((WORD - inside) % WORD));
        if !head.is_empty() {
            let whole = self.words[index].load(Relaxed).to_le_bytes();
            head.copy_from_slice(&whole[inside..inside + head.len()]);
            index += 1;
        }
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        for (word, bytes) in self.words[index..].iter().zip(words.iter_mut()) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        if !tail.is_empty() {
            let whole = self.words[index + words.len()].load(Relaxed).to_le_bytes();
            tail.copy_from_slice(&whole[..tail.len()]);
        }
    }
}
